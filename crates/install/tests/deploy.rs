//! The files in `deploy/` are what the source generates today, and say what an installation applies.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tombolo_install::{
    FOLDERS, Manifest, Part, Settings, deploy_files, is_for_members, manifests, system_namespace,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn collect(folder: &Path, within: &str, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder.join(within)).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{within}/{}", path.file_name().unwrap().to_str().unwrap());
        match path.is_dir() {
            true => collect(folder, &name, found),
            false => drop(found.insert(name, std::fs::read_to_string(path).unwrap())),
        }
    }
}

#[test]
fn what_is_committed_is_what_is_generated() {
    let mut committed = BTreeMap::new();
    for folder in FOLDERS {
        collect(&root(), folder, &mut committed);
    }
    let generated = deploy_files().unwrap();
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&committed), names(&generated), "run `cargo xtask deploy`");
    for (name, text) in &generated {
        assert!(committed[name] == *text, "deploy/{name} is stale, run `cargo xtask deploy`");
    }
}

fn documents(text: &str) -> Vec<Value> {
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

/// By kind and name, so that order does not matter.
fn by_name(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    objects.into_iter().map(|object| (name(&object), object)).collect()
}

#[test]
fn the_files_together_are_what_an_installation_of_all_parts_applies() {
    let files = deploy_files().unwrap();
    let plain =
        files.iter().filter(|(name, _)| !name.starts_with("helm/") && *name != "hub/member-rbac.yaml");
    let written = by_name(plain.flat_map(|(_, text)| documents(text)));
    let settings = Settings { monitoring: true, ..Settings::default() };
    let applied = manifests(&settings, &Part::ALL);
    let without_kinds = applied.iter().filter(|one| one.kind() != "CustomResourceDefinition");
    assert_eq!(written, by_name(without_kinds.map(|one| one.value().clone())));
}

#[test]
fn what_is_applied_for_each_member_takes_nothing_back_from_the_others() {
    let files = deploy_files().unwrap();
    let (place, roles) =
        (documents(&files["hub/member-rbac.yaml"]), documents(&files["hub/member-roles.yaml"]));
    assert!(place.iter().all(|one| one["kind"] != "ClusterRole"), "{place:?}");
    let bound = place.iter().filter_map(|one| one["roleRef"]["name"].as_str());
    let said = roles.iter().filter_map(|one| one["metadata"]["name"].as_str());
    assert_eq!(bound.collect::<Vec<_>>(), said.collect::<Vec<_>>());
}

#[test]
fn every_object_is_applied_after_what_it_needs() {
    let all = manifests(&Settings::default(), &Part::ALL);
    let place = |kind: &str| all.iter().position(|one| one.kind() == kind).unwrap();
    let last = |kind: &str| all.iter().rposition(|one| one.kind() == kind).unwrap();
    assert!(last("CustomResourceDefinition") < place("Namespace"));
    assert!(place("Namespace") < place("ServiceAccount"));
    let names: BTreeSet<String> =
        all.iter().map(|one| format!("{} {:?} {}", one.kind(), one.namespace(), one.name())).collect();
    assert_eq!(names.len(), all.len(), "nothing is there twice");
}

fn pods() -> Vec<(Part, Value)> {
    let pod = |part: Part| {
        let all = manifests(&Settings::default(), &[part]);
        let workload = all.iter().find(|one| ["Deployment", "DaemonSet"].contains(&one.kind())).unwrap();
        workload.value()["spec"]["template"]["spec"].clone()
    };
    Part::ALL.into_iter().map(|part| (part, pod(part))).collect()
}

#[test]
fn nobody_has_more_than_one_capability_and_only_who_has_one_is_root() {
    for (part, pod) in pods() {
        let security = &pod["containers"][0]["securityContext"];
        let added = security["capabilities"]["add"].as_array().cloned().unwrap_or_default();
        let expected = match part {
            Part::Proxy => vec!["NET_ADMIN"],
            Part::Balancer => vec!["NET_RAW"],
            _ => vec![],
        };
        assert_eq!(added, expected, "{part:?}");
        assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(security["runAsNonRoot"], added.is_empty(), "{part:?}");
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(pod["hostNetwork"] == true, !added.is_empty(), "{part:?}");
    }
}

#[test]
fn those_in_the_hosts_network_do_not_want_the_same_port() {
    let pods = pods();
    let ports = pods.iter().flat_map(|(_, pod)| pod["containers"][0]["ports"].as_array().unwrap());
    let ports: Vec<String> =
        ports.map(|port| format!("{} {}", port["protocol"], port["containerPort"])).collect();
    assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len(), "{ports:?}");
}

#[test]
fn pods_run_on_linux_may_start_slowly_and_are_asked_where_nodes_have_their_addresses() {
    for (part, pod) in pods() {
        assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}), "{part:?}");
        let (startup, liveness) =
            (&pod["containers"][0]["startupProbe"], &pod["containers"][0]["livenessProbe"]);
        assert_eq!(startup["httpGet"], liveness["httpGet"], "{part:?}");
        let seconds = |probe: &Value| {
            probe["periodSeconds"].as_u64().unwrap() * probe["failureThreshold"].as_u64().unwrap_or(3)
        };
        assert!(seconds(startup) >= 5 * 60 && seconds(liveness) < 60, "{part:?}");
    }
    let settings = Settings { listen: std::net::Ipv6Addr::UNSPECIFIED.into(), ..Settings::default() };
    let proxy = manifests(&settings, &[Part::Proxy]);
    let daemons = proxy.iter().find(|one| one.kind() == "DaemonSet").unwrap();
    let arguments = &daemons.value()["spec"]["template"]["spec"]["containers"][0]["args"];
    for open in ["--healthz-address=[::]:10256", "--admin-address=[::]:9473"] {
        assert!(arguments.as_array().unwrap().contains(&json!(open)), "{arguments}");
    }
}

#[test]
fn who_makes_services_and_names_work_does_not_need_them_to_start() {
    for (part, pod) in pods() {
        let expected = match part {
            Part::Dns | Part::Proxy | Part::Balancer => json!("Default"),
            Part::Hub | Part::Member => Value::Null,
        };
        assert_eq!(pod["dnsPolicy"], expected, "{part:?}");
    }
}

#[test]
fn a_quota_admits_pods_of_every_priority_that_is_used() {
    let all = manifests(&Settings::default(), &[Part::Dns]);
    let quota = all.iter().find(|one| one.kind() == "ResourceQuota").unwrap().value();
    let selected = &quota["spec"]["scopeSelector"]["matchExpressions"][0]["values"];
    for (part, pod) in pods() {
        assert!(selected.as_array().unwrap().contains(&pod["priorityClassName"]), "{part:?}");
    }
}

#[test]
fn a_budget_holds_up_nobody_who_empties_a_node() {
    for replicas in [1, 2] {
        let all = manifests(&Settings { replicas, ..Settings::default() }, &Part::ALL);
        for budget in all.iter().filter(|one| one.kind() == "PodDisruptionBudget") {
            let spec = &budget.value()["spec"];
            assert_eq!((&spec["maxUnavailable"], &spec["minAvailable"]), (&json!(1), &Value::Null));
            assert_eq!(spec["unhealthyPodEvictionPolicy"], "AlwaysAllow", "two that are not ready");
        }
    }
}

#[test]
fn what_metrics_say_of_namespaces_and_services_is_left_as_it_is() {
    let settings = Settings {
        monitoring: true,
        monitor_labels: [("release".to_owned(), "prometheus".to_owned())].into(),
        ..Settings::default()
    };
    let all = manifests(&settings, &[Part::Proxy]);
    let monitor = all.iter().find(|one| one.kind() == "ServiceMonitor").unwrap().value();
    assert_eq!(monitor["spec"]["endpoints"][0]["honorLabels"], true);
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    assert_eq!(monitor["metadata"]["labels"]["app.kubernetes.io/name"], "tombolo");
}

#[test]
fn the_roles_of_members_outlive_the_hubs_own_part() {
    let all = manifests(&Settings::default(), &[Part::Hub]);
    let kept: Vec<&str> = all.iter().filter(|one| is_for_members(one)).map(Manifest::name).collect();
    assert_eq!(kept, ["tombolo-member-reader", "tombolo-member-writer", "tombolo-member-works"]);
    for role in all.iter().filter(|one| is_for_members(one)) {
        assert_eq!(role.value()["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    }
}

#[test]
fn another_namespace_is_used_everywhere() {
    let settings = Settings { namespace: "elsewhere".into(), monitoring: true, ..Settings::default() };
    let all = manifests(&settings, &Part::ALL);
    assert!(all.iter().all(|one| !one.value().to_string().contains("tombolo-system")));
    assert_eq!(system_namespace(&settings, &[]).name(), "elsewhere");
    let is_placed = |one: &&Manifest| one.namespace().is_some();
    assert!(all.iter().filter(is_placed).all(|one| one.namespace() == Some("elsewhere")));
}
