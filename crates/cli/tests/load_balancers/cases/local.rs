//! 14 to 17: `externalTrafficPolicy: Local`.

use serde_json::{Value, json};
use tombolo_api::loadbalancer::Service;
use tombolo_testkit::lab::{Namespace, Protocol, try_ask};
use tombolo_testkit::until;

use crate::outcome::Outcome;
use crate::world::{World, node_name, reached_at, ready};

fn local() -> Value {
    json!({"externalTrafficPolicy": "Local"})
}

/// The same with the client's address kept for sure.
fn faithful() -> Value {
    json!({"externalTrafficPolicy": "Local", "requiredLoadBalancerFeatures": ["ExternalTrafficPolicy"]})
}

fn health_port(service: &Service) -> u16 {
    service.spec.core.health_check_node_port.expect("a health-check port") as u16
}

/// Connects, and says whom the endpoint saw.
async fn seen(
    world: &World,
    from: &Namespace,
    spec: Value,
) -> Result<(Service, String), crate::outcome::Skip> {
    world.endpoints(&[ready(1, 0)]).await;
    let service = world.provision(spec).await?;
    let to = reached_at(&service, 80)[0];
    let mut peer = String::new();
    until("an answer", async || match try_ask(from, to, Protocol::Tcp) {
        Ok(answer) => {
            peer = answer.peer.to_string();
            true
        }
        Err(_) => false,
    })
    .await;
    Ok((service, peer))
}

pub(super) async fn works(world: &World) -> Outcome {
    let (service, _) = seen(world, &world.lab.client, local()).await?;
    let port = health_port(&service);
    until("the node with the endpoint is healthy", async || world.health(1, port) == 200).await;
    world.patch(json!({"spec": {"type": "ClusterIP"}})).await;
    until("the health check is closed", async || world.health(1, port) == 0).await;
    Ok(())
}

pub(super) async fn keeps_the_client_address(world: &World) -> Outcome {
    let (_, peer) = seen(world, &world.lab.client, faithful()).await?;
    assert_eq!(peer, world.lab.client.v4().to_string());
    Ok(())
}

pub(super) async fn only_nodes_with_endpoints(world: &World) -> Outcome {
    let service = world.provision(local()).await?;
    let (to, port) = (reached_at(&service, 80)[0], health_port(&service));
    for place in 0..3 {
        world.endpoints(&[ready(place, 0)]).await;
        let name = world.pod(place, 0).name();
        let answers = || world.asked_by_client(to, Protocol::Tcp);
        until(&format!("{name} answers"), async || answers().as_deref() == Some(name)).await;
        for node in 0..3 {
            let healthy = node == place;
            until("the health check", async || (world.health(node, port) == 200) == healthy).await;
        }
        until("that node answers for it", async || world.announcer_of(to.ip()).await == Some(place)).await;
    }
    Ok(())
}

/// One node at a time answers for an address, so the endpoints of all nodes are reached one after the other.
pub(super) async fn all_nodes_with_endpoints(world: &World) -> Outcome {
    world.endpoints(&[ready(0, 0), ready(1, 0)]).await;
    let service = world.provision(local()).await?;
    let (to, port) = (reached_at(&service, 80)[0], health_port(&service));
    for node in [0, 1] {
        until("both are healthy", async || world.health(node, port) == 200).await;
    }
    let names = [world.pod(0, 0).name(), world.pod(1, 0).name()];
    let mut first = None;
    until("one of them answers", async || {
        first = world.asked_by_client(to, Protocol::Tcp);
        first.is_some()
    })
    .await;
    let place = names.iter().position(|name| first.as_deref() == Some(*name)).expect("one of both");
    exclude(world, place, Some("true")).await;
    let other = names[1 - place];
    let answers = || world.asked_by_client(to, Protocol::Tcp);
    until("the other answers", async || answers().as_deref() == Some(other)).await;
    exclude(world, place, None).await;
    Ok(())
}

/// Takes a node out of load balancing, or puts it back.
async fn exclude(world: &World, node: usize, value: Option<&str>) {
    let api: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(world.client.clone());
    let label = "node.kubernetes.io/exclude-from-external-load-balancers";
    let patch = kube::api::Patch::Merge(json!({"metadata": {"labels": {label: value}}}));
    api.patch(&node_name(node), &kube::api::PatchParams::default(), &patch).await.unwrap();
}

pub(super) async fn works_from_pods(world: &World) -> Outcome {
    seen(world, world.pod(0, 0), local()).await.map(drop)
}

pub(super) async fn keeps_the_pod_address(world: &World) -> Outcome {
    let pod = world.pod(0, 0);
    let (_, peer) = seen(world, pod, faithful()).await?;
    assert_eq!(peer, pod.v4().to_string());
    Ok(())
}
