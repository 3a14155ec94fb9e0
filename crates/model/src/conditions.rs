//! What the conditions of exports and imports say, in each dialect.
//!
//! They tell the truth: an export is `Exported` or `Ready` only when every live member has applied it, and says of whom it
//! is waiting otherwise. All conditions of an object are given each time, so that none is left over from before.

use tombolo_api::condition::{Desired, Status};
use tombolo_api::tombolo::Dialect;
use tombolo_api::{kep, mcs};

use crate::acknowledge::Acknowledgement;
use crate::complaint::Complaint;
use crate::import::NotDerived;
use crate::offer::Refusal;
use crate::verdict::{Verdict, listing};

/// Whether the address that an exported service needs in its own cluster is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Reserved, or not needed: a headless or withdrawn service has none.
    Settled,
    /// Not yet.
    Pending,
    /// It could not be reserved, and why.
    Failed(String),
}

/// What keeps the others from having an offer that is fine in itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// The hub says no to it, or to some of its slices, and why.
    Refused(String),
    /// The hub could not be told of it. Why may be something else with every attempt, and is not said.
    Untold,
    /// The cluster has more offers at the hub than count, and this many are older.
    TooMany(usize),
}

/// All there is to say about an export.
#[derive(Clone, Debug)]
pub struct ExportState<'a> {
    /// Why nothing is offered, if so; the rest does not matter then.
    pub refusal: Option<&'a Refusal>,
    /// What was left out of the offer.
    pub complaints: &'a [Complaint],
    pub hindrance: Option<&'a Hindrance>,
    pub address: Address,
    /// The merge's word; `None` until the offer is at the hub.
    pub verdict: Option<&'a Verdict>,
    /// How far the offer has come; `None` while that is not known.
    pub acknowledgement: Option<&'a Acknowledgement>,
    /// The hub has given no sign of life for so long that others may have let the cluster go.
    pub cut_off: bool,
    pub generation: Option<i64>,
}

/// The conditions of an export in its dialect.
pub fn of_export(dialect: Dialect, state: &ExportState<'_>) -> Vec<Desired> {
    let conditions = match dialect {
        Dialect::Kep => kep_conditions(state),
        Dialect::Mcs => mcs_conditions(state),
    };
    conditions.into_iter().map(|condition| condition.observed(state.generation)).collect()
}

/// What an export that was everywhere says of that in a cluster that is cut off.
pub fn of_cut_off_export(dialect: Dialect, generation: Option<i64>) -> Desired {
    let everywhere = match dialect {
        Dialect::Kep => kep::ExportCondition::Exported.as_str(),
        Dialect::Mcs => mcs::ExportCondition::Ready.as_str(),
    };
    cut_off().into_desired(everywhere).observed(generation)
}

fn cut_off() -> Finding {
    let message = "the hub gives no sign of life; the other clusters may have let this one go";
    Finding::new(Status::Unknown, mcs::ReadyReason::Pending, message)
}

fn kep_conditions(state: &ExportState<'_>) -> [Desired; 3] {
    use kep::ExportCondition::{Conflict, Exported, Initialized};
    [
        initialized(state).into_desired(Initialized),
        exported(state).into_desired(Exported),
        conflict(state).into_desired(Conflict),
    ]
}

fn mcs_conditions(state: &ExportState<'_>) -> [Desired; 3] {
    use mcs::ExportCondition::{Conflict, Ready, Valid};
    [
        valid(state).into_desired(Valid),
        ready(state).into_desired(Ready),
        conflict(state).into_desired(Conflict),
    ]
}

/// A condition before it has a type.
struct Finding {
    status: Status,
    reason: String,
    message: String,
}

impl Finding {
    fn new(status: impl Into<Status>, reason: impl AsRef<str>, message: impl Into<String>) -> Self {
        Finding { status: status.into(), reason: reason.as_ref().to_owned(), message: message.into() }
    }

    fn into_desired(self, type_: impl AsRef<str>) -> Desired {
        Desired::new(type_, self.status, self.reason, self.message)
    }
}

fn initialized(state: &ExportState<'_>) -> Finding {
    use kep::ExportReason as Reason;
    match (state.refusal, &state.address) {
        (Some(refusal), _) => Finding::new(false, refusal_reason(refusal), refusal.to_string()),
        (None, Address::Settled) => Finding::new(true, Reason::Initialized, with_complaints(state)),
        (None, Address::Pending) => {
            Finding::new(false, Reason::AddressNotReserved, "the address of the service is not reserved yet")
        }
        (None, Address::Failed(why)) => Finding::new(false, Reason::AddressNotReserved, why),
    }
}

fn valid(state: &ExportState<'_>) -> Finding {
    match state.refusal {
        Some(refusal) => Finding::new(false, refusal_reason(refusal), refusal.to_string()),
        None => Finding::new(true, mcs::ValidReason::Valid, with_complaints(state)),
    }
}

/// Both dialects use the same words here.
fn refusal_reason(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::NoService(_) => mcs::ValidReason::NoService.as_str(),
        Refusal::ExternalName | Refusal::UnknownType(_) | Refusal::Derived => {
            mcs::ValidReason::InvalidServiceType.as_str()
        }
    }
}

/// What was left out of the offer, here or by the merge, is said where people look first.
fn with_complaints(state: &ExportState<'_>) -> String {
    let merged = state.verdict.map_or(&[][..], |verdict| &verdict.complaints);
    let unsaid = merged.iter().filter(|complaint| !state.complaints.contains(complaint));
    match listing(state.complaints.iter().chain(unsaid), "; ") {
        none if none.is_empty() => "the Service can be exported".to_owned(),
        complaints => format!("the Service can be exported, but: {complaints}"),
    }
}

fn exported(state: &ExportState<'_>) -> Finding {
    match state.verdict {
        Some(verdict) if state.refusal.is_none() && verdict.is_withdrawn() => {
            Finding::new(false, kep::ExportReason::Conflict, verdict.message())
        }
        _ => ready(state),
    }
}

fn ready(state: &ExportState<'_>) -> Finding {
    use mcs::ReadyReason as Reason;
    match (state.refusal, state.hindrance, state.acknowledgement) {
        // This heals by itself when the Service appears; the other refusals do not.
        (Some(Refusal::NoService(_)), ..) => {
            Finding::new(false, Reason::Pending, "there is no Service to export yet")
        }
        (Some(_), ..) => Finding::new(false, Reason::Failed, "the Service cannot be exported"),
        (None, Some(hindrance), _) => hindered(hindrance),
        (None, None, None) => Finding::new(Status::Unknown, Reason::Pending, "not known yet at the hub"),
        (None, None, Some(Acknowledgement::Everywhere { .. })) if state.cut_off => cut_off(),
        (None, None, Some(seen)) => {
            let (holds, reason) = match seen {
                Acknowledgement::Everywhere { .. } => (true, Reason::Exported),
                Acknowledgement::Waiting { .. } => (false, Reason::Pending),
                Acknowledgement::Failed { .. } => (false, Reason::Failed),
            };
            Finding::new(holds, reason, seen.message())
        }
    }
}

fn hindered(hindrance: &Hindrance) -> Finding {
    use mcs::ReadyReason as Reason;
    match hindrance {
        Hindrance::Refused(why) => {
            Finding::new(false, Reason::Failed, format!("the hub does not take it: {why}"))
        }
        Hindrance::Untold => Finding::new(Status::Unknown, Reason::Pending, "the hub could not be told yet"),
        Hindrance::TooMany(limit) => {
            let message = format!("of one cluster the {limit} oldest offers count, and this is none of them");
            Finding::new(false, Reason::Failed, message)
        }
    }
}

fn conflict(state: &ExportState<'_>) -> Finding {
    use mcs::ConflictReason::NoConflicts;
    match (state.refusal, state.verdict) {
        (Some(_), _) => {
            Finding::new(false, NoConflicts, "nothing is exported that others could disagree with")
        }
        (None, None) => Finding::new(false, NoConflicts, "no other export is known yet"),
        (None, Some(verdict)) => Finding::new(verdict.has_conflict(), verdict.reason(), verdict.message()),
    }
}

/// How an import does in one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportState {
    /// The address, if it needs one, and all slices are there.
    Ready,
    /// What is still missing.
    Pending(String),
    /// It cannot have an address here.
    NotDerived(NotDerived),
}

/// The conditions of a ServiceImport. An ImportedService has none.
pub fn of_import(state: &ImportState, generation: Option<i64>) -> Vec<Desired> {
    use mcs::ImportReadyReason as Reason;
    let ready = || Finding::new(true, Reason::Ready, "the service can be used in this cluster");
    let finding = match state {
        ImportState::Ready | ImportState::NotDerived(NotDerived::Headless) => ready(),
        ImportState::Pending(what) => Finding::new(false, Reason::Pending, what),
        ImportState::NotDerived(why @ NotDerived::FamilyNotSupported(_)) => {
            Finding::new(false, Reason::IpFamilyNotSupported, why.to_string())
        }
        ImportState::NotDerived(why @ NotDerived::NoPorts) => {
            Finding::new(false, Reason::Pending, why.to_string())
        }
    };
    vec![finding.into_desired(mcs::ImportCondition::Ready).observed(generation)]
}

#[cfg(test)]
mod tests {
    use tombolo_api::service::IpFamily;
    use tombolo_api::tombolo::Failure;

    use super::*;
    use crate::merge::merge;
    use crate::policy::Policy;
    use crate::testing::{echo, id, offer, ports, with};

    fn verdict_of_b(dialect: Dialect, ports_of_b: &[&str]) -> Verdict {
        let offers = [offer(dialect, "a"), with(offer(dialect, "b"), |spec| spec.ports = ports(ports_of_b))];
        merge(Policy::of(dialect), &echo(), &offers).verdicts[&id("b")].clone()
    }

    fn state<'a>() -> ExportState<'a> {
        ExportState {
            refusal: None,
            complaints: &[],
            hindrance: None,
            address: Address::Settled,
            verdict: None,
            acknowledgement: None,
            cut_off: false,
            generation: Some(3),
        }
    }

    /// Type, status and reason of each condition.
    fn check(dialect: Dialect, state: &ExportState<'_>, expected: [(&str, &str, &str); 3]) {
        let conditions = of_export(dialect, state);
        let said: Vec<_> =
            conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str())).collect();
        assert_eq!(said, expected, "{state:?}");
        for condition in conditions {
            assert!(!condition.message.is_empty() && condition.message.len() <= 32768);
            assert_eq!(condition.observed_generation, Some(3));
        }
    }

    #[test]
    fn an_export_that_all_live_members_have_applied_is_exported() {
        let everywhere = Acknowledgement::Everywhere { members: 2 };
        let (kep, mcs) = (verdict_of_b(Dialect::Kep, &["http:80"]), verdict_of_b(Dialect::Mcs, &["http:80"]));
        check(
            Dialect::Kep,
            &ExportState { verdict: Some(&kep), acknowledgement: Some(&everywhere), ..state() },
            [
                ("Initialized", "True", "Initialized"),
                ("Exported", "True", "Exported"),
                ("Conflict", "False", "NoConflicts"),
            ],
        );
        check(
            Dialect::Mcs,
            &ExportState { verdict: Some(&mcs), acknowledgement: Some(&everywhere), ..state() },
            [("Valid", "True", "Valid"), ("Ready", "True", "Exported"), ("Conflict", "False", "NoConflicts")],
        );
    }

    #[test]
    fn an_export_is_not_ready_while_a_member_is_missing_or_has_failed_and_says_which() {
        let waiting = Acknowledgement::Waiting { on: vec![id("c")] };
        let failure = Failure {
            dialect: Dialect::Mcs,
            namespace: "demo".into(),
            name: "echo".into(),
            reason: "NameTaken".into(),
            message: "Service demo/derived-x".into(),
        };
        let failed = Acknowledgement::Failed { failures: vec![(id("c"), failure)] };
        for (seen, status, reason, said) in [
            (None, "Unknown", "Pending", "not known yet at the hub"),
            (Some(&waiting), "False", "Pending", "waiting for c"),
            (
                Some(&failed),
                "False",
                "Failed",
                "cluster c could not apply it: NameTaken: Service demo/derived-x",
            ),
        ] {
            for (dialect, type_) in [(Dialect::Kep, "Exported"), (Dialect::Mcs, "Ready")] {
                let conditions = of_export(dialect, &ExportState { acknowledgement: seen, ..state() });
                let ready = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
                assert_eq!((ready.status.as_str(), ready.reason.as_str()), (status, reason));
                assert_eq!(ready.message, said);
            }
        }
    }

    #[test]
    fn what_keeps_an_offer_from_the_others_is_said_whatever_they_have_applied() {
        let everywhere = Acknowledgement::Everywhere { members: 2 };
        for (hindrance, status, reason, said) in [
            (Hindrance::Refused("exceeded quota".into()), "False", "Failed", "exceeded quota"),
            (Hindrance::Untold, "Unknown", "Pending", "could not be told"),
            (Hindrance::TooMany(7), "False", "Failed", "the 7 oldest offers count"),
        ] {
            let (hindrance, acknowledgement) = (Some(&hindrance), Some(&everywhere));
            let state = ExportState { hindrance, acknowledgement, cut_off: true, ..state() };
            for (dialect, type_) in [(Dialect::Kep, "Exported"), (Dialect::Mcs, "Ready")] {
                let conditions = of_export(dialect, &state);
                let ready = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
                assert_eq!((ready.status.as_str(), ready.reason.as_str()), (status, reason));
                assert!(ready.message.contains(said), "{}", ready.message);
            }
        }
    }

    #[test]
    fn nobody_knows_of_an_export_whether_it_is_everywhere_while_its_cluster_is_cut_off() {
        let everywhere = Acknowledgement::Everywhere { members: 2 };
        let waiting = Acknowledgement::Waiting { on: vec![id("c")] };
        for (dialect, type_) in [(Dialect::Kep, "Exported"), (Dialect::Mcs, "Ready")] {
            let said = |seen| {
                let state = ExportState { acknowledgement: Some(seen), cut_off: true, ..state() };
                of_export(dialect, &state).into_iter().find(|condition| condition.type_ == type_).unwrap()
            };
            let taken_back = of_cut_off_export(dialect, Some(3));
            assert_eq!((taken_back.type_.as_str(), taken_back.status), (type_, Status::Unknown));
            assert_eq!(said(&everywhere), taken_back, "whoever says it says the same");
            assert_eq!(said(&waiting).status, Status::False, "it was not everywhere before");
        }
    }

    #[test]
    fn a_refused_export_says_why_and_has_no_conflict() {
        for (refusal, reason, pending) in [
            (Refusal::NoService(echo()), "NoService", "Pending"),
            (Refusal::ExternalName, "InvalidServiceType", "Failed"),
            (Refusal::UnknownType("X".into()), "InvalidServiceType", "Failed"),
            (Refusal::Derived, "InvalidServiceType", "Failed"),
        ] {
            let state = ExportState { refusal: Some(&refusal), ..state() };
            check(
                Dialect::Mcs,
                &state,
                [
                    ("Valid", "False", reason),
                    ("Ready", "False", pending),
                    ("Conflict", "False", "NoConflicts"),
                ],
            );
            check(
                Dialect::Kep,
                &state,
                [
                    ("Initialized", "False", reason),
                    ("Exported", "False", pending),
                    ("Conflict", "False", "NoConflicts"),
                ],
            );
        }
    }

    #[test]
    fn an_export_is_initialized_once_its_address_is_reserved() {
        for (address, status, reason) in [
            (Address::Settled, "True", "Initialized"),
            (Address::Pending, "False", "AddressNotReserved"),
            (Address::Failed("the range is full".into()), "False", "AddressNotReserved"),
        ] {
            let conditions = of_export(Dialect::Kep, &ExportState { address, ..state() });
            assert_eq!((conditions[0].status.as_str(), conditions[0].reason.as_str()), (status, reason));
        }
    }

    #[test]
    fn a_conflict_withdraws_the_service_in_the_first_edition_and_leaves_it_in_todays() {
        let everywhere = Acknowledgement::Everywhere { members: 2 };
        let kep = verdict_of_b(Dialect::Kep, &["http:8080"]);
        let withdrawn = ExportState { verdict: Some(&kep), acknowledgement: Some(&everywhere), ..state() };
        check(
            Dialect::Kep,
            &withdrawn,
            [
                ("Initialized", "True", "Initialized"),
                ("Exported", "False", "Conflict"),
                ("Conflict", "True", "PortConflict"),
            ],
        );
        let said = &of_export(Dialect::Kep, &withdrawn)[2].message;
        assert!(said.contains("port http is 80/TCP in a but 8080/TCP in b"), "{said}");

        let mcs = verdict_of_b(Dialect::Mcs, &["http:8080"]);
        check(
            Dialect::Mcs,
            &ExportState { verdict: Some(&mcs), acknowledgement: Some(&everywhere), ..state() },
            [("Valid", "True", "Valid"), ("Ready", "True", "Exported"), ("Conflict", "True", "PortConflict")],
        );
    }

    #[test]
    fn what_was_left_out_of_an_offer_is_said_on_its_export_once() {
        let verdict = verdict_of_b(Dialect::Mcs, &["http:80", "web:99999"]);
        let own = [verdict.complaints[0].clone(), Complaint::new("topology keys", "1 of 2 left out")];
        for dialect in [Dialect::Kep, Dialect::Mcs] {
            let state = ExportState { complaints: &own, verdict: Some(&verdict), ..state() };
            let said = &of_export(dialect, &state)[0].message;
            assert_eq!(said.matches("port 99999 left out").count(), 1, "{said}");
            assert!(said.ends_with("; topology keys: 1 of 2 left out"), "{said}");
        }
    }

    #[test]
    fn an_import_is_ready_pending_or_of_a_family_this_cluster_does_not_have() {
        let unsupported = NotDerived::FamilyNotSupported(vec![IpFamily::V6]);
        for (state, status, reason) in [
            (ImportState::Ready, "True", "Ready"),
            (ImportState::NotDerived(NotDerived::Headless), "True", "Ready"),
            (ImportState::Pending("no address yet".into()), "False", "Pending"),
            (ImportState::NotDerived(NotDerived::NoPorts), "False", "Pending"),
            (ImportState::NotDerived(unsupported), "False", "IPFamilyNotSupported"),
        ] {
            let conditions = of_import(&state, Some(1));
            let said: Vec<_> =
                conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str())).collect();
            assert_eq!(said, [("Ready", status, reason)]);
        }
    }
}
