//! What a typed decoder would find wrong with a JSON body.
//!
//! A real server decodes built-in kinds into Go structs: names are case-sensitive, unknown fields are dropped and, where
//! the client wants it, reported with their path; explicit nulls are as good as absent; a value of the wrong type is
//! refused in the words of Go's decoder. [`check`] does the same to a [`Value`]. Paths are put together only when there is
//! something to report.

use serde_json::{Map, Number, Value};

use super::instant::Instant;
use super::octets;
use super::quantity;
use super::table::{Field, Node, Struct, StructId, TypeRef, What, structure};

/// Go reports no more unknown fields than this.
const MOST_UNKNOWN: usize = 100;

/// What [`check`] found.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Decoded {
    /// Paths of unknown fields, such as `spec.ports[0].foo`.
    pub(crate) unknown: Vec<String>,
    /// Why the body cannot be decoded, such as `json: cannot unmarshal ...`; unknown fields do not matter then.
    pub(crate) error: Option<String>,
}

impl Decoded {
    /// What a client that wants strict validation is told, one sentence each; `duplicates` are keys that came twice.
    pub(crate) fn complaints(&self, duplicates: &[String]) -> Vec<String> {
        let twice = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
        twice.chain(self.unknown.iter().map(|path| format!("unknown field {path:?}"))).collect()
    }
}

/// The message of the answer to a body with a decoding error.
pub(crate) fn cannot_be_handled(api_version: &str, kind: &str, error: &str) -> String {
    let version = api_version.rsplit('/').next().unwrap_or(api_version);
    format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}")
}

/// Looks for what a typed decoder would complain about; removes unknown fields and nulls from `value`.
pub(crate) fn check(ty: TypeRef, value: &mut Value) -> Decoded {
    let mut checker = Checker::default();
    let root = Place { parent: None, step: Step::Root };
    let outcome = match value {
        Value::Object(object) => checker.record(ty.0, object, &root),
        other => {
            let package = ty.0.name.rsplit('/').next().unwrap_or(ty.0.name);
            let value = describe(other);
            checker.saved = Some(format!("json: cannot unmarshal {value} into Go value of type {package}"));
            Ok(())
        }
    };
    Decoded { unknown: checker.unknown, error: outcome.err().or(checker.saved) }
}

/// A chain on the stack that leads back to the root of the object.
struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
}

enum Step<'a> {
    Root,
    Field(&'static Struct, &'static Field),
    Index(usize),
    Key(&'a str),
}

impl<'a> Place<'a> {
    fn below(&'a self, step: Step<'a>) -> Place<'a> {
        Place { parent: Some(self), step }
    }

    /// The path of an unknown field here.
    fn path(&self, name: &str) -> String {
        let mut path = self.parent.map(|_| self.text()).unwrap_or_default();
        if !path.is_empty() {
            path.push('.');
        }
        path + name
    }

    fn text(&self) -> String {
        let before = self.parent.map(Place::text).unwrap_or_default();
        let dot = if before.is_empty() { "" } else { "." };
        match self.step {
            Step::Root => before,
            Step::Field(_, field) => format!("{before}{dot}{}", field.name),
            Step::Key(key) => format!("{before}{dot}{key}"),
            Step::Index(index) => format!("{before}[{index}]"),
        }
    }

    /// Field names on the way here as Go cites them: without indexes and keys, with embedded structs.
    fn go_path(&self) -> String {
        let before = self.parent.map(Place::go_path).unwrap_or_default();
        match self.step {
            Step::Field(_, field) => {
                let embedded = field.embedded.map(|name| format!(".{name}")).unwrap_or_default();
                format!("{before}{embedded}.{}", field.name)
            }
            _ => before,
        }
    }

    fn owner(&self) -> &'static str {
        match (&self.step, self.parent) {
            (Step::Field(owner, _), _) => owner.go_name(),
            (_, Some(parent)) => parent.owner(),
            (_, None) => "",
        }
    }
}

/// An error that ends the decoding at once; others let it go on and only the first is told.
type Fatal = String;

#[derive(Default)]
struct Checker {
    unknown: Vec<String>,
    saved: Option<String>,
    /// Inside of types that decode themselves, where unknown fields are dropped without a word.
    quiet: bool,
}

impl Checker {
    fn record(
        &mut self,
        of: &'static Struct,
        object: &mut Map<String, Value>,
        at: &Place<'_>,
    ) -> Result<(), Fatal> {
        let mut outcome = Ok(());
        object.retain(|name, value| {
            if outcome.is_err() {
                return true;
            }
            let Some(field) = of.field(name) else {
                self.report_unknown(name, at);
                return false;
            };
            if !value.is_null() {
                outcome = self.value(&field.node, value, &at.below(Step::Field(of, field)));
            }
            !value.is_null()
        });
        outcome
    }

    fn report_unknown(&mut self, name: &str, at: &Place<'_>) {
        if !self.quiet && self.unknown.len() < MOST_UNKNOWN {
            self.unknown.push(at.path(name));
        }
    }

    fn value(&mut self, node: &'static Node, value: &mut Value, at: &Place<'_>) -> Result<(), Fatal> {
        match (&node.what, &mut *value) {
            (What::Struct(id), Value::Object(object)) => self.record(structure(*id), object, at),
            (What::List(element), Value::Array(list)) => self.list(element, list, at),
            (What::Map(element), Value::Object(object)) => self.map(element, object, at),
            (What::Pointer(inner), _) => self.value(inner, value, at),
            (What::String, Value::String(_)) | (What::Bool, Value::Bool(_)) | (What::Raw, _) => Ok(()),
            (What::Int32, Value::Number(number)) => {
                self.integer(number, |value| i32::try_from(value).is_ok(), node, at)
            }
            (What::Int64, Value::Number(number)) => self.integer(number, |_| true, node, at),
            (What::Float64, Value::Number(_)) => Ok(()),
            (What::Bytes, Value::String(text)) => {
                self.save(|| octets::decode(text).err());
                Ok(())
            }
            (What::Time, _) => instant(value, Instant::parse_seconds, at),
            (What::MicroTime, _) => instant(value, Instant::parse_micros, at),
            (What::Quantity, _) => check_quantity(value),
            (What::IntOrString, _) => int_or_string(value, at),
            (What::SchemaOrBool(_), Value::Bool(_)) => Ok(()),
            (What::SchemaOrBool(id), _) => match value {
                Value::Object(_) => self.schema(*id, value, at),
                _ => Err("boolean or JSON schema expected".to_owned()),
            },
            (What::SchemaOrArray(id) | What::SchemaOrStrings(id), _) => self.schema(*id, value, at),
            (_, other) => {
                self.save(|| Some(mismatch(&describe(other), &node.go_type(), at)));
                Ok(())
            }
        }
    }

    fn list(&mut self, element: &'static Node, list: &mut [Value], at: &Place<'_>) -> Result<(), Fatal> {
        for (index, value) in list.iter_mut().enumerate() {
            if value.is_null() {
                *value = element.zero();
            } else {
                self.value(element, value, &at.below(Step::Index(index)))?;
            }
        }
        Ok(())
    }

    fn map(
        &mut self,
        element: &'static Node,
        object: &mut Map<String, Value>,
        at: &Place<'_>,
    ) -> Result<(), Fatal> {
        for (key, value) in object {
            if value.is_null() {
                *value = element.zero();
            } else {
                self.value(element, value, &at.below(Step::Key(key)))?;
            }
        }
        Ok(())
    }

    /// A schema, a list of schemas or a list of strings.
    fn schema(&mut self, id: StructId, value: &mut Value, at: &Place<'_>) -> Result<(), Fatal> {
        let loud = !std::mem::replace(&mut self.quiet, true);
        let outcome = match value {
            Value::Object(object) => self.record(structure(id), object, at),
            Value::Array(list) => {
                let mut schemas = list.iter_mut().filter_map(Value::as_object_mut);
                schemas.try_for_each(|schema| self.record(structure(id), schema, at))
            }
            _ => Ok(()),
        };
        self.quiet = !loud;
        outcome
    }

    fn integer(
        &mut self,
        number: &Number,
        fits: impl Fn(i64) -> bool,
        node: &Node,
        at: &Place<'_>,
    ) -> Result<(), Fatal> {
        if !number.as_i64().is_some_and(fits) {
            self.save(|| Some(mismatch(&format!("number {number}"), &node.go_type(), at)));
        }
        Ok(())
    }

    fn save(&mut self, error: impl FnOnce() -> Option<String>) {
        if self.saved.is_none() {
            self.saved = error();
        }
    }
}

fn instant(value: &Value, parse: fn(&str) -> Result<Instant, String>, at: &Place<'_>) -> Result<(), Fatal> {
    match value {
        Value::String(text) => parse(text).map(|_| ()),
        other => Err(mismatch(&describe(other), "string", at)),
    }
}

fn check_quantity(value: &Value) -> Result<(), Fatal> {
    let canonical = match value {
        Value::String(text) => quantity::canonical(text),
        other => quantity::canonical(&other.to_string()),
    };
    canonical.map(|_| ()).map_err(str::to_owned)
}

fn int_or_string(value: &Value, at: &Place<'_>) -> Result<(), Fatal> {
    match value {
        Value::String(_) => Ok(()),
        Value::Number(number) if number.as_i64().is_some_and(|value| i32::try_from(value).is_ok()) => Ok(()),
        Value::Number(number) => Err(mismatch(&format!("number {number}"), "int32", at)),
        other => Err(mismatch(&describe(other), "int32", at)),
    }
}

fn describe(value: &Value) -> String {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    name.to_owned()
}

fn mismatch(value: &str, go_type: &str, at: &Place<'_>) -> String {
    format!(
        "json: cannot unmarshal {value} into Go struct field {}{} of type {go_type}",
        at.owner(),
        at.go_path()
    )
}
