//! JSON Patch (RFC 6902) with the limits and leniencies of a Kubernetes API server.
//!
//! The operations themselves come from the `json-patch` crate. Around them: at most [`MOST_OPERATIONS`], a budget for what
//! `copy` may add (a handful of them double a document each time), a bound on nesting, and two leniencies about members
//! that are absent: a `test` for `null` succeeds, which controllers rely on when they add the first finalizer, and a
//! `replace` adds them.

use json_patch::jsonptr::Pointer;
use json_patch::{AddOperation, PatchOperation, ReplaceOperation, TestOperation, patch_unsafe};
use serde_json::Value;

/// More operations than this in one patch are refused.
pub(crate) const MOST_OPERATIONS: usize = 10_000;
/// What all `copy` operations of a patch may add together, in bytes of JSON.
const MOST_COPIED: usize = 3 * 1024 * 1024;
/// What all `move` operations may carry together: they add nothing, but each is measured.
const MOST_MOVED: usize = 64 * 1024 * 1024;
/// How deep the result may be nested, as the HTTP layer bounds what comes in.
const DEEPEST: usize = 128;

/// Why a patch was not applied.
#[derive(Debug, thiserror::Error, PartialEq)]
pub(crate) enum Error {
    /// Not a list of operations: 400.
    #[error("{0}")]
    Decode(String),
    /// Too many operations: 413.
    #[error("The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {0}")]
    TooMany(usize),
    /// An operation does not fit the object: 422, with this text on the wire and the operation's own for the log.
    #[error("the server rejected our request due to an error in our request")]
    Apply(String),
}

/// Applies `patch` to `target` and returns the result.
pub(crate) fn apply(target: &Value, patch: &Value) -> Result<Value, Error> {
    let operations = listed(patch)?;
    let mut document = target.clone();
    let mut budget = Budget { copied: 0, moved: 0 };
    for raw in operations {
        let operation = decode(raw)?;
        budget.admit(&document, &operation)?;
        perform(&mut document, operation)?;
    }
    Ok(document)
}

fn listed(patch: &Value) -> Result<&[Value], Error> {
    let Value::Array(operations) = patch else {
        return Err(Error::Decode("a JSON patch is a list of operations".to_owned()));
    };
    if operations.len() > MOST_OPERATIONS {
        return Err(Error::TooMany(operations.len()));
    }
    match operations.iter().find(|operation| !operation.is_object()) {
        Some(other) => Err(Error::Decode(format!("a JSON patch operation is an object, not {other}"))),
        None => Ok(operations),
    }
}

/// An unknown or incomplete operation is found while applying, as on a real server.
fn decode(raw: &Value) -> Result<PatchOperation, Error> {
    let mut raw = raw.clone();
    if let Value::Object(members) = &mut raw
        && matches!(members.get("op").and_then(Value::as_str), Some("add" | "replace" | "test"))
    {
        members.entry("value").or_insert(Value::Null);
    }
    serde_json::from_value(raw).map_err(|error| Error::Apply(error.to_string()))
}

fn perform(document: &mut Value, mut operation: PatchOperation) -> Result<(), Error> {
    if let PatchOperation::Test(test) = &operation
        && tests_absence(document, test)
    {
        return Ok(());
    }
    if let PatchOperation::Replace(ReplaceOperation { path, value }) = &mut operation
        && is_absent(document, path)
    {
        let (path, value) = (path.clone(), value.take());
        operation = PatchOperation::Add(AddOperation { path, value });
    }
    patch_unsafe(document, &[operation]).map_err(|error| Error::Apply(error.to_string()))
}

/// Whether the operation tests for `null` where the parent exists and the member does not.
fn tests_absence(document: &Value, test: &TestOperation) -> bool {
    test.value.is_null() && is_absent(document, &test.path)
}

/// Whether the parent is an object that has no such member.
fn is_absent(document: &Value, path: &Pointer) -> bool {
    let Some((parent, member)) = path.split_back() else { return false };
    matches!(document.pointer(parent.as_str()), Some(Value::Object(fields))
        if !fields.contains_key(member.decoded().as_ref()))
}

struct Budget {
    copied: usize,
    moved: usize,
}

impl Budget {
    fn admit(&mut self, document: &Value, operation: &PatchOperation) -> Result<(), Error> {
        let depth = match operation {
            PatchOperation::Add(add) => place(&add.path) + measure(&add.value).depth,
            PatchOperation::Replace(replace) => place(&replace.path) + measure(&replace.value).depth,
            PatchOperation::Copy(copy) => {
                let source = document.pointer(copy.from.as_str()).map(measure).unwrap_or_default();
                self.copied += source.bytes;
                place(&copy.path) + source.depth
            }
            PatchOperation::Move(step) => {
                let source = document.pointer(step.from.as_str()).map(measure).unwrap_or_default();
                self.moved += source.bytes;
                place(&step.path) + source.depth
            }
            PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
        };
        if self.copied > MOST_COPIED || self.moved > MOST_MOVED {
            return Err(Error::Apply("the patch copies or moves too much".to_owned()));
        }
        if depth > DEEPEST {
            return Err(Error::Apply("the patch nests the object too deeply".to_owned()));
        }
        Ok(())
    }
}

fn place(path: &Pointer) -> usize {
    path.tokens().count()
}

#[derive(Default)]
struct Measure {
    bytes: usize,
    depth: usize,
}

/// The approximate size as JSON and the nesting of a value.
fn measure(value: &Value) -> Measure {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Measure { bytes: 8, depth: 0 },
        Value::String(text) => Measure { bytes: text.len() + 2, depth: 0 },
        Value::Array(items) => around(items.iter().map(measure)),
        Value::Object(fields) => around(fields.iter().map(|(name, value)| {
            let inner = measure(value);
            Measure { bytes: inner.bytes + name.len() + 3, depth: inner.depth }
        })),
    }
}

fn around(parts: impl Iterator<Item = Measure>) -> Measure {
    parts.fold(Measure { bytes: 2, depth: 1 }, |whole, part| Measure {
        bytes: whole.bytes + part.bytes + 1,
        depth: whole.depth.max(part.depth + 1),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_change_the_object() {
        let object = json!({"a": {"b": [1, 2]}, "c": "x"});
        let cases = [
            (json!([]), object.clone()),
            (json!([{"op": "add", "path": "/a/b/-", "value": 3}]), json!({"a": {"b": [1, 2, 3]}, "c": "x"})),
            (json!([{"op": "remove", "path": "/a"}]), json!({"c": "x"})),
            (json!([{"op": "replace", "path": "/c", "value": null}]), json!({"a": {"b": [1, 2]}, "c": null})),
            (
                json!([{"op": "replace", "path": "/a/d", "value": 1}]),
                json!({"a": {"b": [1, 2], "d": 1}, "c": "x"}),
            ),
            (json!([{"op": "move", "from": "/c", "path": "/d"}]), json!({"a": {"b": [1, 2]}, "d": "x"})),
            (
                json!([{"op": "copy", "from": "/c", "path": "/a/d"}]),
                json!({"a": {"b": [1, 2], "d": "x"}, "c": "x"}),
            ),
            (json!([{"op": "test", "path": "/c", "value": "x"}]), object.clone()),
        ];
        for (patch, expected) in cases {
            assert_eq!(apply(&object, &patch), Ok(expected), "after {patch}");
        }
    }

    #[test]
    fn a_test_for_null_passes_where_the_member_is_absent() {
        let object = json!({"metadata": {"name": "x"}});
        let first_finalizer = json!([
            {"op": "test", "path": "/metadata/finalizers", "value": null},
            {"op": "add", "path": "/metadata/finalizers", "value": ["a/b"]},
        ]);
        let expected = json!({"metadata": {"name": "x", "finalizers": ["a/b"]}});
        assert_eq!(apply(&object, &first_finalizer), Ok(expected));
        for (path, value) in
            [("/metadata/name", json!(null)), ("/spec/finalizers", json!(null)), ("/m", json!(1))]
        {
            let patch = json!([{"op": "test", "path": path, "value": value}]);
            assert!(matches!(apply(&object, &patch), Err(Error::Apply(_))), "{patch}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_from_what_cannot_be_applied() {
        let object = json!({"a": 1});
        assert!(matches!(apply(&object, &json!({"op": "add"})), Err(Error::Decode(_))));
        assert!(matches!(apply(&object, &json!(["x"])), Err(Error::Decode(_))));
        for operation in [
            json!({"op": "bogus", "path": "/a"}),
            json!({"op": "remove", "path": "/b"}),
            json!({"op": "remove"}),
            json!({"op": "test", "path": "/a", "value": 2}),
            json!({"op": "replace", "path": "/b/c", "value": 2}),
            json!({"op": "add", "path": "/b/c", "value": 2}),
        ] {
            let error = apply(&object, &json!([operation])).unwrap_err();
            assert_eq!(error.to_string(), "the server rejected our request due to an error in our request");
        }
        let many = Value::Array(vec![json!({"op": "test", "path": "/a", "value": 1}); MOST_OPERATIONS + 1]);
        assert_eq!(apply(&object, &many), Err(Error::TooMany(MOST_OPERATIONS + 1)));
    }

    #[test]
    fn copies_cannot_blow_the_object_up() {
        let doubling = Value::Array(
            (0..64).map(|step| json!({"op": "copy", "from": "/a", "path": format!("/a/{step}")})).collect(),
        );
        assert!(matches!(apply(&json!({"a": {"x": "0123456789"}}), &doubling), Err(Error::Apply(_))));
        let widening: Vec<_> = (0..30).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"})).collect();
        assert!(matches!(apply(&json!({"a": ["x"]}), &Value::Array(widening)), Err(Error::Apply(_))));
    }

    #[test]
    fn moves_cannot_nest_the_object_without_bound() {
        let mut operations = Vec::new();
        for _ in 0..200 {
            operations.push(json!({"op": "add", "path": "/b", "value": {}}));
            operations.push(json!({"op": "move", "from": "/a", "path": "/b/a"}));
            operations.push(json!({"op": "move", "from": "/b", "path": "/a"}));
        }
        assert!(matches!(apply(&json!({"a": {}}), &Value::Array(operations)), Err(Error::Apply(_))));
    }

    fn pointers() -> impl Strategy<Value = String> {
        prop::sample::select(vec![
            "", "/", "/a", "/a/b", "/a/0", "/a/-", "/b/c/d", "x", "/a/b/-", "/~", "/~1", "/a/1",
        ])
        .prop_map(str::to_owned)
    }

    fn operations() -> impl Strategy<Value = Value> {
        let names = vec!["add", "remove", "replace", "move", "copy", "test", "other"];
        let values = vec![json!(null), json!([1, [2]]), json!({"b": {"c": 1}}), json!("x")];
        (prop::sample::select(names), pointers(), pointers(), prop::sample::select(values))
            .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
    }

    proptest! {
        #[test]
        fn random_patches_never_panic(patch in prop::collection::vec(operations(), 0..24)) {
            let object = json!({"a": {"b": [1, 2]}, "b": {"c": {"d": 1}}});
            let _ = apply(&object, &Value::Array(patch));
        }
    }
}
