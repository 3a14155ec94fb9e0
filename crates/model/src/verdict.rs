//! What the merge says about one cluster's export, and the words for it.
//!
//! Every exporting cluster of a name gets the same list of conflicts, because each of them may be the one to change. Only
//! the sentence about the cluster's own part differs, so that its owner sees whether theirs is the odd one out.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use tombolo_api::mcs::ConflictReason;
use tombolo_api::service::ServicePort;

use crate::cluster::ClusterId;
use crate::complaint::Complaint;

/// How many items a sentence lists before it counts the rest.
const LISTED: usize = 8;

/// A property that exports of one name disagree on. Both dialects use the reasons of today's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub reason: ConflictReason,
    /// The property, and who says what about it where that decides.
    pub what: String,
    /// The clusters that do not agree: with the oldest export if that one decides, else with one another.
    pub disagreeing: BTreeSet<ClusterId>,
}

/// The merge's word on one cluster's export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub cluster: ClusterId,
    /// How many clusters export the service.
    pub exports: usize,
    /// The cluster with the oldest export, if that decides; `None` if a conflict withdraws the service.
    pub winner: Option<ClusterId>,
    /// In the order of [`ConflictReason::ALL`], each reason once.
    pub conflicts: Arc<[Conflict]>,
    /// Ports of this cluster that are not part of the service, because older exports stand against them.
    pub skipped: Vec<ServicePort>,
    /// What was wrong with this cluster's offer.
    pub complaints: Vec<Complaint>,
}

impl Verdict {
    pub fn has_conflict(&self) -> bool {
        !self.conflicts.is_empty()
    }

    /// Whether the service is nowhere because of a conflict.
    pub fn is_withdrawn(&self) -> bool {
        self.has_conflict() && self.winner.is_none()
    }

    /// The reasons, joined by commas; `NoConflicts` if there is none.
    pub fn reason(&self) -> String {
        if self.conflicts.is_empty() {
            return ConflictReason::NoConflicts.to_string();
        }
        self.conflicts.iter().map(|conflict| conflict.reason.as_str()).collect::<Vec<_>>().join(",")
    }

    /// The conflicts as a text for the owner of this cluster's export.
    pub fn message(&self) -> String {
        match (&self.winner, self.has_conflict()) {
            (_, false) if self.exports == 1 => "no other cluster exports this service".to_owned(),
            (_, false) => format!("all {} exports of this service agree", self.exports),
            (Some(winner), true) => self.overruled(winner),
            (None, true) => self.withdrawn(),
        }
    }

    fn withdrawn(&self) -> String {
        let what = listing(self.conflicts.iter().map(|conflict| &conflict.what), "; ");
        format!("the service is withdrawn from all clusters until its exports agree: {what}")
    }

    fn overruled(&self, winner: &ClusterId) -> String {
        let differ = |conflict: &Conflict| {
            format!("{} in {} of {} clusters", conflict.what, conflict.disagreeing.len(), self.exports)
        };
        let all = listing(self.conflicts.iter().map(differ), ", ");
        format!(
            "the export of cluster {winner} is the oldest and decides; different: {all}; {}",
            self.own_part(winner)
        )
    }

    fn own_part(&self, winner: &ClusterId) -> String {
        if self.cluster == *winner {
            return "this cluster's export is the one that decides".to_owned();
        }
        let own: Vec<_> =
            self.conflicts.iter().filter(|conflict| conflict.disagreeing.contains(&self.cluster)).collect();
        if own.is_empty() {
            return "this cluster agrees with it".to_owned();
        }
        let own = listing(own.iter().map(|conflict| &conflict.what), ", ");
        let skipped = listing(self.skipped.iter().map(describe_port), ", ");
        let skipped =
            if skipped.is_empty() { skipped } else { format!(", and not part of the service: {skipped}") };
        format!("this cluster differs in {own}{skipped}")
    }
}

/// A port as people write it: `http 80/TCP`.
pub(crate) fn describe_port(port: &ServicePort) -> String {
    let name = port.name.as_deref().unwrap_or("(unnamed)");
    format!("{name} {}/{}", port.port, port.protocol)
}

/// The first few items, then how many more there are: a message must not grow with the number of clusters.
pub(crate) fn listing<T: Display>(items: impl Iterator<Item = T>, separator: &str) -> String {
    let mut items = items.peekable();
    let shown: Vec<String> = items.by_ref().take(LISTED).map(|item| item.to_string()).collect();
    let shown = shown.join(separator);
    match items.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{id, port};

    fn verdict(cluster: &str, winner: Option<&str>, conflicts: &[Conflict]) -> Verdict {
        Verdict {
            cluster: id(cluster),
            exports: 3,
            winner: winner.map(id),
            conflicts: conflicts.into(),
            skipped: Vec::new(),
            complaints: Vec::new(),
        }
    }

    fn conflict(reason: ConflictReason, what: &str, disagreeing: &[&str]) -> Conflict {
        Conflict { reason, what: what.into(), disagreeing: disagreeing.iter().map(|name| id(name)).collect() }
    }

    #[test]
    fn the_message_names_the_fields_the_winner_and_how_many_disagree() {
        let conflicts = [
            conflict(ConflictReason::PortConflict, "ports", &["b"]),
            conflict(ConflictReason::SessionAffinityConflict, "sessionAffinity", &["b", "c"]),
        ];
        let b = Verdict { skipped: vec![port("http:8080")], ..verdict("b", Some("a"), &conflicts) };
        assert_eq!(b.reason(), "PortConflict,SessionAffinityConflict");
        let common = "the export of cluster a is the oldest and decides; \
            different: ports in 1 of 3 clusters, sessionAffinity in 2 of 3 clusters; ";
        assert_eq!(
            b.message(),
            format!(
                "{common}this cluster differs in ports, sessionAffinity, and not part of the service: http 8080/TCP"
            )
        );
        let a = verdict("a", Some("a"), &conflicts);
        assert_eq!(a.message(), format!("{common}this cluster's export is the one that decides"));
        let fine = verdict("c", Some("a"), &conflicts[..1]);
        assert!(fine.message().ends_with("this cluster agrees with it"));
    }

    #[test]
    fn without_a_conflict_the_reason_says_so() {
        let verdict = verdict("a", Some("a"), &[]);
        assert_eq!((verdict.reason().as_str(), verdict.is_withdrawn()), ("NoConflicts", false));
        assert_eq!(verdict.message(), "all 3 exports of this service agree");
    }

    #[test]
    fn reasons_joined_by_commas_are_a_reason_that_the_schema_takes_however_many_there_are() {
        let every: Vec<_> = ConflictReason::ALL.iter().map(|reason| conflict(*reason, "x", &["b"])).collect();
        let reason = verdict("b", Some("a"), &every).reason();
        assert_eq!(reason.split(',').count(), ConflictReason::ALL.len());
        assert!(reason.len() <= 1024);
        assert!(reason.chars().all(|letter| letter.is_ascii_alphanumeric() || ",:_".contains(letter)));
        assert!(reason.starts_with(char::is_alphabetic) && reason.ends_with(char::is_alphanumeric));
    }

    #[test]
    fn a_long_list_is_cut_and_counted() {
        assert_eq!(listing((0..10).map(|i| i.to_string()), ", "), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
        assert_eq!(listing(std::iter::empty::<String>(), ", "), "");
    }
}
