//! 4 to 7: clients that stay with an endpoint, or do not.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tombolo_testkit::lab::Protocol;
use tombolo_testkit::until;

use crate::outcome::Outcome;
use crate::world::{Endpoint, World, reached_at, ready};

/// Every node has two, so that there is a choice wherever the traffic arrives.
fn everywhere() -> Vec<Endpoint> {
    (0..3).flat_map(|node| (0..2).map(move |pod| ready(node, pod))).collect()
}

fn spec(policy: &str, affinity: &str) -> Value {
    json!({
        "externalTrafficPolicy": policy, "sessionAffinity": affinity,
        "requiredLoadBalancerFeatures": ["SessionAffinity"],
    })
}

/// Who answers fifteen times in a row.
fn answers(world: &World, to: SocketAddr) -> Option<BTreeSet<String>> {
    (0..15).map(|_| world.asked_by_client(to, Protocol::Tcp)).collect()
}

async fn until_sticky(world: &World, to: SocketAddr) {
    until("fifteen answers of one", async || answers(world, to).is_some_and(|hosts| hosts.len() == 1)).await;
}

async fn until_spread(world: &World, to: SocketAddr) {
    until("answers of several", async || answers(world, to).is_some_and(|hosts| hosts.len() >= 2)).await;
}

async fn sticks(world: &World, policy: &str) -> Outcome {
    world.endpoints(&everywhere()).await;
    let service = world.provision(spec(policy, "ClientIP")).await?;
    until_sticky(world, reached_at(&service, 80)[0]).await;
    Ok(())
}

async fn switches(world: &World, policy: &str) -> Outcome {
    world.endpoints(&everywhere()).await;
    let service = world.provision(spec(policy, "ClientIP")).await?;
    let to = reached_at(&service, 80)[0];
    until_sticky(world, to).await;
    world.change(spec(policy, "None")).await?;
    until_spread(world, to).await;
    world.change(spec(policy, "ClientIP")).await?;
    until_sticky(world, to).await;
    Ok(())
}

pub(super) async fn sticks_with_local(world: &World) -> Outcome {
    sticks(world, "Local").await
}

pub(super) async fn switches_with_local(world: &World) -> Outcome {
    switches(world, "Local").await
}

pub(super) async fn sticks_with_cluster(world: &World) -> Outcome {
    sticks(world, "Cluster").await
}

pub(super) async fn switches_with_cluster(world: &World) -> Outcome {
    switches(world, "Cluster").await
}
