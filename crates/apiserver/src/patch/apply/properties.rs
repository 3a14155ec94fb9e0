//! What holds for all objects and all managers.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::compare::compare;
use super::fieldset::FieldSet;
use super::goldens::without_empty;
use super::owned::{fields_of, ownable};
use super::plan::Plan;
use super::*;
use crate::patch::schema;
use crate::shape::Shape;

fn widget() -> Shape {
    schema::shape(&serde_json::from_str(include_str!("../testdata/widget.json")).unwrap())
}

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map("[ab]", "[12]", 0..3)
}

type Item = (Option<String>, Option<BTreeMap<String, String>>, bool);

fn items() -> impl Strategy<Value = Vec<Value>> {
    let item = (prop::option::of("[xy]"), prop::option::of(texts()), prop::bool::ANY);
    prop::collection::btree_map(1..4, item, 0..4).prop_map(|items| {
        let item = |(port, (name, opts, udp)): (i32, Item)| {
            let mut item = json!({"port": port});
            if let Some(name) = name {
                item["name"] = json!(name);
            }
            if let Some(opts) = opts {
                item["opts"] = json!(opts);
            }
            if udp {
                item["protocol"] = json!("UDP");
            }
            item
        };
        items.into_iter().map(item).collect()
    })
}

fn free() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(1)), Just(json!([1, {"x": 2}])), Just(json!("text")), Just(json!({}))];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop::collection::btree_map("[pqr]", inner, 0..3).prop_map(|fields| json!(fields))
    })
}

prop_compose! {
    fn object()(
        labels in prop::option::of(texts()),
        tags in prop::option::of(prop::collection::btree_set("[a-d]", 0..4)),
        items in prop::option::of(items()),
        nested in prop::option::of(prop::collection::btree_map("[nm]", texts(), 0..3)),
        free in prop::option::of(prop::collection::btree_map("[uv]", free(), 0..3)),
        replicas in prop::option::of(1..3),
    ) -> Value {
        let mut metadata = json!({"name": "x", "uid": "1"});
        if let Some(labels) = labels {
            metadata["labels"] = json!(labels);
        }
        let mut spec = serde_json::Map::new();
        let mut set = |name: &str, value: Option<Value>| value.map(|value| spec.insert(name.to_owned(), value));
        set("tags", tags.map(|value| json!(value)));
        set("items", items.map(|value| json!(value)));
        set("nested", nested.map(|value| json!(value)));
        set("free", free.map(|value| json!(value)));
        set("replicas", replicas.map(|value| json!(value)));
        json!({"apiVersion": "e.io/v1", "kind": "Widget", "metadata": metadata, "spec": spec})
    }
}

fn sets() -> impl Strategy<Value = FieldSet> {
    object().prop_map(|object| fields_of(&object, &widget()))
}

fn who<'a>(manager: &'a str, now: &'a str) -> Writer<'a> {
    Writer { manager, api_version: "e.io/v1", subresource: None, ignored: &[], now }
}

fn applied(live: Option<&Value>, object: &Value, who: &Writer<'_>) -> Value {
    let Plan { mut object, pending } = plan(live, object, &widget(), who, true).unwrap();
    pending.finish(&mut object, who);
    object
}

/// The object without what a typed server does not keep.
fn settled(mut object: Value) -> Value {
    let kept = without_empty(&json!({"spec": object["spec"], "labels": object["metadata"]["labels"]}));
    object["spec"] = kept["spec"].clone();
    object["metadata"]["labels"] = kept["labels"].clone();
    object
}

fn set_of(object: &Value, manager: &str) -> FieldSet {
    let entries = entries::of(object).map(|fields| entries::decode(fields).unwrap()).unwrap_or_default();
    entries.into_iter().find(|entry| entry.manager == manager).map(|entry| entry.fields).unwrap_or_default()
}

proptest! {
    #[test]
    fn sets_survive_the_wire(set in sets()) {
        prop_assert_eq!(FieldSet::decode(&set.encode()), Ok(set));
    }

    #[test]
    fn sets_obey_the_laws_of_sets(a in sets(), b in sets(), c in sets()) {
        let union = a.clone().union(b.clone());
        prop_assert_eq!(&union, &b.clone().union(a.clone()));
        prop_assert_eq!(&union.clone().union(c.clone()), &a.clone().union(b.clone().union(c)));
        prop_assert_eq!(a.clone().difference(&b).union(a.intersection(&b)), a.clone());
        prop_assert!(a.clone().difference(&a).is_empty());
        prop_assert!(a.clone().difference(&b).intersection(&b).is_empty());
        prop_assert!(a.is_subset(&union) && a.intersection(&b).is_subset(&b));
        prop_assert!(a.paths().iter().all(|path| union.contains(path)));
        prop_assert_eq!(a.is_subset(&b), a.difference(&b).is_empty());
    }

    #[test]
    fn an_object_differs_from_nothing_but_others(a in object(), b in object()) {
        prop_assert!(compare(&a, &a, &widget()).is_empty());
        let (there, back) = (compare(&a, &b, &widget()), compare(&b, &a, &widget()));
        prop_assert_eq!(there.changed, back.changed);
        prop_assert_eq!(there.added, back.removed);
    }

    #[test]
    fn applying_twice_changes_nothing(before in object(), a in object(), b in object()) {
        let mut live = before;
        update(None, &mut live, &widget(), &who("u", "t0"));
        let first = applied(Some(&live), &a, &who("a", "t1"));
        let second = settled(applied(Some(&first), &b, &who("a", "t2")));
        let third = settled(applied(Some(&second), &b, &who("a", "t3")));
        prop_assert_eq!(set_of(&second, "a"), set_of(&third, "a"));
        prop_assert_eq!(&second["spec"], &third["spec"]);
        prop_assert_eq!(&second["metadata"]["labels"], &third["metadata"]["labels"]);
    }

    #[test]
    fn what_is_applied_is_there_and_owned(before in object(), object in object()) {
        let mut live = before;
        update(None, &mut live, &widget(), &who("u", "t0"));
        let after = applied(Some(&live), &object, &who("a", "t1"));
        prop_assert_eq!(set_of(&after, "a"), ownable(fields_of(&object, &widget())));
        let merged = combine::combine(&after, &object, &widget());
        prop_assert!(compare(&after, &merged, &widget()).is_empty());
    }

    #[test]
    fn disjoint_appliers_own_their_own(object in object(), x in "[12]") {
        let other = json!({"apiVersion": "e.io/v1", "kind": "Widget", "spec": {"sub": {"x": x}, "list": [x]}});
        let first = applied(None, &object, &who("a", "t1"));
        prop_assume!(entries::of(&first).is_some());
        let both = plan(Some(&first), &other, &widget(), &who("b", "t2"), false);
        prop_assert!(both.is_ok(), "no conflict");
        let both = applied(Some(&first), &other, &who("b", "t2"));
        prop_assert_eq!(set_of(&both, "a"), set_of(&first, "a"));
        prop_assert_eq!(set_of(&both, "b"), ownable(fields_of(&other, &widget())));
        let again = applied(Some(&both), &object, &who("a", "t3"));
        prop_assert_eq!(again, both);
    }

    #[test]
    fn whoever_applies_nothing_leaves_nothing(object in object()) {
        let empty = json!({"apiVersion": "e.io/v1", "kind": "Widget", "metadata": {"name": "x"}});
        let before = applied(None, &object, &who("a", "t1"));
        // An empty list has no owner.
        let is_owned = |fields: &Value| fields.as_object().is_some_and(|fields| fields.values().all(|v| *v != json!([])));
        prop_assume!(is_owned(&object["spec"]) && object["spec"] != json!({}));
        let after = applied(Some(&before), &empty, &who("a", "t2"));
        prop_assert!(entries::of(&after).is_none());
        prop_assert!(after.get("spec").is_none() && after["metadata"].get("labels").is_none());
    }

    #[test]
    fn no_field_that_an_update_changes_has_two_owners(a in object(), b in object(), c in object()) {
        let before = applied(None, &a, &who("a", "t1"));
        prop_assume!(entries::of(&before).is_some());
        let mut new = b;
        update(Some(&before), &mut new, &widget(), &who("u", "t2"));
        let change = compare(&before, &new, &widget());
        let written = change.changed.union(change.added);
        prop_assert!(written.is_subset(&set_of(&new, "u")));
        prop_assert!(set_of(&new, "a").intersection(&written.union(change.removed)).is_empty());
        let mut last = c;
        update(Some(&new), &mut last, &widget(), &who("v", "t3"));
        let mut same = last.clone();
        update(Some(&last), &mut same, &widget(), &who("w", "t4"));
        prop_assert_eq!(same, last);
    }
}
