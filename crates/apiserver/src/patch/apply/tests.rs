//! Behaviour that the goldens do not show: times, resets, subresources, limits, and where we differ.

use serde_json::{Value, json};

use super::compare::compare;
use super::fieldset::{self, FieldSet};
use super::owned::{fields_of, ownable};
use super::plan::Plan;
use super::*;
use crate::patch::{fixtures, object_meta};
use crate::shape::Shape;

fn who<'a>(manager: &'a str, now: &'a str) -> Writer<'a> {
    Writer { manager, api_version: "v1", subresource: None, ignored: &[], now }
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "1"}, "data": data})
}

fn shape() -> Shape {
    fixtures::shape("ConfigMap")
}

fn applied(live: Option<&Value>, object: &Value, who: &Writer<'_>, force: bool) -> Value {
    let Plan { mut object, pending } = plan(live, object, &shape(), who, force).unwrap();
    pending.finish(&mut object, who);
    object
}

fn updated(live: Option<&Value>, mut object: Value, who: &Writer<'_>) -> Value {
    update(live, &mut object, &shape(), who);
    object
}

/// Manager, time and subresource of every entry.
fn summary(object: &Value) -> Vec<(&str, &str, &str)> {
    let fields = entries::of(object).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    fields
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or("");
            (text("manager"), text("time"), text("subresource"))
        })
        .collect()
}

#[test]
fn times_change_only_with_what_they_are_about() {
    let first = applied(None, &config_map(json!({"a": "1"})), &who("a", "t1"), false);
    let again = applied(Some(&first), &config_map(json!({"a": "1"})), &who("a", "t2"), false);
    assert_eq!(again, first, "an apply that changes nothing leaves no trace");
    let shared = applied(Some(&first), &config_map(json!({"a": "1"})), &who("b", "t3"), false);
    assert_eq!(summary(&shared), [("b", "", ""), ("a", "t1", "")], "a claim to what is there has no time");
    let changed = updated(Some(&shared), config_map(json!({"a": "1", "b": "1"})), &who("u", "t4"));
    assert_eq!(summary(&changed), [("b", "", ""), ("a", "t1", ""), ("u", "t4", "")]);
    let same = updated(Some(&changed), config_map(json!({"a": "1", "b": "1"})), &who("u", "t5"));
    assert_eq!(same, changed, "an update that changes nothing leaves no trace");
    let rewritten = updated(Some(&changed), config_map(json!({"a": "1", "b": "2"})), &who("u", "t6"));
    assert_eq!(summary(&rewritten)[2], ("u", "t6", ""));
}

#[test]
fn clients_can_reset_or_replace_the_entries_but_not_forget_them() {
    let live = updated(None, config_map(json!({"a": "1"})), &who("u", "t1"));
    let sent = |fields: Value| {
        let mut object = config_map(json!({"a": "2"}));
        object["metadata"]["managedFields"] = fields;
        updated(Some(&live), object, &who("v", "t2"))
    };
    for reset in [json!([]), json!([{}])] {
        let bare = sent(reset);
        assert!(entries::of(&bare).is_none());
        let later = updated(Some(&bare), config_map(json!({"a": "3"})), &who("v", "t3"));
        assert!(entries::of(&later).is_none(), "nothing is tracked until somebody applies");
        let tracked = applied(Some(&later), &config_map(json!({"b": "1"})), &who("a", "t4"), false);
        assert_eq!(summary(&tracked), [("a", "t4", ""), ("before-first-apply", "t4", "")]);
    }
    for kept in [json!(null), json!([{"manager": "x"}]), json!("nonsense")] {
        assert_eq!(summary(&sent(kept)), [("u", "t1", ""), ("v", "t2", "")]);
    }
    let entry = json!({
        "manager": "w", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "t0",
        "fieldsV1": {"f:data": {"f:z": {}}},
    });
    assert_eq!(summary(&sent(json!([entry]))), [("w", "t0", ""), ("v", "t2", "")]);
}

#[test]
fn subresources_have_entries_of_their_own() {
    let status = Writer { subresource: Some("status"), ..who("u", "t2") };
    let live = updated(None, config_map(json!({"a": "1"})), &who("u", "t1"));
    let mut reset = config_map(json!({"a": "1", "b": "1"}));
    reset["metadata"]["managedFields"] = json!([]);
    let live = updated(Some(&live), reset, &status);
    assert_eq!(summary(&live), [("u", "t1", ""), ("u", "t2", "status")], "a subresource cannot reset");
    let conflict = plan(Some(&live), &config_map(json!({"b": "2"})), &shape(), &who("a", "t3"), false);
    let Err(conflicts) = conflict else { panic!("{conflict:?}") };
    let expected =
        r#"Apply failed with 1 conflict: conflict with "u" with subresource "status" using v1: .data.b"#;
    assert_eq!(message(&conflicts), expected);
    let cause = json!({
        "reason": "FieldManagerConflict", "field": ".data.b",
        "message": r#"conflict with "u" with subresource "status" using v1"#,
    });
    assert_eq!(causes(&conflicts), [cause]);
}

#[test]
fn what_defaulting_changes_stays_with_its_owner() {
    let live = updated(None, config_map(json!({"a": "1", "b": "1"})), &who("u", "t1"));
    let who = who("a", "t2");
    let Plan { mut object, pending } =
        plan(Some(&live), &config_map(json!({"c": "1"})), &shape(), &who, false).unwrap();
    assert!(entries::of(&object).is_none());
    object["data"]["default"] = json!("x");
    object["data"]["b"] = json!("admitted");
    pending.finish(&mut object, &who);
    let fields: Vec<_> =
        entries::of(&object).unwrap().as_array().unwrap().iter().map(|e| &e["fieldsV1"]).collect();
    assert_eq!(
        fields,
        [&json!({"f:data": {"f:c": {}}}), &json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}})]
    );
}

#[test]
fn a_default_that_comes_back_is_no_change() {
    let shape = shape();
    let who = who("a", "t1");
    let finish = |live: Option<&Value>, data: Value, now| {
        let who = Writer { now, ..who };
        let Plan { mut object, pending } = plan(live, &config_map(data), &shape, &who, false).unwrap();
        object["data"]["d"] = json!("default");
        pending.finish(&mut object, &who);
        object
    };
    let first = finish(None, json!({"a": "1"}), "t1");
    assert_eq!(finish(Some(&first), json!({"a": "1"}), "t2"), first);
}

#[test]
fn a_container_that_somebody_owns_becomes_null_with_its_last_field() {
    let live = updated(None, config_map(json!({})), &who("u", "t1"));
    let live = applied(Some(&live), &config_map(json!({"a": "1"})), &who("a", "t2"), false);
    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let live = applied(Some(&live), &bare, &who("a", "t3"), false);
    assert_eq!((&live["data"], summary(&live)), (&Value::Null, vec![("u", "t1", "")]));
    let live = applied(None, &config_map(json!({"a": "1"})), &who("a", "t1"), false);
    let live = applied(Some(&live), &config_map(json!({})), &who("a", "t2"), false);
    assert_eq!(live["data"], Value::Null, "even one that is applied empty");
    let live = applied(None, &config_map(json!({"a": "1"})), &who("a", "t1"), false);
    let live = applied(Some(&live), &bare, &who("a", "t2"), false);
    assert!(live.get("data").is_none() && entries::of(&live).is_none(), "what nobody owns goes");
}

#[test]
fn old_updates_are_merged() {
    let mut live = updated(None, config_map(json!({"k00": "1"})), &who("m00", "t00"));
    for number in 1..14 {
        let mut data = live["data"].clone();
        data[format!("k{number:02}")] = json!("1");
        let (manager, now) = (format!("m{number:02}"), format!("t{number:02}"));
        live = updated(Some(&live), config_map(data), &who(&manager, &now));
    }
    let entries = summary(&live);
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[0], ("ancient-changes", "t04", ""));
    assert_eq!(entries[9], ("m13", "t13", ""));
    let ancient = entries::decode(entries::of(&live).unwrap()).unwrap().remove(0);
    assert!((0..5).all(|number| ancient.fields.contains(&["f:data".to_owned(), format!("f:k{number:02}")])));
}

#[test]
fn identity_and_what_the_server_keeps_are_nobodys() {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "x", "namespace": "y", "uid": "1", "resourceVersion": "1", "generation": 1, "selfLink": "/",
            "creationTimestamp": "t", "managedFields": [],
            "generateName": "x-", "labels": {"a": "1"},
        },
    });
    let expected = json!({"f:metadata": {"f:generateName": {}, "f:labels": {"f:a": {}}}});
    assert_eq!(ownable(fields_of(&object, &shape())).encode(), expected);
    let change = compare(&json!({}), &object, &shape());
    let expected = json!({"f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:a": {}}}});
    assert_eq!(change.added.encode(), expected);
}

#[test]
fn elements_need_an_identity_of_their_own_to_be_applied() {
    let shape = fixtures::shape("Deployment");
    let applied = |containers: Value| {
        let object = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        check(&object, &shape).unwrap_err().to_string()
    };
    let place = ".spec.template.spec.containers";
    assert_eq!(
        applied(json!([{"name": "a"}, {"name": "a"}])),
        format!("{place}: duplicate entries for key [name=\"a\"]")
    );
    assert!(
        applied(json!([{"image": "a"}]))
            .starts_with(&format!("{place}: element 0: associative list with keys"))
    );
    assert!(applied(json!(["a"])).contains("may not have non-map elements"));
    assert_eq!(
        applied(json!([{"name": "a", "zz": 1}])),
        format!("{place}[name=\"a\"].zz: field not declared in schema")
    );
}

#[test]
fn a_list_without_identities_is_compared_as_a_whole() {
    let shape = fixtures::shape("Deployment");
    let object = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let (old, new) = (object(json!([{"name": "a"}])), object(json!([{"image": "b"}])));
    let expected = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {}}}}});
    assert_eq!(compare(&old, &new, &shape).changed.encode(), expected);
}

#[test]
fn sets_are_read_leniently_and_written_in_one_form() {
    let sloppy = json!({
        "f:spec": {".": {}, "f:ports": {"k:{\"protocol\": \"TCP\", \"port\": 80}": {".": {}, "f:name": {}}}},
        "f:metadata": {"f:finalizers": {"v:\"a\"": {}, "i:0": {}}},
        "z:future": {},
        ".": {},
    });
    let set = FieldSet::decode(&sloppy).unwrap();
    let shown: Vec<_> = set.paths().iter().map(|path| fieldset::shown(path)).collect();
    let expected = [
        ".spec",
        ".metadata.finalizers[0]",
        r#".metadata.finalizers[="a"]"#,
        r#".spec.ports[port=80,protocol="TCP"]"#,
        r#".spec.ports[port=80,protocol="TCP"].name"#,
    ];
    assert_eq!(shown, expected);
    let port = r#"k:{"port":80,"protocol":"TCP"}"#;
    assert!(set.contains(&["f:spec", "f:ports", port, "f:name"]));
    assert_eq!(set.encode()["f:spec"]["f:ports"][port], json!({".": {}, "f:name": {}}));
    for broken in [
        json!(1),
        json!({"x": {}}),
        json!({"k:1": {}}),
        json!({"v:": {}}),
        json!({"i:x": {}}),
        json!({"f:a": 1}),
    ] {
        assert!(FieldSet::decode(&broken).is_err(), "{broken}");
    }
}

#[test]
fn unknown_kinds_have_granular_maps_and_atomic_lists() {
    let object = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"list": [{"x": 1}], "map": {"k": {}}}});
    let expected = json!({
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {".": {}, "f:list": {}, "f:map": {".": {}, "f:k": {}}},
    });
    assert_eq!(fields_of(&object, &object_meta::untyped_object()).encode(), expected);
}
