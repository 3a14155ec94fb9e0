//! What the KEP's test plan adds: two families, several protocols, classes of others.

use serde_json::json;
use tombolo_testkit::lab::Protocol;
use tombolo_testkit::until;

use crate::outcome::{Outcome, skip_if_degraded};
use crate::world::{TARGET, World, create, reached_at, ready};

pub(super) async fn dual_stack(world: &World) -> Outcome {
    world.endpoints(&[ready(0, 0), ready(1, 0)]).await;
    let service = world.provision(json!({"ipFamilyPolicy": "PreferDualStack"})).await?;
    skip_if_degraded(&service, "IPFamiliesNotSupported")?;
    let both = reached_at(&service, 80);
    assert_eq!(both.iter().map(|to| to.is_ipv4()).collect::<Vec<_>>(), [true, false]);
    for to in both {
        world.until_reachable(to, Protocol::Tcp).await;
    }
    Ok(())
}

pub(super) async fn several_protocols(world: &World) -> Outcome {
    world.endpoints(&[ready(2, 0)]).await;
    let ports = json!({"ports": [
        {"name": "tcp", "port": 80, "targetPort": TARGET, "protocol": "TCP"},
        {"name": "udp", "port": 80, "targetPort": TARGET, "protocol": "UDP"},
    ]});
    let service = world.provision(ports).await?;
    skip_if_degraded(&service, "PortsNotSupported")?;
    let to = reached_at(&service, 80)[0];
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        world.until_reachable(to, protocol).await;
    }
    Ok(())
}

pub(super) async fn foreign_class(world: &World) -> Outcome {
    world.make(json!({"loadBalancerClass": "example.com/other"})).await;
    let before = world.get().await;
    let witness = json!({
        "metadata": {"name": "witness"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    create(&world.services(), witness).await;
    // Once a later Service has been looked at, this one has been, too.
    until("the witness is looked at", async || {
        !world.services().get("witness").await.unwrap().conditions().is_empty()
    })
    .await;
    assert_eq!(world.get().await, before);
    let params = kube::api::DeleteParams::default();
    world.services().delete("witness", &params).await.unwrap();
    until("the witness is gone", async || world.services().get_opt("witness").await.unwrap().is_none()).await;
    Ok(())
}
