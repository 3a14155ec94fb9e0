//! Complaints in bounded number, whatever the input.
//!
//! A hundred thousand endpoints may all be wrong in the same way. What is wrong is said once, with the first example in
//! alphabetical order (so that the order of the input does not show) and how many more there are.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::complaint::Complaint;

#[derive(Debug, Default)]
pub(super) struct Gathered(BTreeMap<(&'static str, &'static str), Examples>);

#[derive(Debug)]
struct Examples {
    first: String,
    count: usize,
}

impl Gathered {
    /// `example` of the field or objects `about` has this `problem`.
    pub(super) fn note(&mut self, about: &'static str, problem: &'static str, example: String) {
        match self.0.entry((about, problem)) {
            Entry::Vacant(entry) => {
                entry.insert(Examples { first: example, count: 1 });
            }
            Entry::Occupied(mut entry) => {
                let examples = entry.get_mut();
                examples.count += 1;
                if example < examples.first {
                    examples.first = example;
                }
            }
        }
    }

    pub(super) fn complaints(self) -> impl Iterator<Item = Complaint> {
        self.0.into_iter().map(|((about, problem), Examples { first, count })| {
            let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            Complaint::new(about, format!("{first}{more}: {problem}"))
        })
    }
}
