//! Fields that somebody else owns with another value, in the words a real server uses for them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::entries::{Entry, Operation};
use super::fieldset::{self, FieldSet};

/// A field that could not be applied because another manager owns it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conflict {
    /// The other manager as messages name it: quoted, with its subresource and, for updates, its version.
    pub manager: String,
    /// The field, such as `.spec.ports[port=80,protocol="TCP"].name`.
    pub field: String,
}

impl Conflict {
    pub(super) fn all(entry: &Entry, fields: &FieldSet) -> Vec<Self> {
        let manager = shown(entry);
        let fields = fields.paths().into_iter().map(|path| fieldset::shown(&path));
        fields.map(|field| Self { manager: manager.clone(), field }).collect()
    }
}

fn shown(entry: &Entry) -> String {
    let mut text = format!("{:?}", entry.manager);
    if !entry.subresource.is_empty() {
        text += &format!(" with subresource {:?}", entry.subresource);
    }
    if entry.operation == Operation::Update {
        text += &format!(" using {}", entry.api_version);
    }
    text
}

/// The message of the `Conflict` status.
pub(crate) fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.field);
    }
    let mut managers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for conflict in conflicts {
        managers.entry(&conflict.manager).or_default().push(format!("- {}", conflict.field));
    }
    let groups: Vec<_> = managers
        .into_iter()
        .map(|(manager, fields)| format!("conflicts with {manager}:\n{}", fields.join("\n")))
        .collect();
    format!("Apply failed with {} conflicts: {}", conflicts.len(), groups.join("\n"))
}

/// The `details.causes` of the `Conflict` status.
pub(crate) fn causes(conflicts: &[Conflict]) -> Vec<Value> {
    let cause = |conflict: &Conflict| {
        json!({
            "reason": "FieldManagerConflict",
            "message": format!("conflict with {}", conflict.manager),
            "field": conflict.field,
        })
    };
    conflicts.iter().map(cause).collect()
}
