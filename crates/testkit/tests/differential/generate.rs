//! Random operations on a few objects of a few kinds, so that they meet.

use std::fmt;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::NAMESPACES;
use crate::kinds::{KINDS, Kind, map, pick};

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
    /// Takes out what the status of a custom resource ignores. To send it changes nothing but the time of an owner, and whether
    /// that is another one depends on whether a second has passed.
    fn forget_what_is_ignored(&mut self) {
        let (Action::Update { content: sent, .. } | Action::Patch { patch: sent, .. }) = &mut self.action
        else {
            return;
        };
        let Some(sent) = sent.as_object_mut() else { return };
        sent.retain(|field, _| ["apiVersion", "kind", "metadata", "status"].contains(&field.as_str()));
        if let Some(metadata) = sent.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| field == "name");
        }
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
            operation.forget_what_is_ignored();
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
    let mut patch = object(dice, kind, name);
    if !kind.built_in {
        forget_empty_metadata(&mut patch);
    }
    Action::Patch { media: APPLY, patch, query }
}

/// Takes out empty labels and annotations. In etcd a custom resource keeps them as they were applied, nobody is ever shown them,
/// and the next write to it, were it an empty one, differs from what is stored and is a write.
fn forget_empty_metadata(applied: &mut Value) {
    if let Some(metadata) = applied["metadata"].as_object_mut() {
        metadata.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    }
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
