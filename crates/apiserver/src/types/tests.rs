//! The table and its readers against Go's own answers.
//!
//! `testdata` is written by `xtask/kubetypes`: objects with every field set, as protobuf and as JSON, and JSON bodies with
//! what Go's decoder says about them or makes of them.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::protobuf::{ProtobufError, decode_protobuf};
use super::table::{kinds, structure};
use super::{Decoded, cannot_be_handled, check, find, forget_empty, normalize, shape};
use crate::shape::{Merge, Shape, Strategy as Patch};

fn protobuf_goldens() -> Vec<Value> {
    serde_json::from_str(include_str!("testdata/protobuf.json")).unwrap()
}

fn body(golden: &Value) -> Vec<u8> {
    STANDARD.decode(golden["protobuf"].as_str().unwrap()).unwrap()
}

fn type_of(object: &Value) -> super::TypeRef {
    find(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap()).unwrap()
}

#[test]
fn protobuf_bodies_of_all_kinds_become_the_json_that_go_writes() {
    for golden in protobuf_goldens() {
        let mut value = decode_protobuf(&body(&golden)).unwrap();
        normalize(type_of(&golden), &mut value);
        assert_eq!(value, golden["json"], "{}", golden["kind"]);
    }
}

#[test]
fn every_kind_but_the_custom_resource_definition_has_protobuf_goldens() {
    let name = |golden: &Value| format!("{} {}", golden["apiVersion"], golden["kind"]);
    let golden: BTreeSet<String> = protobuf_goldens().iter().map(name).collect();
    let mut known: BTreeSet<String> =
        kinds().map(|(version, kind)| format!("{version:?} {kind:?}")).collect();
    assert!(known.remove("\"apiextensions.k8s.io/v1\" \"CustomResourceDefinition\""));
    assert_eq!(golden, known);
}

#[test]
fn zeros_stay_behind_pointers_only() {
    let golden = protobuf_goldens().into_iter().filter(|golden| golden["kind"] == "Lease").nth(1).unwrap();
    let spec = &decode_protobuf(&body(&golden)).unwrap()["spec"];
    assert_eq!(spec["leaseDurationSeconds"], 0);
    assert_eq!(spec["holderIdentity"], "");
    let metadata = &decode_protobuf(&body(&golden)).unwrap()["metadata"];
    assert_eq!(*metadata, json!({"deletionGracePeriodSeconds": 0}));
}

#[test]
fn what_go_writes_passes_the_check_and_is_in_form_already() {
    for golden in protobuf_goldens() {
        let mut value = golden["json"].clone();
        let ty = type_of(&golden);
        assert_eq!(check(ty, &mut value), Decoded::default(), "{}", golden["kind"]);
        normalize(ty, &mut value);
        assert_eq!(value, golden["json"], "{}", golden["kind"]);
    }
}

#[test]
fn json_bodies_meet_the_fate_that_go_gives_them() {
    let goldens: Vec<Value> = serde_json::from_str(include_str!("testdata/json.json")).unwrap();
    for golden in goldens {
        let mut value = golden["input"].clone();
        let ty = type_of(&value);
        let found = check(ty, &mut value);
        assert_eq!(found.error.as_deref(), golden["error"].as_str(), "{}", golden["input"]);
        if found.error.is_none() {
            let unknown: BTreeSet<&str> = found.unknown.iter().map(String::as_str).collect();
            let expected = golden["unknown"].as_array().into_iter().flatten().filter_map(Value::as_str);
            assert_eq!(unknown, expected.collect(), "{}", golden["input"]);
            normalize(ty, &mut value);
            forget_empty(ty, &mut value);
            assert_eq!(value, golden["output"], "{}", golden["input"]);
        }
    }
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    let found = check(find("v1", "Service").unwrap(), &mut json!([]));
    assert_eq!(found.error.unwrap(), "json: cannot unmarshal array into Go value of type v1.Service");
}

#[test]
fn refusals_read_as_those_of_a_real_server() {
    let mut service = json!({"spec": {"a": 1, "b": 2}});
    let found = check(find("v1", "Service").unwrap(), &mut service);
    let told = found.complaints(&["spec.c".to_owned()]);
    assert_eq!(
        told,
        [r#"duplicate field "spec.c""#, r#"unknown field "spec.a""#, r#"unknown field "spec.b""#]
    );
    assert!(Decoded::default().complaints(&[]).is_empty());
    let refusal = cannot_be_handled("apps/v1", "Deployment", "json: oh no");
    assert_eq!(refusal, r#"Deployment in version "v1" cannot be handled as a Deployment: json: oh no"#);
}

#[test]
fn unknown_fields_are_counted_up_to_a_limit() {
    let mut value: Value = (0..200).map(|at| (format!("x{at}"), Value::Null)).collect();
    assert_eq!(check(find("v1", "Service").unwrap(), &mut value).unknown.len(), 100);
    assert_eq!(value, json!({}));
}

#[test]
fn the_field_of_the_load_balancer_features_is_known_without_a_number() {
    let mut service = json!({"spec": {"requiredLoadBalancerFeatures": ["a"]}});
    assert_eq!(check(find("v1", "Service").unwrap(), &mut service), Decoded::default());
    let shape = member(shape("v1", "Service").unwrap(), &["spec", "requiredLoadBalancerFeatures"]).0;
    assert_eq!(shape, Shape::Atomic);
}

#[test]
fn the_table_is_sorted_and_every_type_in_it_is_used() {
    let mut used = BTreeSet::new();
    let mut open: Vec<_> = kinds().map(|(version, kind)| find(version, kind).unwrap().0).collect();
    while let Some(next) = open.pop() {
        if used.insert(next.name) {
            assert!(next.fields.is_sorted_by(|a, b| a.name < b.name), "{}", next.name);
            open.extend(next.fields.iter().filter_map(|field| struct_below(&field.node)));
        }
    }
    let written = include_str!("table.txt").lines().filter(|line| line.starts_with("type ")).count();
    assert_eq!(used.len(), written);
}

fn struct_below(node: &'static super::table::Node) -> Option<&'static super::table::Struct> {
    use super::table::What;
    match &node.what {
        What::Struct(id) => Some(structure(*id)),
        What::List(inner) | What::Map(inner) | What::Pointer(inner) => struct_below(inner),
        _ => None,
    }
}

#[test]
fn delete_options_exist_in_every_group() {
    assert_eq!(find("apps/v1", "DeleteOptions").unwrap().0.go_name(), "DeleteOptions");
    assert!(find("apps/v1", "Service").is_none());
    assert!(find("example.com/v1", "Service").is_none());
}

/// The shape at a path of fields, and the strategy of the last of them.
fn member(root: Shape, path: &[&str]) -> (Shape, Option<Patch>) {
    path.iter().fold((root, None), |(shape, _), name| match shape {
        Shape::Record(record) => {
            let member = record.fields[*name].clone();
            (member.shape, member.strategy)
        }
        Shape::Keyed(keyed) => member(keyed.element.clone(), &[name]),
        other => panic!("no field {name} in {other:?}"),
    })
}

#[test]
fn shapes_say_how_parts_merge() {
    let service = |path: &[&str]| member(shape("v1", "Service").unwrap(), path);
    let by_key = |key: &str| Some(Patch { merge: Some(Merge::ByKey(key.to_owned())), retain_keys: false });
    let (ports, strategy) = service(&["spec", "ports"]);
    let Shape::Keyed(keyed) = ports else { panic!("ports are {ports:?}") };
    let keys = vec![("port".to_owned(), Some(json!(0))), ("protocol".to_owned(), Some(json!("TCP")))];
    assert_eq!(keyed.keys, keys);
    assert_eq!(strategy, by_key("port"));
    assert_eq!(service(&["spec", "ports", "targetPort"]), (Shape::Scalar, None));
    assert_eq!(service(&["spec", "selector"]).0, Shape::Atomic);
    assert_eq!(service(&["metadata", "labels"]).0, Shape::Map(Shape::Scalar.into()));
    let set = Some(Patch { merge: Some(Merge::Set), retain_keys: false });
    assert_eq!(service(&["metadata", "finalizers"]), (Shape::Set, set));
    assert_eq!(service(&["spec", "externalIPs"]), (Shape::Atomic, None));

    let deployment = |path: &[&str]| member(shape("apps/v1", "Deployment").unwrap(), path);
    let retain = Some(Patch { merge: None, retain_keys: true });
    assert_eq!(deployment(&["spec", "strategy"]).1, retain);
    assert_eq!(deployment(&["spec", "selector"]), (Shape::Atomic, None));
    let volumes = deployment(&["spec", "template", "spec", "volumes"]).1;
    assert_eq!(volumes, Some(Patch { retain_keys: true, ..by_key("name").unwrap() }));

    let budget = member(shape("policy/v1", "PodDisruptionBudget").unwrap(), &["spec", "selector"]);
    assert_eq!(budget.1, Some(Patch { merge: None, retain_keys: false }));
    let secrets = member(shape("v1", "ServiceAccount").unwrap(), &["secrets"]).0;
    assert!(matches!(secrets, Shape::Keyed(keyed) if keyed.keys == [("name".to_owned(), None)]));
}

#[test]
fn every_kind_has_a_shape_and_the_parts_are_shared() {
    for (version, kind) in kinds() {
        assert!(matches!(shape(version, kind), Some(Shape::Record(_))), "{version} {kind}");
    }
    let (one, other) = (shape("v1", "Pod").unwrap(), shape("v1", "Pod").unwrap());
    assert!(
        matches!((one, other), (Shape::Record(one), Shape::Record(other)) if std::sync::Arc::ptr_eq(&one, &other))
    );
}

#[test]
fn bodies_that_are_no_envelope_or_name_an_unknown_kind_are_refused() {
    assert_eq!(decode_protobuf(b"{}"), Err(ProtobufError::NoEnvelope));
    assert_eq!(decode_protobuf(b""), Err(ProtobufError::NoEnvelope));
    let body = b"k8s\0\x0a\x0a\x0a\x03a/b\x12\x03Foo";
    let unknown = ProtobufError::UnknownKind { api_version: "a/b".to_owned(), kind: "Foo".to_owned() };
    assert_eq!(decode_protobuf(body), Err(unknown));
    assert_eq!(decode_protobuf(&body[..12]), Err(ProtobufError::Truncated));
}

#[test]
fn fields_with_unknown_numbers_are_skipped_and_wrong_wire_types_refused() {
    let namespace = |message: &[u8]| {
        let mut body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12".to_vec();
        body.push(message.len() as u8);
        body.extend_from_slice(message);
        decode_protobuf(&body)
    };
    let empty = json!({"apiVersion": "v1", "kind": "Namespace"});
    assert_eq!(
        namespace(b"\x98\x06\x01\x9d\x06\x00\x00\x00\x00\x99\x06\x00\x00\x00\x00\x00\x00\x00\x00"),
        Ok(empty)
    );
    assert_eq!(namespace(b"\x08\x01"), Err(ProtobufError::Malformed("metadata")));
    assert_eq!(namespace(b"\x0b"), Err(ProtobufError::Malformed("a field")));
    assert_eq!(namespace(b"\x0a\x7f"), Err(ProtobufError::Truncated));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_protobuf(&bytes);
        let _ = decode_protobuf(&[b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x40", &bytes[..]].concat());
    }

    #[test]
    fn damaged_messages_never_panic_and_what_they_give_can_be_checked(
        which in any::<prop::sample::Index>(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let goldens = protobuf_goldens();
        let golden = which.get(&goldens);
        let mut bytes = body(golden);
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(mut value) = decode_protobuf(&bytes)
            && let Some(ty) = find(value["apiVersion"].as_str().unwrap(), value["kind"].as_str().unwrap())
        {
            check(ty, &mut value);
            normalize(ty, &mut value);
        }
    }

    #[test]
    fn normal_forms_stay_as_they_are(which in any::<prop::sample::Index>(), drop in any::<prop::sample::Index>()) {
        let goldens = protobuf_goldens();
        let golden = which.get(&goldens);
        let (ty, mut value) = (type_of(golden), golden["json"].clone());
        let object = value.as_object_mut().unwrap();
        let name = object.keys().nth(drop.index(object.len())).unwrap().clone();
        object.remove(&name);
        normalize(ty, &mut value);
        let once = value.clone();
        normalize(ty, &mut value);
        prop_assert_eq!(value, once);
    }
}
