//! JSON into values, noting keys that come twice.
//!
//! The last one counts, as everywhere; but a client that asked for strict validation wants to know.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// No more than this many duplicates are told of one body.
const MOST_TOLD: usize = 100;

/// Reads a whole body; with it the paths of the keys that came twice.
pub(super) fn read(body: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let twice = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = Seed { place: &Place::Root, twice: &twice }.deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, twice.into_inner()))
}

/// Where in the body we are, written out only when somebody asks.
enum Place<'a> {
    Root,
    Key(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Root => Ok(()),
            Place::Key(Place::Root, key) => out.write_str(key),
            Place::Key(parent, key) => write!(out, "{parent}.{key}"),
            Place::Item(parent, index) => write!(out, "{parent}[{index}]"),
        }
    }
}

struct Seed<'a> {
    place: &'a Place<'a>,
    twice: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let place = Place::Item(self.place, list.len());
            match items.next_element_seed(Seed { place: &place, twice: self.twice })? {
                Some(item) => list.push(item),
                None => return Ok(list.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let place = Place::Key(self.place, &key);
            let value = members.next_value_seed(Seed { place: &place, twice: self.twice })?;
            let mut twice = self.twice.borrow_mut();
            if map.contains_key(&key) && twice.len() < MOST_TOLD {
                twice.push(place.to_string());
            }
            drop(twice);
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_any_other_reader_and_duplicates_are_told() {
        let cases = [
            (r#"{"a": 1, "b": [true, null, -2, 1.5, "x"]}"#, vec![]),
            (r#"{"a": 1, "a": 2}"#, vec!["a"]),
            (r#"{"a": {"b": [{"c": 1, "c": 2}]}, "d": 1, "d": 1}"#, vec!["a.b[0].c", "d"]),
        ];
        for (text, expected) in cases {
            let (value, twice) = read(text.as_bytes()).unwrap();
            assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
            assert_eq!(twice, expected, "{text}");
        }
        for bad in ["", "{", "{} x", "{\"a\":}", "\u{0}"] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
