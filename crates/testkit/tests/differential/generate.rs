//! Random operations on a few objects of a few kinds, so that they meet.

use std::fmt;

use fastrand::Rng;
use serde_json::{Value, json};

/// A kind of objects.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    /// Strategic merge patches are for built-in kinds.
    built_in: bool,
    has_status: bool,
    content: fn(&mut Rng) -> Value,
}

pub(crate) const KINDS: [Kind; 6] = [
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
];

const APPLY: &str = "application/apply-patch+yaml";
const NAMES: [&str; 3] = ["a", "b", "c"];

/// What an operation refers to that only the server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    None,
    /// As it is now.
    Current,
    /// As it was when the object was last seen by an operation on it.
    Former,
    /// Of nobody.
    Wrong,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Create(Value),
    Update { content: Value, version: Reference, uid: Reference },
    Patch { media: &'static str, patch: Value, query: String },
    Delete { version: Reference, uid: Reference, query: &'static str },
    DeleteAll { selector: &'static str },
    Get,
    List { query: String },
}

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// Place in [`KINDS`].
    pub(crate) kind: usize,
    pub(crate) name: &'static str,
    pub(crate) subresource: Option<&'static str>,
    pub(crate) action: Action,
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sub = self.subresource.map(|sub| format!("/{sub}")).unwrap_or_default();
        write!(formatter, "{}/{}{sub}: {:?}", KINDS[self.kind].plural, self.name, self.action)
    }
}

pub(crate) struct Generator(Rng);

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    pub(crate) fn next(&mut self) -> Operation {
        let dice = &mut self.0;
        let kind = dice.usize(..KINDS.len());
        let name = NAMES[dice.usize(..NAMES.len())];
        let about = &KINDS[kind];
        let subresource = (about.has_status && dice.u8(..6) == 0).then_some("status");
        let action = match dice.u8(..20) {
            0..5 => Action::Create(object(dice, about, name)),
            5..8 => Action::Update {
                content: object(dice, about, name),
                version: reference(dice),
                uid: rarely(dice),
            },
            8..10 => merge_patch(dice, about),
            10..12 => strategic_patch(dice, about),
            12 => json_patch(dice),
            13..16 => apply(dice, about, name),
            16 => Action::Delete {
                version: rarely(dice),
                uid: rarely(dice),
                query: if dice.bool() { "" } else { "propagationPolicy=Foreground" },
            },
            17 => Action::Get,
            18 => Action::List { query: list_query(dice) },
            _ if dice.u8(..4) == 0 => Action::DeleteAll { selector: "app=x" },
            _ => Action::Delete { version: Reference::None, uid: Reference::None, query: "" },
        };
        let subresource = match action {
            Action::Create(_) | Action::DeleteAll { .. } | Action::Delete { .. } | Action::List { .. } => {
                None
            }
            _ => subresource,
        };
        Operation { kind, name, subresource, action }
    }
}

fn reference(dice: &mut Rng) -> Reference {
    [Reference::Current, Reference::Current, Reference::None, Reference::Former, Reference::Wrong]
        [dice.usize(..5)]
}

fn rarely(dice: &mut Rng) -> Reference {
    if dice.u8(..3) == 0 { reference(dice) } else { Reference::None }
}

fn pick<'a>(dice: &mut Rng, words: &[&'a str]) -> &'a str {
    words[dice.usize(..words.len())]
}

/// A map of a few keys with a few values.
fn map(dice: &mut Rng, keys: &[&str]) -> Value {
    let mut map = serde_json::Map::new();
    for key in keys {
        if dice.bool() {
            map.insert((*key).to_owned(), pick(dice, &["x", "y", ""]).into());
        }
    }
    map.into()
}

fn metadata(dice: &mut Rng, name: &str) -> Value {
    let mut metadata = json!({"name": name});
    if dice.bool() {
        metadata["labels"] = map(dice, &["app", "tier"]);
    }
    if dice.u8(..3) == 0 {
        metadata["annotations"] = map(dice, &["note", "example.com/why"]);
    }
    if dice.u8(..8) == 0 {
        metadata["finalizers"] = json!(["example.com/hold"]);
    }
    if dice.u8(..12) == 0 {
        metadata["labels"] = json!({"bad key!": "x"});
    }
    metadata
}

fn object(dice: &mut Rng, kind: &Kind, name: &str) -> Value {
    let mut object = (kind.content)(dice);
    object["apiVersion"] = kind.api_version.into();
    object["kind"] = kind.kind.into();
    object["metadata"] = metadata(dice, name);
    object
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

/// Part of an object, some of it taken away.
fn part(dice: &mut Rng, kind: &Kind) -> Value {
    let mut part = (kind.content)(dice);
    if dice.bool() {
        part["metadata"] = json!({"labels": {"app": pick(dice, &["x", "y"]), "tier": null}});
    }
    if dice.u8(..5) == 0 {
        part["metadata"]["finalizers"] =
            [json!([]), json!(null), json!(["example.com/hold"])][dice.usize(..3)].clone();
    }
    part
}

fn merge_patch(dice: &mut Rng, kind: &Kind) -> Action {
    let media = "application/merge-patch+json";
    Action::Patch { media, patch: part(dice, kind), query: "fieldManager=merger".to_owned() }
}

fn strategic_patch(dice: &mut Rng, kind: &Kind) -> Action {
    if !kind.built_in {
        return merge_patch(dice, kind);
    }
    let media = "application/strategic-merge-patch+json";
    Action::Patch { media, patch: part(dice, kind), query: "fieldManager=strategist".to_owned() }
}

fn json_patch(dice: &mut Rng) -> Action {
    let steps = [
        json!([{"op": "add", "path": "/metadata/labels", "value": {"app": "x"}}]),
        json!([{"op": "replace", "path": "/metadata/labels/app", "value": "z"}]),
        json!([{"op": "remove", "path": "/metadata/finalizers"}]),
        json!([{"op": "test", "path": "/metadata/finalizers", "value": null}, {"op": "add", "path": "/metadata/annotations", "value": {"note": "n"}}]),
        json!([{"op": "test", "path": "/metadata/name", "value": "nobody"}]),
        json!([{"op": "add", "path": "/nowhere/at/all", "value": 1}]),
    ];
    let patch = steps[dice.usize(..steps.len())].clone();
    Action::Patch { media: "application/json-patch+json", patch, query: "fieldManager=surgeon".to_owned() }
}

fn apply(dice: &mut Rng, kind: &Kind, name: &str) -> Action {
    let manager = pick(dice, &["first", "second"]);
    let force = if dice.u8(..3) == 0 { "&force=true" } else { "" };
    let query = format!("fieldManager={manager}{force}");
    Action::Patch { media: APPLY, patch: object(dice, kind, name), query }
}

fn list_query(dice: &mut Rng) -> String {
    let queries = [
        "",
        "labelSelector=app%3Dx",
        "labelSelector=app",
        "labelSelector=%21tier",
        "fieldSelector=metadata.name%3Da",
        "limit=2",
        "labelSelector=app%20in%20(x,y)",
        "fieldSelector=spec.nowhere%3D1",
        "labelSelector=%3D%3D",
    ];
    pick(dice, &queries).to_owned()
}
