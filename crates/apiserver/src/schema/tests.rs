//! Whole schemas and definitions: every keyword with its message, realistic resources, and properties.

mod definitions;
mod keywords;
mod properties;
mod rules;

use serde_json::Value;

use super::Definition;
use super::structural::Schema;

/// A definition as people write them.
const SERVICE_IMPORT: &str = include_str!("tests/service-import.yaml");

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("valid YAML")
}

fn parse(schema: &Value) -> Schema {
    Schema::parse(schema, "schema").unwrap_or_else(|errors| panic!("{}", crate::invalid::summary(&errors)))
}

fn define(crd: &Value) -> Definition {
    Definition::parse(crd).unwrap_or_else(|errors| panic!("{}", crate::invalid::summary(&errors)))
}

fn texts(errors: &[crate::invalid::FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn definitions_are_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Definition>();
    shared::<Schema>();
}
