//! Whether a Cluster is ready, in the words of its condition.

use tombolo_api::condition::{Desired, Status};
use tombolo_api::karmada::cluster::{ClusterCondition, ReadyReason, SyncMode};

use crate::liveness::Liveness;

/// What is known of a cluster's heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// There has been none.
    Unheard,
    /// The heartbeat under this name is that of another cluster.
    Impostor,
    Heard(Liveness),
}

/// The condition `Ready` of a Cluster. While the hub is to blame for the silence, nothing is said anew.
pub fn ready_condition(mode: SyncMode, readiness: Readiness, generation: Option<i64>) -> Option<Desired> {
    let type_ = ClusterCondition::Ready;
    let silent = match mode {
        SyncMode::Pull => (Status::Unknown, ReadyReason::ClusterStatusUnknown),
        SyncMode::Push => (Status::False, ReadyReason::ClusterNotReachable),
    };
    let desired = match readiness {
        Readiness::Heard(Liveness::Held) => return None,
        Readiness::Heard(Liveness::Alive) => {
            Desired::new(type_, true, ReadyReason::ClusterReady, "The cluster's heartbeat advances.")
        }
        Readiness::Heard(Liveness::Expired) => {
            Desired::new(type_, silent.0, silent.1, "The cluster's heartbeat stands still.")
        }
        Readiness::Unheard => Desired::new(type_, silent.0, silent.1, "The cluster has not been heard yet."),
        Readiness::Impostor => {
            let message = "Another cluster answers to this name: its identity is not the one in spec.id.";
            Desired::new(type_, Status::False, ReadyReason::ClusterNotReady, message)
        }
    };
    Some(desired.observed(generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_told_as_who_came_to_whom() {
        use Liveness::{Alive, Expired, Held};
        let cases = [
            (SyncMode::Pull, Readiness::Heard(Alive), Some(("True", "ClusterReady"))),
            (SyncMode::Push, Readiness::Heard(Alive), Some(("True", "ClusterReady"))),
            (SyncMode::Pull, Readiness::Heard(Expired), Some(("Unknown", "ClusterStatusUnknown"))),
            (SyncMode::Push, Readiness::Heard(Expired), Some(("False", "ClusterNotReachable"))),
            (SyncMode::Pull, Readiness::Unheard, Some(("Unknown", "ClusterStatusUnknown"))),
            (SyncMode::Pull, Readiness::Impostor, Some(("False", "ClusterNotReady"))),
            (SyncMode::Pull, Readiness::Heard(Held), None),
        ];
        for (mode, readiness, expected) in cases {
            let said = ready_condition(mode, readiness, Some(1));
            let said = said.as_ref().map(|said| (said.status.as_str(), said.reason.as_str()));
            assert_eq!(said, expected, "{mode} {readiness:?}");
        }
    }
}
