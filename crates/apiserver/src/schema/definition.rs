//! A custom resource as its CustomResourceDefinition describes it.
//!
//! [`complete`] fills in what an author may leave out, [`Definition::parse`] turns the object into types or says why it
//! cannot be registered. A definition that parses can be served: its schemas, rules and paths are compiled.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::jsonpath::JsonPath;
use super::registration;
use super::structural::Schema;
use super::structure::{branches, text};
use crate::invalid::FieldError;

/// A custom resource.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) names: Names,
    pub(crate) namespaced: bool,
    /// In the order of the definition; see the registry for the order of preference.
    pub(crate) versions: Vec<Version>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    pub(crate) schema: Option<Arc<Schema>>,
    /// `openAPIV3Schema` as written, for publishing it.
    pub(crate) raw_schema: Value,
    pub(crate) columns: Vec<Column>,
    /// Whether there is a status subresource.
    pub(crate) status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) selectable_fields: Vec<SelectableField>,
    pub(crate) deprecated: bool,
    /// What clients of a deprecated version are told.
    pub(crate) warning: Option<String>,
}

/// A printer column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) priority: i32,
    pub(crate) json_path: JsonPath,
    pub(crate) description: String,
}

/// Where the scale subresource finds its numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: JsonPath,
    pub(crate) status_replicas: JsonPath,
    pub(crate) label_selector: Option<JsonPath>,
}

/// A field that field selectors may name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SelectableField {
    /// As selectors spell it: `spec.color`.
    pub(crate) name: String,
    pub(crate) json_path: JsonPath,
}

impl Definition {
    /// The version in which objects are stored.
    pub(crate) fn storage(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }

    /// Reads a CustomResourceDefinition, completed or not. All errors are reported at once.
    pub(crate) fn parse(crd: &Value) -> Result<Self, Vec<FieldError>> {
        let mut crd = crd.clone();
        complete(&mut crd);
        let schemas = registration::check(&crd)?;
        let spec = &crd["spec"];
        let versions = branches(spec, "versions").iter().zip(schemas);
        Ok(Self {
            group: text(spec, "group").to_owned(),
            names: Names::read(&spec["names"]),
            namespaced: spec["scope"] == "Namespaced",
            versions: versions.map(|(raw, schema)| Version::read(raw, schema)).collect(),
        })
    }
}

impl Names {
    fn read(names: &Value) -> Self {
        Self {
            plural: text(names, "plural").to_owned(),
            singular: text(names, "singular").to_owned(),
            kind: text(names, "kind").to_owned(),
            list_kind: text(names, "listKind").to_owned(),
            short_names: strings(names, "shortNames"),
            categories: strings(names, "categories"),
        }
    }

    /// The names that were given to whoever asked for these. A name that somebody else has is not among them.
    pub(crate) fn as_given(&self, given: &Value) -> Self {
        let given = Self::read(given);
        let either = |given: String, asked: &String| if given.is_empty() { asked.clone() } else { given };
        Self {
            plural: either(given.plural, &self.plural),
            singular: either(given.singular, &self.singular),
            kind: either(given.kind, &self.kind),
            list_kind: either(given.list_kind, &self.list_kind),
            ..given
        }
    }
}

impl Version {
    fn read(raw: &Value, schema: Arc<Schema>) -> Self {
        let deprecated = raw["deprecated"] == true;
        Self {
            name: text(raw, "name").to_owned(),
            served: raw["served"] == true,
            storage: raw["storage"] == true,
            schema: Some(schema),
            raw_schema: raw["schema"]["openAPIV3Schema"].clone(),
            columns: branches(raw, "additionalPrinterColumns").iter().filter_map(Column::read).collect(),
            status: raw["subresources"]["status"].is_object(),
            scale: ScalePaths::read(&raw["subresources"]["scale"]),
            selectable_fields: branches(raw, "selectableFields")
                .iter()
                .filter_map(SelectableField::read)
                .collect(),
            deprecated,
            warning: raw["deprecationWarning"].as_str().filter(|_| deprecated).map(str::to_owned),
        }
    }
}

impl Column {
    fn read(raw: &Value) -> Option<Self> {
        Some(Self {
            name: text(raw, "name").to_owned(),
            kind: text(raw, "type").to_owned(),
            format: text(raw, "format").to_owned(),
            priority: raw["priority"]
                .as_i64()
                .and_then(|priority| priority.try_into().ok())
                .unwrap_or_default(),
            json_path: JsonPath::parse(raw["jsonPath"].as_str()?).ok()?,
            description: text(raw, "description").to_owned(),
        })
    }
}

impl ScalePaths {
    fn read(raw: &Value) -> Option<Self> {
        let path = |key: &str| JsonPath::parse(raw.get(key)?.as_str()?).ok();
        Some(Self {
            spec_replicas: path("specReplicasPath")?,
            status_replicas: path("statusReplicasPath")?,
            label_selector: path("labelSelectorPath"),
        })
    }
}

impl SelectableField {
    fn read(raw: &Value) -> Option<Self> {
        let json_path = JsonPath::parse(raw["jsonPath"].as_str()?).ok()?;
        Some(Self { name: json_path.fields()?.join("."), json_path })
    }
}

/// Fills in the names and the conversion that an author may leave out, and the stored versions.
pub(crate) fn complete(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        complete_names(names);
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let storage = spec.get("versions").and_then(Value::as_array).and_then(|versions| {
        versions.iter().find(|version| version["storage"] == true).map(|version| version["name"].clone())
    });
    let stored =
        crd.pointer("/status/storedVersions").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if let (Some(storage), false, Some(crd)) = (storage, stored, crd.as_object_mut()) {
        let status = crd.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            status.insert("storedVersions".to_owned(), json!([storage]));
        }
    }
}

fn complete_names(names: &mut Map<String, Value>) {
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind.is_empty() {
        return;
    }
    for (key, name) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
        if names.get(key).and_then(Value::as_str).is_none_or(str::is_empty) {
            names.insert(key.to_owned(), name.into());
        }
    }
}

fn strings(node: &Value, key: &str) -> Vec<String> {
    branches(node, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
