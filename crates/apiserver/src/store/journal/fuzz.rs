//! Logs by chance, torn as crashes tear them and damaged as nothing should: `cargo xtask fuzz journal`.
//!
//! A log that was torn must lead to the last state that was finished, and be cut where that ends. Whatever else its octets
//! are, it is recovered or refused, and what is left after a cut is whole and says the same.

use std::collections::BTreeMap;

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::json;

use super::entry::Entry;
use super::frame;
use super::recovery::{Recovered, recover};
use crate::object;
use crate::store::{Key, Stored};

/// How many logs `cargo test` looks at.
const ROUNDS: u64 = 2_000;
const SECTOR: usize = 512;

/// Names and versions of all objects, and the revision of the whole.
type Shown = (Vec<String>, u64);

/// A log, and what it led to whenever a piece of it was finished.
#[derive(Default)]
struct Model {
    octets: Vec<u8>,
    steps: Vec<Step>,
    objects: BTreeMap<String, u64>,
    revision: u64,
}

#[derive(Clone)]
struct Step {
    /// Where the piece ends.
    end: usize,
    /// What is kept of a log that ends there, and the state that it says; nothing if there is none yet.
    kept: Option<(usize, Shown)>,
}

impl Model {
    fn by_chance(random: &mut Rng) -> Self {
        let mut model = Self { revision: random.u64(1..100), ..Self::default() };
        model.begin(random);
        for _ in 0..random.usize(..8) {
            if random.u8(..6) == 0 { model.begin(random) } else { model.change(random) }
        }
        model
    }

    fn shown(&self) -> Shown {
        (self.objects.iter().map(|(name, version)| format!("{name}@{version}")).collect(), self.revision)
    }

    /// Everything anew, in one piece or two; it counts when it is complete.
    fn begin(&mut self, random: &mut Rng) {
        let kept = self.steps.last().and_then(|step| step.kept.clone());
        self.revision += random.u64(..5);
        self.objects =
            (0..random.usize(..4)).map(|_| (name(random), random.u64(1..=self.revision))).collect();
        let mut entries = vec![Entry::Begin { revision: self.revision, objects: self.objects.len() }];
        entries.extend(self.objects.iter().map(|(name, version)| put(name, *version, random)));
        let first = random.usize(1..=entries.len());
        let rest = entries.split_off(first);
        if !rest.is_empty() {
            self.piece(&entries);
            self.steps.push(Step { end: self.octets.len(), kept });
            entries = rest;
        }
        self.piece(&entries);
        self.finished();
    }

    fn change(&mut self, random: &mut Rng) {
        let mut entries = Vec::new();
        for _ in 0..random.usize(1..4) {
            self.revision += 1;
            let name = name(random);
            if random.bool() && self.objects.remove(&name).is_some() {
                let (collection, key) = ("things".into(), Key::new("a", name));
                entries.push(Entry::Remove { collection, key, revision: self.revision });
            } else {
                entries.push(put(&name, self.revision, random));
                self.objects.insert(name, self.revision);
            }
        }
        self.piece(&entries);
        self.finished();
    }

    fn piece(&mut self, entries: &[Entry]) {
        let mut content = Vec::new();
        entries.iter().for_each(|entry| entry.write(&mut content));
        frame::write(&mut self.octets, &content);
    }

    fn finished(&mut self) {
        let end = self.octets.len();
        self.steps.push(Step { end, kept: Some((end, self.shown())) });
    }

    /// What a log must lead to of which only so many octets arrived.
    fn after_crash(&self, length: usize) -> Option<(usize, Shown)> {
        self.steps.iter().rev().find(|step| step.end <= length).and_then(|step| step.kept.clone())
    }
}

fn name(random: &mut Rng) -> String {
    random.choice(["p", "q", "r", "s"]).unwrap_or_default().to_owned()
}

fn put(name: &str, revision: u64, random: &mut Rng) -> Entry {
    let text = "x".repeat(random.usize(..2 * SECTOR));
    let value = json!({"metadata": {"namespace": "a", "name": name}, "text": text});
    Entry::Put { collection: "things".into(), object: Stored::new(value, revision) }
}

fn shown(recovered: &Recovered) -> Shown {
    let found = recovered.state.collections.get("things").map(|found| found.range(None)).unwrap_or_default();
    let names = found.iter().map(|stored| {
        format!("{}@{}", object::name(&stored.value), object::meta_text(&stored.value, "resourceVersion"))
    });
    (names.collect(), recovered.state.revision)
}

/// A crash: the end is missing, or zeros are in its place.
fn tear(model: &Model, random: &mut Rng) {
    let length = random.usize(..=model.octets.len());
    let mut octets = model.octets[..length].to_vec();
    if random.bool() {
        octets.resize(length + random.usize(2 * SECTOR..8 * SECTOR), 0);
    }
    let expected = model.after_crash(length);
    match (recover(&octets, Timestamp::UNIX_EPOCH), expected) {
        (Err(_), None) => {}
        (Ok(recovered), Some((kept, state))) => {
            assert_eq!(shown(&recovered), state, "{length} octets");
            assert_eq!(recovered.cut, (kept != octets.len()).then_some(kept), "{length} octets");
        }
        (found, expected) => panic!("{length} octets lead to {found:?}, and not {expected:?}"),
    }
}

/// Anything: also what no crash does. Whether it was recovered.
fn damage(model: &Model, random: &mut Rng) -> bool {
    let mut octets = model.octets.clone();
    for _ in 0..random.usize(1..4) {
        let (one, other) = (random.usize(..=octets.len()), random.usize(..=octets.len()));
        let (from, to) = (one.min(other), one.max(other));
        match random.u8(..5) {
            0 => octets.truncate(from),
            1 => octets.resize(octets.len() + random.usize(..4 * SECTOR), 0),
            2 => drop(octets.splice(from..to, [random.u8(..)])),
            3 if from < octets.len() => octets[from] ^= random.u8(1..),
            _ => octets.extend_from_within(from..to),
        }
    }
    let Ok(recovered) = recover(&octets, Timestamp::UNIX_EPOCH) else { return false };
    let rest = &octets[..recovered.cut.unwrap_or(octets.len())];
    let again = recover(rest, Timestamp::UNIX_EPOCH).expect("what is left after a cut is whole");
    assert_eq!((shown(&again), again.cut), (shown(&recovered), None));
    true
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn torn_logs_lead_to_what_was_finished_and_damaged_ones_are_recovered_or_refused() {
    let (rounds, seed) = (setting("ROUNDS").unwrap_or(ROUNDS), setting("SEED").unwrap_or(1));
    let mut recovered = 0;
    for round in seed..seed + rounds {
        // A failure names its round, which is the seed to begin with.
        let _told = Told(round);
        let mut random = Rng::with_seed(round);
        let model = Model::by_chance(&mut random);
        tear(&model, &mut random);
        recovered += u64::from(damage(&model, &mut random));
    }
    assert!(rounds < 100 || (rounds / 100..rounds).contains(&recovered), "{recovered} of {rounds} recovered");
}

/// Says which round it was, when that does not end well.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("SEED={} ROUNDS=1 shows it", self.0);
        }
    }
}
