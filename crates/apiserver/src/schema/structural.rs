//! The tree that a version's `openAPIV3Schema` becomes.
//!
//! Everything that can fail fails here: regular expressions and CEL rules are compiled once, numbers and flags are typed.
//! Whether the schema obeys the rules for custom resources is asked elsewhere (`structure`, `keywords`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::format::Format;
use super::path;
use super::pattern::Pattern;
use super::rules::Rules;
use crate::invalid::FieldError;

/// Schemas nest no deeper than the CEL engine follows them.
const MAX_DEPTH: usize = 60;

/// One node of a structural schema.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    pub(crate) kind: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    pub(crate) preserve_unknown_fields: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) list_type: Option<ListType>,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional: Option<Additional>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) default: Option<Value>,
    pub(super) limits: Limits,
    pub(super) junctors: Junctors,
    pub(super) rules: Option<Rules>,
    /// Whether this node or one below it has rules, so that validation can skip the rest.
    pub(super) ruled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// `x-kubernetes-list-type`, with the keys of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListType {
    Atomic,
    Set,
    Map(Vec<String>),
}

/// `additionalProperties`.
#[derive(Debug)]
pub(crate) enum Additional {
    Any,
    Forbidden,
    Matching(Box<Schema>),
}

impl Additional {
    pub(crate) fn schema(&self) -> Option<&Schema> {
        match self {
            Self::Matching(schema) => Some(schema),
            Self::Any | Self::Forbidden => None,
        }
    }
}

/// The keywords that restrict a single value.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) required: Vec<String>,
    pub(super) options: Vec<Value>,
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<i64>,
    pub(super) max_length: Option<i64>,
    pub(super) pattern: Option<Pattern>,
    pub(super) format: Option<Format>,
    pub(super) min_items: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) unique_items: bool,
    pub(super) min_properties: Option<i64>,
    pub(super) max_properties: Option<i64>,
}

/// The keywords that combine schemas.
#[derive(Debug, Default)]
pub(super) struct Junctors {
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,
}

impl Schema {
    /// Parses the schema that stands at `path` of its definition; errors name places below that.
    pub(crate) fn parse(raw: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        let mut reader = Reader { errors: Vec::new() };
        let schema = reader.schema(raw, path, 0);
        if reader.errors.is_empty() { Ok(schema) } else { Err(reader.errors) }
    }

    /// A schema that says nothing.
    fn blank() -> Self {
        Default::default()
    }

    /// The schema of one field of an object, declared or additional.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or_else(|| self.additional.as_ref()?.schema())
    }

    /// The schemas of everything directly inside a value.
    fn below(&self) -> impl Iterator<Item = &Schema> {
        let additional = self.additional.as_ref().and_then(Additional::schema);
        self.properties.values().chain(self.items.as_deref()).chain(additional)
    }

    /// The JSON types this node allows; none means any.
    pub(super) fn types(&self) -> &[Type] {
        match self.kind {
            _ if self.int_or_string => &[Type::Integer, Type::String],
            Some(Type::Object) => &[Type::Object],
            Some(Type::Array) => &[Type::Array],
            Some(Type::String) => &[Type::String],
            Some(Type::Integer) => &[Type::Integer],
            Some(Type::Number) => &[Type::Number],
            Some(Type::Boolean) => &[Type::Boolean],
            None => &[],
        }
    }
}

/// Reads a schema and remembers everything that is wrong with it.
struct Reader {
    errors: Vec<FieldError>,
}

impl Reader {
    fn schema(&mut self, raw: &Value, at: &str, depth: usize) -> Schema {
        let Some(node) = raw.as_object() else {
            self.reject::<()>(at, raw, "must be an object");
            return Schema::blank();
        };
        if depth > MAX_DEPTH {
            self.errors.push(FieldError::invalid(at, "", format!("must not nest deeper than {MAX_DEPTH}")));
            return Schema::blank();
        }
        let mut schema = Schema {
            kind: self.kind(node, at),
            nullable: self.flag(node, at, "nullable"),
            int_or_string: self.flag(node, at, "x-kubernetes-int-or-string"),
            preserve_unknown_fields: self.flag(node, at, "x-kubernetes-preserve-unknown-fields"),
            embedded_resource: self.flag(node, at, "x-kubernetes-embedded-resource"),
            list_type: self.list_type(node, at),
            default: node.get("default").filter(|value| !value.is_null()).cloned(),
            rules: self.rules(raw, at),
            ..Schema::blank()
        };
        schema.limits = self.limits(node, at, &schema);
        self.children(&mut schema, node, at, depth + 1);
        schema.ruled = schema.rules.is_some() || schema.below().any(|below| below.ruled);
        schema
    }

    fn children(&mut self, schema: &mut Schema, node: &Map<String, Value>, at: &str, depth: usize) {
        for (name, raw) in self.map(node, at, "properties") {
            let place = path::key(&path::child(at, "properties"), name);
            let property = self.schema(raw, &place, depth);
            schema.properties.insert(name.clone(), property);
        }
        if let Some(raw) = node.get("items") {
            schema.items = Some(Box::new(self.schema(raw, &path::child(at, "items"), depth)));
        }
        schema.additional = match node.get("additionalProperties") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(true)) => Some(Additional::Any),
            Some(Value::Bool(false)) => Some(Additional::Forbidden),
            Some(raw) => {
                let place = path::child(at, "additionalProperties");
                Some(Additional::Matching(Box::new(self.schema(raw, &place, depth))))
            }
        };
        schema.junctors = Junctors {
            all_of: self.branches(node, at, "allOf", depth),
            any_of: self.branches(node, at, "anyOf", depth),
            one_of: self.branches(node, at, "oneOf", depth),
            not: node.get("not").map(|raw| Box::new(self.schema(raw, &path::child(at, "not"), depth))),
        };
    }

    fn branches(&mut self, node: &Map<String, Value>, at: &str, key: &str, depth: usize) -> Vec<Schema> {
        let place = path::child(at, key);
        let branches = self.list(node, at, key);
        branches.iter().enumerate().map(|(i, raw)| self.schema(raw, &path::index(&place, i), depth)).collect()
    }

    fn limits(&mut self, node: &Map<String, Value>, at: &str, schema: &Schema) -> Limits {
        Limits {
            required: self.strings(node, at, "required"),
            options: self.list(node, at, "enum").to_vec(),
            minimum: self.number(node, at, "minimum"),
            exclusive_minimum: self.flag(node, at, "exclusiveMinimum"),
            maximum: self.number(node, at, "maximum"),
            exclusive_maximum: self.flag(node, at, "exclusiveMaximum"),
            multiple_of: self.number(node, at, "multipleOf"),
            min_length: self.count(node, at, "minLength"),
            max_length: self.count(node, at, "maxLength"),
            pattern: self.pattern(node, at),
            format: self.text(node, at, "format").and_then(|name| Format::parse(name, schema.types())),
            min_items: self.count(node, at, "minItems"),
            max_items: self.count(node, at, "maxItems"),
            unique_items: self.flag(node, at, "uniqueItems"),
            min_properties: self.count(node, at, "minProperties"),
            max_properties: self.count(node, at, "maxProperties"),
        }
    }

    fn kind(&mut self, node: &Map<String, Value>, at: &str) -> Option<Type> {
        let name = self.text(node, at, "type").filter(|name| !name.is_empty())?;
        let kind = Type::parse(name);
        if kind.is_none() {
            let supported = ["array", "boolean", "integer", "number", "object", "string"];
            self.errors.push(FieldError::not_supported(path::child(at, "type"), name, &supported));
        }
        kind
    }

    fn list_type(&mut self, node: &Map<String, Value>, at: &str) -> Option<ListType> {
        let keys = self.strings(node, at, "x-kubernetes-list-map-keys");
        match self.text(node, at, "x-kubernetes-list-type")? {
            "set" => Some(ListType::Set),
            "map" => Some(ListType::Map(keys)),
            _ => Some(ListType::Atomic),
        }
    }

    fn pattern(&mut self, node: &Map<String, Value>, at: &str) -> Option<Pattern> {
        let source = self.text(node, at, "pattern").filter(|source| !source.is_empty())?;
        Pattern::parse(source)
            .map_err(|error| {
                let detail = format!("must be a valid regular expression, but isn't: {error}");
                self.errors.push(FieldError::invalid(path::child(at, "pattern"), source, detail));
            })
            .ok()
    }

    fn rules(&mut self, raw: &Value, at: &str) -> Option<Rules> {
        match Rules::compile(raw, at) {
            Ok(rules) => rules,
            Err(errors) => {
                self.errors.extend(errors);
                None
            }
        }
    }

    fn text<'a>(&mut self, node: &'a Map<String, Value>, at: &str, key: &str) -> Option<&'a str> {
        let value = present(node, key)?;
        value.as_str().or_else(|| self.reject(&path::child(at, key), value, "must be a string"))
    }

    fn flag(&mut self, node: &Map<String, Value>, at: &str, key: &str) -> bool {
        let Some(value) = present(node, key) else { return false };
        let flag = value.as_bool().or_else(|| self.reject(&path::child(at, key), value, "must be a boolean"));
        flag.unwrap_or(false)
    }

    fn number(&mut self, node: &Map<String, Value>, at: &str, key: &str) -> Option<f64> {
        let value = present(node, key)?;
        value.as_f64().or_else(|| self.reject(&path::child(at, key), value, "must be a number"))
    }

    fn count(&mut self, node: &Map<String, Value>, at: &str, key: &str) -> Option<i64> {
        let value = present(node, key)?;
        value.as_i64().or_else(|| self.reject(&path::child(at, key), value, "must be an integer"))
    }

    fn list<'a>(&mut self, node: &'a Map<String, Value>, at: &str, key: &str) -> &'a [Value] {
        let Some(value) = present(node, key) else { return &[] };
        match value.as_array() {
            Some(list) => list,
            None => self.reject(&path::child(at, key), value, "must be a list").unwrap_or(&[]),
        }
    }

    fn map<'a>(
        &mut self,
        node: &'a Map<String, Value>,
        at: &str,
        key: &str,
    ) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        let map = present(node, key).and_then(|value| {
            value.as_object().or_else(|| self.reject(&path::child(at, key), value, "must be an object"))
        });
        map.into_iter().flatten()
    }

    fn strings(&mut self, node: &Map<String, Value>, at: &str, key: &str) -> Vec<String> {
        let list = self.list(node, at, key);
        let strings = list.iter().map(|item| match item.as_str() {
            Some(text) => Some(text.to_owned()),
            None => self.reject(&path::child(at, key), item, "must be a string"),
        });
        strings.flatten().collect()
    }

    /// Remembers that `value` has the wrong JSON type; always `None` so that callers can return it.
    fn reject<T>(&mut self, at: &str, value: &Value, detail: &str) -> Option<T> {
        self.errors.push(FieldError::invalid(at, value.clone(), detail));
        None
    }
}

fn present<'a>(node: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    node.get(key).filter(|value| !value.is_null())
}
