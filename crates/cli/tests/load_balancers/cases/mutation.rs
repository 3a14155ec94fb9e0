//! 1, 2, 8, 9: Services that change type, ports and node ports.

use serde_json::{Value, json};
use tombolo_api::loadbalancer::Service;
use tombolo_testkit::lab::Protocol;
use tombolo_testkit::until;

use crate::outcome::Outcome;
use crate::world::{TARGET, World, reached_at, ready};

const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

fn node_port(service: &Service) -> i32 {
    service.spec.core.ports.as_ref().unwrap()[0].node_port.unwrap_or(0)
}

fn port(protocol: Protocol, number: u16, node_port: i32) -> Value {
    let (name, word) = if protocol == Protocol::Tcp { ("tcp", "TCP") } else { ("udp", "UDP") };
    let mut port = json!({"name": name, "port": number, "targetPort": TARGET, "protocol": word});
    if node_port != 0 {
        port["nodePort"] = node_port.into();
    }
    json!({ "ports": [port] })
}

fn with(mut spec: Value, key: &str, value: &str) -> Value {
    spec[key] = value.into();
    spec
}

pub(super) async fn tcp(world: &World) -> Outcome {
    world.endpoints(&[ready(0, 0)]).await;
    world.make(with(port(Protocol::Tcp, 80, 0), "type", "ClusterIP")).await;
    assert_eq!(node_port(&world.get().await), 0);
    world.patch(json!({"spec": {"type": "NodePort"}})).await;
    let given = node_port(&world.get().await);
    assert_ne!(given, 0);
    world.patch(json!({"spec": {"type": "LoadBalancer"}})).await;
    let service = world.settled().await?;
    assert_eq!(node_port(&service), given, "the node port stays");
    mutate(world, &service, Protocol::Tcp).await
}

/// The load balancer comes first, so that a provider without UDP can say so at once.
pub(super) async fn udp(world: &World) -> Outcome {
    world.endpoints(&[ready(0, 0)]).await;
    let service = world.provision(port(Protocol::Udp, 80, 0)).await?;
    mutate(world, &service, Protocol::Udp).await
}

async fn mutate(world: &World, service: &Service, protocol: Protocol) -> Outcome {
    let to = reached_at(service, 80)[0];
    world.until_reachable(to, protocol).await;

    let other = if node_port(service) == 30_999 { 30_998 } else { 30_999 };
    let service = world.change(port(protocol, 80, other)).await?;
    assert_eq!((node_port(&service), reached_at(&service, 80)[0]), (other, to));
    world.until_reachable(to, protocol).await;

    let service = world.change(port(protocol, 81, other)).await?;
    let moved = reached_at(&service, 81)[0];
    assert_eq!(moved.ip(), to.ip(), "the address stays");
    world.until_reachable(moved, protocol).await;
    world.until_unreachable(to, protocol).await;

    world.endpoints(&[]).await;
    world.until_unreachable(moved, protocol).await;
    world.endpoints(&[ready(0, 0)]).await;
    world.until_reachable(moved, protocol).await;

    let ports = with(port(protocol, 81, 0), "type", "ClusterIP");
    world.patch(json!({ "spec": ports })).await;
    let service = world.get().await;
    assert_eq!((node_port(&service), service.ingress().len()), (0, 0));
    world.until_unreachable(moved, protocol).await;
    Ok(())
}

pub(super) async fn finalizer(world: &World) -> Outcome {
    let has = |service: &Service| {
        service.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
    };
    assert!(has(&world.provision(json!({})).await?));
    world.patch(json!({"spec": {"type": "ClusterIP"}})).await;
    until("the finalizer is gone", async || !has(&world.get().await)).await;
    world.patch(json!({"spec": {"type": "LoadBalancer"}})).await;
    until("the finalizer is back", async || has(&world.get().await)).await;
    world.clear().await;
    Ok(())
}

pub(super) async fn without_node_ports(world: &World) -> Outcome {
    world.endpoints(&[ready(1, 0)]).await;
    let service = world.provision(json!({"allocateLoadBalancerNodePorts": false})).await?;
    assert_eq!(node_port(&service), 0);
    let to = reached_at(&service, 80)[0];
    world.until_reachable(to, Protocol::Tcp).await;
    let service = world.change(json!({"allocateLoadBalancerNodePorts": true})).await?;
    assert_ne!(node_port(&service), 0);
    assert_eq!(reached_at(&service, 80)[0], to, "the address stays");
    world.until_reachable(to, Protocol::Tcp).await;
    Ok(())
}
