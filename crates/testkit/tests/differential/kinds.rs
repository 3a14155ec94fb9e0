//! The kinds of objects, and what some of each are like: good ones, and a few that are refused.

use fastrand::Rng;
use serde_json::{Value, json};

/// A kind of objects.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    /// Strategic merge patches are for built-in kinds.
    pub(crate) built_in: bool,
    pub(crate) has_status: bool,
    pub(crate) content: fn(&mut Rng) -> Value,
}

pub(crate) const KINDS: [Kind; 10] = [
    Kind {
        api_version: "v1",
        kind: "ConfigMap",
        plural: "configmaps",
        built_in: true,
        has_status: false,
        content: config_map,
    },
    Kind {
        api_version: "v1",
        kind: "Service",
        plural: "services",
        built_in: true,
        has_status: true,
        content: service,
    },
    Kind {
        api_version: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        plural: "endpointslices",
        built_in: true,
        has_status: false,
        content: slice,
    },
    Kind {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        plural: "leases",
        built_in: true,
        has_status: false,
        content: lease,
    },
    Kind {
        api_version: "multicluster.x-k8s.io/v1beta1",
        kind: "ServiceExport",
        plural: "serviceexports",
        built_in: false,
        has_status: true,
        content: export,
    },
    Kind {
        api_version: "multicluster.x-k8s.io/v1beta1",
        kind: "ServiceImport",
        plural: "serviceimports",
        built_in: false,
        has_status: true,
        content: import,
    },
    Kind {
        api_version: "v1",
        kind: "Secret",
        plural: "secrets",
        built_in: true,
        has_status: false,
        content: secret,
    },
    Kind {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "Role",
        plural: "roles",
        built_in: true,
        has_status: false,
        content: role,
    },
    Kind {
        api_version: "apps/v1",
        kind: "Deployment",
        plural: "deployments",
        built_in: true,
        has_status: true,
        content: deployment,
    },
    Kind { api_version: "v1", kind: "Pod", plural: "pods", built_in: true, has_status: true, content: pod },
];

pub(crate) fn pick<'a>(dice: &mut Rng, words: &[&'a str]) -> &'a str {
    words[dice.usize(..words.len())]
}

/// A map of a few keys with a few values.
pub(crate) fn map(dice: &mut Rng, keys: &[&str]) -> Value {
    let mut map = serde_json::Map::new();
    for key in keys {
        if dice.bool() {
            map.insert((*key).to_owned(), pick(dice, &["x", "y", ""]).into());
        }
    }
    map.into()
}

fn config_map(dice: &mut Rng) -> Value {
    let mut map = json!({"data": map(dice, &["one", "two", "three"])});
    if dice.u8(..10) == 0 {
        map["immutable"] = true.into();
    }
    if dice.u8(..12) == 0 {
        map["data"]["bad/key"] = "x".into();
    }
    map
}

fn port(dice: &mut Rng) -> Value {
    let number = [80, 81, 9090][dice.usize(..3)];
    let mut port = json!({"name": pick(dice, &["http", "metrics"]), "port": number});
    if dice.bool() {
        port["protocol"] = pick(dice, &["TCP", "UDP"]).into();
    }
    if dice.u8(..12) == 0 {
        port["port"] = 0.into();
    }
    port
}

fn ports(dice: &mut Rng) -> Value {
    (0..dice.usize(1..3)).map(|_| port(dice)).collect()
}

fn service(dice: &mut Rng) -> Value {
    let mut spec = json!({"ports": ports(dice)});
    match dice.u8(..10) {
        0..2 => spec["clusterIP"] = "None".into(),
        2 => spec["type"] = "ExternalName".into(),
        3 => spec["sessionAffinity"] = "ClientIP".into(),
        4 => spec["internalTrafficPolicy"] = pick(dice, &["Local", "Cluster", "Nowhere"]).into(),
        5 => spec["trafficDistribution"] = "PreferClose".into(),
        _ => {}
    }
    // No selectors: nobody but us shall write slices.
    json!({"spec": spec})
}

fn slice(dice: &mut Rng) -> Value {
    let endpoint = |dice: &mut Rng| {
        let mut endpoint = json!({"addresses": [pick(dice, &["10.1.0.1", "10.1.0.2", "fd00::1"])]});
        if dice.bool() {
            endpoint["conditions"] = json!({"ready": dice.bool()});
        }
        if dice.u8(..4) == 0 {
            endpoint["zone"] = "z".into();
        }
        endpoint
    };
    let endpoints: Value = (0..dice.usize(..3)).map(|_| endpoint(dice)).collect();
    json!({"addressType": pick(dice, &["IPv4", "IPv4", "IPv6"]), "endpoints": endpoints, "ports": ports(dice)})
}

fn lease(dice: &mut Rng) -> Value {
    let mut spec = map(dice, &["holderIdentity"]);
    if dice.bool() {
        spec["leaseDurationSeconds"] = [0, 15, 40][dice.usize(..3)].into();
    }
    if dice.bool() {
        spec["renewTime"] = "2026-01-01T00:00:00.000000Z".into();
    }
    json!({"spec": spec})
}

fn export(dice: &mut Rng) -> Value {
    let mut export = json!({});
    if dice.bool() {
        export["spec"] = json!({"exportedLabels": map(dice, &["app", "tier"])});
    }
    if dice.u8(..4) == 0 {
        export["status"] = json!({"conditions": [condition(dice)]});
    }
    if dice.u8(..8) == 0 {
        export["unknown"] = json!({"field": 1});
    }
    export
}

fn condition(dice: &mut Rng) -> Value {
    json!({
        "type": pick(dice, &["Ready", "Valid"]), "status": pick(dice, &["True", "False"]), "reason": "Because",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn import(dice: &mut Rng) -> Value {
    let mut spec = json!({"type": pick(dice, &["ClusterSetIP", "Headless", "Wrong"]), "ports": ports(dice)});
    if dice.bool() {
        spec["ips"] = json!([pick(dice, &["10.96.1.1", "no address"])]);
    }
    json!({"spec": spec})
}

fn secret(dice: &mut Rng) -> Value {
    let mut secret = json!({"stringData": map(dice, &["one", "two"])});
    if dice.u8(..4) == 0 {
        secret["data"] = json!({"one": "eA=="});
    }
    if dice.u8(..6) == 0 {
        secret["type"] = pick(dice, &["Opaque", "example.com/mine"]).into();
    }
    secret
}

fn role(dice: &mut Rng) -> Value {
    let rule = |dice: &mut Rng| {
        let verb = pick(dice, &["get", "list", "*"]);
        json!({"apiGroups": [pick(dice, &["", "apps"])], "resources": ["pods"], "verbs": [verb]})
    };
    json!({"rules": (0..dice.usize(..3)).map(|_| rule(dice)).collect::<Value>()})
}

fn pod_spec(dice: &mut Rng) -> Value {
    let mut container =
        json!({"name": pick(dice, &["main", "other"]), "image": pick(dice, &["i", "i:1", "j:latest"])});
    if dice.u8(..3) == 0 {
        container["ports"] = json!([{"containerPort": 80}]);
    }
    if dice.u8(..4) == 0 {
        container["resources"] = json!({"requests": {"cpu": pick(dice, &["100m", "0.1", "1"])}});
    }
    if dice.u8(..4) == 0 {
        container["env"] = json!([{"name": "A", "value": pick(dice, &["1", "2"])}]);
    }
    // Nothing that an admission plugin would add beside what every pod gets.
    let tolerated = |taint: &str| {
        json!({"key": format!("node.kubernetes.io/{taint}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 300})
    };
    let tolerations = [tolerated("not-ready"), tolerated("unreachable")];
    json!({"automountServiceAccountToken": false, "containers": [container], "tolerations": tolerations})
}

fn deployment(dice: &mut Rng) -> Value {
    let labels = json!({"app": pick(dice, &["x", "x", "x", "y"])});
    let mut spec = json!({"selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec(dice)}});
    if dice.bool() {
        spec["replicas"] = [0, 1, 3][dice.usize(..3)].into();
    }
    let mut deployment = json!({"spec": spec});
    if dice.u8(..4) == 0 {
        deployment["status"] = json!({"replicas": 1, "observedGeneration": 1});
    }
    deployment
}

fn pod(dice: &mut Rng) -> Value {
    let mut pod = json!({"spec": pod_spec(dice)});
    if dice.u8(..4) == 0 {
        pod["spec"]["nodeName"] = "nowhere".into();
    }
    if dice.u8(..4) == 0 {
        pod["status"] = json!({"phase": pick(dice, &["Running", "Succeeded"])});
    }
    pod
}
