//! Whether an object stays.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PropagationPolicy;

use super::graph::{FOREGROUND, ORPHAN};

/// How an owner was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Present,
    /// Being deleted, and waiting for its dependents.
    Waiting,
    Absent,
    /// Nobody can tell: its kind is unknown, or not one that could own this object. Such an owner is never taken for
    /// absent.
    Unknown,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Keep,
    /// Some owners are left: the others are taken off, by uid.
    Disown(Vec<String>),
    Delete(PropagationPolicy),
    /// Its owners should not wait for it: it waits for one of them.
    Unblock,
}

/// The dependents of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Following {
    /// There are any.
    pub(super) some: bool,
    /// One of them waits for its own dependents, so perhaps for this very object.
    pub(super) waiting: bool,
}

/// What becomes of an object with these owners and dependents.
pub(super) fn judge(
    owners: &[(&OwnerReference, Owner)],
    finalizers: &[String],
    following: Following,
) -> Verdict {
    if owners.is_empty() || owners.iter().any(|(_, state)| *state == Owner::Unknown) {
        return Verdict::Keep;
    }
    let lost: Vec<String> = owners
        .iter()
        .filter(|(_, state)| *state != Owner::Present)
        .map(|(owner, _)| owner.uid.clone())
        .collect();
    if lost.is_empty() {
        return Verdict::Keep;
    }
    if lost.len() < owners.len() {
        return Verdict::Disown(lost);
    }
    let waited_for = owners.iter().any(|(_, state)| *state == Owner::Waiting);
    if waited_for
        && following.waiting
        && owners.iter().any(|(owner, _)| owner.block_owner_deletion == Some(true))
    {
        return Verdict::Unblock;
    }
    let has = |wanted: &str| finalizers.iter().any(|name| name == wanted);
    Verdict::Delete(if has(ORPHAN) {
        PropagationPolicy::Orphan
    } else if has(FOREGROUND) || (waited_for && following.some) {
        // The owner waits for all that is below it, not only for its children.
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_goes_with_its_last_owner() {
        use Owner::{Absent, Present, Unknown, Waiting};
        let delete = |policy| Verdict::Delete(policy);
        let disown = |uids: &[&str]| Verdict::Disown(uids.iter().map(|uid| (*uid).to_owned()).collect());
        let cases: [(&[Owner], &[&str], bool, Verdict); 11] = [
            (&[], &[], false, Verdict::Keep),
            (&[Present], &[], true, Verdict::Keep),
            (&[Absent], &[], true, delete(PropagationPolicy::Background)),
            (&[Absent, Present], &[], false, disown(&["0"])),
            (&[Present, Waiting, Absent], &[], false, disown(&["1", "2"])),
            (&[Absent, Unknown], &[], false, Verdict::Keep),
            (&[Waiting], &[], false, delete(PropagationPolicy::Background)),
            (&[Waiting], &[], true, delete(PropagationPolicy::Foreground)),
            (&[Waiting, Absent], &[], true, delete(PropagationPolicy::Foreground)),
            (&[Absent], &[ORPHAN], true, delete(PropagationPolicy::Orphan)),
            (&[Absent], &[FOREGROUND], true, delete(PropagationPolicy::Foreground)),
        ];
        for (states, finalizers, leads, expected) in cases {
            let references: Vec<OwnerReference> = (0..states.len())
                .map(|place| OwnerReference { uid: place.to_string(), ..OwnerReference::default() })
                .collect();
            let owners: Vec<(&OwnerReference, Owner)> =
                references.iter().zip(states.iter().copied()).collect();
            let finalizers: Vec<String> = finalizers.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(
                judge(&owners, &finalizers, Following { some: leads, waiting: false }),
                expected,
                "{states:?} {finalizers:?} {leads}"
            );
        }
    }

    #[test]
    fn a_circle_is_broken_before_it_is_deleted() {
        let following = Following { some: true, waiting: true };
        let reference =
            |blocks| OwnerReference { block_owner_deletion: Some(blocks), ..OwnerReference::default() };
        assert_eq!(judge(&[(&reference(true), Owner::Waiting)], &[], following), Verdict::Unblock);
        let policy = PropagationPolicy::Foreground;
        assert_eq!(judge(&[(&reference(false), Owner::Waiting)], &[], following), Verdict::Delete(policy));
    }
}
