//! A cache that knows up to which version of the server it has everything.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use serde_json::{from_value, json};
use tombolo_apiserver::Options;
use tombolo_runtime::{Cache, follow_completely};
use tombolo_testkit::{Cluster, until};

const NAMESPACE: &str = "default";

async fn create(api: &Api<ConfigMap>, name: &str) {
    let object = from_value(json!({"metadata": {"name": name}})).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// The version of the server now.
async fn version(api: &Api<ConfigMap>) -> u64 {
    let list = api.list(&ListParams::default()).await.unwrap();
    list.metadata.resource_version.unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_went_before_anybody_looked_counts_as_known() {
    let cluster = Cluster::new(Options::named("one"));
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), NAMESPACE);
    create(&api, "stays").await;
    create(&api, "goes").await;
    api.delete("goes", &DeleteParams::default()).await.unwrap();
    let gone_at = version(&api).await;
    let cache = Cache::<ConfigMap>::new();
    assert_eq!(cache.complete_up_to(), 0);
    let everything = Api::all(cluster.client());
    tokio::spawn(follow_completely(cache.clone(), everything, watcher::Config::default()));
    until("it is complete", async || cache.complete_up_to() >= gone_at).await;
    let names: Vec<String> = cache.within(NAMESPACE).iter().map(|object| object.name_any()).collect();
    assert!(names.iter().any(|name| name == "stays") && !names.iter().any(|name| name == "goes"));
}
