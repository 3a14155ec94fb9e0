//! Conditions: setting one in a list, with a transition time that means something.
//!
//! People and programs wait on `lastTransitionTime`, so it moves when the status changes and at no other time. Setting a
//! condition to what it already is changes nothing and says so, which spares the write to the API server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::vocabulary::vocabulary;

vocabulary! {
    /// What a condition says (Kubernetes API conventions, typical status properties).
    Status {
        /// It holds.
        True = "True",
        /// It does not hold.
        False = "False",
        /// Nobody knows yet.
        Unknown = "Unknown",
    }
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Status::True } else { Status::False }
    }
}

/// What a condition shall say, without the time since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    pub type_: String,
    pub status: Status,
    pub reason: String,
    pub message: String,
    /// The `metadata.generation` that was looked at, where the object has one.
    pub observed_generation: Option<i64>,
}

impl Desired {
    /// A condition of this type that has this status for this reason.
    pub fn new(
        type_: impl AsRef<str>,
        status: impl Into<Status>,
        reason: impl AsRef<str>,
        message: impl Into<String>,
    ) -> Self {
        Desired {
            type_: type_.as_ref().to_owned(),
            status: status.into(),
            reason: reason.as_ref().to_owned(),
            message: message.into(),
            observed_generation: None,
        }
    }

    /// The same, said about this generation of the object.
    pub fn observed(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self
    }
}

/// A condition as an object stores it. Implemented for `metav1.Condition` and for the older form of
/// [`kep::ServiceExportCondition`](crate::kep::ServiceExportCondition).
pub trait Stored: Clone + PartialEq {
    fn type_(&self) -> &str;
    fn status(&self) -> &str;
    fn reason(&self) -> &str;
    /// Since when it has this status.
    fn since(&self) -> Option<&Time>;
    /// The stored form of `desired`, in force since `since`.
    fn build(desired: Desired, since: Time) -> Self;
}

impl Stored for Condition {
    fn type_(&self) -> &str {
        &self.type_
    }

    fn status(&self) -> &str {
        &self.status
    }

    fn reason(&self) -> &str {
        &self.reason
    }

    fn since(&self) -> Option<&Time> {
        Some(&self.last_transition_time)
    }

    fn build(desired: Desired, since: Time) -> Self {
        Condition {
            type_: desired.type_,
            status: desired.status.as_str().to_owned(),
            reason: desired.reason,
            message: desired.message,
            observed_generation: desired.observed_generation,
            last_transition_time: since,
        }
    }
}

/// Makes the list say `desired` and returns whether anything changed.
///
/// The transition time becomes `now` only if the status differs from before or no time was known. The place in the list
/// stays; a new condition goes to the end; conditions of other types, which may have other owners, are left alone.
pub fn set<C: Stored>(conditions: &mut Vec<C>, desired: Desired, now: Time) -> bool {
    let Some(current) = conditions.iter_mut().find(|condition| condition.type_() == desired.type_) else {
        conditions.push(C::build(desired, now));
        return true;
    };
    let since = match current.since() {
        Some(since) if current.status() == desired.status.as_str() => since.clone(),
        _ => now,
    };
    let next = C::build(desired, since);
    let changed = *current != next;
    *current = next;
    changed
}

/// Removes the condition of this type and returns whether there was one.
pub fn remove<C: Stored>(conditions: &mut Vec<C>, type_: impl AsRef<str>) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_() != type_.as_ref());
    conditions.len() != before
}

/// The condition of this type.
pub fn find<C: Stored>(conditions: &[C], type_: impl AsRef<str>) -> Option<&C> {
    conditions.iter().find(|condition| condition.type_() == type_.as_ref())
}

/// Whether the condition of this type is there and `True`.
pub fn is_true<C: Stored>(conditions: &[C], type_: impl AsRef<str>) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status() == Status::True.as_str())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::kep::ServiceExportCondition;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn ready(status: Status, reason: &str, message: &str) -> Desired {
        Desired::new("Ready", status, reason, message)
    }

    fn one(status: Status) -> Vec<Condition> {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, ready(status, "Start", "started"), at(100)));
        conditions
    }

    #[test]
    fn a_new_condition_is_appended_and_stamped() {
        let mut conditions = one(Status::Unknown);
        assert!(set(&mut conditions, Desired::new("Valid", true, "Valid", ""), at(101)));
        let seen: Vec<_> = conditions
            .iter()
            .map(|c| (c.type_.as_str(), c.status.as_str(), &c.last_transition_time))
            .collect();
        assert_eq!(seen, [("Ready", "Unknown", &at(100)), ("Valid", "True", &at(101))]);
    }

    #[test]
    fn the_transition_time_moves_only_when_the_status_changes() {
        let cases = [
            (ready(Status::True, "Start", "started"), false, at(100)),
            (ready(Status::True, "Other", "started"), true, at(100)),
            (ready(Status::True, "Start", "reworded"), true, at(100)),
            (ready(Status::True, "Start", "started").observed(Some(2)), true, at(100)),
            (ready(Status::False, "Start", "started"), true, at(200)),
            (ready(Status::Unknown, "Start", "started"), true, at(200)),
        ];
        for (desired, changed, since) in cases {
            let mut conditions = one(Status::True);
            assert_eq!(set(&mut conditions, desired.clone(), at(200)), changed, "{desired:?}");
            assert_eq!(conditions, [Condition::build(desired, since)]);
        }
    }

    #[test]
    fn setting_the_same_twice_changes_nothing_the_second_time() {
        let mut conditions = one(Status::True);
        let desired = ready(Status::False, "Gone", "it went").observed(Some(7));
        assert!(set(&mut conditions, desired.clone(), at(200)));
        let after_first = conditions.clone();
        assert!(!set(&mut conditions, desired, at(300)));
        assert_eq!(conditions, after_first);
    }

    #[test]
    fn conditions_of_other_types_are_left_alone() {
        let foreign = Condition::build(Desired::new("example.com/Painted", true, "Blue", "by hand"), at(1));
        let mut conditions = vec![foreign.clone()];
        set(&mut conditions, ready(Status::True, "Start", ""), at(2));
        set(&mut conditions, ready(Status::False, "Stop", ""), at(3));
        assert!(remove(&mut conditions, "Ready"));
        assert!(!remove(&mut conditions, "Ready"));
        assert_eq!(conditions, [foreign]);
    }

    #[test]
    fn only_a_condition_that_says_true_is_true() {
        for (status, expected) in [(Status::True, true), (Status::False, false), (Status::Unknown, false)] {
            assert_eq!(is_true(&one(status), "Ready"), expected);
        }
        assert!(!is_true::<Condition>(&[], "Ready"));
    }

    #[test]
    fn an_export_condition_without_a_time_gets_one_when_it_is_next_set() {
        let undated = ServiceExportCondition {
            type_: "Ready".into(),
            status: Status::True,
            last_transition_time: None,
            reason: Some("Start".into()),
            message: Some("started".into()),
        };
        let mut conditions = vec![undated];
        assert!(set(&mut conditions, ready(Status::True, "Start", "started"), at(5)));
        assert_eq!(conditions[0].last_transition_time, Some(at(5)));
        assert!(!set(&mut conditions, ready(Status::True, "Start", "started"), at(6)));
    }
}
