//! The Helm chart gives the objects that an installation applies, rendered by Helm's own engine.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use tombolo_apiserver::{Context, Options};
use tombolo_install::{ApiServer, Manifest, Part, Settings, apply, manifests};
use tombolo_testkit::Cluster;

/// What the renderer calls the release.
const RELEASE: &str = "tombolo";
const REMEDY: &str = "`cargo xtask test` builds it from xtask/helm, which needs Go";

fn render(namespace: &str, values: &Value) -> Vec<Value> {
    render_for(None, namespace, values).unwrap()
}

/// What the chart gives, and in a cluster, whether it does there; else why not.
fn render_for(cluster: Option<&Context>, namespace: &str, values: &Value) -> Result<Vec<Value>, String> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy/helm/tombolo");
    let mut command = Command::new("chart-renderer");
    command.args([chart.as_os_str(), namespace.as_ref()]);
    if let Some(Context { server, token, authority, .. }) = cluster {
        command.envs([("CHART_SERVER", server), ("CHART_TOKEN", token), ("CHART_AUTHORITY", authority)]);
    }
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| panic!("chart-renderer: {error}; {REMEDY}"));
    child.stdin.take().unwrap().write_all(values.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    let files: BTreeMap<String, String> = serde_json::from_slice(&output.stdout).unwrap();
    let documents = files.values().flat_map(|text| text.split("\n---\n"));
    let documents = documents.map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    Ok(documents.filter(|document| !document.is_null()).collect())
}

fn by_name(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    objects.into_iter().map(|object| (name(&object), object)).collect()
}

/// Without what the chart leaves to Helm: the namespace, and the kinds in its own folder. What several releases in a namespace
/// have for themselves is called after the release.
fn applied(settings: &Settings, parts: &[Part]) -> BTreeMap<String, Value> {
    let all = manifests(settings, parts);
    let kept = |one: &&Manifest| !["CustomResourceDefinition", "Namespace"].contains(&one.kind());
    by_name(all.iter().filter(kept).map(|one| {
        let mut value = one.value().clone();
        if one.kind() == "ResourceQuota" {
            value["metadata"]["name"] = json!(format!("{}-{RELEASE}", one.name()));
        }
        value
    }))
}

#[test]
fn without_values_the_chart_is_empty() {
    assert_eq!(render("tombolo-system", &json!({})), Vec::<Value>::new());
}

#[test]
fn a_value_that_the_chart_does_not_know_is_an_error_and_no_empty_release() {
    for (values, named) in [
        (json!({"agent": {"enabled": true}}), "agent"),
        (json!({"member": {"enable": true}}), "enable"),
        (json!({"member": {"enabled": "yes"}}), "enabled"),
    ] {
        let refused = render_for(None, "tombolo-system", &values).unwrap_err();
        assert!(
            refused.contains("values don't meet the specifications") && refused.contains(named),
            "{refused}"
        );
    }
    let free = json!({
        "dns": {"enabled": true, "resources": {"limits": {"memory": null, "hugepages-2Mi": "2Mi"}}},
        "apiServer": {"host": "192.0.2.7", "port": 6443},
        "image": {"tag": 7},
        "global": {"of": "another chart"},
    });
    render("tombolo-system", &free);
}

#[test]
fn each_part_is_what_an_installation_of_it_applies() {
    let names = [
        ("hub", Part::Hub),
        ("member", Part::Member),
        ("dns", Part::Dns),
        ("proxy", Part::Proxy),
        ("balancer", Part::Balancer),
    ];
    for (name, part) in names {
        let rendered = render("tombolo-system", &json!({name: {"enabled": true}}));
        assert_eq!(by_name(rendered), applied(&Settings::default(), &[part]), "{name}");
    }
}

#[test]
fn every_choice_of_an_installation_can_be_made_by_a_value() {
    let on = |more: Value| {
        let mut value = json!({"enabled": true});
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        value
    };
    let values = json!({
        "hub": on(json!({})),
        "member": on(json!({})),
        "proxy": on(json!({})),
        "monitoring": on(json!({"labels": {"release": "prometheus"}})),
        "dns": on(json!({"clusterIP": "10.96.0.53", "resources": {"limits": {"memory": "2Gi"}}})),
        "balancer": on(json!({"loadBalancerClass": "tombolo.dev/l2"})),
        "image": {"repository": "registry.example/tombolo", "tag": "v9", "pullPolicy": "Always", "pullSecrets": ["one", "two"]},
        "replicas": 3,
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "infra", "effect": "NoSchedule"}],
        "listen": "[::]",
        "apiServer": {"host": "192.0.2.7", "port": "6443"},
    });
    let usual = Settings::default().resources(Part::Dns);
    let more = ResourceRequirements {
        limits: Some([("memory".into(), serde_json::from_value(json!("2Gi")).unwrap())].into()),
        ..usual
    };
    let infra = Toleration {
        key: Some("dedicated".into()),
        operator: Some("Equal".into()),
        value: Some("infra".into()),
        effect: Some("NoSchedule".into()),
        ..Toleration::default()
    };
    let settings = Settings {
        namespace: "elsewhere".into(),
        image: "registry.example/tombolo:v9".into(),
        pull_policy: "Always".into(),
        pull_secrets: vec!["one".into(), "two".into()],
        replicas: 3,
        tolerations: vec![infra],
        resources: [(Part::Dns, more)].into(),
        listen: std::net::Ipv6Addr::UNSPECIFIED.into(),
        monitoring: true,
        monitor_labels: [("release".into(), "prometheus".into())].into(),
        dns_address: Some("10.96.0.53".into()),
        api_server: Some(ApiServer { host: "192.0.2.7".into(), port: "6443".into() }),
        load_balancer_class: Some("tombolo.dev/l2".into()),
    };
    assert_eq!(by_name(render("elsewhere", &values)), applied(&settings, &Part::ALL));
}

const VERSION: &str = "app.kubernetes.io/version";

/// Says of a workload that another version made it.
async fn relabel(cluster: &Cluster, kind: &str, name: &str, version: &str) {
    let apps = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", kind));
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "tombolo-system", &apps);
    let patch = json!({"metadata": {"labels": {VERSION: version}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chart_brings_a_role_of_members_only_where_helm_takes_it_for_the_releases_own() {
    let cluster = Cluster::new(Options::named("cluster"));
    let context = cluster.serve().await;
    let brings = |name: &str| {
        let rendered = render_for(Some(&context), "tombolo-system", &json!({"hub": {"enabled": true}}));
        by_name(rendered.unwrap()).contains_key(&format!("\"ClusterRole\" \"{name}\""))
    };
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let (role, other) = ("tombolo-member-writer", "tombolo-member-reader");
    assert!(brings(role) && brings(other), "nothing is there");
    let own = env!("CARGO_PKG_VERSION");
    let cases = [
        ("made by `tombolo join`", "tombolo-install", None, own, false),
        ("its own", "Helm", Some((RELEASE, "tombolo-system")), own, true),
        ("its own, from before", "Helm", Some((RELEASE, "tombolo-system")), "0.0.9", true),
        (
            "its own, which a later program brought up to date",
            "Helm",
            Some((RELEASE, "tombolo-system")),
            "99.0.0",
            false,
        ),
        (
            "its own, which Helm takes for another's",
            "tombolo-install",
            Some((RELEASE, "tombolo-system")),
            own,
            false,
        ),
        ("another release's", "Helm", Some(("other", "tombolo-system")), own, false),
        ("another namespace's", "Helm", Some((RELEASE, "elsewhere")), own, false),
    ];
    for (whose, by, release, version, expected) in cases {
        let mut there = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [],
            "metadata": {"name": role, "labels": {"app.kubernetes.io/managed-by": by, VERSION: version}},
        });
        if let Some((name, namespace)) = release {
            there["metadata"]["annotations"] =
                json!({"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": namespace});
        }
        roles.patch(role, &PatchParams::apply("test").force(), &Patch::Apply(&there)).await.unwrap();
        assert_eq!((brings(role), brings(other)), (expected, true), "{whose}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chart_does_not_take_the_place_of_a_later_version() {
    let cluster = Cluster::new(Options::named("cluster"));
    let context = cluster.serve().await;
    let all = json!({"hub": {"enabled": true}, "member": {"enabled": true}, "proxy": {"enabled": true}});
    let try_all = || render_for(Some(&context), "tombolo-system", &all);
    assert!(try_all().is_ok(), "nothing is there");
    let parts = [Part::Hub, Part::Member, Part::Proxy];
    apply(&cluster.client(), &manifests(&Settings::default(), &parts), |_, _| {}).await.unwrap();
    assert!(try_all().is_ok(), "the same version");
    let own = env!("CARGO_PKG_VERSION");
    let objects =
        [("Deployment", "tombolo-hub"), ("Deployment", "tombolo-agent"), ("DaemonSet", "tombolo-proxy")];
    for (kind, name) in objects {
        for no_later in ["0.0.9", "0.0.9-rc.1", "dev", "1"] {
            relabel(&cluster, kind, name, no_later).await;
            assert!(try_all().is_ok(), "{name} {no_later}");
        }
        for later in ["99.0.0", "v99.0.0", "99.0.0-rc.1"] {
            relabel(&cluster, kind, name, later).await;
            let object = format!("{}/{name}", kind.to_lowercase());
            let said = format!("{object} is of version {later}, and this chart of version {own}");
            let refused = try_all().unwrap_err();
            assert!(refused.contains(&said) && refused.contains("nothing was changed"), "{refused}");
        }
        // Who does not bring the part has nothing to do with it.
        assert!(render_for(Some(&context), "tombolo-system", &json!({"dns": {"enabled": true}})).is_ok());
        relabel(&cluster, kind, name, own).await;
    }
}
