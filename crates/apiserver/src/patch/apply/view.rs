//! How a value looks through its shape: one leaf, named fields, or elements with identities.

use serde_json::{Map, Value};

use super::element;
use crate::shape::Shape;

/// What a value is for the purpose of ownership.
#[derive(Clone, Copy)]
pub(super) enum View<'a> {
    /// Owned as a whole.
    Leaf,
    /// An object whose fields have their own owners; `None` stands for `null`.
    Fields(Option<&'a Map<String, Value>>),
    /// A list whose elements have their own owners.
    Items(&'a [Value]),
}

impl<'a> View<'a> {
    /// A value that does not fit its shape is a leaf: whether it is valid is for others to say.
    pub(super) fn of(value: &'a Value, shape: &Shape) -> Self {
        match (shape, value) {
            (Shape::Record(_) | Shape::Map(_) | Shape::Open, Value::Object(fields)) => {
                Self::Fields(Some(fields))
            }
            (Shape::Record(_) | Shape::Map(_) | Shape::Open, Value::Null) => Self::Fields(None),
            (Shape::Set | Shape::Keyed(_), Value::Array(items)) => Self::Items(items),
            (Shape::Set | Shape::Keyed(_), Value::Null) => Self::Items(&[]),
            _ => Self::Leaf,
        }
    }

    pub(super) fn is_empty(self) -> bool {
        match self {
            Self::Leaf => false,
            Self::Fields(fields) => fields.is_none_or(Map::is_empty),
            Self::Items(items) => items.is_empty(),
        }
    }
}

/// The shape of one field of an object.
pub(super) struct Field<'a> {
    pub(super) shape: &'a Shape,
    /// The field is part of a record, as opposed to an entry of a map: having entries does not make one own it.
    pub(super) named: bool,
    pub(super) declared: bool,
}

pub(super) fn field<'a>(shape: &'a Shape, name: &str) -> Field<'a> {
    let entry = |shape| Field { shape, named: false, declared: true };
    match shape {
        Shape::Record(record) => match (record.fields.get(name), &record.others) {
            (Some(member), _) => Field { shape: &member.shape, named: true, declared: true },
            (None, Some(others)) => entry(others),
            (None, None) => Field { shape: &Shape::Open, named: false, declared: false },
        },
        Shape::Map(values) => entry(values),
        _ => entry(&Shape::Open),
    }
}

/// The shape of the elements of a list.
pub(super) fn item_shape(shape: &Shape) -> &Shape {
    match shape {
        Shape::Keyed(keyed) => &keyed.element,
        _ => &Shape::Scalar,
    }
}

/// The path element that identifies an element of a set or keyed list.
pub(super) fn identify(item: &Value, shape: &Shape) -> Result<String, String> {
    let Shape::Keyed(keyed) = shape else {
        return match item {
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            scalar => Ok(element::set_value(scalar)),
        };
    };
    let Value::Object(fields) = item else {
        return Err("associative list with keys may not have non-map elements".to_owned());
    };
    let keys = keyed.keys.iter();
    let present: Vec<(&str, &Value)> = keys
        .filter_map(|(name, default)| Some((name.as_str(), fields.get(name).or(default.as_ref())?)))
        .collect();
    if present.is_empty() {
        let names: Vec<_> = keyed.keys.iter().map(|(name, _)| format!("{name:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
             values for any key fields)",
            names.join(" ")
        ));
    }
    Ok(element::key(present))
}
