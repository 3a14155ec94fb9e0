//! Bringing MultiClusterServices about: the Works that the model wants, and what can be said on the object.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use k8s_openapi::api::core::v1::LoadBalancerStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, Error, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tombolo_api::condition::{self, Desired};
use tombolo_api::karmada::cluster::Cluster;
use tombolo_api::karmada::networking::{FINALIZER, MultiClusterService, PROVISION_LABEL};
use tombolo_api::karmada::strategy::STRATEGY_ANNOTATION;
use tombolo_api::karmada::work::Work;
use tombolo_api::tombolo::{LOCAL_FIRST_MIN_READY_ANNOTATION, MEMBER_LABEL};
use tombolo_model::multi_cluster_service::{
    Place, Plan, Unwritten, View, concerns, events, is_collected, is_confirmed, place, plan,
};
use tombolo_model::origin;
use tombolo_runtime::{
    Change, Controller, Extent, Key, News, Next, Queue, delete, in_time, is_not_found, is_place_gone, put,
    unless_gone,
};
use tombolo_works::Way;

use crate::shared::{Shared, WRITER, is_ready, locked, service_key};
use crate::unseen::{BELIEVED, Unseen};

/// How many Works are written at the same time: each waits for the server, and a change may concern every cluster.
const AT_ONCE: usize = 16;
/// A Work that takes longer is given up for now: it must not keep the rest of an attempt waiting.
const LONGEST_WRITE: Duration = Duration::from_secs(4);

/// How soon time alone is asked again at the earliest.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The controller of MultiClusterServices.
pub(crate) struct Services {
    shared: Arc<Shared>,
    queue: Arc<Queue<Key>>,
    times: Arc<Times>,
    unseen: Arc<Unseen>,
}

/// Since when things are under way, to tell how long they took.
#[derive(Default)]
struct Times {
    /// Slices of a service were reported.
    reported: Mutex<BTreeMap<Key, Instant>>,
    /// The Work of a Service was written and is not confirmed.
    sent: Mutex<BTreeMap<Place, Instant>>,
}

impl Services {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let (queue, times) = (Arc::new(Queue::new()), Arc::new(Times::default()));
        let unseen = Arc::new(Unseen::default());
        listen_to_objects(shared, &queue);
        listen_to_works(shared, &queue, &times, &unseen);
        listen_to_clusters(shared, &queue);
        Self { shared: shared.clone(), queue, times, unseen }
    }

    /// Looks at services again whose Works do not come back through the watch, for ever.
    pub(crate) fn sweep(&self) -> impl Future<Output = ()> + use<> {
        let (queue, unseen) = (self.queue.clone(), self.unseen.clone());
        async move {
            loop {
                sleep(BELIEVED).await;
                unseen.overdue().into_iter().for_each(|key| queue.add(key));
            }
        }
    }
}

fn listen_to_objects(shared: &Arc<Shared>, queue: &Arc<Queue<Key>>) {
    let add = queue.clone();
    shared.objects.listen(move |object| add.add(Key::of(object)));
    let (add, objects) = (queue.clone(), shared.objects.clone());
    shared.services.listen(move |service| {
        let key = Key::of(service);
        if objects.get(&key).is_some() {
            add.add(key);
        }
    });
}

fn listen_to_works(shared: &Arc<Shared>, queue: &Arc<Queue<Key>>, times: &Arc<Times>, unseen: &Arc<Unseen>) {
    let (add, times, unseen) = (queue.clone(), times.clone(), unseen.clone());
    shared.works.listen_to_changes(move |change| {
        let (Change::Put { new: work, .. } | Change::Gone(work)) = change;
        if let Change::Put { old: Some(old), .. } = change {
            service_key(old).into_iter().for_each(|key| add.add(key));
        }
        let Some(key) = service_key(work) else { return };
        if matches!(change, Change::Gone(_)) {
            unseen.forget(&key, &place(work));
        }
        if is_collected(work) {
            locked(&times.reported).entry(key.clone()).or_insert_with(Instant::now);
        }
        add.add(key);
    });
}

/// Clusters matter when they come, go, or change their health; heartbeats do not.
fn listen_to_clusters(shared: &Arc<Shared>, queue: &Arc<Queue<Key>>) {
    let (add, objects) = (queue.clone(), shared.objects.clone());
    let add_concerned = Arc::new(move |cluster: &str| {
        let all = objects.all().into_iter();
        all.filter(|object| concerns(object, cluster)).for_each(|object| add.add(Key::of(&*object)));
    });
    let tell = add_concerned.clone();
    shared.clusters.listen_to_changes(move |change| {
        let (Change::Put { new: cluster, .. } | Change::Gone(cluster)) = change;
        let state = |cluster: &Cluster| (is_ready(cluster), cluster.metadata.deletion_timestamp.is_some());
        if !matches!(change, Change::Put { old: Some(old), new } if state(old) == state(new)) {
            tell(&cluster.name_any());
        }
    });
    let tell = add_concerned.clone();
    shared.namespaces.listen(move |namespace| {
        let prefix = tombolo_api::karmada::EXECUTION_NAMESPACE_PREFIX;
        namespace.name_any().strip_prefix(prefix).into_iter().for_each(|cluster| tell(cluster));
    });
    let tell = add_concerned.clone();
    shared.places.listen_to_changes(move |change| {
        let (Change::Put { new: place, .. } | Change::Gone(place)) = change;
        if !matches!(change, Change::Put { old: Some(old), new } if origin::pod_cidrs(old) == origin::pod_cidrs(new))
            && let Some(cluster) = place.labels().get(MEMBER_LABEL)
        {
            tell(cluster);
        }
    });
    shared.memberships.listen_to_changes(move |change| {
        let (Change::Put { new: membership, .. } | Change::Gone(membership)) = change;
        if !matches!(change, Change::Put { old: Some(old), new } if old.spec.pod_cidrs == new.spec.pod_cidrs)
            && let Ok(cluster) = origin::check_membership(membership)
        {
            add_concerned(cluster.as_str());
        }
    });
}

impl Controller for Services {
    type Item = Key;

    const NAME: &'static str = "services";

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, item: &Key) -> Result<Next, Error> {
        self.shared.metrics.count_reconcile(Self::NAME);
        // Before the Works are read: what is reported from now on is for the next time.
        let detected = locked(&self.times.reported).remove(item);
        let outcome = self.look_at(item, detected).await;
        if let (Err(_), Some(detected)) = (&outcome, detected) {
            locked(&self.times.reported).entry(item.clone()).or_insert(detected);
        }
        outcome
    }
}

/// What came of writing Works.
#[derive(Default)]
struct Outcome {
    /// Something was written.
    wrote: bool,
    /// Where it failed.
    unwritten: Unwritten,
    /// The first failure, unless all were about places that are on their way out.
    error: Option<Error>,
}

impl Outcome {
    fn take(&mut self, place: Place, result: Result<bool, Error>) {
        let error = match result {
            Ok(wrote) => {
                self.wrote |= wrote;
                return;
            }
            Err(error) => error,
        };
        self.unwritten.insert(place, refusal(&error));
        if self.error.as_ref().is_none_or(is_place_gone) {
            self.error = Some(error);
        }
    }

    fn result(self) -> Result<(), Error> {
        self.error.map_or(Ok(()), Err)
    }
}

/// Why the server does not take a Work, if it is likely to say so again.
fn refusal(error: &Error) -> Option<String> {
    match error {
        Error::Api(status) if matches!(status.code, 409 | 429 | 503 | 504) || is_place_gone(error) => None,
        Error::Api(status) => Some(status.message.clone()),
        _ => None,
    }
}

impl Services {
    /// Does what is missing for an object. Slices that it is about were `detected` then, if any were.
    async fn look_at(&self, item: &Key, detected: Option<Instant>) -> Result<Next, Error> {
        let works = self.works(item);
        let Some(object) = self.shared.objects.get(item) else {
            return self.carry_out(&works, &Plan::default(), detected).await.result().map(|()| Next::Rest);
        };
        if object.metadata.deletion_timestamp.is_some() {
            self.carry_out(&works, &Plan::default(), detected).await.result()?;
            // Every Work that goes brings us back; the object may go when the last one has.
            if works.is_empty() {
                self.set_finalizer(object, false).await?;
            }
            return Ok(Next::Rest);
        }
        let Some(object) = self.set_finalizer(object, true).await? else { return Ok(Next::Rest) };
        let mut plan = self.plan(item, &object, &works, &Unwritten::new());
        let outcome = self.carry_out(&works, &plan, detected).await;
        if outcome.wrote || !outcome.unwritten.is_empty() {
            // What was confirmed before says nothing about what has been written since.
            plan = self.plan(item, &object, &self.works(item), &outcome.unwritten);
        }
        self.note_confirmed(&self.works(item));
        let next = match plan.settling {
            true => Next::Again(self.shared.settled.all_in().max(LOOK_AGAIN)),
            false => Next::Rest,
        };
        let told = self.tell(&object, plan.conditions, plan.load_balancer).await;
        outcome.result().and(told).map(|()| next)
    }

    /// The Works of a service as they are known, with those that were just written.
    fn works(&self, item: &Key) -> Vec<Arc<Work>> {
        self.unseen.complete(item, self.shared.works.group(item))
    }

    fn plan(
        &self,
        item: &Key,
        object: &MultiClusterService,
        works: &[Arc<Work>],
        unwritten: &Unwritten,
    ) -> Plan {
        let works: Vec<&Work> = works.iter().map(|work| &**work).collect();
        plan(&View {
            object,
            template: self.shared.services.get(item).as_deref(),
            members: &self.shared.members(),
            works: &works,
            limits: &self.shared.config.limits,
            unwritten,
        })
    }

    /// Makes the Works those of the plan: first the new and changed, then the ones to go. One that fails keeps no other from
    /// being written, or from going: what is withdrawn must not wait for what cannot be sent.
    async fn carry_out(&self, works: &[Arc<Work>], plan: &Plan, detected: Option<Instant>) -> Outcome {
        let held: BTreeMap<Place, Arc<Work>> = works.iter().map(|work| (place(work), work.clone())).collect();
        let mut writes: Vec<Step<'_>> = Vec::new();
        for (place, work) in &plan.works {
            let current = held.get(place).map(|work| &**work);
            writes.push(step(place, self.write(place, current, work, detected)));
        }
        let mut removals: Vec<Step<'_>> = Vec::new();
        for (place, work) in &held {
            if !plan.works.contains_key(place) && !plan.keep.contains(place) {
                removals.push(step(place, self.remove(place, work)));
            }
        }
        let mut outcome = Outcome::default();
        for steps in [writes, removals] {
            let done: Vec<(Place, Result<bool, Error>)> =
                stream::iter(steps).buffer_unordered(AT_ONCE).collect().await;
            done.into_iter().for_each(|(place, result)| outcome.take(place, result));
        }
        outcome
    }

    /// Writes a Work where it differs, and says whether it did.
    async fn write(
        &self,
        place: &Place,
        current: Option<&Work>,
        work: &Work,
        detected: Option<Instant>,
    ) -> Result<bool, Error> {
        let api: Api<Work> = Api::namespaced(self.shared.client.clone(), &place.0);
        let tidied = match current.and_then(|held| leftovers(held, work)) {
            Some(patch) => Some(api.patch(&place.1, &params(), &Patch::Merge(&patch)).await?),
            None => None,
        };
        let written = put(WRITER, &api, tidied.as_ref().or(current), work, Extent::Whole).await?;
        let Some(written) = written.or(tidied) else { return Ok(false) };
        // The member confirms generations: there is nothing to confirm where only labels or annotations differ.
        let is_news =
            current.is_none_or(|current| current.metadata.generation != written.metadata.generation);
        self.unseen.note(written);
        self.shared.metrics.count_write("put");
        let is_service =
            work.spec.workload.as_ref().is_some_and(|load| load.manifests[0]["kind"] == "Service");
        if is_service && is_news {
            locked(&self.times.sent).insert(place.clone(), Instant::now());
        }
        if let Some(detected) = detected.filter(|_| !is_service) {
            self.shared.metrics.durations.note_slice(Way::Dispatched, detected.elapsed());
        }
        Ok(true)
    }

    async fn remove(&self, place: &Place, work: &Work) -> Result<bool, Error> {
        let api: Api<Work> = Api::namespaced(self.shared.client.clone(), &place.0);
        locked(&self.times.sent).remove(place);
        self.shared.metrics.count_write("delete");
        delete(&api, work).await.map(|()| true)
    }

    fn note_confirmed(&self, works: &[Arc<Work>]) {
        let mut sent = locked(&self.times.sent);
        for work in works.iter().filter(|work| is_confirmed(work)) {
            if let Some(since) = sent.remove(&place(work)) {
                self.shared.metrics.durations.note_service(since.elapsed());
            }
        }
    }

    /// Sets or removes the finalizer. Returns the object as it is then, if it is still there.
    async fn set_finalizer(
        &self,
        object: Arc<MultiClusterService>,
        wanted: bool,
    ) -> Result<Option<Arc<MultiClusterService>>, Error> {
        let mut finalizers = object.finalizers().to_vec();
        if finalizers.iter().any(|name| name == FINALIZER) == wanted {
            return Ok(Some(object));
        }
        finalizers.retain(|name| name != FINALIZER);
        if wanted {
            finalizers.push(FINALIZER.to_owned());
        }
        let metadata = json!({"finalizers": finalizers, "resourceVersion": object.resource_version()});
        let (api, patch) = (self.api(&object), json!({ "metadata": metadata }));
        match api.patch(&object.name_any(), &params(), &Patch::Merge(&patch)).await {
            Ok(object) => Ok(Some(Arc::new(object))),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts into the status how far the service has come and where it is reached from outside; events tell of changes.
    async fn tell(
        &self,
        object: &MultiClusterService,
        desired: Vec<Desired>,
        load_balancer: Option<LoadBalancerStatus>,
    ) -> Result<(), Error> {
        let before = object.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        let known =
            object.status.as_ref().and_then(|status| status.load_balancer.clone()).unwrap_or_default();
        let load_balancer = load_balancer.unwrap_or_else(|| known.clone());
        let happened = events(&before, &desired);
        let now = Time(self.shared.config.clock.now());
        let mut conditions = before;
        let mut changed = known != load_balancer;
        for condition in desired {
            changed |= condition::set(&mut conditions, condition, now.clone());
        }
        if !changed {
            return Ok(());
        }
        let load_balancer = load_balancer.ingress.is_some().then_some(load_balancer);
        // Only over what was looked at: a cache that is late would tell everything twice.
        let metadata = json!({"resourceVersion": object.resource_version()});
        let status = json!({"conditions": conditions, "loadBalancer": load_balancer});
        let patch: Value = json!({"metadata": metadata, "status": status});
        let api = self.api(object);
        unless_gone(api.patch_status(&object.name_any(), &params(), &Patch::Merge(&patch)).await)?;
        for one in &happened {
            let news = News { severity: one.severity.as_str(), reason: &one.reason, note: &one.note };
            self.shared.events.tell(object, &news).await;
        }
        Ok(())
    }

    fn api(&self, object: &MultiClusterService) -> Api<MultiClusterService> {
        Api::namespaced(self.shared.client.clone(), &object.namespace().unwrap_or_default())
    }
}

/// The change that takes marks from a Work that it should not have any more. A comparison of what is wanted with what is
/// there does not show them, and applying leaves those that somebody else set.
fn leftovers(held: &Work, wanted: &Work) -> Option<Value> {
    let stale = |held: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>, keys: &[&str]| {
        let stale = keys.iter().filter(|key| held.contains_key(**key) && !wanted.contains_key(**key));
        stale.map(|key| (key.to_string(), Value::Null)).collect::<serde_json::Map<_, _>>()
    };
    let annotations = [STRATEGY_ANNOTATION, LOCAL_FIRST_MIN_READY_ANNOTATION];
    let annotations = stale(held.annotations(), wanted.annotations(), &annotations);
    let labels = stale(held.labels(), wanted.labels(), &[PROVISION_LABEL]);
    let clean = annotations.is_empty() && labels.is_empty();
    (!clean).then(|| json!({"metadata": {"annotations": annotations, "labels": labels}}))
}

/// One Work to be written or to go, with where it is.
type Step<'a> = BoxFuture<'a, (Place, Result<bool, Error>)>;

fn step<'a>(place: &'a Place, work: impl Future<Output = Result<bool, Error>> + Send + 'a) -> Step<'a> {
    async move { (place.clone(), in_time(LONGEST_WRITE, work).await) }.boxed()
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(WRITER.to_owned()), ..PatchParams::default() }
}
