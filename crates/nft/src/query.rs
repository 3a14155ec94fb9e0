//! What is loaded: generation, tables, chains, rules, sets, elements.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::time::Duration;

use crate::attribute::Attributes;
use crate::expression::Verdict;
use crate::message::{Family, Received, Subsystem};
use crate::object::{Element, Loaded, Table, Value, read_comment};
use crate::socket::{ATTEMPTS, Socket};

const GET_TABLES: (Subsystem, u16) = (Subsystem::Tables, 1);
const GET_CHAINS: (Subsystem, u16) = (Subsystem::Tables, 4);
const GET_RULES: (Subsystem, u16) = (Subsystem::Tables, 7);
const GET_SETS: (Subsystem, u16) = (Subsystem::Tables, 10);
const GET_ELEMENTS: (Subsystem, u16) = (Subsystem::Tables, 13);
const GET_GENERATION: u16 = 16;

const INTERVAL_END: u32 = 1;

impl Socket {
    /// A number that grows with every transaction of anybody in this network namespace.
    pub fn generation(&mut self) -> io::Result<u32> {
        self.ask(GET_GENERATION, |message| message.attributes().u32(1))
    }

    /// All tables, with their comments.
    pub fn tables(&mut self) -> io::Result<Vec<(Table, Option<String>)>> {
        self.dump(
            GET_TABLES,
            0,
            |_| (),
            |message, found| {
                let attributes = message.attributes();
                let table = attributes.text(1).zip(Family::of(message.family()));
                let comment = attributes.get(6).and_then(read_comment);
                found.extend(table.map(|(name, family)| (Table { family, name }, comment)));
            },
        )
    }

    /// The names of a table's chains, each with the number of its rules.
    pub fn chains(&mut self, table: &Table) -> io::Result<BTreeMap<String, usize>> {
        let names = self.names(GET_CHAINS, table, 3)?;
        let mut chains: BTreeMap<String, usize> = names.into_iter().map(|name| (name, 0)).collect();
        for chain in self.names(GET_RULES, table, 2)? {
            *chains.entry(chain).or_default() += 1;
        }
        Ok(chains)
    }

    /// The names of a table's sets and maps; anonymous ones are not among them.
    pub fn sets(&mut self, table: &Table) -> io::Result<Vec<String>> {
        let sets = self.names(GET_SETS, table, 2)?;
        Ok(sets.into_iter().filter(|name| !name.starts_with("__")).collect())
    }

    /// One name per object of a table.
    fn names(&mut self, what: (Subsystem, u16), table: &Table, attribute: u16) -> io::Result<Vec<String>> {
        let fill = |out: &mut crate::attribute::Writer<'_>| out.text(1, &table.name);
        let all = self.dump(what, table.family as u8, fill, |message, found| {
            let attributes = message.attributes();
            found.push((attributes.text(1), attributes.text(attribute)));
        })?;
        let own = all.into_iter().filter(|(owner, _)| owner.as_deref() == Some(&table.name));
        Ok(own.filter_map(|(_, name)| name).collect())
    }

    /// The elements of a set or map. While the kernel moves them to a table of another size it tells some of them twice, and others
    /// not at all; then it is asked again.
    pub fn elements(&mut self, table: &Table, set: &str) -> io::Result<Vec<Loaded>> {
        let mut found = self.elements_once(table, set)?;
        for _ in 1..ATTEMPTS {
            if !has_twice(&found) {
                break;
            }
            found = self.elements_once(table, set)?;
        }
        Ok(found)
    }

    fn elements_once(&mut self, table: &Table, set: &str) -> io::Result<Vec<Loaded>> {
        let fill = |out: &mut crate::attribute::Writer<'_>| {
            out.text(1, &table.name);
            out.text(2, set);
        };
        self.dump(GET_ELEMENTS, table.family as u8, fill, read_elements)
    }
}

/// Whether something is told twice.
fn has_twice(found: &[Loaded]) -> bool {
    let mut keys = HashSet::with_capacity(found.len());
    !found.iter().all(|Loaded { element, .. }| keys.insert((&element.key, &element.end)))
}

fn read_elements(message: &Received<'_>, found: &mut Vec<Loaded>) {
    let list = message.attributes().nested(3);
    found.extend(list.filter_map(|(_, item)| read_element(Attributes(item))));
}

fn read_element(item: Attributes<'_>) -> Option<Loaded> {
    if item.u32(3).is_some_and(|flags| flags & INTERVAL_END != 0) {
        return None;
    }
    let key = item.nested(1).get(1)?.to_vec();
    let end = item.nested(10).get(1).map(<[u8]>::to_vec);
    let data = item.nested(2);
    let verdict = data.nested(2);
    let value = match (data.get(1), verdict.u32(1)) {
        (Some(value), _) => Value::Data(value.to_vec()),
        (_, Some(code)) => Value::Verdict(Verdict::read(code, verdict.text(2))?),
        (None, None) => Value::None,
    };
    // One counter stands by itself, several are a list.
    let single = item.nested(7);
    let counter = if single.0.is_empty() { item.nested(11).nested(1) } else { single };
    let packets = counter.nested(2).u64(2);
    let expires = item.u64(5).map(Duration::from_millis);
    Some(Loaded { element: Element { key, end, value }, packets, expires })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::Writer;

    #[test]
    fn an_element_that_was_written_is_read() {
        let elements = [
            Element::new(vec![1; 12]).with(Value::Verdict(Verdict::Goto("lb-3".to_owned()))),
            Element::new(vec![2; 16]).with(Value::Data(vec![7; 8])),
            Element { key: vec![3; 4], end: Some(vec![4; 4]), value: Value::None },
        ];
        for element in elements {
            let mut bytes = Vec::new();
            element.write(&mut Writer(&mut bytes));
            let item = Attributes(&bytes).get(1).unwrap();
            assert_eq!(read_element(Attributes(item)).unwrap().element, element);
        }
    }

    #[test]
    fn ranges_that_begin_alike_are_two_elements_and_what_is_told_again_is_one() {
        let range = |end: u8| Element { key: vec![1; 4], end: Some(vec![end; 4]), value: Value::None };
        let loaded = |element| Loaded { element, packets: None, expires: None };
        assert!(!has_twice(&[loaded(range(2)), loaded(range(3))]));
        assert!(has_twice(&[loaded(range(2)), loaded(range(3)), loaded(range(2))]));
    }
}
