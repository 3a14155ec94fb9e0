//! The order in which the versions of a group are preferred.

use std::cmp::{Ordering, Reverse};

/// Stable before beta before alpha, higher numbers first; names of another form come last, alphabetically.
/// `Less` means preferred, so sorting with this gives the order of discovery.
pub(crate) fn compare_versions(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability, major and minor number of `v2`, `v1beta1` and the like.
fn rank(name: &str) -> Option<(u8, u64, u64)> {
    let rest = name.strip_prefix('v')?;
    let digits = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
    let (major, stage) = rest.split_at(digits);
    let major = major.parse().ok()?;
    if stage.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (None, Some(minor)) => (0, minor),
        (None, None) => return None,
    };
    let number = minor.bytes().all(|byte| byte.is_ascii_digit()).then(|| minor.parse().ok());
    Some((stability, major, number.flatten()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_before_beta_before_alpha_before_anything_else() {
        let order = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v1beta",
        ];
        let mut shuffled = order;
        shuffled.reverse();
        shuffled.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(shuffled, order);
    }
}
