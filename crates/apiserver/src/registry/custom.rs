//! The resources a CustomResourceDefinition brings, one per served version.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Generation, Resource, Source, Traits, View, api_version};
use crate::object;
use crate::patch;
use crate::schema::{Definition, Version};
use crate::shape::Shape;

/// The resources of a stored definition; one that does not parse brings none (it was refused when written), nor does one
/// whose names others have.
pub(super) fn resources(definition: &Value) -> Vec<Arc<Resource>> {
    let conditions = object::at(definition, &["status", "conditions"]).and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    if conditions.any(|condition| condition["type"] == "Established" && condition["status"] != "True") {
        return Vec::new();
    }
    let identity = Arc::new(identity(definition));
    let given = object::at(definition, &["status", "acceptedNames"]);
    let Ok(mut definition) = Definition::parse(definition) else { return Vec::new() };
    if let Some(given) = given {
        definition.names = definition.names.as_given(given);
    }
    let definition = Arc::new(definition);
    let versions = 0..definition.versions.len();
    versions
        .filter(|&place| definition.versions[place].served)
        .map(|place| Arc::new(resource(&definition, place, &identity)))
        .collect()
}

/// Labels, conditions and the like may change, and it is still the same definition.
fn identity(definition: &Value) -> Value {
    let names = object::at(definition, &["status", "acceptedNames"]);
    json!({"uid": object::uid(definition), "spec": definition["spec"], "names": names})
}

fn resource(definition: &Arc<Definition>, place: usize, identity: &Arc<Value>) -> Resource {
    let version = &definition.versions[place];
    let stored = definition.storage().unwrap_or(version);
    let names = &definition.names;
    let traits = Traits {
        status: version.status,
        scale: version.scale.is_some(),
        generation: Generation::Content,
        upsert: false,
        needs_version: true,
        delete_returns_object: false,
        review: false,
    };
    Resource {
        group: definition.group.clone(),
        version: version.name.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone(),
        plural: names.plural.clone(),
        singular: names.singular.clone(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        namespaced: definition.namespaced,
        traits,
        collection: format!("{}/{}", definition.group, names.plural).into(),
        shape: shape(version),
        source: Source::Custom { definition: definition.clone(), version: place, identity: identity.clone() },
        empty: None,
        view: View::Renamed,
        stored_api_version: api_version(&definition.group, &stored.name),
    }
}

fn shape(version: &Version) -> Shape {
    match version.schema {
        Some(_) => patch::schema::shape(&version.raw_schema),
        None => patch::object_meta::untyped_object(),
    }
}
