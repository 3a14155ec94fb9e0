//! What the kernel holds, read back and compared with what is wanted, byte by byte.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use tombolo_nft::{Batch, Element, Family, Socket, Table, Value as Data};

use super::table;
use crate::plan::Plan;
use crate::ruleset::encode::{self, Encoded};
use crate::ruleset::{Extra, Skeleton, TABLE, is_choice, is_sticky_set};

/// A set or map of one family.
pub(super) type Place = (Family, Cow<'static, str>);

/// Elements by set or map.
pub(super) type Groups = BTreeMap<Place, Vec<Element>>;

pub(super) fn group(encoded: impl Iterator<Item = Encoded>) -> Groups {
    let mut groups = Groups::new();
    for Encoded { family, set, element } in encoded {
        groups.entry((family, set)).or_default().push(element);
    }
    groups
}

/// Removals come first: an element that changes is removed and added.
pub(super) fn write(batch: &mut Batch, removed: &Groups, added: &Groups) {
    for ((family, set), elements) in removed {
        batch.delete_elements(&table(*family), set, elements);
    }
    add(batch, TABLE, added);
}

/// Adds elements to the tables of a name.
pub(super) fn add(batch: &mut Batch, name: &str, added: &Groups) {
    for ((family, set), elements) in added {
        batch.add_elements(&Table::new(*family, name), set, elements);
    }
}

/// Elements by their key (and its end).
pub(super) type ByKey = HashMap<(Vec<u8>, Option<Vec<u8>>), Element>;

fn by_key(element: Element) -> ((Vec<u8>, Option<Vec<u8>>), Element) {
    ((element.key.clone(), element.end.clone()), element)
}

pub(super) fn wanted(plan: &Plan) -> HashMap<Place, ByKey> {
    let mut wanted: HashMap<Place, ByKey> = HashMap::new();
    for (key, value) in plan.elements() {
        let Encoded { family, set, element } = encode::element(key, value);
        let (place, element) = by_key(element);
        wanted.entry((family, set)).or_default().insert(place, element);
    }
    wanted
}

/// What the kernel holds.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    elements: HashMap<Place, ByKey>,
    chains: BTreeSet<(Family, String, usize)>,
    pub(super) choices: BTreeSet<(Family, String)>,
    sets: BTreeSet<(Family, String)>,
}

impl Loaded {
    /// Reads one family. Returns whether all rules are there.
    pub(super) fn read(&mut self, socket: &mut Socket, skeleton: &Skeleton) -> io::Result<bool> {
        let (table, family) = (&skeleton.table, skeleton.table.family);
        let chains = socket.chains(table)?;
        let sets: BTreeSet<String> = socket.sets(table)?.into_iter().collect();
        let sticky: Vec<&String> = sets.iter().filter(|set| is_sticky_set(set)).collect();
        let mut expected = skeleton.chains();
        // Each set of who sticks has a rule.
        *expected.entry("record".to_owned()).or_default() += sticky.len();
        let own = |chain: &String| !is_choice(chain);
        let found: BTreeMap<String, usize> = chains
            .iter()
            .filter(|(chain, _)| own(chain))
            .map(|(chain, rules)| (chain.clone(), *rules))
            .collect();
        if found != expected || skeleton.sets().any(|set| !sets.contains(set)) {
            return Ok(false);
        }
        let names: Vec<String> =
            skeleton.sets().map(str::to_owned).chain(sticky.into_iter().cloned()).collect();
        for set in names {
            let elements = socket.elements(table, &set)?.into_iter().map(|loaded| by_key(loaded.element));
            self.elements.insert((family, set.into()), elements.collect());
        }
        let choices = chains.keys().filter(|chain| is_choice(chain));
        self.choices.extend(choices.map(|chain| (family, chain.clone())));
        self.chains.extend(chains.into_iter().map(|(chain, rules)| (family, chain, rules)));
        self.sets.extend(sets.into_iter().map(|set| (family, set)));
        Ok(true)
    }

    pub(super) fn has(&self, (family, extra): &(Family, Extra)) -> bool {
        let name = extra.name();
        match extra {
            Extra::Choice { .. } => self.chains.contains(&(*family, name, extra.rules())),
            Extra::Sticky { .. } => self.sets.contains(&(*family, name)),
        }
    }

    /// What has to go and to come.
    pub(super) fn difference(&self, wanted: HashMap<Place, ByKey>) -> (Groups, Groups) {
        let nothing = ByKey::new();
        let (mut removed, mut added) = (Groups::new(), Groups::new());
        for (place, held) in &self.elements {
            let keep = wanted.get(place).unwrap_or(&nothing);
            let stale = held.iter().filter(|(key, element)| keep.get(*key) != Some(*element));
            let stale: Vec<Element> =
                stale.map(|(_, element)| Element { value: Data::None, ..element.clone() }).collect();
            if !stale.is_empty() {
                removed.insert(place.clone(), stale);
            }
        }
        for (place, elements) in wanted {
            let held = self.elements.get(&place).unwrap_or(&nothing);
            let new = elements.into_iter().filter(|(key, element)| held.get(key) != Some(element));
            let new: Vec<Element> = new.map(|(_, element)| element).collect();
            if !new.is_empty() {
                added.insert(place, new);
            }
        }
        (removed, added)
    }
}
