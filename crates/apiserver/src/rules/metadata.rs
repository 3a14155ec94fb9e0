//! What `metadata` of any object has to look like.
//!
//! The life cycle of metadata (who owns the uid, what an update may change) is the server's business; this is about
//! the texts in it: names, labels, annotations, owners and finalizers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field;
use super::names::{self, NameRule};
use crate::invalid::{FieldError, Problem};

/// All annotations of an object together, keys and values, in bytes.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Everything that is wrong with the metadata of an object whose name has been generated already, if it had to be.
pub(crate) fn metadata(object: &Value, rule: NameRule) -> Vec<FieldError> {
    let mut wrong = name(object, rule);
    wrong.extend(labels(object, "metadata.labels"));
    wrong.extend(annotations(object, "metadata.annotations"));
    wrong.extend(owners(object));
    wrong.extend(finalizers(object));
    wrong
}

/// Everything that is wrong with the metadata of an object that takes the place of `old`.
pub(crate) fn changes(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut wrong: Vec<FieldError> = new_finalizers(new, old).into_iter().collect();
    wrong.extend(labels(new, "metadata.labels"));
    wrong.extend(annotations(new, "metadata.annotations"));
    wrong.extend(owners(new));
    wrong
}

/// The error for finalizers that were added although the object is being deleted.
pub(crate) fn new_finalizers(new: &Value, old: &Value) -> Option<FieldError> {
    field::at(old, "metadata.deletionTimestamp")?;
    let before: BTreeSet<_> = field::texts(old, "metadata.finalizers").into_iter().collect();
    let after: BTreeSet<_> = field::texts(new, "metadata.finalizers").into_iter().collect();
    let added: Vec<_> = after.difference(&before).map(|name| format!("{name:?}")).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    (!added.is_empty()).then(|| FieldError::forbidden("metadata.finalizers", detail))
}

/// What is wrong with the labels at `path`; label selectors have the same rules.
pub(crate) fn labels(object: &Value, path: &str) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    for (key, value) in field::members(object, path) {
        wrong.extend(complaints(path, key, names::label_key(key)));
        let value = value.as_str().unwrap_or_default();
        wrong.extend(complaints(path, value, names::label_value(value)));
    }
    wrong
}

/// What is wrong with the annotations at `path`.
pub(crate) fn annotations(object: &Value, path: &str) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let mut bytes = 0;
    for (key, value) in field::members(object, path) {
        // Upper case is fine in the prefix of an annotation, unlike in that of a label.
        wrong.extend(complaints(path, key, names::label_key(&key.to_lowercase())));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > MOST_ANNOTATION_BYTES {
        wrong.push(FieldError::new(path, Problem::TooLong(MOST_ANNOTATION_BYTES), ""));
    }
    wrong
}

/// The same complaint about `value` for each of `texts`.
pub(crate) fn complaints(
    path: &str,
    value: &str,
    texts: Vec<String>,
) -> impl Iterator<Item = FieldError> + use<> {
    let (path, value) = (path.to_owned(), value.to_owned());
    texts.into_iter().map(move |text| FieldError::invalid(path.clone(), value.clone(), text))
}

fn name(object: &Value, rule: NameRule) -> Vec<FieldError> {
    let prefix = field::text(object, "metadata.generateName");
    let mut wrong = Vec::new();
    if !prefix.is_empty() {
        wrong.extend(complaints("metadata.generateName", prefix, rule.check_prefix(prefix)));
    }
    match field::text(object, "metadata.name") {
        "" => wrong.push(FieldError::required("metadata.name", "name or generateName is required")),
        name => wrong.extend(complaints("metadata.name", name, rule.check(name))),
    }
    wrong
}

fn owners(object: &Value) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let mut controller: Option<String> = None;
    for (index, owner) in field::list(object, "metadata.ownerReferences").iter().enumerate() {
        wrong.extend(owner_fields(owner, &format!("metadata.ownerReferences[{index}]")));
        if !field::flag(owner, "controller") {
            continue;
        }
        let this = format!("{}/{}", field::text(owner, "kind"), field::text(owner, "name"));
        match &controller {
            None => controller = Some(this),
            Some(first) => wrong.push(second_controller(object, first, &this)),
        }
    }
    wrong
}

fn second_controller(object: &Value, first: &str, second: &str) -> FieldError {
    let owners = field::at(object, "metadata.ownerReferences").cloned().unwrap_or_default();
    let detail = format!(
        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
    );
    FieldError::invalid("metadata.ownerReferences", owners, detail)
}

fn owner_fields(owner: &Value, path: &str) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    for key in ["apiVersion", "kind", "name", "uid"] {
        if field::text(owner, key).is_empty() {
            wrong.push(FieldError::required(format!("{path}.{key}"), "must not be empty"));
        }
    }
    let version = field::text(owner, "apiVersion");
    if version.matches('/').count() > 1 || version.ends_with('/') {
        let path = format!("{path}.apiVersion");
        wrong.push(FieldError::invalid(path, version, "must be <group>/<version> or <version>"));
    }
    if version == "v1" && field::text(owner, "kind") == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        wrong.push(FieldError::invalid(path, owner.clone(), detail));
    }
    wrong
}

fn finalizers(object: &Value) -> Vec<FieldError> {
    let path = "metadata.finalizers";
    let names = field::texts(object, path);
    let mut wrong = Vec::new();
    for name in &names {
        wrong.extend(complaints(path, name, names::label_key(name)));
    }
    if names.contains(&ORPHAN) && names.contains(&FOREGROUND) {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        wrong.push(FieldError::invalid(path, names, detail));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(metadata_json: Value) -> Vec<String> {
        let object = json!({ "metadata": metadata_json });
        metadata(&object, NameRule::Subdomain).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_ordinary_object_passes() {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "u", "controller": true});
        let fine = json!({
            "name": "web-x7k2p", "generateName": "web-", "labels": {"app": "web", "example.com/a": ""},
            "annotations": {"Example.com/A": "any text"}, "ownerReferences": [owner],
            "finalizers": ["example.com/guard", "orphan"],
        });
        assert_eq!(check(fine), Vec::<String>::new());
    }

    #[test]
    fn each_mistake_is_named_where_it_is() {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "controller": true});
        let cases = [
            (json!({}), "metadata.name: Required value: name or generateName is required"),
            (
                json!({"name": "a", "labels": {"a": "b "}}),
                "metadata.labels: Invalid value: \"b \": a valid label must be an empty string",
            ),
            (
                json!({"name": "a", "annotations": {"a b": ""}}),
                "metadata.annotations: Invalid value: \"a b\": name part must consist of",
            ),
            (
                json!({"name": "a", "annotations": {"a": "x".repeat(256 * 1024)}}),
                "metadata.annotations: Too long: may not be more than 262144 bytes",
            ),
            (
                json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}),
                "metadata.ownerReferences[0].uid: Required value: must not be empty",
            ),
            (
                json!({"name": "a", "ownerReferences": [owner.clone(), owner]}),
                "metadata.ownerReferences: Invalid value: [",
            ),
            (
                json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}),
                "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
                 foregroundDeletion cannot be both set",
            ),
        ];
        for (metadata, expected) in cases {
            let wrong = check(metadata);
            assert_eq!(wrong.len(), 1, "{wrong:?}");
            assert!(wrong[0].starts_with(expected), "{} is not {expected}", wrong[0]);
        }
    }

    #[test]
    fn a_terminating_object_takes_no_new_finalizer() {
        let old = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}});
        let new = json!({"metadata": {"finalizers": ["a/b", "c/d"]}});
        assert_eq!(
            new_finalizers(&new, &old).map(|error| error.to_string()).as_deref(),
            Some(
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, \
                 found new finalizers []string{\"c/d\"}"
            )
        );
        assert_eq!(new_finalizers(&old, &old), None);
        assert_eq!(new_finalizers(&new, &json!({})), None);
    }
}
