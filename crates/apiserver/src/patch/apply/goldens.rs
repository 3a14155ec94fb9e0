//! Server-side apply against the outcomes of the reference implementation.
//!
//! `testdata/managed.json` holds sequences of writes that were run through the Go packages a real API server uses (v0.37),
//! with the object and its `managedFields` after every step. The random ones among them never leave a container empty by
//! pruning: there we differ, see `a_container_goes_with_its_last_field` in the other tests.

use serde_json::{Value, json};

use super::plan::Plan;
use super::*;
use crate::patch::{fixtures, schema};
use crate::shape::Shape;

fn shape_of(case: &Value) -> Shape {
    match case.get("schema") {
        Some(_) => schema::shape(&serde_json::from_str(include_str!("../testdata/widget.json")).unwrap()),
        None => fixtures::shape(case["kind"].as_str().unwrap()),
    }
}

/// The object without `managedFields`, and those without times.
fn split(object: &Value) -> (Value, Value) {
    let mut object = object.clone();
    let fields = entries::take(&mut object).unwrap_or_else(|| json!([]));
    let bare = fields.as_array().unwrap().iter().map(|entry| {
        json!({
            "manager": entry["manager"], "operation": entry["operation"],
            "apiVersion": entry["apiVersion"], "fieldsV1": entry["fieldsV1"],
        })
    });
    (object, bare.collect())
}

/// Typed kinds have no empty containers once they are stored.
pub(super) fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), without_empty(value)));
            let empty = [json!({}), json!([]), Value::Null];
            fields.filter(|(_, value)| !empty.contains(value)).collect()
        }
        Value::Array(items) => items.iter().map(without_empty).collect(),
        scalar => scalar.clone(),
    }
}

fn run(live: Option<&Value>, step: &Value, shape: &Shape, who: &Writer<'_>) -> Result<Value, String> {
    let object = &step["object"];
    if step["op"] == "update" {
        let mut new = object.clone();
        update(live, &mut new, shape, who);
        return Ok(new);
    }
    super::check(object, shape).map_err(|error| {
        let api_version = who.api_version;
        format!("failed to create typed patch object (ns/x; /{api_version}, Kind=Service): {error}")
    })?;
    let Plan { mut object, pending } =
        plan(live, object, shape, who, step["force"] == true).map_err(|conflicts| message(&conflicts))?;
    // A null in an object is gone once that is decoded.
    crate::object::drop_nulls(&mut object);
    pending.finish(&mut object, who);
    Ok(object)
}

fn check(case: &Value) {
    let shape = shape_of(case);
    let api_version = case["apiVersion"].as_str().unwrap();
    let mut live: Option<Value> = None;
    for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        let place = format!("{} step {number}", case["name"]);
        let now = format!("2026-01-01T00:00:{number:02}Z");
        let who = Writer {
            manager: step["manager"].as_str().unwrap(),
            api_version,
            subresource: None,
            ignored: &[],
            now: &now,
        };
        match run(live.as_ref(), step, &shape, &who) {
            Err(error) => assert_eq!(json!(error), step["error"], "{place}"),
            Ok(object) => {
                assert!(step.get("error").is_none(), "{place}: {} was expected", step["error"]);
                let (bare, mut fields) = split(&object);
                let mut expected = step["managedFields"].clone();
                assert_eq!(without_empty(&bare), without_empty(&step["live"]), "{place}");
                // The reference run took no time, so that its order says nothing.
                for list in [&mut fields, &mut expected] {
                    list.as_array_mut().unwrap().sort_by_key(Value::to_string);
                }
                assert_eq!(fields, expected, "{place}");
                live = Some(object);
            }
        }
    }
}

#[test]
fn writes_have_the_outcome_of_a_real_server() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../testdata/managed.json")).unwrap();
    assert!(cases.len() >= 75);
    cases.iter().for_each(check);
}
