//! Slices of other clusters on their way into this one: which are believed, and how they are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Error, ResourceExt as _};
use tombolo_model::{ClusterId, origin};
use tombolo_runtime::{Boxed, Key, is_final, try_abreast};

use crate::shared::Shared;
use crate::write::{Extent, delete, find, is_ours, name_taken, put};

/// How many slices of a service are written side by side: a large one has hundreds, and a slow server takes its time for each.
const ABREAST: usize = 8;

/// A write of a slice, or a deletion.
pub(crate) type Call<'a, T> = Boxed<'a, Result<T, Error>>;

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

    /// Writes the slices of a namespace that are new or differ, as [`write_all`] does.
    pub(crate) async fn put_slices(
        &self,
        namespace: &str,
        wanted: &BTreeMap<String, EndpointSlice>,
    ) -> Result<Option<Error>, Error> {
        let api: Api<EndpointSlice> = Api::namespaced(self.member.clone(), namespace);
        let calls = wanted.iter().map(|(name, slice)| -> Call<'_, ()> {
            let (api, key) = (&api, Key::new(namespace, name.clone()));
            Box::pin(async move { self.put_slice(api, &key, slice).await })
        });
        Ok(write_all(calls.collect()).await?.1)
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
        let last = self.ledgers.slices.version_of(key);
        let written = put(&self.ledgers.slices, api, current.as_deref(), slice, Extent::Whole).await?;
        // Where the cache is late, the same is written once more, and nothing changes.
        if let Some(written) = written.filter(|written| written.resource_version() != last) {
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
        let calls = stale.into_iter().map(|slice| -> Call<'_, ()> {
            let api = &api;
            Box::pin(async move { delete(api, &*slice).await })
        });
        try_abreast(ABREAST, calls.collect()).await.map(|_| ())
    }
}

/// Writes side by side. Returns what was written, and the last refusal: a slice that is refused, or whose name somebody else has, does
/// not keep the others from being written. A server that is busy or out of reach, or knows something newer, may take it in a
/// moment: that ends the attempt, before anything goes that the slice was to take the place of.
pub(crate) async fn write_all<T>(calls: Vec<Call<'_, T>>) -> Result<(Vec<T>, Option<Error>), Error> {
    let calls = calls.into_iter().map(|call| -> Call<'_, Result<T, Error>> {
        Box::pin(async move {
            match call.await {
                Err(error) if is_final(&error) => Ok(Err(error)),
                outcome => outcome.map(Ok),
            }
        })
    });
    let (mut written, mut refusal) = (Vec::new(), None);
    for outcome in try_abreast(ABREAST, calls.collect()).await? {
        match outcome {
            Ok(one) => written.push(one),
            Err(error) => refusal = Some(error),
        }
    }
    Ok((written, refusal))
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::core::Status;
    use tokio::time::sleep;

    use super::*;

    fn answer(code: u16, reason: &str) -> Result<u64, Error> {
        match code {
            200 => Ok(1),
            code => Err(Error::Api(Box::new(Status::failure("no", reason).with_code(code)))),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_keeps_nothing_from_being_written_and_what_may_pass_ends_the_attempt() {
        // The second answer comes at once, the others after a while: how many are written, and whether a refusal is told; or none.
        let cases = [
            ((200, ""), Some((3, false))),
            ((403, "Forbidden"), Some((2, true))),
            ((409, "NameTaken"), Some((2, true))),
            ((422, "Invalid"), Some((2, true))),
            ((409, "Conflict"), None),
            ((429, "TooManyRequests"), None),
            ((500, "InternalError"), None),
            ((503, "ServiceUnavailable"), None),
        ];
        for ((code, reason), expected) in cases {
            let slow = || -> Call<'_, u64> {
                Box::pin(async {
                    sleep(Duration::from_secs(1)).await;
                    Ok(1)
                })
            };
            let calls = vec![slow(), Box::pin(async move { answer(code, reason) }), slow()];
            let found = write_all(calls).await.ok();
            let found = found.map(|(written, refusal)| (written.len(), refusal.is_some()));
            assert_eq!(found, expected, "{code} {reason}");
        }
    }
}
