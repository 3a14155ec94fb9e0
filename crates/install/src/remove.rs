//! Taking out what was applied: in the other order, and only what is ours.

use std::fmt::Debug;

use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tombolo_api::crd::SCHEMA_REVISION_LABEL;
use tombolo_api::tombolo::MANAGED_BY_LABEL;
use tombolo_runtime::is_absent;

use crate::apply::{Error, api};
use crate::manifest::Manifest;
use crate::part::INSTALLER;

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    Gone,
    NotThere,
    /// Somebody else made it.
    Foreign,
}

/// Removes all of them, the last first, and tells of each.
pub async fn remove(
    client: &Client,
    manifests: &[Manifest],
    mut tell: impl FnMut(&Manifest, Removed),
) -> Result<(), Error> {
    for manifest in manifests.iter().rev() {
        let removed = remove_one(client, manifest).await;
        tell(manifest, removed.map_err(|source| Error::refused(manifest, source))?);
    }
    Ok(())
}

/// Removes this object, and none that has its name by now; what is not there is gone already.
pub(crate) async fn remove_this<K>(api: &Api<K>, object: &K) -> Result<(), kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let only = Preconditions { uid: object.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
    match api.delete(&object.name_any(), &params).await {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}

async fn remove_one(client: &Client, manifest: &Manifest) -> Result<Removed, kube::Error> {
    let api = api(client, manifest);
    let found = match api.get(manifest.name()).await {
        Err(error) if is_absent(&error) => return Ok(Removed::NotThere),
        found => found?,
    };
    let labels = found.labels();
    let is_ours = labels.get(MANAGED_BY_LABEL).is_some_and(|by| by == INSTALLER);
    if !is_ours && !labels.contains_key(SCHEMA_REVISION_LABEL) {
        return Ok(Removed::Foreign);
    }
    match api.delete(manifest.name(), &DeleteParams::background()).await {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(Removed::Gone),
    }
}
