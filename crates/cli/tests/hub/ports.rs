//! Ports that members call otherwise than the template at the hub does.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tombolo_testkit::until;

use crate::fleet::{Fleet, Member, NAMESPACE, apply};

/// The Service `foo`, whose ports are called so.
fn service(ports: &[(&str, u16)]) -> Value {
    let ports: Vec<Value> = ports.iter().map(|(name, port)| json!({"name": name, "port": port})).collect();
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "foo"},
        "spec": {"ports": ports, "selector": {"app": "foo"}},
    })
}

/// Endpoints of `foo` as the controller of the member writes them, with the names of its Service.
async fn serve(member: &Member, address: &str, ports: &[(&str, u16)]) {
    let ports: Vec<Value> =
        ports.iter().map(|(name, port)| json!({"name": name, "port": port, "protocol": "TCP"})).collect();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "foo-abc", "labels": {"kubernetes.io/service-name": "foo"}},
        "addressType": "IPv4", "endpoints": [{"addresses": [address]}], "ports": ports,
    });
    apply::<EndpointSlice>(&member.cluster.client(), NAMESPACE, &slice).await;
}

/// Names and numbers of the ports that remote endpoints have in a member.
async fn ports(member: &Member) -> Vec<(String, i32)> {
    let slices = member.filled().await.into_iter();
    let ports = slices.flat_map(|slice| slice.ports.unwrap_or_default());
    ports.map(|port| (port.name.unwrap_or_default(), port.port.unwrap_or_default())).collect()
}

fn named(names: &[(&str, i32)]) -> Vec<(String, i32)> {
    names.iter().map(|(name, port)| ((*name).to_owned(), *port)).collect()
}

#[tokio::test(start_paused = true)]
async fn remote_endpoints_have_the_names_that_the_service_here_has_for_the_same_numbers() {
    let fleet = Fleet::of(3).await;
    let [member1, member2, member3] = &fleet.members[..] else { unreachable!() };
    apply::<Service>(&member1.cluster.client(), NAMESPACE, &service(&[("web", 80), ("admin", 81)])).await;
    serve(member1, "10.1.0.1", &[("web", 8080), ("admin", 8081)]).await;
    apply::<Service>(&member2.cluster.client(), NAMESPACE, &service(&[("main", 80)])).await;
    apply::<Service>(&fleet.hub.client(), NAMESPACE, &service(&[("http", 80), ("admin", 81)])).await;
    fleet.apply_object(json!({"serviceProvisionClusters": ["member1"], "ports": [{"port": 80}]})).await;
    until("member2 calls it as its own Service does", || async {
        ports(member2).await == named(&[("main", 8080)])
    })
    .await;
    until("member3 as the template does", || async { ports(member3).await == named(&[("http", 8080)]) })
        .await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let renamed = json!({"spec": {"ports": [{"name": "other", "port": 80}]}});
    let services = member2.api::<Service>();
    services.patch("foo", &PatchParams::default(), &Patch::Merge(&renamed)).await.unwrap();
    until("it follows", || async { ports(member2).await == named(&[("other", 8080)]) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_has_none_of_the_ports_is_named() {
    let fleet = Fleet::of(2).await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    serve(member1, "10.1.0.1", &[("http", 8080)]).await;
    apply::<Service>(&member2.cluster.client(), NAMESPACE, &service(&[("other", 9)])).await;
    apply::<Service>(&fleet.hub.client(), NAMESPACE, &service(&[("http", 80)])).await;
    fleet.apply_object(json!({"serviceProvisionClusters": ["member1"]})).await;
    until("the condition names cluster and Service", || async {
        let (status, _, message) = fleet.condition("EndpointSliceApplied").await;
        status == "False"
            && message.contains("member2")
            && message.contains("Service default/foo there has none")
    })
    .await;
    let mended = json!({"spec": {"ports": [{"name": "other", "port": 80}]}});
    let services = member2.api::<Service>();
    services.patch("foo", &PatchParams::default(), &Patch::Merge(&mended)).await.unwrap();
    until("the conditions are true", || async { fleet.all_true().await }).await;
    assert_eq!(ports(member2).await, named(&[("other", 8080)]));
}
