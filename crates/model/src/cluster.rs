//! The id of a cluster, known to be one.
//!
//! It ends up in label values, object names and DNS names, so it is checked once, where it enters.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::syntax::{LABEL_LIMIT, is_dns_label};

/// One or two DNS labels, at most 63 characters in all (KEP-1645 today, cluster id; a label value holds no more).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(Arc<str>);

/// A text that is no cluster id.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{0:?} is no cluster id: it must be one DNS label, or two joined by a dot, with at most 63 characters in all"
)]
pub struct BadClusterId(pub String);

impl ClusterId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterId {
    type Err = BadClusterId;

    fn from_str(text: &str) -> Result<Self, BadClusterId> {
        let labels_fit = text.split('.').all(is_dns_label) && text.split('.').count() <= 2;
        if labels_fit && text.len() <= LABEL_LIMIT {
            Ok(ClusterId(text.into()))
        } else {
            Err(BadClusterId(text.chars().take(2 * LABEL_LIMIT).collect()))
        }
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for ClusterId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ClusterId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_id_is_one_or_two_dns_labels_of_63_characters_in_all() {
        let long = "a".repeat(63);
        for good in ["a", "us-west2-a-my-cluster", "name.context", "0", &long] {
            assert_eq!(good.parse::<ClusterId>().unwrap().as_str(), good);
        }
        let too_long = format!("{}.bb", &long[..61]);
        for bad in ["", ".", "a.", ".a", "a.b.c", "A", "a_b", "-a", "a-", "a b", "ä", &too_long] {
            assert_eq!(bad.parse::<ClusterId>(), Err(BadClusterId(bad.to_owned())), "{bad:?}");
        }
    }

    #[test]
    fn a_complaint_about_an_id_repeats_no_more_of_it_than_helps() {
        assert!("x y".repeat(10_000).parse::<ClusterId>().unwrap_err().to_string().len() < 300);
    }
}
