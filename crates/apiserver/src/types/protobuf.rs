//! Protobuf request bodies, as typed Go clients send them.
//!
//! The body is four magic bytes and an envelope that names the kind and carries the message. Go writes every scalar that
//! is not behind a pointer, zero or not, so zeros of such fields are dropped here and zeros of pointer fields are kept.
//! Fields with unknown numbers are skipped: they come from newer clients.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::instant::Instant;
use super::table::{Field, Node, Struct, What, find, structure};

const MAGIC: &[u8] = b"k8s\0";

type Object = Map<String, Value>;

/// Why a protobuf body cannot be read.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum ProtobufError {
    #[error("the body does not begin with the protobuf envelope of Kubernetes")]
    NoEnvelope,
    #[error("no protobuf decoder for kind {kind:?} of version {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
    #[error("the message ends early")]
    Truncated,
    #[error("{0} is not encoded as its type demands")]
    Malformed(&'static str),
}

/// Reads an enveloped object into JSON with `apiVersion` and `kind`.
pub(crate) fn decode_protobuf(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = Envelope::read(body.strip_prefix(MAGIC).ok_or(ProtobufError::NoEnvelope)?)?;
    let Envelope { api_version, kind, raw } = envelope;
    let found = find(&api_version, &kind).filter(|ty| ty.0.has_protobuf());
    let Some(ty) = found else { return Err(ProtobufError::UnknownKind { api_version, kind }) };
    let mut object = Object::new();
    read_message(ty.0, 0, raw, &mut object)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

#[derive(Default)]
struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Envelope<'a>, ProtobufError> {
        let mut envelope = Envelope::default();
        for part in Parts(bytes) {
            match part? {
                (1, Wire::Bytes(type_meta)) => envelope.read_type_meta(type_meta)?,
                (2, Wire::Bytes(raw)) => envelope.raw = raw,
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type_meta(&mut self, bytes: &[u8]) -> Result<(), ProtobufError> {
        for part in Parts(bytes) {
            match part? {
                (1, Wire::Bytes(text)) => self.api_version = text_of(text),
                (2, Wire::Bytes(text)) => self.kind = text_of(text),
                _ => {}
            }
        }
        Ok(())
    }
}

/// One value on the wire.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

/// The fields of a message in the order of the wire; ends after the first error.
struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = Result<(u64, Wire<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let part = self.read();
        if part.is_err() {
            self.0 = &[];
        }
        Some(part)
    }
}

impl<'a> Parts<'a> {
    fn read(&mut self) -> Result<(u64, Wire<'a>), ProtobufError> {
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes were taken"))),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return Err(ProtobufError::Malformed("a field")),
        };
        Ok((tag >> 3, wire))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(ProtobufError::Truncated)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Malformed("a number"))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], ProtobufError> {
        let length = usize::try_from(length).map_err(|_| ProtobufError::Truncated)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Reads a message into `object`, or, where `outer` is not 0, the message of an embedded struct.
fn read_message(
    of: &'static Struct,
    outer: u16,
    bytes: &[u8],
    object: &mut Object,
) -> Result<(), ProtobufError> {
    for part in Parts(bytes) {
        let (number, wire) = part?;
        let Ok(number) = u16::try_from(number) else { continue };
        if let Some(field) = of.numbered(outer, number) {
            read_field(field, wire, object)?;
        } else if let (0, Wire::Bytes(embedded)) = (outer, wire)
            && of.embeds(number)
        {
            read_message(of, number, embedded, object)?;
        }
    }
    Ok(())
}

fn read_field(field: &'static Field, wire: Wire<'_>, object: &mut Object) -> Result<(), ProtobufError> {
    match &field.node.what {
        What::List(element) => read_elements(field.name, element, wire, object),
        What::Map(element) => {
            let entries = object.entry(field.name).or_insert_with(|| Value::Object(Object::new()));
            let Value::Object(entries) = entries else { return Ok(()) };
            read_entry(field.name, element, wire, entries)
        }
        What::Struct(id) => {
            // A message that comes in two pieces is merged.
            let mut inner = match object.remove(field.name) {
                Some(Value::Object(inner)) => inner,
                _ => Object::new(),
            };
            read_message(structure(*id), 0, bytes_of(field.name, wire)?, &mut inner)?;
            put(field, Value::Object(inner), object);
            Ok(())
        }
        _ => {
            put(field, read_value(field.name, &field.node, wire)?, object);
            Ok(())
        }
    }
}

/// Sets a field unless that would say nothing.
fn put(field: &Field, value: Value, object: &mut Object) {
    if value.is_null() || (!field.pointer && is_zero(&value)) {
        object.remove(field.name);
    } else {
        object.insert(field.name.to_owned(), value);
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn read_elements(
    name: &'static str,
    element: &'static Node,
    wire: Wire<'_>,
    object: &mut Object,
) -> Result<(), ProtobufError> {
    let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = list else { return Ok(()) };
    let packable = matches!(element.what, What::Int32 | What::Int64 | What::Bool);
    if let (Wire::Bytes(packed), true) = (wire, packable) {
        let mut numbers = Parts(packed);
        while !numbers.0.is_empty() {
            list.push(read_value(name, element, Wire::Varint(numbers.varint()?))?);
        }
    } else {
        list.push(read_value(name, element, wire)?);
    }
    Ok(())
}

fn read_entry(
    name: &'static str,
    element: &'static Node,
    wire: Wire<'_>,
    entries: &mut Object,
) -> Result<(), ProtobufError> {
    let (mut key, mut value) = (String::new(), None);
    for part in Parts(bytes_of(name, wire)?) {
        match part? {
            (1, Wire::Bytes(text)) => key = text_of(text),
            (2, wire) => value = Some(read_value(name, element, wire)?),
            _ => {}
        }
    }
    entries.insert(key, value.unwrap_or_else(|| element.zero()));
    Ok(())
}

fn read_value(name: &'static str, node: &'static Node, wire: Wire<'_>) -> Result<Value, ProtobufError> {
    Ok(match (&node.what, wire) {
        (What::Bool, Wire::Varint(value)) => Value::Bool(value != 0),
        (What::Int32, Wire::Varint(value)) => Value::from(value as i32),
        (What::Int64, Wire::Varint(value)) => Value::from(value as i64),
        (What::Float64, Wire::Fixed64(bits)) => Value::from(f64::from_bits(bits)),
        (What::String, Wire::Bytes(text)) => Value::String(text_of(text)),
        (What::Bytes, Wire::Bytes(bytes)) => Value::String(STANDARD.encode(bytes)),
        (What::Pointer(inner), wire) => read_value(name, inner, wire)?,
        (_, wire) => read_nested(name, node, bytes_of(name, wire)?)?,
    })
}

fn read_nested(name: &'static str, node: &'static Node, bytes: &[u8]) -> Result<Value, ProtobufError> {
    match &node.what {
        What::Struct(id) => {
            let mut object = Object::new();
            read_message(structure(*id), 0, bytes, &mut object)?;
            Ok(Value::Object(object))
        }
        // A list as the value of a map is a message with the elements as its field 1.
        What::List(element) => {
            let mut list = Vec::new();
            for part in Parts(bytes) {
                if let (1, wire) = part? {
                    list.push(read_value(name, element, wire)?);
                }
            }
            Ok(Value::Array(list))
        }
        What::Time => read_time(name, bytes, Instant::seconds_text),
        What::MicroTime => read_time(name, bytes, Instant::micros_text),
        What::Quantity => match first_bytes(bytes)? {
            [] => Ok(node.zero()),
            text => Ok(Value::String(text_of(text))),
        },
        What::IntOrString => read_int_or_string(name, bytes),
        What::Raw => match first_bytes(bytes)? {
            [] => Ok(Value::Null),
            json => serde_json::from_slice(json).map_err(|_| ProtobufError::Malformed(name)),
        },
        _ => Err(ProtobufError::Malformed(name)),
    }
}

/// The bytes in field 1.
fn first_bytes(bytes: &[u8]) -> Result<&[u8], ProtobufError> {
    let mut first: &[u8] = &[];
    for part in Parts(bytes) {
        if let (1, Wire::Bytes(found)) = part? {
            first = found;
        }
    }
    Ok(first)
}

fn read_time(
    name: &'static str,
    bytes: &[u8],
    text: fn(&Instant) -> Option<String>,
) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let mut instant = Instant::default();
    for part in Parts(bytes) {
        match part? {
            (1, Wire::Varint(seconds)) => instant.seconds = seconds as i64,
            (2, Wire::Varint(nanos)) => instant.nanos = nanos as i32,
            _ => {}
        }
    }
    text(&instant).map(Value::String).ok_or(ProtobufError::Malformed(name))
}

fn read_int_or_string(name: &'static str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut variant, mut number, mut text) = (0, 0, String::new());
    for part in Parts(bytes) {
        match part? {
            (1, Wire::Varint(value)) => variant = value,
            (2, Wire::Varint(value)) => number = value as i32,
            (3, Wire::Bytes(value)) => text = text_of(value),
            _ => {}
        }
    }
    match variant {
        0 => Ok(Value::from(number)),
        1 => Ok(Value::String(text)),
        _ => Err(ProtobufError::Malformed(name)),
    }
}

fn bytes_of<'a>(name: &'static str, wire: Wire<'a>) -> Result<&'a [u8], ProtobufError> {
    match wire {
        Wire::Bytes(bytes) => Ok(bytes),
        _ => Err(ProtobufError::Malformed(name)),
    }
}

/// Go does not check that strings are UTF-8 here and replaces what is not when it writes JSON.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
