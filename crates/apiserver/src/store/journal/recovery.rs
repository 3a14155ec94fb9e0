//! What a log says: the state it leads to, and where it has to be cut. Pure.
//!
//! Changes after the last beginning become changes that watchers can still ask for, so a client that was nearly up to
//! date goes on where it was.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::super::{Key, State, Stored};
use super::entry::Line;
use super::frame::{self, End};
use crate::object;

/// A log that was read.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) state: State,
    /// Where a crash left something unfinished: the file ends here.
    pub(super) cut: Option<usize>,
}

/// Why a log cannot be believed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged at octet {at} of {length}: {what}")]
pub(super) struct Damage {
    at: usize,
    length: usize,
    what: String,
}

/// Reads a log; `now` is when its changes become known to watchers.
pub(super) fn recover(log: &[u8], now: Timestamp) -> Result<Recovered, Damage> {
    let damaged = |at, what: String| Damage { at, length: log.len(), what };
    let (pieces, end) = frame::read(log);
    let mut replay = Replay { state: State::starting(0), missing: 0, began: None, now };
    for (at, piece) in pieces {
        let lines =
            Line::read(piece).ok_or_else(|| damaged(at, "it is not of this version's format".into()))?;
        for line in lines {
            replay.line(at, line).map_err(|what| damaged(at, what))?;
        }
    }
    let torn = match end {
        End::Clean => None,
        End::Torn(at) => Some(at),
        End::Damaged(at) => return Err(damaged(at, "what was written there is not what it was".into())),
    };
    match replay.began {
        None | Some(0) if replay.missing > 0 || replay.began.is_none() => {
            Err(damaged(torn.unwrap_or(log.len()), "the log's beginning is not complete".into()))
        }
        // To begin anew takes more than one piece; unfinished, it did not happen.
        Some(at) if replay.missing > 0 => {
            recover(&log[..at], now).map(|before| Recovered { cut: Some(at), ..before })
        }
        _ => Ok(Recovered { state: replay.state, cut: torn }),
    }
}

struct Replay {
    state: State,
    /// How many objects the last beginning still promises.
    missing: usize,
    /// Where the last beginning is.
    began: Option<usize>,
    now: Timestamp,
}

impl Replay {
    fn line(&mut self, at: usize, line: Line) -> Result<(), String> {
        match line {
            Line::Begin { revision, objects, .. } => {
                self.state = State::starting(revision);
                (self.missing, self.began) = (objects, Some(at));
                Ok(())
            }
            _ if self.began.is_none() => Err("the log has no beginning".to_owned()),
            Line::Put { collection, object } => self.put(&collection.into(), object),
            Line::Remove { collection, namespace, name, revision } => {
                self.expect(revision)?;
                self.remove(&collection.into(), &Key::new(namespace, name), revision)
            }
        }
    }

    fn put(&mut self, collection: &Arc<str>, object: Value) -> Result<(), String> {
        let revision = object::meta_text(&object, "resourceVersion").parse().unwrap_or(0);
        let key = Key::of(&object);
        let stored = Stored::new(object, revision);
        if let Some(left) = self.missing.checked_sub(1) {
            self.missing = left;
            self.state.load(collection, key, stored);
            return Ok(());
        }
        self.expect(revision)?;
        self.state.put(collection, key, &stored, revision, self.now).set(Some(revision));
        Ok(())
    }

    fn remove(&mut self, collection: &Arc<str>, key: &Key, revision: u64) -> Result<(), String> {
        let gone = || format!("{}/{} of {collection} is removed, but is not there", key.namespace, key.name);
        let last = self.state.get(collection, key).ok_or_else(gone)?;
        let last = Stored::new(last.value.clone(), revision);
        self.state.remove(collection, key, &last, revision, self.now).set(Some(revision));
        Ok(())
    }

    /// Revisions leave nothing out: a gap is a change that is lost.
    fn expect(&self, revision: u64) -> Result<(), String> {
        let next = self.state.revision + 1;
        if self.missing == 0 && revision == next {
            return Ok(());
        }
        Err(format!("revision {revision} is where {next} should be"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::entry::Entry;
    use super::*;

    fn object(name: &str, revision: u64) -> Arc<Stored> {
        Stored::new(json!({"metadata": {"namespace": "a", "name": name}}), revision)
    }

    fn put(name: &str, revision: u64) -> Entry {
        Entry::Put { collection: "things".into(), object: object(name, revision) }
    }

    fn remove(name: &str, revision: u64) -> Entry {
        Entry::Remove { collection: "things".into(), key: Key::new("a", name), revision }
    }

    fn log(pieces: &[&[Entry]]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in pieces {
            let mut content = Vec::new();
            piece.iter().for_each(|entry| entry.write(&mut content));
            frame::write(&mut out, &content);
        }
        out
    }

    fn recover(log: &[u8]) -> Result<Recovered, Damage> {
        super::recover(log, Timestamp::UNIX_EPOCH)
    }

    fn names(recovered: &Recovered) -> Vec<String> {
        let found = recovered.state.collections.get("things").map(|found| found.range(None));
        let shown = |stored: &Arc<Stored>| {
            format!("{}@{}", object::name(&stored.value), object::meta_text(&stored.value, "resourceVersion"))
        };
        found.unwrap_or_default().iter().map(shown).collect()
    }

    fn begin(revision: u64, objects: usize) -> Entry {
        Entry::Begin { revision, objects }
    }

    #[test]
    fn a_log_leads_to_the_state_that_was_written() {
        let log = log(&[
            &[begin(10, 2), put("x", 3)],
            &[put("y", 10)],
            &[put("x", 11), put("z", 12)],
            &[remove("y", 13)],
        ]);
        let recovered = recover(&log).unwrap();
        assert_eq!(names(&recovered), ["x@11", "z@12"]);
        assert_eq!((recovered.state.revision, recovered.cut), (13, None));
    }

    #[test]
    fn every_number_is_the_same_afterwards() {
        // Numbers that a reader who rounds carelessly gets wrong in the last digit.
        let numbers = json!([51.248_178_375_505_404, 1e23, 9_007_199_254_740_993_i64, 5e-324, 1.797e308]);
        let value = json!({"metadata": {"namespace": "a", "name": "x"}, "spec": numbers});
        let put = Entry::Put { collection: "things".into(), object: Stored::new(value, 11) };
        let recovered = recover(&log(&[&[begin(10, 0)], &[put]])).unwrap();
        let found = recovered.state.collections.get("things").unwrap().range(None);
        assert_eq!(found[0].value["spec"], numbers);
    }

    #[test]
    fn watchers_can_ask_for_what_came_after_the_beginning_and_for_nothing_older() {
        let log = log(&[&[begin(10, 1), put("x", 3)], &[put("x", 11), remove("x", 12)]]);
        let recovered = recover(&log).unwrap();
        let known = &recovered.state.collections["things"].log;
        assert!(known.after(9).is_none());
        let revisions: Vec<u64> = known.after(10).unwrap().iter().map(|change| change.revision).collect();
        assert_eq!(revisions, [11, 12]);
    }

    #[test]
    fn every_beginning_of_a_log_recovers_to_one_of_the_states_it_went_through() {
        let pieces: [&[Entry]; 4] = [
            &[begin(10, 1), put("x", 3)],
            &[put("y", 11)],
            &[remove("x", 12), put("z", 13)],
            &[put("y", 14)],
        ];
        let states = [vec!["x@3"], vec!["x@3", "y@11"], vec!["y@11", "z@13"], vec!["y@14", "z@13"]];
        let ends: Vec<usize> = (1..=4).map(|count| log(&pieces[..count]).len()).collect();
        let whole = log(&pieces);
        for length in 0..=whole.len() {
            let count = ends.iter().filter(|end| **end <= length).count();
            let Ok(recovered) = recover(&whole[..length]) else {
                assert_eq!(count, 0, "{length} octets");
                continue;
            };
            assert_eq!(names(&recovered), states[count - 1], "{length} octets");
            assert_eq!(recovered.cut, (ends[count - 1] != length).then_some(ends[count - 1]));
        }
    }

    #[test]
    fn whatever_the_octets_are_they_are_recovered_or_refused() {
        let pieces: [&[Entry]; 4] =
            [&[begin(10, 1), put("x", 3)], &[put("y", 11)], &[remove("x", 12)], &[begin(4, 1), put("p", 4)]];
        let whole = log(&pieces);
        let mut random = fastrand::Rng::with_seed(7);
        let (mut recovered, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut octets = whole.clone();
            for _ in 0..random.usize(1..4) {
                let (from, to) = (random.usize(0..=octets.len()), random.usize(0..=octets.len()));
                match random.u8(0..4) {
                    0 => octets.truncate(from),
                    1 => octets.resize(octets.len() + random.usize(0..2000), 0),
                    2 => drop(octets.splice(from.min(to)..from.max(to), [random.u8(..)])),
                    _ => octets.extend_from_within(from.min(to)..from.max(to)),
                }
            }
            match recover(&octets) {
                Ok(found) => {
                    recovered += 1;
                    let cut = found.cut.unwrap_or(octets.len());
                    assert!(
                        recover(&octets[..cut]).unwrap().cut.is_none(),
                        "what is left after a cut is whole"
                    );
                }
                Err(damage) => {
                    refused += 1;
                    assert!(damage.at <= octets.len());
                }
            }
        }
        assert!(recovered > 100 && refused > 100, "{recovered} {refused}");
    }

    #[test]
    fn beginning_anew_counts_only_when_it_is_complete() {
        let before: [&[Entry]; 2] = [&[begin(10, 0)], &[put("x", 11)]];
        let anew: [&[Entry]; 2] = [&[begin(5, 2), put("p", 4)], &[put("q", 5)]];
        let (half, whole) =
            (log(&[before[0], before[1], anew[0]]), log(&[before[0], before[1], anew[0], anew[1]]));
        let recovered = recover(&half).unwrap();
        assert_eq!((names(&recovered), recovered.cut), (vec!["x@11".to_owned()], Some(log(&before).len())));
        let recovered = recover(&whole).unwrap();
        assert_eq!((names(&recovered), recovered.state.revision), (vec!["p@4".into(), "q@5".into()], 5));
    }

    #[test]
    fn what_cannot_be_is_reported_with_its_place() {
        let cases: [(&[&[Entry]], &str); 4] = [
            (&[&[begin(10, 0)], &[put("x", 12)]], "revision 12 is where 11 should be"),
            (&[&[begin(10, 0)], &[remove("x", 11)]], "a/x of things is removed, but is not there"),
            (&[&[put("x", 11)]], "the log has no beginning"),
            (&[&[begin(10, 2)], &[put("x", 9)]], "the log's beginning is not complete"),
        ];
        for (pieces, what) in cases {
            let damage = recover(&log(pieces)).unwrap_err();
            assert!(damage.to_string().ends_with(what), "{damage}");
        }
        assert_eq!(recover(&log(cases[0].0)).unwrap_err().at, log(&cases[0].0[..1]).len());
    }
}
