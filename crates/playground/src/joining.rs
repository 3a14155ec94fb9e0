//! What an administrator does once: definitions, namespaces, the cluster's id.

use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tombolo_api::about::{CLUSTER_ID_PROPERTY, ClusterProperty};
use tombolo_api::crd;
use tombolo_api::tombolo::AddressPool;
use tombolo_model::{ClusterId, names};
use tombolo_runtime::is_conflict;

/// The namespace of the agent's own objects.
pub(crate) const SYSTEM: &str = "tombolo-system";
/// The namespace that is there for trying things.
pub(crate) const DEMO: &str = "demo";

/// Kinds of ours, in any cluster.
pub(crate) async fn define_kinds(client: &Client) -> Result<(), kube::Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crd::crds() {
        create(&api, &definition).await?;
    }
    Ok(())
}

/// What the hub needs before anybody joins.
pub(crate) async fn prepare_hub(client: &Client) -> Result<(), kube::Error> {
    define_kinds(client).await?;
    make_namespace(client, DEMO).await
}

/// A place at the hub for a member.
pub(crate) async fn admit(hub: &Client, member: &ClusterId) -> Result<(), kube::Error> {
    make_namespace(hub, &names::hub_namespace(member)).await
}

/// What a member needs before its agent starts.
pub(crate) async fn prepare_member(client: &Client, member: &ClusterId) -> Result<(), kube::Error> {
    make_namespace(client, SYSTEM).await?;
    make_namespace(client, DEMO).await?;
    let property = json!({"metadata": {"name": CLUSTER_ID_PROPERTY}, "spec": {"value": member.to_string()}});
    create(&Api::<ClusterProperty>::all(client.clone()), &read(property)).await
}

/// Addresses for load balancers.
pub(crate) async fn fill_pool(client: &Client, addresses: Ipv4Net) -> Result<(), kube::Error> {
    let pool = json!({"metadata": {"name": "playground"}, "spec": {"addresses": [addresses.to_string()]}});
    create(&Api::<AddressPool>::all(client.clone()), &read(pool)).await
}

/// What tells the cluster from every other.
pub(crate) async fn identity(client: &Client) -> Result<String, kube::Error> {
    let found = Api::<Namespace>::all(client.clone()).get("kube-system").await?;
    Ok(found.metadata.uid.unwrap_or_default())
}

async fn make_namespace(client: &Client, name: &str) -> Result<(), kube::Error> {
    create(&Api::<Namespace>::all(client.clone()), &read(json!({"metadata": {"name": name}}))).await
}

async fn create<K>(api: &Api<K>, object: &K) -> Result<(), kube::Error>
where
    K: Resource + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    match api.create(&PostParams::default(), object).await {
        Err(error) if !is_conflict(&error) => Err(error),
        _ => Ok(()),
    }
}

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object as the API describes it")
}
