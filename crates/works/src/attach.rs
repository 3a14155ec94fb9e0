//! Whether slices of other clusters stand behind a Service now.
//!
//! By default they always do. With `LocalFirst` they do while fewer local endpoints are ready than wanted; the rule, with
//! its hysteresis, is the model's, and here is what it has to be told: the strategy, which travels in the annotations of
//! the Works, how many local endpoints are ready, and what time it is. What was decided before is in memory and, after a
//! restart, read from the slices that are there.
//!
//! A client speaks one family of addresses, so endpoints of one family are no substitute for those of the other: each
//! family is judged by itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Error, ResourceExt};
use tokio::time::Instant;
use tombolo_api::karmada::strategy::{MultiClusterStrategy, STRATEGY_ANNOTATION};
use tombolo_api::karmada::work::Work;
use tombolo_api::service::{IpFamily, SERVICE_NAME_LABEL};
use tombolo_api::tombolo::ServiceRef;
use tombolo_model::multi_cluster_service::is_collectable;
use tombolo_model::strategy::local_first::{Answer, LocalFirst, MinReady};
use tombolo_model::strategy::{of_multi_cluster_service, ready_endpoints};
use tombolo_runtime::Key;

use crate::shared::Shared;

/// A slice that simply stands there.
const ALWAYS: Answer = Answer { attached: true, look_again_in: None };

/// What is remembered of Services with `LocalFirst`.
pub(crate) struct Attachments {
    start: Instant,
    states: Mutex<States>,
}

/// By Service and family.
type States = BTreeMap<Key, BTreeMap<&'static str, LocalFirst>>;

impl Attachments {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), states: Mutex::default() }
    }

    fn states(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a slice stands behind its Service now, and when time alone may change that.
    pub(crate) async fn judge(
        &self,
        shared: &Shared,
        wish: Wish,
        slice: &EndpointSlice,
    ) -> Result<Answer, Error> {
        let (Wish::LocalFirst(wanted), Some(service)) = (wish, service_of(slice)) else { return Ok(ALWAYS) };
        let (family, known) = (counted_family(shared, &service, slice), behind(shared, &service));
        let mut state = self.remembered(shared, &service, family, &known);
        let mut was_attached = state.is_attached();
        let cached = local_ready(known.iter().map(|slice| &**slice), &service, family);
        let mut answer = state.observe(cached, wanted, self.start.elapsed());
        if was_attached && !answer.attached {
            // A cache may be late, and nobody shall find the Service empty: what goes, goes on the server's word.
            let listed = list(shared, &service).await?;
            // And not over what was decided for another slice of the Service meanwhile.
            state = self.remembered(shared, &service, family, &known);
            was_attached = state.is_attached();
            answer = state.observe(local_ready(&listed, &service, family), wanted, self.start.elapsed());
        }
        if was_attached != answer.attached {
            tracing::info!(service = %key(&service), family, attached = answer.attached, "LocalFirst");
        }
        self.states().entry(key(&service)).or_default().insert(family, state);
        Ok(answer)
    }

    fn remembered(
        &self,
        shared: &Shared,
        service: &ServiceRef,
        family: &'static str,
        known: &[Arc<EndpointSlice>],
    ) -> LocalFirst {
        let remembered = self.states().get(&key(service)).and_then(|states| states.get(family).cloned());
        let is_attached = |slice: &Arc<EndpointSlice>| {
            shared.maker(&**slice).is_some() && counted_family(shared, service, slice) == family
        };
        remembered.unwrap_or_else(|| LocalFirst::started_with(known.iter().any(is_attached)))
    }

    /// Forgets a Service without any Work that asks for `LocalFirst`.
    pub(crate) fn forget_unless_wanted(&self, shared: &Shared, service: &ServiceRef) {
        let key = key(service);
        let is_known = self.states().contains_key(&key);
        if is_known && !shared.works_of(service).iter().any(|work| is_local_first(work)) {
            self.states().remove(&key);
        }
    }
}

/// When the slice of a Work shall stand behind its Service.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish {
    Always,
    LocalFirst(MinReady),
}

impl Wish {
    /// What the annotations of a Work ask for. Words that nobody knows are refused, not read as others.
    pub(crate) fn read(work: &Work) -> Result<Self, String> {
        let strategy = of_multi_cluster_service(work.annotations());
        match strategy.map_err(|error| format!("annotation {STRATEGY_ANNOTATION}: {error}"))? {
            MultiClusterStrategy::RemoteAndLocal => Ok(Wish::Always),
            MultiClusterStrategy::LocalFirst => {
                MinReady::read(work.annotations()).map(Wish::LocalFirst).map_err(|error| error.to_string())
            }
        }
    }
}

/// Whether the readiness of local endpoints matters to a Work.
pub(crate) fn is_local_first(work: &Work) -> bool {
    of_multi_cluster_service(work.annotations()) == Ok(MultiClusterStrategy::LocalFirst)
}

/// The Service that a slice is behind.
pub(crate) fn service_of(slice: &EndpointSlice) -> Option<ServiceRef> {
    let name = slice.labels().get(SERVICE_NAME_LABEL)?.clone();
    Some(ServiceRef { namespace: slice.namespace().unwrap_or_default(), name })
}

fn key(service: &ServiceRef) -> Key {
    Key::new(service.namespace.clone(), service.name.clone())
}

/// The family whose local endpoints a slice is measured against: its own, unless the Service here does not have that one,
/// so that it gets no traffic anyway.
fn counted_family(shared: &Shared, service: &ServiceRef, slice: &EndpointSlice) -> &'static str {
    let here =
        shared.member.services.get(&key(service)).and_then(|service| service.spec.clone()?.ip_families);
    let here: Vec<IpFamily> = here.iter().flatten().filter_map(|family| family.parse().ok()).collect();
    let own: IpFamily = slice.address_type.parse().unwrap_or_default();
    let counted = if here.is_empty() || here.contains(&own) { own } else { here[0] };
    counted.as_str()
}

/// All slices behind a Service, as far as they are known.
fn behind(shared: &Shared, service: &ServiceRef) -> Vec<Arc<EndpointSlice>> {
    let group = Key::of_label(service.namespace.clone(), SERVICE_NAME_LABEL, &service.name);
    shared.member.slices.group(&group)
}

async fn list(shared: &Shared, service: &ServiceRef) -> Result<Vec<EndpointSlice>, Error> {
    let api: Api<EndpointSlice> = Api::namespaced(shared.member.client.clone(), &service.namespace);
    let params = ListParams::default().labels(&format!("{SERVICE_NAME_LABEL}={}", service.name));
    Ok(api.list(&params).await?.items)
}

/// How many endpoints of the cluster itself are ready.
fn local_ready<'a>(
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    service: &ServiceRef,
    family: &str,
) -> usize {
    let local = |slice: &&EndpointSlice| slice.address_type == family && is_collectable(slice, service);
    ready_endpoints(slices.into_iter().filter(local))
}
