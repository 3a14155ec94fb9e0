//! Lists in pages: every page shows what the first one saw.
//!
//! The objects of an unfinished list are remembered for a while (they are shared, so this costs a vector of pointers).
//! When they have been forgotten, and what happened since as well, the client gets 410 and a token with which it may go on,
//! inconsistently, if it likes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Key, Stored};

/// How many unfinished lists are remembered.
const MOST: usize = 128;
/// For how long.
const KEEP_FOR: SignedDuration = SignedDuration::from_mins(5);

/// Where the next page starts, and at which revision the list was taken.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    /// `None`: start from whatever is there now.
    pub(crate) revision: Option<u64>,
    /// The last key of the page before.
    pub(crate) after: Key,
}

impl Token {
    pub(crate) fn encode(&self) -> String {
        let revision = self.revision.map_or(-1, |revision| revision as i64);
        let start = format!("{}/{}", self.after.namespace, self.after.name);
        URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start}).to_string())
    }

    /// The error is the message for the client.
    pub(crate) fn decode(text: &str) -> Result<Self, &'static str> {
        const NOT_VALID: &str = "continue key is not valid";
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| NOT_VALID)?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| NOT_VALID)?;
        if value["v"] != "meta.k8s.io/v1" {
            return Err("continue key is not valid: server does not recognize this encoded version");
        }
        let revision = value["rv"].as_i64().filter(|revision| *revision != 0).ok_or(
            "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        )?;
        let start = value["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            return Err("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)");
        }
        let (namespace, name) = start.split_once('/').ok_or(NOT_VALID)?;
        if name.contains('/') || [namespace, name].iter().any(|part| matches!(*part, "." | "..")) {
            return Err(NOT_VALID);
        }
        Ok(Self { revision: u64::try_from(revision).ok(), after: Key::new(namespace, name) })
    }
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) revision: u64,
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) next: Option<Token>,
    pub(crate) remaining: usize,
}

impl Page {
    /// The first `limit` (0 = all) of those of `items` that are wanted; `items` must be sorted by key. There is a next page
    /// as soon as anything is left to look at, wanted or not: nobody looks ahead.
    pub(crate) fn cut(
        revision: u64,
        items: &[Arc<Stored>],
        limit: usize,
        is_wanted: impl Fn(&Stored) -> bool,
    ) -> Self {
        let (mut chosen, mut looked_at) = (Vec::new(), 0);
        for stored in items {
            if limit > 0 && chosen.len() == limit {
                break;
            }
            looked_at += 1;
            if is_wanted(stored) {
                chosen.push(stored.clone());
            }
        }
        let remaining = items.len() - looked_at;
        let last = items[..looked_at].last().filter(|_| remaining > 0);
        let next = last.map(|last| Token { revision: Some(revision), after: Key::of(&last.value) });
        Self { revision, items: chosen, next, remaining }
    }
}

#[derive(Debug)]
struct Remembered {
    at: Timestamp,
    revision: u64,
    /// What was listed, as the part of the URL that decides it.
    query: String,
    items: Arc<Vec<Arc<Stored>>>,
}

/// The unfinished lists.
#[derive(Debug, Default)]
pub(crate) struct Pages(Mutex<VecDeque<Remembered>>);

impl Pages {
    pub(crate) fn remember(&self, now: Timestamp, revision: u64, query: &str, items: Arc<Vec<Arc<Stored>>>) {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.retain(|list| now.duration_since(list.at) <= KEEP_FOR);
        if lists.iter().any(|list| list.revision == revision && list.query == query) {
            return;
        }
        lists.push_back(Remembered { at: now, revision, query: query.to_owned(), items });
        while lists.len() > MOST {
            lists.pop_front();
        }
    }

    /// Forgets all unfinished lists: the revisions they name mean something else from now on.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The objects of a list taken at `revision`, if it is still remembered.
    pub(crate) fn recall(&self, now: Timestamp, revision: u64, query: &str) -> Option<Arc<Vec<Arc<Stored>>>> {
        let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists
            .iter()
            .find(|list| list.revision == revision && list.query == query)
            .filter(|list| now.duration_since(list.at) <= KEEP_FOR)
            .map(|list| list.items.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_encoding_and_rubbish_is_refused() {
        let token = Token { revision: Some(7), after: Key::new("a", "b.c") };
        assert_eq!(Token::decode(&token.encode()), Ok(token));
        for rubbish in ["", "???", "e30", "bm90IGpzb24"] {
            assert!(Token::decode(rubbish).is_err(), "{rubbish}");
        }
    }

    #[test]
    fn an_unfinished_list_is_forgotten_after_five_minutes() {
        let pages = Pages::default();
        let then = Timestamp::from_second(1_000).unwrap();
        pages.remember(then, 1, "q", Arc::default());
        let later = |seconds: i64| Timestamp::from_second(1_000 + seconds).unwrap();
        assert!(pages.recall(later(300), 1, "q").is_some());
        assert!(pages.recall(later(301), 1, "q").is_none());
        assert!(pages.recall(later(1), 1, "other").is_none());
    }
}
