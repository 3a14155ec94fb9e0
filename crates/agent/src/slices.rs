//! Slices of other clusters on their way into this one: which are believed, and how they are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Error};
use tombolo_model::{ClusterId, origin};
use tombolo_runtime::{Boxed, Key, is_place_gone, try_abreast};

use crate::shared::Shared;
use crate::write::{Extent, delete, find, is_ours, name_taken, put};

/// How many slices of a service are written side by side: a large one has hundreds, and a slow server takes its time for each.
pub(crate) const ABREAST: usize = 8;

impl Shared {
    /// Those of a source's slices of an offer that are believed, and how many endpoints are beyond its limit.
    pub(crate) fn believed<'a>(
        &self,
        source: &ClusterId,
        offer: &str,
        published: &'a [Arc<EndpointSlice>],
    ) -> (Vec<&'a EndpointSlice>, usize) {
        let believed = published
            .iter()
            .map(|slice| &**slice)
            .filter(|slice| origin::check_slice(source, slice, |name| name == offer).is_ok());
        origin::admit_slices(believed, &self.config.limits)
    }

    /// Writes the slices of a namespace that are new or differ, side by side. One that is refused, or whose name somebody else has, does
    /// not keep the others from being written; it is the error that is returned in the end. Without an answer there is
    /// no point in going on.
    pub(crate) async fn put_slices(
        &self,
        namespace: &str,
        wanted: &BTreeMap<String, EndpointSlice>,
    ) -> Result<Option<Error>, Error> {
        let api: Api<EndpointSlice> = Api::namespaced(self.member.clone(), namespace);
        let calls = wanted.iter().map(|(name, slice)| -> Boxed<'_, Result<Option<Error>, Error>> {
            let (api, key) = (&api, Key::new(namespace, name.clone()));
            Box::pin(async move {
                match self.put_slice(api, &key, slice).await {
                    Err(error) if matches!(error, Error::Api(_)) && !is_place_gone(&error) => Ok(Some(error)),
                    outcome => outcome.map(|()| None),
                }
            })
        });
        let refused = try_abreast(ABREAST, calls.collect()).await?;
        Ok(refused.into_iter().flatten().next_back())
    }

    async fn put_slice(
        &self,
        api: &Api<EndpointSlice>,
        key: &Key,
        slice: &EndpointSlice,
    ) -> Result<(), Error> {
        let current = find(api, self.slices.get(key), &key.name).await?;
        if let Some(taken) = current.as_deref().filter(|slice| !is_ours(*slice)) {
            return Err(name_taken(taken));
        }
        let current = replaceable(api, current, slice).await?;
        if let Some(written) =
            put(&self.ledgers.slices, api, current.as_deref(), slice, Extent::Whole).await?
        {
            self.metrics.note_slice(current.as_deref(), &written, self.config.clock.now());
        }
        Ok(())
    }

    /// Deletes slices of a namespace, side by side.
    pub(crate) async fn delete_slices(
        &self,
        namespace: &str,
        stale: impl IntoIterator<Item = Arc<EndpointSlice>>,
    ) -> Result<(), Error> {
        let api: Api<EndpointSlice> = Api::namespaced(self.member.clone(), namespace);
        let calls = stale.into_iter().map(|slice| -> Boxed<'_, Result<(), Error>> {
            let api = &api;
            Box::pin(async move { delete(api, &*slice).await })
        });
        try_abreast(ABREAST, calls.collect()).await.map(|_| ())
    }
}

/// What is left of `current` once nothing of it keeps `desired` from being written: the address type of a slice cannot be
/// changed, so one of another type goes first.
pub(crate) async fn replaceable(
    api: &Api<EndpointSlice>,
    current: Option<Arc<EndpointSlice>>,
    desired: &EndpointSlice,
) -> Result<Option<Arc<EndpointSlice>>, Error> {
    match current {
        Some(stale) if stale.address_type != desired.address_type => {
            delete(api, &*stale).await?;
            Ok(None)
        }
        other => Ok(other),
    }
}
