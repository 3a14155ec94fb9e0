//! The shipped RBAC rules are enough for a server, and let it write nothing.

use std::time::Duration;

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tombolo_apiserver::{Options, User};
use tombolo_dns::Dns;
use tombolo_testkit::Cluster;
use tombolo_testkit::witness::{Witness, granted};

use crate::live::wait_for;
use crate::world::{PATIENCE, config, create};

const RULES: &str = include_str!("../../../../deploy/member/dns-rbac.yaml");

async fn apply(cluster: &Cluster, manifest: &str) {
    for document in manifest.split("\n---\n") {
        let value: Value = serde_saphyr::from_str(document).unwrap();
        let (group, version) = value["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let kind = GroupVersionKind::gvk(group, version, value["kind"].as_str().unwrap());
        let kind = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match value["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(cluster.client(), namespace, &kind),
            None => Api::all_with(cluster.client(), &kind),
        };
        let name = value["metadata"]["name"].as_str().unwrap();
        api.patch(name, &PatchParams::apply("admin").force(), &Patch::Apply(&value)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shipped_rules_are_enough_and_allow_no_writing() {
    let cluster = Cluster::with_definitions(Options { rbac: true, ..Options::named("east") }).await;
    for name in ["tombolo-system", "shop"] {
        create(&cluster.client(), json!({"kind": "Namespace", "metadata": {"name": name}})).await;
    }
    apply(&cluster, RULES).await;
    let spec = json!({"type": "ClusterSetIP", "ips": ["10.96.7.7"], "ports": []});
    let import =
        json!({"kind": "ServiceImport", "metadata": {"namespace": "shop", "name": "web"}, "spec": spec});
    create(&cluster.client(), import).await;
    let witness = Witness::default();
    let account = witness.client(&cluster, User::service_account("tombolo-system", "tombolo-dns"));
    let dns = Dns::bind(config(), account.clone()).unwrap();
    let address = dns.addresses()[0];
    let running = tokio::spawn(dns.run(std::future::pending()));
    wait_for(address, "web.shop.svc.clusterset.local", "A", "NOERROR").await;
    wait_for(address, "kubernetes.default.svc.cluster.local", "A", "NOERROR").await;
    wait_for(address, "web.shop.svc.supercluster.local", "A", "NXDOMAIN").await;
    let documents: Vec<Value> =
        RULES.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
    let granted = granted(&documents);
    // Whoever has listed answers; the watch may begin a moment later.
    let begun = async {
        while !granted.is_subset(&witness.used()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE, begun).await;
    witness.used_exactly(&granted, &[]);
    let namespace = serde_json::from_value(json!({"metadata": {"name": "mine"}})).unwrap();
    let refused = Api::<k8s_openapi::api::core::v1::Namespace>::all(account)
        .create(&PostParams::default(), &namespace)
        .await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
    running.abort();
}
