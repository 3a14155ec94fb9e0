//! What is in a cluster before anyone writes to it.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::core::Core;
use crate::operation::{Call, create, get, update};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Fills an empty cluster: namespaces, the `kubernetes` Service, the roles everybody relies on. What a cluster that
/// comes back has of them stays as it is.
pub(crate) fn fill(core: &Core) {
    for name in NAMESPACES {
        let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}});
        put(core, "", "namespaces", "", namespace, Known::Stays);
    }
    put(core, "", "services", "default", kubernetes_service(core), Known::Stays);
    for role in roles() {
        put(core, "rbac.authorization.k8s.io", "clusterroles", "", role, Known::Stays);
    }
    for binding in bindings() {
        put(core, "rbac.authorization.k8s.io", "clusterrolebindings", "", binding, Known::Stays);
    }
}

/// Publishes where the API server can be reached, for `kubernetes.default`.
pub(crate) fn publish_address(core: &Core, address: IpAddr, port: u16) {
    // Kubernetes refuses loopback endpoints, rightly: they mean somebody else on every node.
    if address.is_loopback() || address.is_unspecified() {
        return;
    }
    let slice = json!({
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address.to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    });
    put(core, "discovery.k8s.io", "endpointslices", "default", slice, Known::Changes);
}

/// What becomes of an object that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Stays,
    Changes,
}

fn put(core: &Core, group: &str, plural: &str, namespace: &str, value: Value, known: Known) {
    let resource = core.builtin(group, plural);
    let mut call = Call::new(core, &resource, namespace);
    call.options.manager = "kube-apiserver".to_owned();
    // A server that comes back finds what it left.
    let found = value["metadata"]["name"].as_str().filter(|name| get(&call, name).is_ok()).map(str::to_owned);
    let written = match found {
        Some(_) if known == Known::Stays => Ok(()),
        Some(name) => update(&call, &name, value).map(drop),
        None => create(&call, value).map(drop),
    };
    if let Err(refused) = written {
        tracing::error!(error = refused.message, plural, "an object of the empty cluster was refused");
    }
}

fn kubernetes_service(core: &Core) -> Value {
    let first = core.network.service_cidrs.first().and_then(|range| range.hosts().next());
    let mut service = json!({
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    });
    if let Some(first) = first {
        service["spec"]["clusterIP"] = first.to_string().into();
    }
    service
}

fn role(name: &str, rules: Value) -> Value {
    json!({
        "kind": "ClusterRole",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
        "rules": rules,
    })
}

fn roles() -> [Value; 3] {
    let everything = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]);
    let discovery = json!([{
        "nonResourceURLs": ["/", "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*",
            "/readyz", "/version", "/version/"],
        "verbs": ["get"],
    }]);
    let questions = json!([
        {"apiGroups": ["authorization.k8s.io"], "verbs": ["create"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
    ]);
    [
        role("cluster-admin", everything),
        role("system:discovery", discovery),
        role("system:basic-user", questions),
    ]
}

fn bindings() -> [Value; 3] {
    let bind = |role: &str, group: &str| {
        json!({
            "kind": "ClusterRoleBinding",
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": role, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
        })
    };
    [
        bind("cluster-admin", "system:masters"),
        bind("system:discovery", "system:authenticated"),
        bind("system:basic-user", "system:authenticated"),
    ]
}
