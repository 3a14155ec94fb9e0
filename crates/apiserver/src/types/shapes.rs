//! The [`Shape`] of built-in kinds.
//!
//! Every struct's shape is built once and shared. JSON schemas contain themselves, so they are [`Shape::Open`]; they only
//! occur below a list that is replaced whole.

use std::sync::Arc;

use super::table::{Apply, Field, Node, Patch, Struct, What, find, structure};
use crate::shape::{Keyed, Member, Merge, Record, Shape, Strategy};

/// How the parts of a built-in kind merge.
pub(crate) fn shape(api_version: &str, kind: &str) -> Option<Shape> {
    find(api_version, kind).map(|ty| record(ty.0))
}

fn record(structure: &'static Struct) -> Shape {
    let build = || {
        let fields = structure.fields.iter().map(|field| (field.name.to_owned(), member(field)));
        Shape::Record(Arc::new(Record { fields: fields.collect(), others: None }))
    };
    structure.shape.get_or_init(build).clone()
}

fn member(field: &'static Field) -> Member {
    Member { shape: field_shape(field), strategy: strategy(&field.patch) }
}

fn strategy(patch: &Patch) -> Option<Strategy> {
    let merge = match patch.key {
        Some(key) => Some(Merge::ByKey(key.to_owned())),
        None => patch.merge.then_some(Merge::Set),
    };
    let stated = merge.is_some() || patch.retain_keys || patch.replace;
    stated.then_some(Strategy { merge, retain_keys: patch.retain_keys })
}

fn field_shape(field: &'static Field) -> Shape {
    match (&field.apply, &field.node.what) {
        (Apply::Atomic, _) => Shape::Atomic,
        (Apply::Set, _) => Shape::Set,
        (Apply::Keys(keys), What::List(element)) => {
            let keys = keys.iter().map(|(name, default)| ((*name).to_owned(), default.clone())).collect();
            Shape::Keyed(Arc::new(Keyed { keys, element: node_shape(element) }))
        }
        _ => node_shape(&field.node),
    }
}

fn node_shape(node: &'static Node) -> Shape {
    match &node.what {
        What::Struct(id) => struct_shape(structure(*id)),
        What::List(_) => Shape::Atomic,
        What::Map(element) => Shape::Map(Arc::new(node_shape(element))),
        What::Pointer(inner) => node_shape(inner),
        What::Raw | What::SchemaOrBool(_) | What::SchemaOrArray(_) | What::SchemaOrStrings(_) => Shape::Open,
        _ => Shape::Scalar,
    }
}

fn struct_shape(structure: &'static Struct) -> Shape {
    match structure.name {
        "apiextensions/v1.JSONSchemaProps" => Shape::Open,
        _ if structure.atomic => Shape::Atomic,
        _ => record(structure),
    }
}
