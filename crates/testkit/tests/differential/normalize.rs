//! Giving names to what no two servers have in common.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// What admission adds to the spec of a pod, where the embedded server is known to add nothing.
const ADMITTED: [&str; 2] = ["priority", "preemptionPolicy"];

/// The names that one server's uids, versions and addresses have been given, in the order of their appearance.
#[derive(Default)]
pub(crate) struct Names {
    uids: HashMap<String, String>,
    versions: HashMap<String, String>,
}

impl Names {
    /// The same value, with names for what is a server's own.
    pub(crate) fn normalize(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(map) => self.object(map),
            Value::Array(items) => items.iter().map(|item| self.normalize(item)).collect(),
            Value::String(text) => self.text(text).into(),
            other => other.clone(),
        }
    }

    fn object(&mut self, map: &Map<String, Value>) -> Value {
        let mut result = Map::new();
        for (key, value) in map {
            let is_admitted = map.contains_key("containers") && ADMITTED.contains(&key.as_str());
            // How columns are described is said to differ.
            if is_admitted || (key == "description" && value.is_string()) {
                continue;
            }
            let value = match (key.as_str(), value) {
                ("uid", Value::String(uid)) => self.uid(uid).into(),
                ("resourceVersion", Value::String(version)) => self.version(version).into(),
                ("creationTimestamp" | "deletionTimestamp" | "time", Value::String(_)) => "time".into(),
                ("clusterIP", Value::String(ip)) => address(ip).into(),
                ("clusterIPs", Value::Array(ips)) => {
                    ips.iter().map(|ip| Value::from(address(ip.as_str().unwrap_or_default()))).collect()
                }
                ("continue", Value::String(text)) => if text.is_empty() { "" } else { "more" }.into(),
                // How old something is depends on when it was asked.
                ("cells", Value::Array(cells)) => cells.iter().map(|cell| self.cell(cell)).collect(),
                // Fields of managers come in an order that says nothing.
                ("managedFields", Value::Array(entries)) => self.managers(entries),
                // Conflicts with several managers come in the order of a Go map, which is none.
                ("causes", Value::Array(causes)) => self.causes(causes),
                _ => self.normalize(value),
            };
            result.insert(key.clone(), value);
        }
        result.into()
    }

    fn cell(&mut self, cell: &Value) -> Value {
        let is_age = |text: &str| {
            text.strip_suffix('s').is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
        };
        if cell.as_str().is_some_and(is_age) { "an age".into() } else { self.normalize(cell) }
    }

    fn managers(&mut self, entries: &[Value]) -> Value {
        let mut entries: Vec<Value> = entries.iter().map(|entry| self.normalize(entry)).collect();
        entries.sort_by_key(|entry| {
            let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            (text("manager"), text("operation"), text("subresource"))
        });
        entries.into()
    }

    fn causes(&mut self, causes: &[Value]) -> Value {
        let mut causes: Vec<Value> = causes.iter().map(|cause| self.normalize(cause)).collect();
        if causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict") {
            causes.sort_by_key(|cause| cause["message"].to_string());
        }
        causes.into()
    }

    fn uid(&mut self, uid: &str) -> String {
        let next = format!("uid-{}", self.uids.len());
        self.uids.entry(uid.to_owned()).or_insert(next).clone()
    }

    fn version(&mut self, version: &str) -> String {
        let next = format!("version-{}", self.versions.len());
        self.versions.entry(version.to_owned()).or_insert(next).clone()
    }

    /// Uids and versions in the middle of messages.
    fn text(&self, text: &str) -> String {
        // A change of a pod is refused with all that changed, as Go shows it.
        let text = match text.split_once("pod updates may not change") {
            Some((head, _)) => head,
            None => text,
        };
        let text = self
            .uids
            .iter()
            .fold(without_version(text), |text, (uid, name)| text.replace(uid.as_str(), name));
        // Several real servers share one etcd.
        (0..100)
            .fold(text, |text, number| text.replace(&format!("Key: /cluster{number}/"), "Key: /registry/"))
    }
}

/// An address that a server gave.
fn address(ip: &str) -> String {
    if ip.starts_with("10.96.") { "an address".to_owned() } else { ip.to_owned() }
}

/// A message about a precondition without the version that the server's own object has.
fn without_version(text: &str) -> String {
    const BEFORE: &str = "does not match the ResourceVersion in record (";
    let Some((head, tail)) = text.split_once(BEFORE) else { return text.to_owned() };
    format!("{head}{BEFORE}a version{}", tail.trim_start_matches(|letter: char| letter.is_ascii_digit()))
}
