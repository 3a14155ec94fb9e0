//! Strategic merge patch against the outcomes of the reference implementation.
//!
//! `testdata/strategic.json` holds cases that were run through the Go package a real API server uses (v0.37).

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::patch::fixtures::shape;

#[test]
fn patches_have_the_outcome_of_a_real_server() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../testdata/strategic.json")).unwrap();
    assert!(cases.len() > 50);
    for case in &cases {
        let outcome = apply(&case["original"], &case["patch"], &shape(case["kind"].as_str().unwrap()));
        let name = &case["name"];
        match (outcome, case.get("result")) {
            (Ok(result), Some(expected)) => assert_eq!(&result, expected, "{name}"),
            (Err(error), None) => assert_eq!(error.to_string(), case["error"].as_str().unwrap(), "{name}"),
            (outcome, _) => panic!("{name}: {outcome:?}, but expected {case}"),
        }
    }
}

#[test]
fn directives_never_reach_the_object() {
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "a"}],
        "containers": [{"name": "a", "$setElementOrder/env": [{"name": "X"}], "env": [{"name": "X", "value": null}]}],
        "volumes": [{"name": "v", "$retainKeys": ["name"]}, {"name": "w", "$patch": "delete"}],
    }});
    let expected =
        json!({"spec": {"containers": [{"name": "a", "env": [{"name": "X"}]}], "volumes": [{"name": "v"}]}});
    assert_eq!(apply(&json!({}), &patch, &shape("Pod")), Ok(expected));
}

#[test]
fn malformed_directives_are_told_from_what_does_not_fit() {
    let pod = json!({"metadata": {"finalizers": ["a"]}, "spec": {"containers": [{"name": "a"}]}});
    for patch in [
        json!([]),
        json!({"spec": {"$retainKeys": 1}}),
        json!({"spec": {"$setElementOrder/containers": {}}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}),
    ] {
        assert!(matches!(apply(&pod, &patch, &shape("Pod")), Err(Error::Malformed(_))), "{patch}");
    }
    for patch in [json!({"spec": {"containers": ["x"]}}), json!({"spec": {"$patch": "x"}})] {
        assert!(matches!(apply(&pod, &patch, &shape("Pod")), Err(Error::Unusable(_))), "{patch}");
    }
}

fn names() -> impl Strategy<Value = Vec<String>> {
    prop::sample::subsequence(vec!["a", "b", "c", "d", "e"], 0..=5)
        .prop_shuffle()
        .prop_map(|names| names.into_iter().map(str::to_owned).collect())
}

fn containers(names: &[String]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

proptest! {
    /// What `kubectl apply` counts on: afterwards the named elements stand in the order it asked for.
    #[test]
    fn named_elements_end_up_in_the_given_order(live in names(), patch in names()) {
        let target = json!({"spec": {"containers": containers(&live)}});
        let sent = json!({"spec": {"$setElementOrder/containers": containers(&patch), "containers": containers(&patch)}});
        let result = apply(&target, &sent, &shape("Pod")).unwrap();
        let items = result["spec"]["containers"].as_array().unwrap();
        let found: Vec<String> = items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect();
        let named: Vec<_> = found.iter().filter(|name| patch.contains(name)).cloned().collect();
        let others: Vec<_> = found.iter().filter(|name| !patch.contains(name)).collect();
        let expected: Vec<_> = live.iter().filter(|name| !patch.contains(name)).collect();
        prop_assert_eq!(named, patch);
        prop_assert_eq!(others, expected);
    }
}
