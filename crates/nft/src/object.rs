//! What a table is made of: chains, sets and maps, rules, elements.

use std::time::Duration;

use crate::attribute::Writer;
use crate::expression::{Expression, Verdict, data};
use crate::message::Family;
use crate::types::{self, Type};

/// The data type of a map of verdicts.
const VERDICT_TYPE: u32 = 0xffff_ff00;
const LIST_ITEM: u16 = 1;

/// Names a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub family: Family,
    pub name: String,
}

impl Table {
    pub fn new(family: Family, name: impl Into<String>) -> Self {
        Self { family, name: name.into() }
    }
}

/// Where a base chain is hung into the kernel's way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    pub kind: ChainKind,
    pub place: Place,
    pub priority: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainKind {
    Filter,
    Nat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Prerouting = 0,
    Input = 1,
    Forward = 2,
    Output = 3,
    Postrouting = 4,
}

impl Hook {
    pub(crate) fn write(self, out: &mut Writer<'_>) {
        out.nested(4, |out| {
            out.u32(1, self.place as u32);
            out.u32(2, self.priority as u32);
        });
        out.text(7, if self.kind == ChainKind::Nat { "nat" } else { "filter" });
    }
}

/// A set, or a map if it has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    pub name: String,
    pub key: Vec<Type>,
    pub value: ValueType,
    /// Elements are ranges: from a key to another.
    pub interval: bool,
    /// Rules add elements, which go after a while; at most so many.
    pub dynamic: Option<u32>,
    /// It never has more elements than this. The kernel then makes a table that need not grow, which is loaded faster.
    pub most: Option<u32>,
    /// Each element counts its packets.
    pub counted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueType {
    None,
    Data(Vec<Type>),
    Verdict,
}

impl Set {
    pub fn new(name: impl Into<String>, key: &[Type]) -> Self {
        let key = key.to_vec();
        Self {
            name: name.into(),
            key,
            value: ValueType::None,
            interval: false,
            dynamic: None,
            most: None,
            counted: false,
        }
    }

    pub fn map(name: impl Into<String>, key: &[Type], value: &[Type]) -> Self {
        Self { value: ValueType::Data(value.to_vec()), ..Self::new(name, key) }
    }

    pub fn verdicts(name: impl Into<String>, key: &[Type]) -> Self {
        Self { value: ValueType::Verdict, ..Self::new(name, key) }
    }

    fn flags(&self) -> u32 {
        let concatenated = self.interval && self.key.len() > 1;
        let flags = [
            (self.interval, 0x4),
            (self.value != ValueType::None, 0x8),
            (self.dynamic.is_some(), 0x10 | 0x20),
            (concatenated, 0x80),
            (self.counted, 0x100),
        ];
        flags.iter().filter(|(given, _)| *given).map(|(_, flag)| flag).sum()
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>, id: u32) {
        out.text(2, &self.name);
        out.u32(3, self.flags());
        out.u32(4, types::number(&self.key));
        out.u32(5, types::length(&self.key));
        match &self.value {
            ValueType::None => {}
            ValueType::Data(data) => {
                out.u32(6, types::number(data));
                out.u32(7, types::length(data));
            }
            ValueType::Verdict => {
                out.u32(6, VERDICT_TYPE);
                out.u32(7, 16);
            }
        }
        self.describe(out);
        out.u32(10, id);
        out.bytes(13, &self.byte_orders());
        if self.counted {
            out.nested(17, |out| Expression::Counter.write(out));
        }
    }

    fn describe(&self, out: &mut Writer<'_>) {
        let fields = self.interval && self.key.len() > 1;
        out.nested(9, |out| {
            if let Some(size) = self.dynamic.or(self.most) {
                out.u32(1, size);
            }
            if fields {
                out.nested(2, |out| self.key.iter().for_each(|kind| field(out, *kind)));
            }
        });
    }

    /// How `nft` learns the byte order of keys and data: a type and a length, one byte each, then a number.
    fn byte_orders(&self) -> Vec<u8> {
        const BIG_ENDIAN: u32 = 2;
        let mut bytes = Vec::new();
        let orders = [(0, true), (1, matches!(self.value, ValueType::Data(_)))];
        for (kind, _) in orders.into_iter().filter(|(_, given)| *given) {
            bytes.extend_from_slice(&[kind, 4]);
            bytes.extend_from_slice(&BIG_ENDIAN.to_ne_bytes());
        }
        bytes
    }
}

fn field(out: &mut Writer<'_>, kind: Type) {
    out.nested(LIST_ITEM, |out| out.u32(1, kind.length()));
}

/// An element of a set, or an entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    pub key: Vec<u8>,
    /// The end of a range, itself part of it.
    pub end: Option<Vec<u8>>,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    None,
    Data(Vec<u8>),
    Verdict(Verdict),
}

impl Element {
    pub fn new(key: Vec<u8>) -> Self {
        Self { key, end: None, value: Value::None }
    }

    pub fn with(self, value: Value) -> Self {
        Self { value, ..self }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.nested(LIST_ITEM, |out| {
            data(out, 1, &self.key);
            if let Some(end) = &self.end {
                data(out, 10, end);
            }
            match &self.value {
                Value::None => {}
                Value::Data(value) => data(out, 2, value),
                Value::Verdict(verdict) => out.nested(2, |out| verdict.write(out)),
            }
        });
    }
}

/// A rule with what a person reads about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub expressions: Vec<Expression>,
    pub comment: Option<String>,
}

impl Rule {
    pub fn new(expressions: Vec<Expression>) -> Self {
        Self { expressions, comment: None }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.nested(4, |out| {
            for expression in &self.expressions {
                out.nested(LIST_ITEM, |out| expression.write(out));
            }
        });
        if let Some(comment) = &self.comment {
            out.bytes(7, &comment_data(comment));
        }
    }
}

/// A comment as `nft` keeps it: a type and a length, one byte each, then the text with a zero.
pub(crate) fn comment_data(comment: &str) -> Vec<u8> {
    const LONGEST: usize = 128;
    let text: Vec<u8> = comment.bytes().take(LONGEST).collect();
    let mut bytes = vec![0, text.len() as u8 + 1];
    bytes.extend(text);
    bytes.push(0);
    bytes
}

pub(crate) fn read_comment(bytes: &[u8]) -> Option<String> {
    let (kind, length) = (*bytes.first()?, usize::from(*bytes.get(1)?));
    let text = bytes.get(2..2 + length)?.strip_suffix(&[0])?;
    (kind == 0).then(|| String::from_utf8_lossy(text).into_owned())
}

/// An element as the kernel tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub element: Element,
    pub packets: Option<u64>,
    /// How long it stays, for elements that go by themselves.
    pub expires: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_a_list_item_with_key_and_data() {
        let mut bytes = Vec::new();
        let element = Element::new(vec![1, 2, 3, 4]).with(Value::Data(vec![5, 6, 7, 8]));
        element.write(&mut Writer(&mut bytes));
        let le = [
            28, 0, 1, 0x80, // item
            12, 0, 1, 0x80, 8, 0, 1, 0, 1, 2, 3, 4, // key
            12, 0, 2, 0x80, 8, 0, 1, 0, 5, 6, 7, 8, // data
        ];
        if cfg!(target_endian = "little") {
            assert_eq!(bytes, le);
        }
    }

    #[test]
    fn comments_are_read_back_and_cut_where_nft_would_refuse_them() {
        assert_eq!(read_comment(&comment_data("layout 1")).as_deref(), Some("layout 1"));
        assert_eq!(read_comment(&comment_data(&"x".repeat(500))).map(|text| text.len()), Some(128));
        for broken in [&[][..], &[0], &[0, 9, 1], &[1, 1, 0]] {
            assert_eq!(read_comment(broken), None, "{broken:?}");
        }
    }
}
