//! Writing only what differs, in the name of the agent.

use kube::api::PatchParams;
use kube::core::Status;
use kube::{Api, Error, ResourceExt};
use tombolo_api::tombolo::{MANAGED_BY_LABEL, MANAGER as OURS};

use crate::edition::Kind;

pub(crate) use tombolo_runtime::{Extent, Ledger, delete, find};

/// Who the API server sees writing.
pub(crate) const MANAGER: &str = "tombolo-agent";

pub(crate) fn apply_params() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

/// For patches that change a field or two of an object.
pub(crate) fn merge_params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

/// Whether an object was made by an agent.
pub(crate) fn is_ours<K: ResourceExt>(object: &K) -> bool {
    object.labels().get(MANAGED_BY_LABEL).is_some_and(|manager| manager == OURS)
}

/// The error when somebody else's object has the name that ours should get.
pub(crate) fn name_taken<K: Kind>(object: &K) -> Error {
    let status = Status::failure(&in_the_way(object), "NameTaken").with_code(409);
    Error::Api(Box::new(status))
}

/// What to say about somebody else's object that has the name that ours should get.
pub(crate) fn in_the_way<K: Kind>(object: &K) -> String {
    let (kind, name) = (K::kind(&()), object.name_any());
    format!("a {kind} {name} of someone else is in the way; remove it or let it be managed")
}

/// Makes the API server hold `desired`, unless `current` is known or seen to. Returns what was written.
pub(crate) async fn put<K: Kind>(
    ledger: &Ledger,
    api: &Api<K>,
    current: Option<&K>,
    desired: &K,
    extent: Extent,
) -> Result<Option<K>, Error> {
    ledger.put(MANAGER, api, current, desired, extent).await
}
