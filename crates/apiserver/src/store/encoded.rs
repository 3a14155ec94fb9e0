//! An object as bytes.
//!
//! What it is comes first, as servers write it, so that a list can leave that out of its items without reading them.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

/// An encoded object.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    json: Bytes,
    /// Where the fields begin that come after its type.
    rest: usize,
}

/// What says of which type an object is.
const TYPE: [&str; 2] = ["kind", "apiVersion"];

impl Encoded {
    pub(crate) fn new(object: &Value) -> Self {
        let no_fields = serde_json::Map::new();
        let fields = object.as_object().unwrap_or(&no_fields);
        let (mut json, mut rest) = (Vec::from(b"{"), 1);
        for name in TYPE {
            if let Some(value) = fields.get(name) {
                put_field(&mut json, name, value);
                rest = json.len() + 1;
            }
        }
        for (name, value) in fields.iter().filter(|(name, _)| !TYPE.contains(&name.as_str())) {
            put_field(&mut json, name, value);
        }
        json.push(b'}');
        let rest = rest.min(json.len() - 1);
        Self { json: json.into(), rest }
    }

    /// The whole object.
    pub(crate) fn whole(&self) -> &Bytes {
        &self.json
    }

    /// The fields besides its type, with the brace that ends the object, but not the one that begins it.
    pub(crate) fn rest(&self) -> &[u8] {
        self.json.get(self.rest..).unwrap_or_default()
    }
}

fn put_field(out: &mut Vec<u8>, name: &str, value: &Value) {
    if out.len() > 1 {
        out.push(b',');
    }
    put(out, name);
    out.push(b':');
    put(out, value);
}

fn put(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("a JSON value encodes");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_type_comes_first_and_can_be_left_out() {
        let cases = [
            (
                json!({"apiVersion": "v1", "data": {"a": "b"}, "kind": "ConfigMap", "metadata": {"name": "x"}}),
                r#"{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"b"},"metadata":{"name":"x"}}"#,
                r#""data":{"a":"b"},"metadata":{"name":"x"}}"#,
            ),
            (json!({"apiVersion": "v1", "kind": "Pod"}), r#"{"kind":"Pod","apiVersion":"v1"}"#, "}"),
            (json!({"metadata": {}}), r#"{"metadata":{}}"#, r#""metadata":{}}"#),
            (json!({}), "{}", "}"),
        ];
        for (object, whole, rest) in cases {
            let encoded = Encoded::new(&object);
            assert_eq!(encoded.whole(), whole);
            assert_eq!(encoded.rest(), rest.as_bytes());
        }
    }
}
