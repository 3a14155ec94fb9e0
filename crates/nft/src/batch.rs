//! Many changes, one transaction: all of them happen, or none.

use std::borrow::Cow;

use crate::attribute::Writer;
use crate::message::{self, ACK, APPEND, BATCH_BEGIN, BATCH_END, CREATE, EXCLUSIVE, Head, Subsystem};
use crate::object::{Element, Hook, Rule, Set, Table, comment_data};

const NEW_TABLE: u16 = 0;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const DELETE_CHAIN: u16 = 5;
const NEW_RULE: u16 = 6;
const DELETE_RULE: u16 = 8;
const NEW_SET: u16 = 9;
const DELETE_SET: u16 = 11;
const NEW_ELEMENTS: u16 = 12;
const DELETE_ELEMENTS: u16 = 14;
const DESTROY_TABLE: u16 = 26;
const DESTROY_ELEMENTS: u16 = 30;

/// An attribute holds at most 64 kB; the list of elements is one.
const LONGEST_LIST: usize = 56 * 1024;
/// The sequence number of the message that begins a batch; the operations follow.
const FIRST: u32 = 1;

/// A transaction in the making.
#[derive(Clone, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    operations: Vec<Operation>,
    /// Where the last operation begins: it asks for an answer, which comes after the commit.
    last: Option<usize>,
    sets: u32,
}

/// What one message of a batch does, for whoever has to find out which of them failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub verb: &'static str,
    pub table: Table,
    /// The chain or set; empty for a table.
    pub object: String,
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.verb, self.table.family.as_str(), self.table.name)?;
        if self.object.is_empty() { Ok(()) } else { write!(f, " {}", self.object) }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    pub fn new() -> Self {
        Self { bytes: frame(BATCH_BEGIN, FIRST), operations: Vec::new(), last: None, sets: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// How many bytes go to the kernel.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    fn push(
        &mut self,
        (number, flags, verb): (u16, u16, &'static str),
        table: &Table,
        object: &str,
        fill: impl FnOnce(&mut Writer<'_>),
    ) {
        if let Some(before) = self.last.replace(self.bytes.len()) {
            message::clear_flag(&mut self.bytes, before, ACK);
        }
        self.operations.push(Operation { verb, table: table.clone(), object: object.to_owned() });
        let sequence = FIRST + self.operations.len() as u32;
        let kind = Subsystem::Tables.message(number);
        let head = Head::new(kind, flags | ACK, sequence, table.family as u8);
        message::write(&mut self.bytes, head, |out| {
            out.text(1, &table.name);
            fill(out);
        });
    }

    /// Makes a table unless it is there.
    pub fn add_table(&mut self, table: &Table, comment: Option<&str>) {
        self.push((NEW_TABLE, CREATE, "add table"), table, "", |out| {
            if let Some(comment) = comment {
                out.bytes(6, &comment_data(comment));
            }
        });
    }

    /// Removes a table with all that is in it; it has to be there.
    pub fn delete_table(&mut self, table: &Table) {
        self.push((DELETE_TABLE, 0, "delete table"), table, "", |_| ());
    }

    /// Removes a table if it is there (Linux 6.3).
    pub fn destroy_table(&mut self, table: &Table) {
        self.push((DESTROY_TABLE, 0, "destroy table"), table, "", |_| ());
    }

    /// Makes a chain unless it is there; with a hook packets come by, without one only rules lead there.
    pub fn add_chain(&mut self, table: &Table, name: &str, hook: Option<Hook>) {
        self.push((NEW_CHAIN, CREATE, "add chain"), table, name, |out| {
            out.text(3, name);
            if let Some(hook) = hook {
                hook.write(out);
            }
        });
    }

    pub fn delete_chain(&mut self, table: &Table, name: &str) {
        self.push((DELETE_CHAIN, 0, "delete chain"), table, name, |out| out.text(3, name));
    }

    pub fn add_rule(&mut self, table: &Table, chain: &str, rule: &Rule) {
        self.push((NEW_RULE, CREATE | APPEND, "add rule"), table, chain, |out| {
            out.text(2, chain);
            rule.write(out);
        });
    }

    /// Removes all rules of a chain.
    pub fn flush_chain(&mut self, table: &Table, chain: &str) {
        self.push((DELETE_RULE, 0, "flush chain"), table, chain, |out| out.text(2, chain));
    }

    pub fn add_set(&mut self, table: &Table, set: &Set) {
        self.sets += 1;
        let id = self.sets;
        self.push((NEW_SET, CREATE, "add set"), table, &set.name, |out| set.write(out, id));
    }

    pub fn delete_set(&mut self, table: &Table, name: &str) {
        self.push((DELETE_SET, 0, "delete set"), table, name, |out| out.text(2, name));
    }

    /// Adds elements; one that is there with another value is an error.
    pub fn add_elements(&mut self, table: &Table, set: &str, elements: &[Element]) {
        self.elements((NEW_ELEMENTS, CREATE, "add element"), table, set, elements);
    }

    /// Adds elements that must not be there.
    pub fn insert_elements(&mut self, table: &Table, set: &str, elements: &[Element]) {
        self.elements((NEW_ELEMENTS, CREATE | EXCLUSIVE, "create element"), table, set, elements);
    }

    /// Removes elements; one that is not there is an error.
    pub fn delete_elements(&mut self, table: &Table, set: &str, elements: &[Element]) {
        self.elements((DELETE_ELEMENTS, 0, "delete element"), table, set, elements);
    }

    /// Removes elements that may be gone already (Linux 6.3).
    pub fn destroy_elements(&mut self, table: &Table, set: &str, elements: &[Element]) {
        self.elements((DESTROY_ELEMENTS, 0, "destroy element"), table, set, elements);
    }

    fn elements(
        &mut self,
        kind: (u16, u16, &'static str),
        table: &Table,
        set: &str,
        mut elements: &[Element],
    ) {
        while !elements.is_empty() {
            let mut written = 0;
            self.push(kind, table, set, |out| {
                out.text(2, set);
                out.nested(3, |out| {
                    let start = out.0.len();
                    while let Some(element) = elements.get(written) {
                        element.write(out);
                        written += 1;
                        if out.0.len() - start > LONGEST_LIST {
                            break;
                        }
                    }
                });
            });
            elements = &elements[written..];
        }
    }

    /// The bytes to send, in two parts so that a large batch is not copied, and the sequence number of the last operation.
    pub(crate) fn finish(&self) -> ([Cow<'_, [u8]>; 2], u32) {
        let last = FIRST + self.operations.len() as u32;
        ([Cow::Borrowed(&self.bytes), Cow::Owned(frame(BATCH_END, last + 1))], last)
    }

    /// The operation with a sequence number.
    pub(crate) fn operation(&self, sequence: u32) -> Option<&Operation> {
        let place = usize::try_from(sequence.checked_sub(FIRST + 1)?).ok()?;
        self.operations.get(place)
    }
}

/// The message that begins or ends a batch.
fn frame(kind: u16, sequence: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let head = Head { resource: Subsystem::Tables as u16, ..Head::new(kind, 0, sequence, 0) };
    message::write(&mut bytes, head, |_| ());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Family, Received};

    fn messages(bytes: &[u8]) -> Vec<(u16, u16, u32)> {
        let mut rest = bytes;
        let mut found = Vec::new();
        while let Some((message, after)) = Received::read(rest) {
            found.push((message.kind, message.flags, message.sequence));
            rest = after;
        }
        found
    }

    #[test]
    fn a_batch_is_framed_and_its_last_operation_asks_for_an_answer() {
        let table = Table::new(Family::Ip, "t");
        let mut batch = Batch::new();
        batch.add_table(&table, None);
        batch.add_chain(&table, "c", None);
        let (parts, last) = batch.finish();
        assert_eq!(last, 3);
        assert_eq!(messages(&parts.concat()), [(16, 1, 1), (0xa00, 0x401, 2), (0xa03, 0x405, 3), (17, 1, 4)]);
        assert_eq!(batch.operation(3).unwrap().to_string(), "add chain ip t c");
        assert_eq!(batch.operation(1), None);
    }

    #[test]
    fn many_elements_go_in_several_messages() {
        let table = Table::new(Family::Ip, "t");
        let elements: Vec<Element> =
            (0_u32..10_000).map(|number| Element::new(number.to_be_bytes().to_vec())).collect();
        let mut batch = Batch::new();
        batch.add_elements(&table, "s", &elements);
        assert_eq!(batch.len(), 3);
        let total: usize = messages(&batch.finish().0.concat()).len();
        assert_eq!(total, 5);
    }
}
