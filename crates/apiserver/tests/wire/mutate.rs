//! Input that is nearly right: octets and JSON with something changed by chance.

use fastrand::Rng;
use serde_json::{Value, json};

/// What parsers stumble over.
const TOKENS: [&str; 40] = [
    "null",
    "true",
    "{}",
    "[]",
    "\"",
    "\\u0000",
    "\\ud800",
    "1e999",
    "-0",
    "18446744073709551616",
    "\n",
    "\t",
    ": ",
    "- ",
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "? ",
    "|\n",
    "$patch",
    "$retainKeys",
    "$setElementOrder/ports",
    "$deleteFromPrimitiveList/x",
    "f:spec",
    "k:{\"port\":1}",
    "v:1",
    ".",
    "~1",
    "~0",
    "/-",
    "..",
    "%00",
    "é",
    "\u{1f980}",
    "=",
    "!=",
    "in (",
    "notin (",
    ",,",
];

/// Octets with up to four changes; `others` lend pieces.
pub(crate) fn octets(random: &mut Rng, text: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    let mut out = text.to_vec();
    for _ in 0..random.usize(0..5) {
        let place = random.usize(0..=out.len());
        match random.u8(0..7) {
            0 if place < out.len() => out[place] = random.u8(..),
            1 if place < out.len() => out[place] ^= 1 << random.u8(0..8),
            2 => out.truncate(place),
            3 => drop(out.splice(place..place, pick(random, &TOKENS).bytes())),
            4 => {
                let end = (place + random.usize(0..20)).min(out.len());
                out.drain(place..end);
            }
            5 => {
                let end = (place + random.usize(0..20)).min(out.len());
                let piece = out[place..end].to_vec();
                out.splice(place..place, piece);
            }
            _ if !others.is_empty() => {
                let other = &others[random.usize(0..others.len())];
                let from = random.usize(0..=other.len());
                out.truncate(place);
                out.extend_from_slice(&other[from..]);
            }
            _ => {}
        }
    }
    out
}

/// JSON with up to four changes: values replaced, taken away, doubled, put elsewhere.
pub(crate) fn json(random: &mut Rng, value: &Value) -> Value {
    let mut out = value.clone();
    for _ in 0..random.usize(0..5) {
        let count = nodes(&out);
        let lent = at(&mut out, &mut random.usize(0..count)).cloned().unwrap_or_default();
        if let Some(place) = at(&mut out, &mut random.usize(0..count)) {
            change(random, place, lent);
        }
    }
    out
}

fn change(random: &mut Rng, place: &mut Value, lent: Value) {
    match (random.u8(0..6), place) {
        (0, place) => *place = strange(random),
        (1, place) => *place = lent,
        (2 | 3, Value::Object(map)) if !map.is_empty() => {
            let key = map.keys().nth(random.usize(0..map.len())).cloned().unwrap_or_default();
            let taken = map.remove(&key);
            if random.bool() {
                map.insert(pick(random, &TOKENS).to_owned(), taken.unwrap_or_default());
            }
        }
        (2 | 3, Value::Array(list)) if !list.is_empty() => {
            let item = list[random.usize(0..list.len())].clone();
            if random.bool() {
                list.push(item)
            } else {
                drop(list.swap_remove(random.usize(0..list.len())));
            }
        }
        (4, Value::Object(map)) => {
            map.insert(pick(random, &TOKENS).to_owned(), lent);
        }
        (4, Value::Array(list)) => list.push(lent),
        (_, Value::String(text)) => *text = format!("{text}{}", pick(random, &TOKENS)),
        (_, Value::Number(number)) => {
            *number =
                number.as_i64().map_or(0, |number| number.wrapping_add(random.i64(-70_000..70_000))).into();
        }
        _ => {}
    }
}

fn strange(random: &mut Rng) -> Value {
    match random.u8(0..9) {
        0 => Value::Null,
        1 => json!({}),
        2 => json!([]),
        3 => json!(i64::MIN),
        4 => json!(u64::MAX),
        5 => json!(1.5e300),
        6 => json!([[[[{"a": [null]}]]]]),
        7 => pick(random, &TOKENS).into(),
        _ => "x".repeat(random.usize(0..300)).into(),
    }
}

fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(nodes).sum(),
        Value::Object(map) => map.values().map(nodes).sum(),
        _ => 0,
    }
}

/// The value after `left` others, in depth-first order.
fn at<'a>(value: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(list) => list.iter_mut().find_map(|item| at(item, left)),
        Value::Object(map) => map.values_mut().find_map(|item| at(item, left)),
        _ => None,
    }
}

pub(crate) fn pick<'a>(random: &mut Rng, from: &[&'a str]) -> &'a str {
    from[random.usize(0..from.len())]
}
