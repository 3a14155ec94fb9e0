//! What users want of a supercluster, how they change their minds, and what every member should therefore hold. Pure.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

/// What is imported: the addresses behind each service.
pub(super) type View = BTreeMap<String, BTreeSet<String>>;

/// A service in one of the members that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) service: usize,
    pub(super) member: usize,
}

/// One thing that a user does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The service runs at this address now.
    Serve(Part, String),
    Export(Part),
    Withdraw(Part),
}

/// What users want at the moment.
#[derive(Debug)]
pub(super) struct Wanted {
    parts: Vec<Part>,
    addresses: BTreeMap<Part, String>,
    exported: BTreeSet<Part>,
    moves: u32,
}

/// The name of a service.
pub(super) fn name(service: usize) -> String {
    format!("service-{service}")
}

/// The pods of a member are in 10.x.0.0/16.
pub(super) fn second_byte(member: usize) -> usize {
    100 + member
}

impl Part {
    /// What the addresses of its pods begin with.
    fn prefix(self) -> String {
        format!("10.{}.", second_byte(self.member))
    }
}

impl Wanted {
    /// Services that two neighbouring members have, and export.
    pub(super) fn new(services: usize, members: usize) -> (Self, Vec<Step>) {
        let pairs = (0..services).flat_map(|service| {
            let members: BTreeSet<usize> = [service % members, (service + 1) % members].into();
            members.into_iter().map(move |member| Part { service, member })
        });
        let parts: Vec<Part> = pairs.collect();
        let mut wanted = Self { parts, addresses: BTreeMap::new(), exported: BTreeSet::new(), moves: 0 };
        let steps =
            wanted.parts.clone().into_iter().flat_map(|part| [wanted.serve(part), wanted.export(part)]);
        let steps = steps.collect();
        (wanted, steps)
    }

    /// Somebody changes something: mostly where a service runs, sometimes whether it is shared.
    pub(super) fn change(&mut self, random: &mut Rng) -> Step {
        let part = self.parts[random.usize(..self.parts.len())];
        match random.u8(..10) {
            0 if self.exported.remove(&part) => Step::Withdraw(part),
            0..=2 if !self.exported.contains(&part) => self.export(part),
            _ => self.serve(part),
        }
    }

    /// A service moves; only every other one does, so that there are always some that rest.
    pub(super) fn relocate(&mut self, random: &mut Rng) -> (Part, Step) {
        let restless: Vec<Part> = self.parts.iter().filter(|part| part.service % 2 == 0).copied().collect();
        let part = restless[random.usize(..restless.len())];
        (part, self.serve(part))
    }

    fn serve(&mut self, part: Part) -> Step {
        self.moves += 1;
        let address = format!("{}{}.{}", part.prefix(), (self.moves >> 8) & 255, self.moves & 255);
        self.addresses.insert(part, address.clone());
        Step::Serve(part, address)
    }

    fn export(&mut self, part: Part) -> Step {
        self.exported.insert(part);
        Step::Export(part)
    }

    /// What every member should hold when the member `dead` has been given up: its endpoints go, and a service that only it
    /// exports keeps its name and address.
    pub(super) fn expected(&self, dead: Option<usize>) -> View {
        let mut view = View::new();
        for part in &self.exported {
            let address = self.addresses.get(part).filter(|_| Some(part.member) != dead).cloned();
            view.entry(name(part.service)).or_default().extend(address);
        }
        view
    }
}

/// The first thing in which two views differ, as a sentence.
pub(super) fn difference(expected: &View, seen: &View) -> Option<String> {
    let names: BTreeSet<&String> = expected.keys().chain(seen.keys()).collect();
    let different = names.into_iter().find(|name| expected.get(*name) != seen.get(*name))?;
    let tell = |view: &View| match view.get(different) {
        Some(addresses) => format!("{addresses:?}"),
        None => "nothing".to_owned(),
    };
    Some(format!("{different} has {}, and not {}", tell(seen), tell(expected)))
}

/// What is missing of what was there `before`, as a sentence. Of a part that moved since then its latest address may not be
/// known everywhere, but some address of it is.
pub(super) fn gap(before: &View, moved: &BTreeSet<Part>, seen: &View) -> Option<String> {
    for (service, addresses) in before {
        let Some(there) = seen.get(service) else { return Some(format!("{service} is gone")) };
        for address in addresses {
            let parts = moved.iter().filter(|part| name(part.service) == *service);
            let mut prefixes = parts.map(|part| part.prefix());
            let prefix = prefixes.find(|prefix| address.starts_with(prefix));
            let kept = match prefix {
                Some(prefix) => there.iter().any(|one| one.starts_with(&prefix)),
                None => there.contains(address),
            };
            if !kept {
                return Some(format!("{service} has {there:?}, and no longer {address}"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_should_hold_what_is_exported_at_its_latest_address() {
        let (mut wanted, steps) = Wanted::new(2, 2);
        assert_eq!(steps.len(), 8);
        let [first, second] = [0, 1].map(|member| Part { service: 0, member });
        let Step::Serve(_, address) = wanted.serve(first) else { unreachable!() };
        wanted.exported.remove(&second);
        let view = wanted.expected(None);
        assert_eq!(view["service-0"], [address].into());
        assert_eq!(view["service-1"].len(), 2);
        let without = wanted.expected(Some(0));
        assert_eq!((without["service-0"].len(), without["service-1"].len()), (0, 1));
        let said = difference(&view, &without).unwrap();
        assert!(said.starts_with("service-0 has {}, and not"), "{said}");
        let said = difference(&View::new(), &without).unwrap();
        assert!(said.ends_with("and not nothing"), "{said}");
        assert_eq!(difference(&view, &view.clone()), None);
    }

    #[test]
    fn what_rests_keeps_its_address_and_what_moved_some_address() {
        let view = |first: &[&str]| -> View {
            [("service-0".to_owned(), first.iter().map(|address| (*address).to_owned()).collect())].into()
        };
        let before = view(&["10.100.0.1", "10.101.0.2"]);
        let moved: BTreeSet<Part> = [Part { service: 0, member: 1 }].into();
        for (seen, is_gap) in [
            (view(&["10.100.0.1", "10.101.0.2"]), false),
            (view(&["10.100.0.1", "10.101.0.9"]), false),
            (view(&["10.100.0.9", "10.101.0.2"]), true),
            (view(&["10.100.0.1"]), true),
            (View::new(), true),
        ] {
            assert_eq!(gap(&before, &moved, &seen).is_some(), is_gap, "{seen:?}");
        }
    }
}
