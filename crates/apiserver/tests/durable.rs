//! A cluster that is kept in a folder: what comes back, how a watch goes on, what is said about files that are not right.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tombolo_apiserver::{Cluster, DataError, Options};

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tombolo-durable-{}-{number}", std::process::id()));
        Self(path)
    }

    /// Opens it as soon as nobody else has it open: what clients leave behind takes a moment to go.
    async fn open(&self) -> Cluster {
        let free = async || {
            loop {
                match self.try_open() {
                    Err(DataError::InUse { .. }) => tokio::task::yield_now().await,
                    result => return result.unwrap(),
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), free()).await.unwrap()
    }

    fn try_open(&self) -> Result<Cluster, DataError> {
        Cluster::open(Options::named("kept"), &self.0)
    }

    fn refusal(&self) -> String {
        self.try_open().unwrap_err().to_string()
    }

    fn log(&self) -> PathBuf {
        self.0.join("log")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What is said once nobody has the folder open any more.
async fn refused(folder: &Folder) -> String {
    loop {
        match folder.try_open().unwrap_err() {
            DataError::InUse { .. } => tokio::task::yield_now().await,
            refused => return refused.to_string(),
        }
    }
}

fn config(name: &str, text: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"text": text}})).unwrap()
}

fn configs(cluster: &Cluster) -> Api<ConfigMap> {
    Api::namespaced(cluster.client(), "default")
}

async fn put(cluster: &Cluster, name: &str, text: &str) -> ConfigMap {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}});
    let patch = Patch::Apply(object);
    configs(cluster).patch(name, &PatchParams::apply("test").force(), &patch).await.unwrap()
}

fn definition() -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

fn dynamic(cluster: &Cluster, group: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let resource = kube::core::ApiResource::from_gvk_with_plural(
        &kube::core::GroupVersionKind::gvk(group, "v1", kind),
        plural,
    );
    if kind == "Thing" {
        Api::namespaced_with(cluster.client(), "default", &resource)
    } else {
        Api::all_with(cluster.client(), &resource)
    }
}

#[tokio::test]
async fn everything_comes_back_as_it_was() {
    let folder = Folder::new();
    let cluster = folder.open().await;
    let kept = configs(&cluster).create(&PostParams::default(), &config("kept", "as it was")).await.unwrap();
    configs(&cluster).create(&PostParams::default(), &config("gone", "")).await.unwrap();
    configs(&cluster).delete("gone", &Default::default()).await.unwrap();
    let labelled = Patch::Merge(json!({"metadata": {"labels": {"mine": "yes"}}}));
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces.patch("default", &PatchParams::default(), &labelled).await.unwrap();
    let before = configs(&cluster).list(&ListParams::default()).await.unwrap();
    drop((cluster, namespaces));

    let cluster = folder.open().await;
    assert_eq!(configs(&cluster).get("kept").await.unwrap(), kept);
    assert!(configs(&cluster).get_opt("gone").await.unwrap().is_none());
    let namespace = Api::<Namespace>::all(cluster.client()).get("default").await.unwrap();
    assert_eq!(
        namespace.labels().get("mine").map(String::as_str),
        Some("yes"),
        "what people changed stays changed"
    );
    let after = configs(&cluster).list(&ListParams::default()).await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version, "nothing was written");
    let next = put(&cluster, "kept", "otherwise").await;
    let number = |version: Option<String>| version.unwrap().parse::<u64>().unwrap();
    assert_eq!(next.uid(), kept.uid());
    assert_eq!(number(next.resource_version()), number(after.metadata.resource_version) + 1);
}

#[tokio::test]
async fn kinds_addresses_and_tokens_outlive_the_server() {
    let folder = Folder::new();
    let cluster = folder.open().await;
    let definitions =
        dynamic(&cluster, "apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions");
    definitions.create(&PostParams::default(), &serde_json::from_value(definition()).unwrap()).await.unwrap();
    let thing =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "one"}, "size": 3});
    let things = dynamic(&cluster, "example.com", "Thing", "things");
    things.create(&PostParams::default(), &serde_json::from_value(thing).unwrap()).await.unwrap();
    let service = |name: &str, address: Option<String>| -> Service {
        let spec = json!({"clusterIP": address, "ports": [{"port": 80}]});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    };
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    let web = services.create(&PostParams::default(), &service("web", None)).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), "default");
    let account = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let asked = TokenRequest::default();
    let token = accounts.create_token_request("robot", &PostParams::default(), &asked).await.unwrap();
    let authority = cluster.authority_pem().unwrap();
    drop((cluster, definitions, things, services, accounts));

    let cluster = folder.open().await;
    let thing = dynamic(&cluster, "example.com", "Thing", "things").get("one").await.unwrap();
    assert_eq!(thing.data["size"], 3);
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    let taken = service("thief", web.spec.unwrap().cluster_ip);
    let refused = services.create(&PostParams::default(), &taken).await.unwrap_err();
    assert!(refused.to_string().contains("already allocated"), "{refused}");
    let review = TokenReview {
        spec: TokenReviewSpec { token: token.status.unwrap().token.unwrap(), audiences: None },
        ..TokenReview::default()
    };
    let reviews: Api<TokenReview> = Api::all(cluster.client());
    let verdict = reviews.create(&PostParams::default(), &review).await.unwrap();
    assert_eq!(verdict.status.unwrap().authenticated, Some(true));
    assert_eq!(cluster.authority_pem().unwrap(), authority);
}

async fn first(cluster: &Cluster, version: &str) -> WatchEvent<ConfigMap> {
    let stream = configs(cluster).watch(&WatchParams::default().timeout(20), version).await.unwrap();
    stream.boxed().try_next().await.unwrap().unwrap()
}

#[tokio::test]
async fn a_watch_goes_on_where_it_was_unless_that_is_forgotten() {
    let folder = Folder::new();
    let cluster = folder.open().await;
    let one = put(&cluster, "one", "1").await.resource_version().unwrap();
    put(&cluster, "two", "2").await;
    drop(cluster);
    let cluster = folder.open().await;
    match first(&cluster, &one).await {
        WatchEvent::Added(object) => assert_eq!(object.name_any(), "two"),
        other => panic!("{other:?}"),
    }
    match first(&cluster, "7").await {
        WatchEvent::Error(status) => assert_eq!((status.code, &*status.reason), (410, "Expired")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_log_that_grew_long_is_replaced_by_a_short_one() {
    let folder = Folder::new();
    let cluster = folder.open().await;
    let early = put(&cluster, "early", "1").await.resource_version().unwrap();
    let large = "x".repeat(900_000);
    let length = || std::fs::metadata(folder.log()).unwrap().len();
    let (mut longest, mut count) = (0, 0);
    while length() >= longest {
        longest = length();
        assert!(count < 200, "{longest} octets and still growing");
        count += 1;
        put(&cluster, "large", &format!("{large}{count}")).await;
    }
    put(&cluster, "late", "3").await;
    assert!(longest > 16 << 20, "{longest}");
    assert!(!folder.0.join("log.next").exists());
    drop(cluster);
    let cluster = folder.open().await;
    let text = |found: ConfigMap| found.data.unwrap()["text"].clone();
    assert_eq!(text(configs(&cluster).get("large").await.unwrap()), format!("{large}{count}"));
    assert_eq!(text(configs(&cluster).get("late").await.unwrap()), "3");
    match first(&cluster, &early).await {
        WatchEvent::Error(status) => {
            assert_eq!(status.code, 410, "what was before the short log is forgotten")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn going_back_to_a_backup_survives_as_well() {
    let folder = Folder::new();
    let cluster = folder.open().await;
    put(&cluster, "old", "1").await;
    let backup = cluster.backup();
    put(&cluster, "new", "2").await;
    cluster.restore(&backup);
    put(&cluster, "other", "3").await;
    drop(cluster);
    let found = configs(&folder.open().await).list(&ListParams::default()).await.unwrap();
    let names: Vec<String> = found.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, ["old", "other"]);
}

#[tokio::test]
async fn an_unfinished_write_is_cut_off_and_damage_is_reported_with_its_place() {
    let folder = Folder::new();
    let cluster = folder.open().await;
    put(&cluster, "one", "1").await;
    put(&cluster, "two", "2").await;
    drop(cluster);
    let whole = std::fs::read(folder.log()).unwrap();

    std::fs::write(folder.log(), &whole[..whole.len() - 5]).unwrap();
    let cluster = folder.open().await;
    assert!(configs(&cluster).get_opt("one").await.unwrap().is_some());
    assert!(configs(&cluster).get_opt("two").await.unwrap().is_none());
    put(&cluster, "three", "3").await;
    drop(cluster);
    assert!(
        configs(&folder.open().await).get_opt("three").await.unwrap().is_some(),
        "after the cut it goes on"
    );

    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(folder.log(), &damaged).unwrap();
    let said = refused(&folder).await;
    let start = format!("{} is damaged at octet ", folder.log().display());
    assert!(said.starts_with(&start), "{said}");
    assert_eq!(
        std::fs::read(folder.log()).unwrap(),
        damaged,
        "nothing is changed in a file nobody understands"
    );
}

#[tokio::test]
async fn two_servers_do_not_share_a_folder() {
    let folder = Folder::new();
    let cluster = folder.open().await;
    let refused = folder.try_open().unwrap_err();
    assert!(matches!(refused, DataError::InUse { .. }), "{refused}");
    drop(cluster);
    drop(folder.open().await);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = Folder::new();
    std::fs::write(&folder.0, "a file").unwrap();
    let below: PathBuf = folder.0.join("below");
    let said = Cluster::open(Options::named("kept"), &below).unwrap_err().to_string();
    assert!(said.starts_with(&format!("cannot make {}: ", below.display())), "{said}");
    std::fs::remove_file(&folder.0).unwrap();
    drop(folder.try_open().unwrap());
    std::fs::write(folder.0.join("identity"), "{}").unwrap();
    let said = folder.refusal();
    assert!(said.starts_with(&format!("{} does not hold", folder.0.join("identity").display())), "{said}");
}
