//! How local and remote endpoints of one name are combined under a Service's own name (both of Karmada's proposals).
//!
//! [`plan`](plan()) decides for one ServiceImport of a member: which Service shall have its name, which slices stand behind
//! it, whether a selector is put aside, and what to say about it. [`local_first`] decides for a MultiClusterService when
//! remote endpoints are needed at all.
//!
//! A word that is no strategy is refused: nothing is imported then, as if there were no import, and the import says why. But
//! a Service that was made for it stays: a slip of the pen must not take a name down, nor its address.

mod attach;
pub mod local_first;
mod plan;
mod selector;
mod service;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use tombolo_api::UnknownWord;
use tombolo_api::karmada::strategy::{ImportStrategy, MultiClusterStrategy, STRATEGY_ANNOTATION};
use tombolo_api::mcs::ServiceImport;
use tombolo_api::service::LAST_APPLIED_ANNOTATION;
use tombolo_api::tombolo::{MANAGED_BY_LABEL, MANAGER};

pub use plan::{Plan, Situation, Source, Step, plan, refused};
pub(crate) use selector::wanted as own_selector;
pub use selector::{is_put_aside, keep_aside};

/// The strategy of an import; `None` for one that Tombolo derived and nobody annotated, which has no native name.
pub fn of_import(import: &ServiceImport) -> Option<Result<ImportStrategy, UnknownWord>> {
    let annotations = import.metadata.annotations.as_ref();
    match annotations.and_then(|annotations| annotations.get(STRATEGY_ANNOTATION)) {
        Some(word) => Some(word.parse()),
        None => is_user_written(import).then(|| Ok(ImportStrategy::default())),
    }
}

/// The strategy of a MultiClusterService with these annotations.
pub fn of_multi_cluster_service(
    annotations: &BTreeMap<String, String>,
) -> Result<MultiClusterStrategy, UnknownWord> {
    annotations.get(STRATEGY_ANNOTATION).map_or(Ok(MultiClusterStrategy::default()), |word| word.parse())
}

/// Whether a user wrote the import: it was not derived from offers, or somebody applied over what was.
pub fn is_user_written(import: &ServiceImport) -> bool {
    let labels = import.metadata.labels.as_ref();
    let derived =
        labels.and_then(|labels| labels.get(MANAGED_BY_LABEL)).is_some_and(|maker| maker == MANAGER);
    let annotations = import.metadata.annotations.as_ref();
    !derived || annotations.is_some_and(|annotations| annotations.contains_key(LAST_APPLIED_ANNOTATION))
}

/// How many endpoints of these slices are ready, each counted once.
pub fn ready_endpoints<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> usize {
    let endpoints = slices.into_iter().flat_map(|slice| slice.endpoints.iter().flatten());
    // What says nothing about its readiness is ready (`discovery.k8s.io/v1`, EndpointConditions).
    let ready = endpoints.filter(|endpoint| {
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
    });
    ready.map(|endpoint| &endpoint.addresses).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests;
