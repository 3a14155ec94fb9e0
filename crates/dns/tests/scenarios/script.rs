//! Scenario files: queries and what is expected of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// What an answer comes to. Records are compared as sets: their order is chance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The code, or NODATA.
    pub(crate) status: String,
    /// The zone whose SOA came with a negative answer.
    pub(crate) zone: Option<String>,
    pub(crate) answer: BTreeSet<String>,
    pub(crate) additional: BTreeSet<String>,
}

/// One query.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) expected: Outcome,
}

pub(crate) const FILES: [&str; 4] = ["today.txt", "coredns.txt", "first-edition.txt", "cluster.txt"];

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// All cases of all files.
pub(crate) fn cases() -> Vec<Case> {
    let cases: Vec<Case> = FILES.iter().flat_map(|file| read(file)).collect();
    assert!(cases.len() > 90, "only {} cases", cases.len());
    cases
}

fn read(file: &str) -> Vec<Case> {
    let text = fs::read_to_string(folder().join(file)).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if let Some(expectation) = line.strip_prefix("  ") {
            cases.last_mut().unwrap().expect(expectation);
        } else {
            let (name, kind) = line.split_once(' ').unwrap();
            let expected = Outcome::default();
            cases.push(Case { name: name.to_owned(), kind: kind.trim().to_owned(), expected });
        }
    }
    cases
}

impl Case {
    fn expect(&mut self, line: &str) {
        let expected = &mut self.expected;
        if expected.status.is_empty() {
            let mut words = line.split_whitespace().map(str::to_owned);
            (expected.status, expected.zone) = (words.next().unwrap(), words.next());
        } else if let Some(record) = line.strip_prefix("+ ") {
            expected.additional.insert(record.to_owned());
        } else {
            expected.answer.insert(line.to_owned());
        }
    }

    pub(crate) fn check(&self, got: &Outcome, by: &str) {
        let mut got = got.clone();
        // An error says nothing else that anybody may rely on.
        if ["SERVFAIL", "REFUSED"].contains(&got.status.as_str()) {
            (got.answer, got.additional) = Default::default();
        }
        assert_eq!(got, self.expected, "{} {} by {by}", self.name, self.kind);
    }
}

impl Outcome {
    /// NOERROR without an answer is NODATA.
    pub(crate) fn settle(mut self) -> Self {
        if self.status == "NOERROR" && self.answer.is_empty() {
            self.status = "NODATA".to_owned();
        }
        self
    }
}
