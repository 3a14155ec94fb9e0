//! Random operations on a few objects of a few kinds, so that they meet.

use std::fmt;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::NAMESPACES;

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

const APPLY: &str = "application/apply-patch+yaml";
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Of nobody.
pub(crate) const NO_UID: &str = "00000000-0000-0000-0000-000000000000";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

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
    Create {
        content: Value,
        query: &'static str,
    },
    Update {
        content: Value,
        version: Reference,
        uid: Reference,
        query: &'static str,
    },
    Patch {
        media: &'static str,
        patch: Value,
        query: String,
    },
    /// Without options in the body those in the query count.
    Delete {
        version: Reference,
        uid: Reference,
        options: Option<Value>,
        query: &'static str,
    },
    DeleteAll {
        query: &'static str,
        options: Option<Value>,
    },
    Get {
        form: &'static str,
        version: Reference,
    },
    /// A list, and the page after it. The version is that of the object.
    List {
        query: String,
        form: &'static str,
        version: Reference,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// Place in [`KINDS`].
    pub(crate) kind: usize,
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) subresource: Option<&'static str>,
    pub(crate) action: Action,
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sub = self.subresource.map(|sub| format!("/{sub}")).unwrap_or_default();
        let (plural, namespace) = (KINDS[self.kind].plural, self.namespace);
        write!(formatter, "{namespace}/{plural}/{}{sub}: {:?}", self.name, self.action)
    }
}

impl Operation {
    /// Metadata that the status of a custom resource ignores. To send it changes nothing but the time of an owner, and whether
    /// that is another one depends on whether a second has passed.
    fn forget_metadata(&mut self) {
        let (Action::Update { content: sent, .. } | Action::Patch { patch: sent, .. }) = &mut self.action
        else {
            return;
        };
        let Some(metadata) = sent.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        metadata.retain(|field, _| field == "name");
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
        // Most happens in one place, so that objects meet.
        let namespace = NAMESPACES[usize::from(dice.u8(..4) == 0)];
        let name = NAMES[dice.usize(..NAMES.len())];
        let about = &KINDS[kind];
        let subresource = (about.has_status && dice.u8(..6) == 0).then_some("status");
        let action = match dice.u8(..21) {
            0..5 => Action::Create { content: object(dice, about, name), query: write_query(dice) },
            5..8 => Action::Update {
                content: object(dice, about, name),
                version: reference(dice),
                uid: rarely(dice),
                query: write_query(dice),
            },
            8..10 => merge_patch(dice, about),
            10..12 => strategic_patch(dice, about),
            12 => json_patch(dice),
            13..16 => apply(dice, about, name),
            16..18 => delete(dice),
            18 => Action::Get {
                form: pick(dice, &["application/json", TABLE, METADATA]),
                version: rarely(dice),
            },
            19 => list(dice),
            _ if dice.u8(..4) == 0 => delete_all(dice),
            _ => Action::Delete {
                version: Reference::None,
                uid: Reference::None,
                options: Some(json!({})),
                query: "",
            },
        };
        let subresource = match action {
            Action::Create { .. }
            | Action::DeleteAll { .. }
            | Action::Delete { .. }
            | Action::List { .. } => None,
            _ => subresource,
        };
        let mut operation = Operation { kind, namespace, name, subresource, action };
        if subresource.is_some() && !about.built_in {
            operation.forget_metadata();
        }
        operation
    }
}

/// Mostly nothing: what is only tried leaves nothing to meet.
fn write_query(dice: &mut Rng) -> &'static str {
    match dice.u8(..16) {
        0 | 1 => "&dryRun=All",
        2 => "&fieldValidation=Strict",
        3 => "&dryRun=Some",
        _ => "",
    }
}

fn delete_options(dice: &mut Rng) -> Option<Value> {
    let options = [
        json!({}),
        json!({"propagationPolicy": "Background"}),
        json!({"propagationPolicy": "Foreground"}),
        json!({"propagationPolicy": "Orphan"}),
        json!({"orphanDependents": true}),
        json!({"orphanDependents": false}),
        json!({"orphanDependents": true, "propagationPolicy": "Orphan"}),
        json!({"propagationPolicy": "Later"}),
        json!({"dryRun": ["All"]}),
        json!({"dryRun": ["Some"]}),
        json!({"gracePeriodSeconds": 0}),
    ];
    let place = dice.usize(..options.len() + 4);
    options.into_iter().nth(place)
}

fn delete(dice: &mut Rng) -> Action {
    let queries = [
        "",
        "",
        "propagationPolicy=Foreground",
        "propagationPolicy=Orphan",
        "propagationPolicy=Never",
        "orphanDependents=false",
        "dryRun=All",
        "gracePeriodSeconds=0",
        "gracePeriodSeconds=soon",
    ];
    Action::Delete {
        version: rarely(dice),
        uid: rarely(dice),
        options: delete_options(dice),
        query: pick(dice, &queries),
    }
}

fn delete_all(dice: &mut Rng) -> Action {
    let queries = [
        "labelSelector=app%3Dx",
        "labelSelector=app%3Dx&propagationPolicy=Orphan",
        "fieldSelector=metadata.name%3Da",
        "dryRun=All",
        "labelSelector=%3D%3D",
    ];
    let options = if dice.bool() { None } else { delete_options(dice) };
    Action::DeleteAll { query: pick(dice, &queries), options }
}

fn list(dice: &mut Rng) -> Action {
    let version = if dice.u8(..3) == 0 { Reference::Former } else { Reference::None };
    let form = pick(dice, &["application/json", "application/json", TABLE, METADATA_LIST]);
    Action::List { query: list_query(dice, version), form, version }
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
    if dice.u8(..10) == 0 {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": NO_UID});
        metadata["ownerReferences"] = json!([owner]);
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
    let query = format!("fieldManager={manager}{force}{}", write_query(dice));
    Action::Patch { media: APPLY, patch: object(dice, kind, name), query }
}

fn list_query(dice: &mut Rng, version: Reference) -> String {
    let queries = [
        "",
        "labelSelector=app%3Dx",
        "labelSelector=app",
        "labelSelector=%21tier",
        "fieldSelector=metadata.name%3Da",
        "limit=2",
        "limit=1",
        "limit=1&labelSelector=app%3Dx",
        "limit=2&labelSelector=app",
        "limit=1&fieldSelector=metadata.name%3Db",
        "limit=one",
        "labelSelector=app%20in%20(x,y)",
        "fieldSelector=spec.nowhere%3D1",
        "labelSelector=%3D%3D",
    ];
    let matching = match version {
        Reference::None => "",
        _ => pick(dice, &["", "&resourceVersionMatch=Exact", "&resourceVersionMatch=NotOlderThan"]),
    };
    format!("{}{matching}", pick(dice, &queries))
}
