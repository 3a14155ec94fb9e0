//! Tracking of ordinary writes: whoever changes a field owns it from then on.

use serde_json::{Value, json};

use super::Writer;
use super::compare::{Change, compare};
use super::entries::{self, Entry, Operation};
use crate::shape::Shape;

/// Sets the `managedFields` of `new`, which `who` is about to store in place of `old`.
///
/// What is changed or added belongs to the writer alone, what is removed to nobody. Pass the object after defaulting and
/// before the server fills in what it allocates. On create `old` may be an empty object of the kind: the structs that such
/// an object has on a real server (`spec`, mostly) are then not owned themselves.
pub(crate) fn update(old: Option<&Value>, new: &mut Value, shape: &Shape, who: &Writer<'_>) {
    let sent = entries::take(new);
    let base = Base::choose(sent, old.and_then(entries::of), who);
    let exists = old.is_some_and(|old| old.pointer("/metadata/uid").is_some());
    // Tracking that was given up starts again with the first apply.
    if exists && base.is_empty() {
        return;
    }
    let nothing = json!({});
    let change = compare(old.unwrap_or(&nothing), new, shape).without(who.ignored);
    let fields =
        if change.is_empty() { base.encode() } else { entries::encode(write(base.decode(), change, who)) };
    entries::put(new, fields);
}

/// The entries as they were before the write.
enum Base<'a> {
    /// Those of the old object, not yet decoded: most writes that change nothing never need them decoded.
    Kept(&'a Value),
    /// Those the client sent to replace them.
    Sent(Vec<Entry>),
}

impl<'a> Base<'a> {
    /// A client may replace or reset the entries, but not by leaving them out or by sending nonsense, nor through a
    /// subresource.
    fn choose(sent: Option<Value>, kept: Option<&'a Value>, who: &Writer<'_>) -> Self {
        let kept = kept.map_or(Self::Sent(Vec::new()), Self::Kept);
        match sent {
            Some(sent) if who.subresource.is_none() && !matches!(kept, Self::Kept(kept) if *kept == sent) => {
                if sent == json!([]) || sent == json!([{}]) {
                    return Self::Sent(Vec::new());
                }
                entries::decode(&sent).ok().filter(|sent| !sent.is_empty()).map_or(kept, Self::Sent)
            }
            _ => kept,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Kept(kept) => kept.as_array().is_none_or(Vec::is_empty),
            Self::Sent(sent) => sent.is_empty(),
        }
    }

    fn decode(self) -> Vec<Entry> {
        match self {
            Self::Kept(kept) => entries::decode(kept).unwrap_or_default(),
            Self::Sent(sent) => sent,
        }
    }

    fn encode(self) -> Value {
        match self {
            Self::Kept(kept) => kept.clone(),
            Self::Sent(sent) => entries::encode(sent),
        }
    }
}

/// The entries after `who` made this change.
pub(super) fn write(mut entries: Vec<Entry>, change: Change, who: &Writer<'_>) -> Vec<Entry> {
    let written = change.changed.union(change.added);
    for entry in &mut entries {
        entry.fields.subtract(&written);
        entry.fields.subtract(&change.removed);
    }
    if !written.is_empty() {
        match entries.iter_mut().find(|entry| entry.is_of(who, Operation::Update)) {
            Some(own) => {
                own.fields.extend(written);
                own.time = Some(who.now.to_owned());
            }
            None => entries.push(Entry::of(who, Operation::Update, written)),
        }
    }
    entries::cap(entries)
}
