//! The built-in types as OpenAPI components, for `kubectl explain`.
//!
//! They say which fields there are and of which type, not what they are for: the table has no descriptions.

use serde_json::{Map, Value, json};

use super::table::{Apply, Field, Node, Struct, StructId, TypeRef, What, structure};

/// The schemas of kinds and of all that they are made of. Each kind comes with its group, version and kind.
pub(crate) fn components(kinds: impl Iterator<Item = (TypeRef, Value)>) -> Map<String, Value> {
    let mut out = Map::new();
    for (TypeRef(ty), gvk) in kinds {
        add(&mut out, ty);
        let known = out.get_mut(&component(ty)).expect("it was added above");
        known["description"] =
            format!("The fields of a {}; this server has no descriptions of them.", ty.go_name()).into();
        known["x-kubernetes-group-version-kind"] = json!([gvk]);
    }
    out
}

/// A schema that refers to what every object's metadata is.
pub(crate) fn object_meta(out: &mut Map<String, Value>) -> Option<Value> {
    let pod = super::find("v1", "Pod")?;
    let metadata = pod.0.field("metadata")?;
    let What::Struct(id) = metadata.node.what else { return None };
    add(out, structure(id));
    Some(reference(id))
}

fn add(out: &mut Map<String, Value>, ty: &'static Struct) {
    let name = component(ty);
    if out.contains_key(&name) {
        return;
    }
    // What contains itself finds itself there.
    out.insert(name.clone(), Value::Null);
    let properties: Map<String, Value> =
        ty.fields.iter().map(|field| (field.name.to_owned(), property(out, field))).collect();
    out.insert(name, json!({"type": "object", "properties": properties}));
}

fn property(out: &mut Map<String, Value>, field: &'static Field) -> Value {
    let mut schema = schema(out, &field.node);
    match &field.apply {
        Apply::ByType => {}
        Apply::Atomic if schema.get("type") == Some(&"array".into()) => {
            schema["x-kubernetes-list-type"] = "atomic".into()
        }
        Apply::Atomic => schema["x-kubernetes-map-type"] = "atomic".into(),
        Apply::Set => schema["x-kubernetes-list-type"] = "set".into(),
        Apply::Keys(keys) => {
            schema["x-kubernetes-list-type"] = "map".into();
            schema["x-kubernetes-list-map-keys"] =
                keys.iter().map(|(name, _)| *name).collect::<Vec<_>>().into();
        }
    }
    schema
}

fn schema(out: &mut Map<String, Value>, node: &'static Node) -> Value {
    match &node.what {
        What::String | What::Quantity => json!({"type": "string"}),
        What::Bool => json!({"type": "boolean"}),
        What::Int32 => json!({"type": "integer", "format": "int32"}),
        What::Int64 => json!({"type": "integer", "format": "int64"}),
        What::Float64 => json!({"type": "number", "format": "double"}),
        What::Bytes => json!({"type": "string", "format": "byte"}),
        What::Time | What::MicroTime => json!({"type": "string", "format": "date-time"}),
        What::IntOrString => json!({"type": "string", "format": "int-or-string"}),
        What::Raw => json!({"type": "object"}),
        What::SchemaOrBool(id) | What::SchemaOrArray(id) | What::SchemaOrStrings(id) | What::Struct(id) => {
            add(out, structure(*id));
            reference(*id)
        }
        What::List(element) => json!({"type": "array", "items": schema(out, element)}),
        What::Map(element) => json!({"type": "object", "additionalProperties": schema(out, element)}),
        What::Pointer(inner) => schema(out, inner),
    }
}

fn reference(id: StructId) -> Value {
    json!({"$ref": format!("#/components/schemas/{}", component(structure(id)))})
}

/// `core/v1.Service` is `io.k8s.api.core.v1.Service` in OpenAPI.
fn component(ty: &Struct) -> String {
    let name = ty.name.replace('/', ".");
    match name.split('.').next() {
        Some("meta") => format!("io.k8s.apimachinery.pkg.apis.{name}"),
        Some("apiextensions") => format!("io.k8s.apiextensions-apiserver.pkg.apis.{name}"),
        _ => format!("io.k8s.api.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        let kinds = [
            ("v1", "Pod"),
            ("apps/v1", "StatefulSet"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ];
        let kinds =
            kinds.into_iter().map(|(version, kind)| (super::super::find(version, kind).unwrap(), json!({})));
        let found = components(kinds);
        let text = Value::Object(found.clone()).to_string();
        let mut count = 0;
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(found[name]["properties"].is_object(), "{name}");
            count += 1;
        }
        assert!(count > 100, "{count}");
        let ports = &found["io.k8s.api.core.v1.Container"]["properties"]["ports"];
        assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
    }
}
