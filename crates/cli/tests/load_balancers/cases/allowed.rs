//! 3: who may connect.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tombolo_testkit::lab::{Protocol, try_ask};
use tombolo_testkit::until;

use crate::outcome::Outcome;
use crate::world::{World, reached_at, ready};

/// Waits until exactly these can connect: the client outside, and the pod on the second node.
async fn reaches(world: &World, to: SocketAddr, client: bool, pod: bool) {
    let can = |from| try_ask(from, to, Protocol::Tcp).is_ok();
    until(&format!("client {client}, pod {pod}"), async || {
        can(&world.lab.client) == client && can(world.pod(1, 0)) == pod
    })
    .await;
}

pub(super) async fn only_source_ranges(world: &World) -> Outcome {
    world.endpoints(&[ready(0, 0)]).await;
    let required = json!({"requiredLoadBalancerFeatures": ["LoadBalancerSourceRanges"]});
    let to = reached_at(&world.provision(required).await?, 80)[0];
    reaches(world, to, true, true).await;
    let (pod, host) = (world.pod(1, 0).v4(), world.lab.nodes[1].place.v4());
    let ranges = |ranges: Value| json!({ "loadBalancerSourceRanges": ranges });
    world.change(ranges(json!([format!("{pod}/32"), format!("{host}/32")]))).await?;
    reaches(world, to, false, true).await;
    world.change(ranges(json!(["0.0.0.0/1", "128.0.0.0/1"]))).await?;
    reaches(world, to, true, true).await;
    world.change(ranges(json!(["203.0.113.9/32"]))).await?;
    reaches(world, to, false, false).await;
    world.change(ranges(Value::Null)).await?;
    reaches(world, to, true, true).await;
    Ok(())
}
