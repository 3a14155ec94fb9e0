//! What an administrator does once: definitions, namespaces, the cluster's id.

use std::time::Duration;

use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tombolo_api::tombolo::AddressPool;
use tombolo_install::{Introduction, Manifest, Part, Settings};
use tombolo_model::ClusterId;
use tombolo_runtime::unless_there;

use crate::error::{Doing as _, Error};

/// The namespace of the agent's own objects.
pub(crate) const SYSTEM: &str = "tombolo-system";
/// What the playground's supercluster is called.
const SET: &str = "playground";
/// The namespace that is there for trying things.
pub(crate) const DEMO: &str = "demo";
/// What a cluster has of itself comes within a second or two.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// Kinds of ours, in any cluster.
pub(crate) async fn define_kinds(client: &Client) -> Result<(), Error> {
    put(client, &tombolo_install::kinds(&Part::ALL)).await
}

/// What the hub needs before anybody joins.
pub(crate) async fn prepare_hub(client: &Client) -> Result<(), Error> {
    define_kinds(client).await?;
    make_namespace(client, DEMO).await.doing("no namespace for trying things")
}

/// A place at the hub for a member, as `tombolo join` makes it.
pub(crate) async fn admit(hub: &Client, member: &ClusterId) -> Result<(), Error> {
    let mut place = tombolo_install::member_roles();
    place.extend(tombolo_install::place(member, &Introduction::default()));
    put(hub, &place).await
}

/// What a member needs before its agent starts.
pub(crate) async fn prepare_member(client: &Client, member: &ClusterId) -> Result<(), Error> {
    put(client, &[tombolo_install::system_namespace(&Settings::default(), &[])]).await?;
    make_namespace(client, DEMO).await.doing("no namespace for trying things")?;
    put(client, &tombolo_install::properties(member, SET)).await
}

/// Waits until pods can be made in the namespace for trying things: a real API server wants their account first.
pub(crate) async fn await_account(client: &Client) -> Result<(), Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), DEMO);
    find(&accounts, "default").await.map(drop)
}

/// Waits for an object that every cluster has, sooner or later.
async fn find<K: Clone + DeserializeOwned + std::fmt::Debug>(api: &Api<K>, name: &str) -> Result<K, Error> {
    let missing = format!("there is no {name}");
    let looking = async {
        loop {
            if let Some(found) = api.get_opt(name).await? {
                return Ok::<_, kube::Error>(found);
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.doing(&missing)?.doing(missing)
}

async fn put(client: &Client, manifests: &[Manifest]) -> Result<(), Error> {
    tombolo_install::apply(client, manifests, |_, _| {})
        .await
        .doing("what a cluster needs cannot be brought there")
}

/// Addresses for load balancers.
pub(crate) async fn fill_pool(client: &Client, addresses: Ipv4Net) -> Result<(), kube::Error> {
    let pool = json!({"metadata": {"name": "playground"}, "spec": {"addresses": [addresses.to_string()]}});
    create(&Api::<AddressPool>::all(client.clone()), &read(pool)).await
}

/// What tells the cluster from every other.
pub(crate) async fn identity(client: &Client) -> Result<String, Error> {
    let found = find(&Api::<Namespace>::all(client.clone()), "kube-system").await?;
    Ok(found.metadata.uid.unwrap_or_default())
}

async fn make_namespace(client: &Client, name: &str) -> Result<(), kube::Error> {
    create(&Api::<Namespace>::all(client.clone()), &read(json!({"metadata": {"name": name}}))).await
}

async fn create<K>(api: &Api<K>, object: &K) -> Result<(), kube::Error>
where
    K: Resource + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    unless_there(api.create(&PostParams::default(), object).await)
}

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object as the API describes it")
}
