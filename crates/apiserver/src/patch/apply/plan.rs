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

/// Merges `applied`, which must have passed [`check`](super::check()), into `live`. Fails when others own what would
/// change; with `force` fields are taken from whoever owns them.
pub(crate) fn plan(
    live: Option<&Value>,
    applied: &Value,
    shape: &Shape,
    who: &Writer<'_>,
    force: bool,
) -> Result<Plan, Vec<Conflict>> {
    let (last, mut others) = recorded(live, shape, who);
    let fields = fields_of(applied, shape);
    let nothing = json!({});
    let live = live.unwrap_or(&nothing);
    let mut object = combine(live, applied, shape);
    entries::take(&mut object);
    if let Some(last) = &last {
        let owned = others.iter().fold(fields.clone(), |all, entry| all.union(entry.fields.clone()));
        if !last.fields.is_subset(&owned) {
            object = prune(object, &last.fields, &owned, shape);
            // A container that is applied empty went with what was in it: applying must not depend on what was there.
            object = combine(&object, applied, shape);
        }
    }
    let change = compare(live, &object, shape);
    let is_noop = change.is_empty();
    let Change { changed, added, removed } = change;
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
fn recorded(live: Option<&Value>, shape: &Shape, who: &Writer<'_>) -> (Option<Entry>, Vec<Entry>) {
    let Some(live) = live else { return (None, Vec::new()) };
    let mut entries = entries::of(live).and_then(|fields| entries::decode(fields).ok()).unwrap_or_default();
    if entries.is_empty() {
        let anybody = Writer { manager: BEFORE_FIRST_APPLY, ..*who };
        entries = update::write(entries, compare(&json!({}), live, shape), &anybody);
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
    /// What defaulting or admission changed is nobody's unless it was applied. An apply that changes neither the object
    /// nor who owns what leaves every time as it was, so that the result equals `live`; one that only claims what is
    /// there already does not say when.
    pub(crate) fn finish(self, live: Option<&Value>, object: &mut Value, shape: &Shape, who: &Writer<'_>) {
        entries::take(object);
        let nothing = json!({});
        let mut change = compare(live.unwrap_or(&nothing), object, shape);
        last_applied::disregard(&mut change.changed, who.manager);
        let mut entries = self.others;
        take_away(&mut entries, &change.changed);
        take_away(&mut entries, &change.removed);
        let mut own = Entry::of(who, Operation::Apply, self.own);
        let same = self.last.filter(|last| self.is_noop || change.is_empty() && is_same(last, &own));
        if self.is_noop || same.is_some() {
            own.time = same.and_then(|last| last.time);
        }
        entries.push(own);
        entries::put(object, entries::encode(entries));
    }
}

fn is_same(last: &Entry, own: &Entry) -> bool {
    last.api_version == own.api_version && last.fields == own.fields
}
