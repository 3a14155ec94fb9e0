//! Whether every live member has applied an offer.
//!
//! A member does not acknowledge each service: it publishes the hub's resourceVersion up to which it has applied
//! everything, and a short list of what it could not. Whoever is not known to have applied the offer is waited for: a
//! watermark that cannot be read, or failures beyond the list, prove nothing.

use std::collections::BTreeSet;

use tombolo_api::tombolo::{Dialect, Failure, Membership, MembershipStatus, ServiceRef};

use crate::cluster::ClusterId;
use crate::verdict::listing;

/// A member as the exporting agent sees it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    pub cluster: &'a ClusterId,
    /// Only live members are waited for.
    pub live: bool,
    /// What it says about itself; `None` while it has said nothing.
    pub status: Option<&'a MembershipStatus>,
}

/// How far an offer has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// All live members, so many, have applied it.
    Everywhere { members: usize },
    /// These have not yet; none of the others failed. Empty: no live member is known at all.
    Waiting { on: Vec<ClusterId> },
    /// These could not.
    Failed { failures: Vec<(ClusterId, Failure)> },
}

/// The resource versions at the hub that a member has to pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// That of the offer; `None` as long as it is not there.
    pub offer: Option<String>,
    pub others: Others,
}

/// What else has to be passed before the endpoints of an offer are everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// The newest of its slices; `None` without slices.
    pub slices: Option<u64>,
    /// The newest of other clusters' offers of the service, also of one that is gone: they decide about it, too.
    pub offers: Option<u64>,
}

impl Versions {
    /// Of an offer without slices.
    pub fn of_offer(version: Option<&str>) -> Self {
        Versions { offer: version.map(str::to_owned), others: Others::default() }
    }
}

impl Others {
    /// Counts a slice in.
    pub fn include_slice(&mut self, version: Option<&str>) {
        self.slices = self.slices.max(Some(number(version)));
    }

    /// Counts another cluster's offer in.
    pub fn include_offer(&mut self, version: Option<&str>) {
        self.offers = self.offers.max(Some(number(version)));
    }
}

/// A version that cannot be read can be passed by nobody.
pub fn number(version: Option<&str>) -> u64 {
    version.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
}

/// How far the offer of `service` has come that the hub stores at these versions.
pub fn acknowledge<'a>(
    versions: &Versions,
    dialect: Dialect,
    service: &ServiceRef,
    members: impl IntoIterator<Item = Member<'a>>,
) -> Acknowledgement {
    let (mut waiting, mut failures, mut count) = (Vec::new(), Vec::new(), 0);
    for member in members.into_iter().filter(|member| member.live) {
        count += 1;
        let applied = member.status.filter(|status| has_passed(status, versions));
        match applied.map(|status| (find_failure(status, dialect, service), status.more_failures > 0)) {
            Some((Some(failure), _)) => failures.push((member.cluster.clone(), failure.clone())),
            // It failed at more than it has room to name: this service may be among them.
            None | Some((None, true)) => waiting.push(member.cluster.clone()),
            Some((None, false)) => {}
        }
    }
    waiting.sort();
    failures.sort_by(|a, b| a.0.cmp(&b.0));
    if !failures.is_empty() {
        return Acknowledgement::Failed { failures };
    }
    // Without any member nothing is known: that is not the same as everywhere.
    match waiting.is_empty() && count > 0 {
        true => Acknowledgement::Everywhere { members: count },
        false => Acknowledgement::Waiting { on: waiting },
    }
}

fn has_passed(status: &MembershipStatus, versions: &Versions) -> bool {
    let reaches = |applied: Option<u64>, wanted: u64| applied.is_some_and(|applied| applied >= wanted);
    let (own, others) = (number(versions.offer.as_deref()), versions.others);
    reaches(status.applied_up_to(), own.max(others.offers.unwrap_or_default()))
        && others.slices.is_none_or(|version| reaches(status.slices_applied_up_to(), version))
}

fn find_failure<'a>(
    status: &'a MembershipStatus,
    dialect: Dialect,
    service: &ServiceRef,
) -> Option<&'a Failure> {
    status.failures.iter().find(|failure| {
        failure.dialect == dialect && failure.namespace == service.namespace && failure.name == service.name
    })
}

/// Which exports a change of a member's statement concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concerned {
    /// All: a member is new, gone, another one, or has less than it had.
    Everyone,
    /// Those who wait for members, and these.
    Waiting(BTreeSet<(Dialect, ServiceRef)>),
}

/// Whom it concerns that a member said `old` and says `new`. Watermarks move all the time; those whose exports are
/// everywhere need not hear of it.
pub fn concerned(old: Option<&Membership>, new: Option<&Membership>) -> Concerned {
    let (Some(old), Some(new)) = (old, new) else { return Concerned::Everyone };
    let (before, after) = (old.status.clone().unwrap_or_default(), new.status.clone().unwrap_or_default());
    let fell = before.applied_up_to() > after.applied_up_to()
        || before.slices_applied_up_to() > after.slices_applied_up_to();
    if old.spec != new.spec || fell || before.more_failures != after.more_failures {
        return Concerned::Everyone;
    }
    let named = before.failures.iter().chain(&after.failures);
    let service = |failure: &Failure| {
        let (namespace, name) = (failure.namespace.clone(), failure.name.clone());
        (failure.dialect, ServiceRef { namespace, name })
    };
    Concerned::Waiting(named.map(service).collect())
}

impl Acknowledgement {
    /// The same as a sentence for the owner of the export.
    pub fn message(&self) -> String {
        match self {
            Acknowledgement::Everywhere { members: 1 } => "applied in the only live member".to_owned(),
            Acknowledgement::Everywhere { members } => format!("applied in all {members} live members"),
            Acknowledgement::Waiting { on } if on.is_empty() => "no live member is known yet".to_owned(),
            Acknowledgement::Waiting { on } => format!("waiting for {}", listing(on.iter(), ", ")),
            Acknowledgement::Failed { failures } => {
                let said = |(cluster, failure): &(ClusterId, Failure)| {
                    format!("cluster {cluster} could not apply it: {}: {}", failure.reason, failure.message)
                };
                listing(failures.iter().map(said), "; ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{echo, id, service};

    fn status(watermark: &str) -> MembershipStatus {
        MembershipStatus { watermark: Some(watermark.into()), ..MembershipStatus::default() }
    }

    fn failed(watermark: &str, dialect: Dialect, service: ServiceRef) -> MembershipStatus {
        let failure = Failure {
            dialect,
            namespace: service.namespace,
            name: service.name,
            reason: "NameTaken".into(),
            message: "a Service derived-x of someone else is in the way".into(),
        };
        MembershipStatus { failures: vec![failure], ..status(watermark) }
    }

    fn judge(version: &str, members: &[(&str, bool, Option<MembershipStatus>)]) -> Acknowledgement {
        let ids: Vec<ClusterId> = members.iter().map(|member| id(member.0)).collect();
        let members = members.iter().zip(&ids).map(|((_, live, status), cluster)| Member {
            cluster,
            live: *live,
            status: status.as_ref(),
        });
        acknowledge(&Versions::of_offer(Some(version)), Dialect::Mcs, &echo(), members)
    }

    fn waiting(on: &[&str]) -> Acknowledgement {
        Acknowledgement::Waiting { on: on.iter().map(|name| id(name)).collect() }
    }

    #[test]
    fn an_offer_is_everywhere_once_every_live_member_has_passed_its_version() {
        let passed = || Some(status("10"));
        assert_eq!(
            judge("10", &[("a", true, passed()), ("b", true, Some(status("11")))]),
            Acknowledgement::Everywhere { members: 2 }
        );
        assert_eq!(
            judge("10", &[("a", true, passed()), ("b", false, Some(status("1")))]),
            Acknowledgement::Everywhere { members: 1 }
        );
        for behind in [Some(status("9")), Some(status("")), Some(MembershipStatus::default()), None] {
            assert_eq!(judge("10", &[("b", true, behind), ("a", true, passed())]), waiting(&["b"]));
        }
    }

    #[test]
    fn nothing_is_acknowledged_without_members_or_without_a_version() {
        assert_eq!(judge("10", &[]), waiting(&[]));
        assert_eq!(judge("10", &[("a", false, Some(status("10")))]), waiting(&[]));
        assert_eq!(judge("", &[("a", true, Some(status("10")))]), waiting(&["a"]));
        assert_eq!(judge("x", &[("a", true, Some(status("10")))]), waiting(&["a"]));
    }

    #[test]
    fn a_failure_counts_for_its_own_service_and_dialect_and_once_the_member_has_come_that_far() {
        let ours = failed("10", Dialect::Mcs, echo());
        let verdict = judge("10", &[("a", true, Some(status("10"))), ("b", true, Some(ours.clone()))]);
        assert!(matches!(&verdict, Acknowledgement::Failed { failures } if failures[0].0 == id("b")));
        assert_eq!(
            verdict.message(),
            "cluster b could not apply it: NameTaken: a Service derived-x of someone else is in the way"
        );
        for other in
            [failed("10", Dialect::Kep, echo()), failed("10", Dialect::Mcs, service("demo", "other"))]
        {
            assert_eq!(judge("10", &[("b", true, Some(other))]), Acknowledgement::Everywhere { members: 1 });
        }
        assert_eq!(judge("11", &[("b", true, Some(ours))]), waiting(&["b"]));
    }

    #[test]
    fn a_member_with_more_failures_than_it_can_name_proves_nothing() {
        let overflowing = MembershipStatus { more_failures: 1, ..status("10") };
        assert_eq!(judge("10", &[("a", true, Some(overflowing))]), waiting(&["a"]));
    }

    #[test]
    fn a_watermark_that_rises_concerns_only_those_who_wait() {
        let membership = |status: MembershipStatus| {
            let mut membership = Membership::new("member", tombolo_api::tombolo::MembershipSpec::default());
            membership.status = Some(status);
            membership
        };
        let [nine, ten] = ["9", "10"].map(|version| membership(status(version)));
        let ours = membership(failed("10", Dialect::Mcs, echo()));
        let more = membership(MembershipStatus { more_failures: 1, ..status("10") });
        let mut other = ten.clone();
        other.spec.region = Some("elsewhere".into());
        let named = Concerned::Waiting([(Dialect::Mcs, echo())].into());
        for (old, new, expected) in [
            (Some(&nine), Some(&ten), Concerned::Waiting(BTreeSet::new())),
            (Some(&nine), Some(&ours), named.clone()),
            (Some(&ours), Some(&ten), named),
            (Some(&ten), Some(&nine), Concerned::Everyone),
            (Some(&ten), Some(&more), Concerned::Everyone),
            (Some(&ten), Some(&other), Concerned::Everyone),
            (None, Some(&ten), Concerned::Everyone),
            (Some(&ten), None, Concerned::Everyone),
        ] {
            assert_eq!(concerned(old, new), expected, "{old:?} {new:?}");
        }
    }
}
