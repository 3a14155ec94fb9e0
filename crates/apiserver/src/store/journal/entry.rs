//! What a piece of the log says: one line of JSON per change. Pure.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{Key, Stored};

/// The only way to write things down so far.
const FORMAT: u32 = 1;

/// One line to be written.
#[derive(Clone, Debug)]
pub(in crate::store) enum Entry {
    /// Everything before this is void; as many objects follow, and this is their revision.
    Begin {
        revision: u64,
        objects: usize,
    },
    /// The object is this now; its revision is in its metadata.
    Put {
        collection: Arc<str>,
        object: Arc<Stored>,
    },
    Remove {
        collection: Arc<str>,
        key: Key,
        revision: u64,
    },
}

impl Entry {
    /// Appends the line to `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begin { revision, objects } => {
                line(out, &Line::Begin { format: FORMAT, revision: *revision, objects: *objects });
            }
            Self::Put { collection, object } => {
                // What Line::Put says, without encoding the object again.
                out.extend_from_slice(b"{\"put\":{\"collection\":");
                json(out, &collection.as_ref());
                out.extend_from_slice(b",\"object\":");
                out.extend_from_slice(object.encoded.whole());
                out.extend_from_slice(b"}}\n");
            }
            Self::Remove { collection, key, revision } => {
                let (namespace, name) = (key.namespace.clone(), key.name.clone());
                let collection = collection.to_string();
                line(out, &Line::Remove { collection, namespace, name, revision: *revision });
            }
        }
    }
}

fn json(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("text can be encoded");
}

fn line(out: &mut Vec<u8>, line: &Line) {
    json(out, line);
    out.push(b'\n');
}

/// One line that was read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Line {
    Begin { format: u32, revision: u64, objects: usize },
    Put { collection: String, object: Value },
    Remove { collection: String, namespace: String, name: String, revision: u64 },
}

impl Line {
    /// The lines of a piece; nothing when one of them is none of ours.
    pub(super) fn read(piece: &[u8]) -> Option<Vec<Self>> {
        let lines = piece.split(|octet| *octet == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).ok().filter(Self::is_known)).collect()
    }

    fn is_known(&self) -> bool {
        !matches!(self, Self::Begin { format, .. } if *format != FORMAT)
    }
}
