//! The manifests in `deploy/`: that they fit together, and that the program understands what they tell it.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn documents(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn one<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    documents.iter().find(|document| document["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// The arguments of the container, each flag with its value.
fn arguments(pod: &Value) -> Vec<String> {
    let words = pod["containers"][0]["args"].as_array().unwrap().iter().map(|word| text(word).to_owned());
    let mut flags: Vec<String> = Vec::new();
    for word in words {
        match flags.last_mut() {
            Some(last) if !word.starts_with("--") && last.starts_with("--") && !last.contains('=') => {
                *last = format!("{last}={word}");
            }
            _ => flags.push(word),
        }
    }
    flags
}

fn flag(pod: &Value, name: &str) -> SocketAddr {
    let prefix = format!("--{name}=");
    let found = arguments(pod).into_iter().find_map(|word| Some(word.strip_prefix(&prefix)?.to_owned()));
    found.unwrap_or_else(|| panic!("no --{name}")).parse().unwrap()
}

/// Whether `tombolo` takes these arguments: what it does not know it refuses before it comes to the last one.
fn is_understood(pod: &Value) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_tombolo")).args(arguments(pod)).arg("--help").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {said}", arguments(pod));
}

/// The account exists, and the pods are those that the workload and everything beside it means.
fn fits_together(documents: &[Value], access: &[Value], workload: &Value) {
    let (pod, metadata) = (&workload["spec"]["template"]["spec"], &one(access, "ServiceAccount")["metadata"]);
    assert_eq!(
        (&pod["serviceAccountName"], &workload["metadata"]["namespace"]),
        (&metadata["name"], &metadata["namespace"])
    );
    let labels = &workload["spec"]["template"]["metadata"]["labels"];
    let has = |selector: &Value| {
        let selector = selector.as_object().unwrap();
        assert!(
            selector.len() > 1 && selector.iter().all(|(key, value)| labels[key] == *value),
            "{selector:?}"
        );
    };
    has(&workload["spec"]["selector"]["matchLabels"]);
    has(&one(documents, "Service")["spec"]["selector"]);
    for kind in ["PodDisruptionBudget", "NetworkPolicy"] {
        let Some(guard) = documents.iter().find(|document| document["kind"] == kind) else { continue };
        let selector = if kind == "NetworkPolicy" { "podSelector" } else { "selector" };
        has(&guard["spec"][selector]["matchLabels"]);
    }
}

fn is_probed_where_it_answers(pod: &Value) {
    let probe = &pod["containers"][0]["readinessProbe"]["httpGet"];
    let named = pod["containers"][0]["ports"].as_array().into_iter().flatten();
    let port = match probe["port"].as_str() {
        Some(name) => named.into_iter().find(|port| port["name"] == name).unwrap()["containerPort"].clone(),
        None => probe["port"].clone(),
    };
    assert_eq!(port, flag(pod, "admin-address").port());
    assert_eq!(probe["path"], "/readyz");
}

#[test]
fn a_flag_that_does_not_exist_is_noticed() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_tombolo")).args(["dns", "--listn=1.2.3.4:5", "--help"]).output();
    assert!(!output.unwrap().status.success());
}

#[test]
fn every_part_is_told_what_it_understands_probed_where_it_answers_and_found_by_its_guards() {
    let parts = ["hub/hub", "member/agent", "member/dns", "member/proxy", "member/balancer"];
    for part in parts {
        let (running, access) = (documents(&format!("{part}.yaml")), documents(&format!("{part}-rbac.yaml")));
        let workloads = ["Deployment", "DaemonSet"];
        let workload = running.iter().find(|one| workloads.contains(&text(&one["kind"]))).unwrap();
        let pod = &workload["spec"]["template"]["spec"];
        is_understood(pod);
        is_probed_where_it_answers(pod);
        fits_together(&running, &access, workload);
    }
}

#[test]
fn dns_is_served_over_both_protocols_where_the_service_sends_it() {
    let documents = documents("member/dns.yaml");
    let (deployment, service) = (one(&documents, "Deployment"), one(&documents, "Service"));
    let pod = &deployment["spec"]["template"]["spec"];
    let listening = flag(pod, "listen").port();
    for protocol in ["UDP", "TCP"] {
        let of = |ports: &Value| {
            let is_dns =
                |port: &&Value| port["protocol"] == protocol && text(&port["name"]).starts_with("dns");
            ports.as_array().unwrap().iter().find(is_dns).unwrap().clone()
        };
        let (front, back) = (of(&service["spec"]["ports"]), of(&pod["containers"][0]["ports"]));
        assert_eq!((&front["port"], &front["targetPort"]), (&Value::from(53), &back["name"]));
        assert_eq!(back["containerPort"], listening);
        let open = &one(&documents, "NetworkPolicy")["spec"]["ingress"][0]["ports"];
        let is_open = |port: &Value| port["protocol"] == protocol && port["port"] == listening;
        assert!(open.as_array().unwrap().iter().any(is_open), "{open}");
    }
}

#[test]
fn the_server_of_a_node_listens_where_its_address_is_made_and_asks_somebody_else_for_the_rest() {
    let documents = documents("dns/node-local.yaml");
    let daemons = one(&documents, "DaemonSet");
    let pod = &daemons["spec"]["template"]["spec"];
    is_understood(pod);
    assert_eq!(
        pod["serviceAccountName"],
        one(&self::documents("member/dns-rbac.yaml"), "ServiceAccount")["metadata"]["name"]
    );
    is_probed_where_it_answers(pod);
    let own: IpAddr = flag(pod, "listen").ip();
    let made = text(&pod["initContainers"][0]["command"][2]);
    assert!(made.contains(&format!("{own}/32")), "{made}");
    assert_ne!(flag(pod, "forward").ip(), own);
    assert_eq!(
        (&pod["hostNetwork"], &pod["dnsPolicy"]),
        (&Value::from(true), &Value::from("Default")),
        "or it asks itself"
    );
}
