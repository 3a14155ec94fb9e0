//! Who answered how often, from what a loop of calls said. Pure.

use std::collections::BTreeMap;
use std::fmt;

/// Each word that was looked for, with how often it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally(BTreeMap<String, usize>);

impl Tally {
    /// Counts words that begin with `prefix` and end in digits, and the word `failed`: `grep -oE | sort | uniq -c`.
    pub(super) fn of(text: &str, prefix: &str) -> Self {
        let mut counts = BTreeMap::new();
        for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
            let number = word.strip_prefix(prefix).unwrap_or_default();
            let counted =
                word == "failed" || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
            if counted {
                *counts.entry(word.to_owned()).or_insert(0) += 1;
            }
        }
        Self(counts)
    }

    /// Whether exactly these answered, each at least once, and so many times in all.
    pub(super) fn is(&self, expected: &[&str], total: usize) -> bool {
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        names == expected && self.0.values().sum::<usize>() == total
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(|(word, count)| format!("{count:7} {word}")).collect();
        out.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_who_gave_them_and_failures_are_not_forgotten() {
        let text = "{\"cluster\":\"member1\",\"node\":\"node2\"}\nfailed\n{\"cluster\":\"member2\"}\n{\"cluster\":\"member1\"}\n";
        let tally = Tally::of(text, "member");
        assert_eq!(tally.to_string(), "      1 failed\n      2 member1\n      1 member2");
        assert!(tally.is(&["failed", "member1", "member2"], 4));
        assert!(!tally.is(&["member1", "member2"], 3));
        assert_eq!(Tally::of(text, "node").to_string(), "      1 failed\n      1 node2");
        assert!(Tally::of("", "member").is(&[], 0));
    }
}
