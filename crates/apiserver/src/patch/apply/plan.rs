//! Applying a configuration: merge, detect conflicts, prune, record.

use serde_json::{Value, json};

use super::combine::combine;
use super::compare::{Change, compare};
use super::conflict::Conflict;
use super::entries::{self, Entry, Operation};
use super::fieldset::FieldSet;
use super::owned::{self, fields_of};
use super::prune::prune;
use super::{Writer, last_applied, update};
use crate::object;
use crate::shape::Shape;

/// Who owns the fields of an object that was written before anybody tracked it.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// An applied configuration on its way into the store.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The live object with the configuration merged in, without `managedFields`: ready for defaulting and admission.
    pub object: Value,
    pub pending: Pending,
}

/// Who owns what, until the object is final.
#[derive(Debug)]
pub(crate) struct Pending {
    others: Vec<Entry>,
    own: FieldSet,
    last: Option<Entry>,
    /// Whether the configuration was all there already.
    is_noop: bool,
}

/// What a server knows about all objects of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind<'a> {
    pub shape: &'a Shape,
    /// An object with nothing in it, where its type has fields that are there all the same.
    pub empty: Option<&'a Value>,
}

impl<'a> From<&'a Shape> for Kind<'a> {
    fn from(shape: &'a Shape) -> Self {
        Self { shape, empty: None }
    }
}

/// Merges `applied`, which must have passed [`check`](super::check()), into `live`. Fails when others own what would
/// change; with `force` fields are taken from whoever owns them.
pub(crate) fn plan<'a>(
    live: Option<&Value>,
    applied: &Value,
    kind: impl Into<Kind<'a>>,
    who: &Writer<'_>,
    force: bool,
) -> Result<Plan, Vec<Conflict>> {
    let kind = kind.into();
    let shape = kind.shape;
    let (last, mut others) = recorded(live, kind, who);
    let fields = fields_of(applied, shape).without(who.ignored);
    let nothing = json!({});
    let live = live.unwrap_or(&nothing);
    let mut object = combine(live, applied, shape);
    entries::take(&mut object);
    if let Some(last) = &last {
        let owned = others.iter().fold(fields.clone(), |all, entry| all.union(entry.fields.clone()));
        if !last.fields.is_subset(&owned) {
            object = prune(object, &last.fields, &owned, shape);
        }
    }
    let is_noop = is_same_object(live, &object);
    let Change { changed, added, removed } = compare(live, &object, shape).without(who.ignored);
    let written = changed.union(added);
    if !force {
        check_conflicts(&others, &written, || {
            last_applied::claimed(live, who.manager, who.api_version, shape)
        })?;
    }
    take_away(&mut others, &written);
    take_away(&mut others, &removed);
    last_applied::refresh(&mut object, applied, who.manager);
    Ok(Plan { object, pending: Pending { others, own: owned::ownable(fields), last, is_noop } })
}

/// What the writer applied last, and what everybody else owns.
fn recorded(live: Option<&Value>, kind: Kind<'_>, who: &Writer<'_>) -> (Option<Entry>, Vec<Entry>) {
    let Some(live) = live else { return (None, Vec::new()) };
    let mut entries = entries::of(live).and_then(|fields| entries::decode(fields).ok()).unwrap_or_default();
    if entries.is_empty() {
        let anybody = Writer { manager: BEFORE_FIRST_APPLY, ..*who };
        let change = compare(kind.empty.unwrap_or(&json!({})), live, kind.shape).without(who.ignored);
        entries = update::write(entries, change, &anybody);
    }
    let own = entries.iter().position(|entry| entry.is_of(who, Operation::Apply));
    (own.map(|own| entries.remove(own)), entries)
}

/// Fails when others own what is written, except what the writer can claim for itself.
fn check_conflicts(
    others: &[Entry],
    written: &FieldSet,
    claimed: impl FnOnce() -> FieldSet,
) -> Result<(), Vec<Conflict>> {
    let contested = others.iter().map(|entry| (entry, written.intersection(&entry.fields)));
    let contested: Vec<_> = contested.filter(|(_, fields)| !fields.is_empty()).collect();
    if contested.is_empty() {
        return Ok(());
    }
    let claimed = claimed();
    let conflicts: Vec<_> = contested
        .into_iter()
        .flat_map(|(entry, fields)| Conflict::all(entry, &fields.difference(&claimed)))
        .collect();
    if conflicts.is_empty() { Ok(()) } else { Err(conflicts) }
}

fn take_away(entries: &mut [Entry], fields: &FieldSet) {
    for entry in entries {
        entry.fields.subtract(fields);
    }
}

impl Pending {
    /// Sets the `managedFields` of `object`, which is what became of [`Plan::object`].
    ///
    /// What defaulting or admission changed meanwhile stays with whoever owns it. An apply that changes nothing keeps its
    /// time; one that only claims what is there already does not say when.
    pub(crate) fn finish(self, object: &mut Value, who: &Writer<'_>) {
        let mut own = Entry::of(who, Operation::Apply, self.own);
        if self.is_noop {
            own.time = self.last.and_then(|last| last.time);
        }
        let mut entries = self.others;
        entries.push(own);
        entries::take(object);
        entries::put(object, entries::encode(entries));
    }
}

/// Whether an object without entries is the live one, to the last empty list.
fn is_same_object(live: &Value, object: &Value) -> bool {
    object::is_same_but(live, object, "metadata")
        && object::is_same_but(&live["metadata"], &object["metadata"], "managedFields")
}
