//! The form that a built-in object has after a trip through a real server.
//!
//! There an object is decoded into Go structs, stored as protobuf and encoded again: empty values of fields marked
//! `omitempty` disappear, structs that are not behind a pointer always appear, lists and maps that are always written
//! become null when empty, and times, quantities and base64 take their canonical form. [`normalize`] gives a checked
//! [`Value`] that form, so that stored objects look alike however they came in.
//!
//! All but one thing: lists and maps that came empty become null in storage only, with [`forget_empty`]. Whoever sends an
//! empty list where there was none has changed the object, and owns the list.

use serde_json::{Map, Value};

use super::instant::Instant;
use super::octets;
use super::quantity;
use super::table::{Field, Node, Struct, StructId, TypeRef, What, structure};

/// Gives an object the form in which a real server shows it. Expects what `check` has passed.
pub(crate) fn normalize(ty: TypeRef, value: &mut Value) {
    if let Value::Object(object) = value {
        record(ty.0, object);
    }
}

/// Takes away what storage does not keep: protobuf cannot tell an empty list from none; JSON can.
pub(crate) fn forget_empty(ty: TypeRef, value: &mut Value) {
    if let Value::Object(object) = value {
        forget_in(ty.0, object);
    }
}

fn forget_in(of: &'static Struct, object: &mut Map<String, Value>) {
    for field in &of.fields {
        let Some(value) = object.get_mut(field.name) else { continue };
        let is_list = !field.pointer && matches!(field.node.what, What::List(_) | What::Map(_));
        if is_list && of.has_protobuf() && is_empty(value) {
            *value = Value::Null;
        } else {
            forget_below(&field.node, value);
        }
    }
}

fn forget_below(node: &'static Node, value: &mut Value) {
    match (&node.what, value) {
        (What::Struct(id), Value::Object(object)) => forget_in(structure(*id), object),
        (What::Pointer(inner), value) => forget_below(inner, value),
        (What::List(element), Value::Array(list)) => {
            list.iter_mut().for_each(|value| forget_below(element, value));
        }
        (What::Map(element), Value::Object(object)) => {
            object.values_mut().for_each(|value| forget_below(element, value));
        }
        _ => {}
    }
}

fn record(of: &'static Struct, object: &mut Map<String, Value>) {
    for field in &of.fields {
        match object.get_mut(field.name) {
            Some(value) => {
                if !present(field, value) {
                    object.remove(field.name);
                }
            }
            None => {
                if let Some(value) = absent(field) {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
    }
}

/// Brings a field's value into its form; says whether the field stays.
fn present(field: &'static Field, value: &mut Value) -> bool {
    settle(&field.node, value);
    if field.pointer {
        return !(value.is_null() && field.omit_empty);
    }
    match &field.node.what {
        What::List(_) | What::Map(_) if is_empty(value) => !field.omit_empty,
        What::Time | What::MicroTime => !(value.is_null() && field.omit_zero),
        What::String | What::Bytes | What::Bool | What::Int32 | What::Int64 | What::Float64 => {
            if value.is_null() {
                *value = field.node.zero();
            }
            !(field.omit_empty && *value == field.node.zero())
        }
        _ if value.is_null() => {
            *value = field.node.zero();
            true
        }
        _ => true,
    }
}

/// What Go writes for a field that nobody set.
fn absent(field: &'static Field) -> Option<Value> {
    let always = matches!(
        field.node.what,
        What::Struct(_) | What::Time | What::MicroTime | What::Quantity | What::IntOrString | What::Raw
    );
    let nil = field.pointer || matches!(field.node.what, What::List(_) | What::Map(_));
    match field.omit_zero || (field.omit_empty && (nil || !always)) {
        true => None,
        false if nil => Some(Value::Null),
        false => Some(field.node.zero()),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        _ => false,
    }
}

fn settle(node: &'static Node, value: &mut Value) {
    match (&node.what, &mut *value) {
        (What::Struct(id), Value::Object(object)) => record(structure(*id), object),
        (What::Pointer(inner), _) => settle(inner, value),
        (What::List(element), Value::Array(list)) => list.iter_mut().for_each(|value| settle(element, value)),
        (What::Map(element), Value::Object(object)) => {
            object.values_mut().for_each(|value| settle(element, value))
        }
        (What::SchemaOrBool(id) | What::SchemaOrArray(id) | What::SchemaOrStrings(id), _) => {
            schema(*id, value)
        }
        (what, leaf) => {
            if let Some(canonical) = canonical(what, leaf) {
                *leaf = canonical;
            }
        }
    }
}

/// The form that a value with a notation of its own takes, where it has one.
fn canonical(what: &What, value: &Value) -> Option<Value> {
    match (what, value) {
        (What::Time, Value::String(text)) => canonical_time(text),
        (What::MicroTime, Value::String(text)) => canonical_micro_time(text),
        (What::Bytes, Value::String(text)) => octets::canonical(text).map(Value::String),
        (What::Quantity, Value::String(text)) => quantity::canonical(text).ok().map(Value::String),
        (What::Quantity, Value::Number(number)) => {
            quantity::canonical(&number.to_string()).ok().map(Value::String)
        }
        _ => None,
    }
}

fn canonical_time(text: &str) -> Option<Value> {
    let instant = Instant::parse_seconds(text).ok()?;
    if instant.is_zero() { Some(Value::Null) } else { instant.seconds_text().map(Value::String) }
}

fn canonical_micro_time(text: &str) -> Option<Value> {
    let instant = Instant::parse_micros(text).ok()?;
    if instant.is_zero() { Some(Value::Null) } else { instant.micros_text().map(Value::String) }
}

fn schema(id: StructId, value: &mut Value) {
    match value {
        Value::Object(object) => record(structure(id), object),
        Value::Array(list) if list.is_empty() => *value = Value::Null,
        Value::Array(list) => {
            list.iter_mut().filter_map(Value::as_object_mut).for_each(|object| record(structure(id), object));
        }
        _ => {}
    }
}

impl Node {
    /// The value that Go writes for a field, a list element or a map entry of this type that was never set.
    pub(super) fn zero(&self) -> Value {
        match &self.what {
            What::String | What::Bytes => Value::String(String::new()),
            What::Bool => Value::Bool(false),
            What::Int32 | What::Int64 | What::Float64 | What::IntOrString => Value::from(0),
            What::Quantity => Value::String("0".to_owned()),
            What::Struct(id) => {
                let mut object = Map::new();
                record(structure(*id), &mut object);
                Value::Object(object)
            }
            What::List(_) => Value::Array(Vec::new()),
            _ => Value::Null,
        }
    }
}
