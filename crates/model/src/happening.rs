//! What is worth an event on an export: changes that somebody would act on, not every step on the way.

use tombolo_api::condition::{Desired, Status, Stored};
use tombolo_api::karmada::strategy::StrategyCondition;
use tombolo_api::tombolo::Dialect;
use tombolo_api::{kep, mcs};

use crate::address::{DropCount, Dropped};
use crate::cluster::ClusterId;
use crate::verdict::listing;

/// Something that happened to an object, for people who look at its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    pub severity: Severity,
    /// One word, such as that of the condition that changed.
    pub reason: String,
    /// A sentence.
    pub note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

impl Severity {
    /// The type of the event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        }
    }
}

impl Happening {
    pub fn warning(reason: impl Into<String>, note: impl Into<String>) -> Self {
        Happening { severity: Severity::Warning, reason: reason.into(), note: note.into() }
    }

    pub(crate) fn normal(reason: impl Into<String>, note: impl Into<String>) -> Self {
        Happening { severity: Severity::Normal, reason: reason.into(), note: note.into() }
    }
}

/// What happened to an export whose conditions were `before` and are `now`.
pub fn of_export<C: Stored>(dialect: Dialect, before: &[C], now: &[Desired]) -> Vec<Happening> {
    let was = |type_: &str| before.iter().find(|known| known.type_() == type_);
    now.iter().filter_map(|condition| of_condition(dialect, was(&condition.type_), condition)).collect()
}

/// That endpoints of a cluster are left out, if any are.
pub fn of_drops(cluster: &ClusterId, dropped: &DropCount) -> Option<Happening> {
    let said = |(reason, count): (&Dropped, &usize)| format!("{count} {}", reason.as_str());
    let note = || {
        let reasons = listing(dropped.iter().map(said), ", ");
        format!("endpoints of cluster {cluster} are left out: {reasons}")
    };
    (!dropped.is_empty()).then(|| Happening::warning("EndpointsLeftOut", note()))
}

/// What happened to an import whose conditions were `before` and whose strategy is said to be carried out or not `now`: once
/// for each new reason.
pub fn of_strategy<C: Stored>(before: &[C], now: &[Desired]) -> Option<Happening> {
    let now = now.iter().find(|condition| condition.type_ == STRATEGY)?;
    let was = before.iter().find(|known| known.type_() == STRATEGY);
    if was.is_some_and(|was| was.reason() == now.reason) {
        return None;
    }
    match now.status {
        Status::True => Some(Happening::normal(&now.reason, &now.message)),
        Status::False | Status::Unknown => Some(Happening::warning(&now.reason, &now.message)),
    }
}

fn of_condition<C: Stored>(dialect: Dialect, was: Option<&C>, now: &Desired) -> Option<Happening> {
    let before = was.map_or("", Stored::status);
    if was.is_some_and(|was| was.status() == now.status.as_str() && was.reason() == now.reason) {
        return None;
    }
    let [accepted, everywhere, conflict] = types(dialect);
    let (type_, note) = (now.type_.as_str(), now.message.as_str());
    let warning = || Some(Happening::warning(&now.reason, note));
    match now.status {
        Status::True if type_ == conflict => warning(),
        Status::False if type_ == conflict && before == "True" => {
            Some(Happening::normal("ConflictResolved", note))
        }
        Status::True if type_ == everywhere && before != "True" => Some(Happening::normal("Exported", note)),
        // Until it is exported for the first time, waiting is nothing to report.
        Status::False if type_ == everywhere && (before == "True" || now.reason == FAILED) => warning(),
        Status::False if type_ == accepted && now.reason != NOT_RESERVED => warning(),
        _ => None,
    }
}

const STRATEGY: &str = StrategyCondition::StrategyApplied.as_str();
const FAILED: &str = mcs::ReadyReason::Failed.as_str();
const NOT_RESERVED: &str = kep::ExportReason::AddressNotReserved.as_str();

/// The conditions that say: it can be exported, it is everywhere, others disagree.
const fn types(dialect: Dialect) -> [&'static str; 3] {
    match dialect {
        Dialect::Kep => {
            use kep::ExportCondition as Is;
            [Is::Initialized.as_str(), Is::Exported.as_str(), Is::Conflict.as_str()]
        }
        Dialect::Mcs => {
            use mcs::ExportCondition as Is;
            [Is::Valid.as_str(), Is::Ready.as_str(), Is::Conflict.as_str()]
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

    use super::*;
    use crate::testing::at;

    fn desired((type_, status, reason): (&str, Status, &str)) -> Desired {
        Desired::new(type_, status, reason, format!("{type_} said"))
    }

    fn check(before: &[(&str, Status, &str)], now: (&str, Status, &str), expected: Option<(&str, &str)>) {
        let before: Vec<Condition> =
            before.iter().map(|one| Condition::build(desired(*one), at(1))).collect();
        let happened = of_export(Dialect::Mcs, &before, &[desired(now)]);
        let said: Vec<_> = happened.iter().map(|one| (one.severity.as_str(), one.reason.as_str())).collect();
        assert_eq!(said, expected.into_iter().collect::<Vec<_>>(), "{before:?} {now:?}");
    }

    #[test]
    fn an_event_tells_what_changed_and_nothing_else() {
        use Status::{False, True, Unknown};
        let (ready, pending) = (("Ready", True, "Exported"), ("Ready", False, "Pending"));
        check(&[], ("Ready", Unknown, "Pending"), None);
        check(&[], pending, None);
        check(&[pending], pending, None);
        check(&[pending], ready, Some(("Normal", "Exported")));
        check(&[ready], ready, None);
        check(&[ready], pending, Some(("Warning", "Pending")));
        check(&[pending], ("Ready", False, "Failed"), Some(("Warning", "Failed")));
        check(&[], ("Valid", True, "Valid"), None);
        check(&[], ("Valid", False, "NoService"), Some(("Warning", "NoService")));
        let (calm, port) = (("Conflict", False, "NoConflicts"), ("Conflict", True, "PortConflict"));
        check(&[], calm, None);
        check(&[calm], port, Some(("Warning", "PortConflict")));
        check(&[port], ("Conflict", True, "TypeConflict"), Some(("Warning", "TypeConflict")));
        check(&[port], calm, Some(("Normal", "ConflictResolved")));
    }

    #[test]
    fn a_strategy_is_told_of_when_its_reason_changes() {
        use Status::{False, True};
        let (applied, none) = ((STRATEGY, True, "Applied"), (STRATEGY, False, "NoRemoteEndpoints"));
        let cases = [
            (None, applied, Some(("Normal", "Applied"))),
            (Some(applied), applied, None),
            (Some(applied), none, Some(("Warning", "NoRemoteEndpoints"))),
            (Some(none), applied, Some(("Normal", "Applied"))),
            (Some(none), ("Ready", True, "Ready"), None),
        ];
        for (before, now, expected) in cases {
            let before: Vec<Condition> =
                before.iter().map(|one| Condition::build(desired(*one), at(1))).collect();
            let said = of_strategy(&before, &[desired(now)]);
            let said = said.as_ref().map(|one| (one.severity.as_str(), one.reason.as_str()));
            assert_eq!(said, expected, "{before:?} {now:?}");
        }
    }
}
