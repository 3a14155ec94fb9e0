//! `metadata.managedFields`: one entry per manager, operation, version and subresource.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Writer;
use super::fieldset::FieldSet;

/// More update entries than this are merged, the oldest first.
const MOST_UPDATES: usize = 10;
/// Who owns what merged entries owned.
const ANCIENT: &str = "ancient-changes";

/// How a manager came to own its fields; applied ones sort first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// What one manager owns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) operation: Operation,
    pub(super) time: Option<String>,
    pub(super) manager: String,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) fields: FieldSet,
}

impl Entry {
    pub(super) fn of(who: &Writer<'_>, operation: Operation, fields: FieldSet) -> Self {
        Self {
            operation,
            time: Some(who.now.to_owned()),
            manager: named(who.manager).to_owned(),
            api_version: who.api_version.to_owned(),
            subresource: who.subresource.unwrap_or_default().to_owned(),
            fields,
        }
    }

    /// Whether this entry is the writer's; who applies stays the same across versions.
    pub(super) fn is_of(&self, who: &Writer<'_>, operation: Operation) -> bool {
        self.operation == operation
            && self.manager == named(who.manager)
            && self.subresource == who.subresource.unwrap_or_default()
            && (operation == Operation::Apply || self.api_version == who.api_version)
    }

    fn decode(entry: &Value) -> Result<Self, String> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        if text("apiVersion").is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        if text("fieldsType") != "FieldsV1" {
            return Err(format!("invalid fieldsType {:?}", text("fieldsType")));
        }
        let fields = entry.get("fieldsV1").filter(|fields| !fields.is_null());
        Ok(Self {
            operation,
            time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
            manager: text("manager").to_owned(),
            api_version: text("apiVersion").to_owned(),
            subresource: text("subresource").to_owned(),
            fields: fields.map_or(Ok(FieldSet::default()), FieldSet::decode)?,
        })
    }

    fn encode(self) -> Value {
        let mut entry = Map::new();
        let mut set = |name: &str, value: Value| entry.insert(name.to_owned(), value);
        set("apiVersion", self.api_version.into());
        set("fieldsType", "FieldsV1".into());
        set("fieldsV1", self.fields.encode());
        set("manager", self.manager.into());
        set("operation", if self.operation == Operation::Apply { "Apply" } else { "Update" }.into());
        if !self.subresource.is_empty() {
            set("subresource", self.subresource.into());
        }
        if let Some(time) = self.time {
            set("time", time.into());
        }
        Value::Object(entry)
    }
}

fn named(manager: &str) -> &str {
    if manager.is_empty() { "unknown" } else { manager }
}

/// The `managedFields` of an object.
pub(super) fn of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields").filter(|fields| !fields.is_null())
}

/// Takes the `managedFields` out of an object.
pub(super) fn take(object: &mut Value) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.remove("managedFields").filter(|fields| !fields.is_null())
}

/// Puts `managedFields` into an object; none at all rather than an empty list.
pub(super) fn put(object: &mut Value, fields: Value) {
    let Value::Object(object) = object else { return };
    if let Value::Object(metadata) = object.entry("metadata").or_insert_with(|| json!({}))
        && fields.as_array().is_some_and(|entries| !entries.is_empty())
    {
        metadata.insert("managedFields".to_owned(), fields);
    }
}

pub(super) fn decode(fields: &Value) -> Result<Vec<Entry>, String> {
    let entries = fields.as_array().ok_or_else(|| "managedFields must be a list".to_owned())?;
    entries.iter().map(Entry::decode).collect()
}

/// The entries as `managedFields`, in the order of a real server: operation, time, manager, version, subresource.
pub(super) fn encode(mut entries: Vec<Entry>) -> Value {
    entries.retain(|entry| !entry.fields.is_empty());
    entries.sort_by(|one, other| rank(one).cmp(&rank(other)));
    entries.into_iter().map(Entry::encode).collect()
}

fn rank(entry: &Entry) -> (Operation, Option<&str>, &str, &str, &str) {
    (entry.operation, entry.time.as_deref(), &entry.manager, &entry.api_version, &entry.subresource)
}

/// Merges the oldest update entries of each version into one until few enough are left.
pub(super) fn cap(entries: Vec<Entry>) -> Vec<Entry> {
    let is_update = |entry: &Entry| entry.operation == Operation::Update && !entry.fields.is_empty();
    let mut excess = entries.iter().filter(|entry| is_update(entry)).count().saturating_sub(MOST_UPDATES);
    if excess == 0 {
        return entries;
    }
    let (mut updates, mut kept): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_update);
    updates.sort_by(|one, other| rank(one).cmp(&rank(other)));
    let mut buckets: BTreeMap<String, Entry> = BTreeMap::new();
    for entry in updates {
        match buckets.get_mut(&entry.api_version) {
            Some(bucket) if excess > 0 => {
                bucket.manager = ANCIENT.to_owned();
                bucket.subresource = String::new();
                bucket.time = entry.time;
                bucket.fields.extend(entry.fields);
                excess -= 1;
            }
            None if excess > 0 => {
                buckets.insert(entry.api_version.clone(), entry);
            }
            _ => kept.push(entry),
        }
    }
    kept.extend(buckets.into_values());
    kept
}
