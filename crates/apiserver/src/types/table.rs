//! The table of types in memory.
//!
//! `table.txt` is parsed once, on first use; names are slices of that text. Its head explains the format. The file is
//! part of the program, so a malformed line is a bug and panics; a test reads every line.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

use crate::shape::Shape;

static TEXT: &str = include_str!("table.txt");
static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(TEXT));

/// The type of a built-in kind.
#[derive(Clone, Copy)]
pub(crate) struct TypeRef(pub(super) &'static Struct);

impl std::fmt::Debug for TypeRef {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.0.name)
    }
}

/// The type of a kind, where it is built in. `DeleteOptions` exists in every API group.
pub(crate) fn find(api_version: &str, kind: &str) -> Option<TypeRef> {
    let api_version = if kind == "DeleteOptions" { "v1" } else { api_version };
    TABLE.kinds.get(&(api_version, kind)).map(|id| TypeRef(structure(*id)))
}

pub(super) fn structure(id: StructId) -> &'static Struct {
    &TABLE.structs[usize::from(id.0)]
}

/// Every kind of the table, for tests.
#[cfg(test)]
pub(super) fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.kinds.keys().copied()
}

#[derive(Debug)]
struct Table {
    kinds: HashMap<(&'static str, &'static str), StructId>,
    structs: Vec<Struct>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StructId(u16);

/// A Go struct.
#[derive(Debug)]
pub(super) struct Struct {
    /// With its package: `core/v1.Service`.
    pub(super) name: &'static str,
    /// Server-side apply gives it one owner.
    pub(super) atomic: bool,
    /// In the order of their names.
    pub(super) fields: Vec<Field>,
    /// Embedded message (0 for none), field number and position in `fields`, sorted.
    numbers: Vec<(u16, u16, u16)>,
    pub(super) shape: OnceLock<Shape>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) pointer: bool,
    pub(super) node: Node,
    pub(super) omit_empty: bool,
    pub(super) omit_zero: bool,
    /// The embedded Go struct that brings this field.
    pub(super) embedded: Option<&'static str>,
    pub(super) patch: Patch,
    pub(super) apply: Apply,
}

/// How strategic merge patch treats a field.
#[derive(Debug, Default)]
pub(super) struct Patch {
    pub(super) merge: bool,
    pub(super) key: Option<&'static str>,
    pub(super) retain_keys: bool,
    pub(super) replace: bool,
}

/// How server-side apply treats a field.
#[derive(Debug, Default)]
pub(super) enum Apply {
    #[default]
    ByType,
    Atomic,
    Set,
    Keys(Vec<(&'static str, Option<Value>)>),
}

/// A type with the text that names it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) what: What,
    text: &'static str,
}

#[derive(Debug)]
pub(super) enum What {
    String,
    Bool,
    Int32,
    Int64,
    Float64,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON that nobody looks into.
    Raw,
    /// A JSON schema or `true`/`false`, a list of schemas, a list of strings.
    SchemaOrBool(StructId),
    SchemaOrArray(StructId),
    SchemaOrStrings(StructId),
    Struct(StructId),
    List(Box<Node>),
    Map(Box<Node>),
    Pointer(Box<Node>),
}

impl Struct {
    pub(super) fn go_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|field| field.name.cmp(name)).ok().map(|at| &self.fields[at])
    }

    /// The field with a protobuf number, inside of the embedded message `outer` unless that is 0.
    pub(super) fn numbered(&self, outer: u16, number: u16) -> Option<&Field> {
        let at = self.numbers.binary_search_by_key(&(outer, number), |entry| (entry.0, entry.1)).ok()?;
        Some(&self.fields[usize::from(self.numbers[at].2)])
    }

    /// Whether `number` is an embedded message.
    pub(super) fn embeds(&self, number: u16) -> bool {
        self.numbers.iter().any(|entry| entry.0 == number)
    }

    /// Whether the type has a protobuf form; a real server stores the others as JSON.
    pub(super) fn has_protobuf(&self) -> bool {
        !self.numbers.is_empty()
    }
}

impl Node {
    /// The type as Go prints it in error messages.
    pub(super) fn go_type(&self) -> String {
        match (&self.what, self.text.split_once(':')) {
            (What::Pointer(inner), _) => format!("*{}", inner.go_type()),
            (What::Bytes, _) => "[]uint8".to_owned(),
            (What::List(element), _) if self.text.starts_with("[]") => format!("[]{}", element.go_type()),
            (What::Map(element), _) if self.text.starts_with("map[") => {
                format!("{}]{}", self.text.split(']').next().unwrap_or_default(), element.go_type())
            }
            (_, Some((name, _))) => name.to_owned(),
            (_, None) => self.text.rsplit('/').next().unwrap_or(self.text).to_owned(),
        }
    }
}

impl Table {
    fn parse(text: &'static str) -> Table {
        let ids = type_ids(text);
        let mut table = Table { kinds: HashMap::new(), structs: Vec::with_capacity(ids.len()) };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            table.add(line, &ids);
        }
        for structure in &mut table.structs {
            structure.numbers.sort_unstable();
        }
        table
    }

    fn add(&mut self, line: &'static str, ids: &HashMap<&'static str, StructId>) {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("a line of the table has all its words");
        match word() {
            "kind" => {
                let (api_version, kind, name) = (word(), word(), word());
                self.kinds.insert((api_version, kind), ids[name]);
            }
            "type" => {
                let (name, atomic) = (word(), words.next() == Some("atomic"));
                let (fields, numbers) = (Vec::new(), Vec::new());
                self.structs.push(Struct { name, atomic, fields, numbers, shape: OnceLock::new() });
            }
            number => {
                let field = parse_field(word(), word(), words, ids);
                let owner = self.structs.last_mut().expect("a field belongs to a type");
                if let Some((outer, number)) = parse_number(number) {
                    owner.numbers.push((outer, number, owner.fields.len() as u16));
                }
                owner.fields.push(field);
            }
        }
    }
}

fn type_ids(text: &'static str) -> HashMap<&'static str, StructId> {
    let names = text.lines().filter_map(|line| line.strip_prefix("type "));
    let names = names.filter_map(|line| line.split(' ').next());
    names.enumerate().map(|(at, name)| (name, StructId(at as u16))).collect()
}

fn parse_number(word: &str) -> Option<(u16, u16)> {
    if word == "-" {
        return None;
    }
    let (outer, number) = word.split_once('.').unwrap_or(("0", word));
    let parse = |digits: &str| digits.parse().expect("field numbers are small");
    Some((parse(outer), parse(number)))
}

fn parse_field(
    name: &'static str,
    expression: &'static str,
    flags: impl Iterator<Item = &'static str>,
    ids: &HashMap<&'static str, StructId>,
) -> Field {
    let node = Node::parse(expression.trim_start_matches('*'), ids);
    let mut field = Field {
        name,
        pointer: expression.starts_with('*'),
        node,
        omit_empty: false,
        omit_zero: false,
        embedded: None,
        patch: Patch::default(),
        apply: Apply::ByType,
    };
    for flag in flags {
        field.set(flag);
    }
    field
}

impl Field {
    fn set(&mut self, flag: &'static str) {
        match flag.split_once('=').unwrap_or((flag, "")) {
            ("o", _) => self.omit_empty = true,
            ("z", _) => self.omit_zero = true,
            ("in", name) => self.embedded = Some(name),
            ("merge", key) => {
                self.patch.merge = true;
                self.patch.key = Some(key).filter(|key| !key.is_empty());
            }
            ("retain", _) => self.patch.retain_keys = true,
            ("replace", _) => self.patch.replace = true,
            ("atomic", _) => self.apply = Apply::Atomic,
            ("set", _) => self.apply = Apply::Set,
            ("keys", keys) => self.apply = Apply::Keys(keys.split(',').map(parse_key).collect()),
            _ => panic!("the table has no flag {flag}"),
        }
    }
}

fn parse_key(key: &'static str) -> (&'static str, Option<Value>) {
    match key.split_once(':') {
        Some((name, value)) => (name, Some(serde_json::from_str(value).expect("a default is JSON"))),
        None => (key, None),
    }
}

impl Node {
    fn parse(text: &'static str, ids: &HashMap<&'static str, StructId>) -> Node {
        Node { what: What::parse(text, ids), text }
    }
}

impl What {
    fn parse(text: &'static str, ids: &HashMap<&'static str, StructId>) -> What {
        let inner = |text| Box::new(Node::parse(text, ids));
        if let Some(pointee) = text.strip_prefix('*') {
            return What::Pointer(inner(pointee));
        }
        if let Some(element) = text.strip_prefix("[]") {
            return What::List(inner(element));
        }
        if let Some((_, element)) = text.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
            return What::Map(inner(element));
        }
        if let Some((_, meaning)) = text.split_once(':') {
            return What::parse(meaning, ids);
        }
        What::leaf(text, ids)
    }

    fn leaf(text: &str, ids: &HashMap<&'static str, StructId>) -> What {
        let schema = || ids["apiextensions/v1.JSONSchemaProps"];
        match text {
            "string" => What::String,
            "bool" => What::Bool,
            "int32" => What::Int32,
            "int64" => What::Int64,
            "float64" => What::Float64,
            "bytes" => What::Bytes,
            "meta/v1.Time" => What::Time,
            "meta/v1.MicroTime" => What::MicroTime,
            "resource.Quantity" => What::Quantity,
            "intstr.IntOrString" => What::IntOrString,
            "meta/v1.FieldsV1" | "runtime.RawExtension" | "apiextensions/v1.JSON" => What::Raw,
            "apiextensions/v1.JSONSchemaPropsOrBool" => What::SchemaOrBool(schema()),
            "apiextensions/v1.JSONSchemaPropsOrArray" => What::SchemaOrArray(schema()),
            "apiextensions/v1.JSONSchemaPropsOrStringArray" => What::SchemaOrStrings(schema()),
            name => What::Struct(ids[name]),
        }
    }
}
