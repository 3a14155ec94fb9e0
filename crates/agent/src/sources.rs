//! Leases of source clusters, and what happens when one runs out.
//!
//! Two parts that share nothing but the leases, as the first edition of KEP-1645 asks for: the keeper renews a source's
//! lease while its heartbeat at the hub advances; the expiry controller watches the leases and removes the slices of a
//! source whose lease was released or is no longer renewed. When the source is no member any more its lease goes last.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ObjectMeta, Patch, PostParams};
use kube::{Api, Error, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::tombolo::{HEARTBEAT, MANAGED_BY_LABEL, MANAGER, OFFER_LABEL};
use tombolo_model::liveness::{self, Beat, Liveness, Patience, Pulse};
use tombolo_model::{ClusterId, names};
use tombolo_runtime::{
    Boxed, Controller, Key, Next, Queue, in_time, is_refusal, try_abreast, unless_there, with_causes,
};

use crate::shared::{Shared, source_of};
use crate::write::{apply_params, delete, is_ours, merge_params};

/// How often the keeper looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many leases are written side by side.
const ABREAST: usize = 16;

/// Keeps the leases of all sources, for ever; also while the hub has not been seen yet, since those who lived when it was
/// lost are held, and not for ever.
pub(crate) async fn run(shared: Arc<Shared>) {
    shared.member_synced().await;
    let mut keeper = Keeper {
        start: Instant::now(),
        pulses: BTreeMap::new(),
        heard: BTreeSet::new(),
        own_beat: None,
        met: false,
        answers: true,
        shared,
    };
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        if let Err(error) = keeper.look().await {
            tracing::warn!(error = %with_causes(&error), "the leases of sources could not be kept");
        }
    }
}

/// What the lease of a source shall say, and what it says now.
struct Renewal {
    cluster: ClusterId,
    current: Option<Arc<Lease>>,
    spec: LeaseSpec,
}

/// Whose lease was written, and what came of it.
type Renewed = (ClusterId, Result<(), Error>);

struct Keeper {
    shared: Arc<Shared>,
    start: Instant,
    pulses: BTreeMap<ClusterId, Pulse>,
    /// Whose heartbeat has advanced since its lease was renewed.
    heard: BTreeSet<ClusterId>,
    /// The own heartbeat, as the hub last showed it.
    own_beat: Option<Beat>,
    /// Whether the hub has been listed.
    met: bool,
    /// Whether the member's API server answered for all leases that were due last.
    answers: bool,
}

impl Keeper {
    async fn look(&mut self) -> Result<(), Error> {
        let now = self.start.elapsed();
        if !self.met && self.shared.is_hub_synced() {
            self.meet();
        }
        self.listen_for_oneself();
        let members = self.sources();
        self.pulses.retain(|cluster, _| members.contains(cluster));
        self.heard.retain(|cluster| members.contains(cluster));
        let judged: BTreeMap<ClusterId, Liveness> = members
            .into_iter()
            .map(|cluster| {
                let liveness = self.judge(&cluster, now);
                (cluster, liveness)
            })
            .collect();
        self.shared.metrics.note_sources(judged.clone());
        let due =
            judged.into_iter().filter_map(|(cluster, liveness)| self.renewal(cluster, liveness)).collect();
        let mut outcome = self.renew_all(due).await;
        if self.met {
            outcome = outcome.and(self.forget_departed().await);
        }
        outcome
    }

    /// The hub shows heartbeats for the first time. That they are there says nothing: they have to advance.
    fn meet(&mut self) {
        let beats: Vec<_> = self.pulses.keys().map(|cluster| (cluster.clone(), self.beat(cluster))).collect();
        for (cluster, beat) in beats {
            if let (Some(pulse), Some(beat)) = (self.pulses.get_mut(&cluster), beat) {
                pulse.recall(beat);
            }
        }
        self.met = true;
    }

    /// The members; until the hub has named them, those that have a lease.
    fn sources(&self) -> Vec<ClusterId> {
        if self.met {
            return self.shared.members().keys().cloned().collect();
        }
        let leases = self.shared.source_leases.all().into_iter();
        leases.filter_map(|lease| source_of(&*lease)).collect()
    }

    /// Whoever hears itself hears the others, too: all heartbeats come over one watch.
    fn listen_for_oneself(&mut self) {
        let own = self.beat(&self.shared.config.cluster);
        if own.is_some() && own != self.own_beat {
            self.shared.hub_ear.hear();
            self.own_beat = own;
        }
    }

    fn judge(&mut self, cluster: &ClusterId, now: Duration) -> Liveness {
        if *cluster == self.shared.config.cluster {
            return Liveness::Alive;
        }
        // What is listed first is no sign of life: until then, and not only until the heartbeats are there, nobody is heard.
        let beat = self.beat(cluster).filter(|_| self.met);
        let lease = self.shared.source_lease(cluster);
        let was_dead =
            lease.as_ref().and_then(|lease| lease.spec.as_ref()).is_some_and(liveness::is_released);
        let pulse = self.pulses.entry(cluster.clone()).or_insert_with(|| match was_dead {
            true => Pulse::known_dead(beat.clone(), now),
            false => Pulse::first_seen(beat.clone(), now),
        });
        if beat.is_some_and(|beat| pulse.observe(beat, now)) {
            self.heard.insert(cluster.clone());
        }
        let patience = self.shared.patience();
        pulse.judge(self.shared.hub_ear.contact(), &patience, now)
    }

    /// Whether a lease is to be renewed: of a source that was heard since, of one that is held, or of this cluster, which
    /// needs nobody's word to know that it lives.
    fn is_due(&self, cluster: &ClusterId, liveness: Liveness) -> bool {
        let lives = self.heard.contains(cluster)
            || liveness == Liveness::Held
            || *cluster == self.shared.config.cluster;
        if !lives {
            return false;
        }
        let lease = self.shared.source_lease(cluster);
        let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0));
        let age =
            renewed.map(|renewed| self.shared.config.clock.now().duration_since(renewed).unsigned_abs());
        age.is_none_or(|age| age >= self.shared.renew_every())
    }

    /// The source's heartbeat as the hub has it.
    fn beat(&self, cluster: &ClusterId) -> Option<Beat> {
        let key = Key::new(names::hub_namespace(cluster), HEARTBEAT);
        let lease = self.shared.heartbeats.get(&key)?;
        lease.spec.as_ref().map(Beat::from)
    }

    /// What the lease of a source shall say, if it says something else.
    fn renewal(&self, cluster: ClusterId, liveness: Liveness) -> Option<Renewal> {
        let due = liveness != Liveness::Expired && self.is_due(&cluster, liveness);
        let current = self.shared.source_lease(&cluster);
        let config = &self.shared.config;
        let spec = current.as_ref().and_then(|lease| lease.spec.as_ref());
        let (observer, patience) = (config.cluster.as_str(), self.shared.patience());
        let spec = liveness::lease(spec, liveness, due, observer, &patience, config.clock.now())?;
        if liveness == Liveness::Expired {
            tracing::warn!(%cluster, "a source is dead: its heartbeat stands still");
        }
        Some(Renewal { cluster, current, spec })
    }

    /// Renews side by side: one after the other, the last of many would run out before its turn comes when the API server is
    /// slow. One that fails does not keep the others from being renewed: their heartbeats have been counted.
    async fn renew_all(&mut self, renewals: Vec<Renewal>) -> Result<(), Error> {
        if renewals.is_empty() {
            return Ok(());
        }
        let calls = renewals.into_iter().map(|renewal| self.renew(renewal)).collect();
        let Ok(outcomes) = try_abreast(ABREAST, calls).await;
        // Only who takes all that is due is heard: leases that could not be renewed must not count as abandoned because others
        // were.
        let answers = outcomes.iter().all(|(_, outcome)| outcome.as_ref().err().is_none_or(is_refusal));
        self.shared.note_answer(&mut self.answers, answers);
        if answers && outcomes.iter().any(|(_, outcome)| outcome.is_ok()) {
            self.shared.own_ear.hear();
        }
        let mut failed = Ok(());
        for (cluster, outcome) in outcomes {
            if outcome.is_ok() {
                self.heard.remove(&cluster);
            }
            failed = failed.and(outcome);
        }
        failed
    }

    fn renew(&self, renewal: Renewal) -> Boxed<'_, Result<Renewed, Infallible>> {
        Box::pin(async move {
            let Renewal { cluster, current, spec } = renewal;
            let write = self.write(&cluster, current.as_deref(), spec);
            let outcome = in_time(self.shared.config.heartbeat, write).await;
            Ok((cluster, outcome))
        })
    }

    /// Removes the leases of clusters that are members no more, when nothing of theirs is left here.
    async fn forget_departed(&self) -> Result<(), Error> {
        let (shared, members) = (&self.shared, self.shared.members());
        let api: Api<Lease> = Api::namespaced(shared.member.clone(), &shared.config.namespace);
        let has_left = |cluster| !members.contains_key(&cluster) && left_by(shared, &cluster).is_empty();
        let leases = shared.source_leases.all().into_iter();
        for lease in leases.filter(|lease| is_ours(&**lease)) {
            if source_of(&*lease).is_some_and(has_left) {
                in_time(shared.config.heartbeat, delete(&api, &*lease)).await?;
            }
        }
        Ok(())
    }

    async fn write(
        &self,
        cluster: &ClusterId,
        current: Option<&Lease>,
        spec: LeaseSpec,
    ) -> Result<(), Error> {
        let shared = &self.shared;
        let name = names::source_lease(cluster);
        let api: Api<Lease> = Api::namespaced(shared.member.clone(), &shared.config.namespace);
        let labels = [(SOURCE_CLUSTER_LABEL, cluster.as_str()), (MANAGED_BY_LABEL, MANAGER)];
        let labels = BTreeMap::from(labels.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let is_labelled =
            |lease: &Lease| labels.iter().all(|(key, value)| lease.labels().get(key) == Some(value));
        // Nearly always only the time differs. In a large supercluster these are most of what is written, and to apply
        // costs the server more than to merge.
        if current.is_some_and(is_labelled) {
            match api.patch(&name, &merge_params(), &Patch::Merge(json!({"spec": spec}))).await {
                Err(Error::Api(status)) if status.is_not_found() => {}
                other => return other.map(|_| ()),
            }
        }
        let metadata = ObjectMeta { name: Some(name.clone()), labels: Some(labels), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(spec) };
        match api.patch(&name, &apply_params(), &Patch::Apply(&lease)).await {
            Err(Error::Api(status)) if status.is_not_found() => {
                make_namespace(shared).await?;
                api.patch(&name, &apply_params(), &Patch::Apply(&lease)).await.map(|_| ())
            }
            other => other.map(|_| ()),
        }
    }
}

async fn make_namespace(shared: &Shared) -> Result<(), Error> {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(shared.config.namespace.clone());
    let api: Api<Namespace> = Api::all(shared.member.clone());
    unless_there(api.create(&PostParams::default(), &namespace).await)
}

/// The slices of a source in this cluster. The hub may be one of the members: what sources publish there is not ours.
fn left_by(shared: &Shared, cluster: &ClusterId) -> Vec<Arc<EndpointSlice>> {
    let is_left = |slice: &Arc<EndpointSlice>| {
        source_of(&**slice).as_ref() == Some(cluster)
            && is_ours(&**slice)
            && !slice.labels().contains_key(OFFER_LABEL)
    };
    shared.slices.all().into_iter().filter(is_left).collect()
}

/// Removes what dead sources left.
pub(crate) struct Expiry {
    shared: Arc<Shared>,
    queue: Arc<Queue<ClusterId>>,
    start: Instant,
    pulses: Mutex<BTreeMap<ClusterId, Pulse>>,
}

impl Expiry {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let queue = Arc::new(Queue::new());
        let add = queue.clone();
        shared.source_leases.listen(move |lease| add.add_source(lease));
        let add = queue.clone();
        shared.slices.listen(move |slice| add.add_source(slice));
        Self { shared: shared.clone(), queue, start: Instant::now(), pulses: Mutex::default() }
    }

    /// Whether nobody has renewed the lease for longer than the keeper would take to: it has the first word. While
    /// the API server takes no renewals, their absence says nothing.
    fn is_abandoned(&self, cluster: &ClusterId, lease: &LeaseSpec) -> bool {
        let now = self.start.elapsed();
        let mut pulses = self.pulses.lock().unwrap_or_else(PoisonError::into_inner);
        let beat = Beat::from(lease);
        let pulse =
            pulses.entry(cluster.clone()).or_insert_with(|| Pulse::first_seen(Some(beat.clone()), now));
        pulse.observe(beat, now);
        let contact = self.shared.own_ear.contact();
        let patience = Patience { duration: self.duration(lease), hold: self.shared.config.hold };
        pulse.judge(contact, &patience, now) == Liveness::Expired
    }

    /// Says in an abandoned lease that its source is dead, so that nobody brings its slices back.
    async fn release(&self, lease: &Lease) -> Result<(), Error> {
        let api: Api<Lease> = Api::namespaced(self.shared.member.clone(), &self.shared.config.namespace);
        let patch = json!({
            "metadata": {"resourceVersion": lease.resource_version()},
            "spec": {"holderIdentity": ""},
        });
        api.patch(&lease.name_any(), &merge_params(), &Patch::Merge(&patch)).await.map(|_| ())
    }

    fn duration(&self, lease: &LeaseSpec) -> Duration {
        let seconds = lease.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lasts = seconds.map_or(self.shared.config.dead_after, Duration::from_secs);
        lasts.saturating_add(self.shared.renew_every()).saturating_add(self.shared.config.heartbeat)
    }
}

/// Putting the source cluster of an object into a queue.
trait AddSource {
    fn add_source<K: ResourceExt>(&self, object: &K);
}

impl AddSource for Queue<ClusterId> {
    fn add_source<K: ResourceExt>(&self, object: &K) {
        if let Some(cluster) = source_of(object) {
            self.add(cluster);
        }
    }
}

impl Controller for Expiry {
    type Item = ClusterId;

    const NAME: &'static str = "expiry";

    fn queue(&self) -> &Queue<ClusterId> {
        &self.queue
    }

    async fn reconcile(&self, cluster: &ClusterId) -> Result<Next, Error> {
        let lease = self.shared.source_lease(cluster);
        let Some((lease, spec)) = lease.as_ref().and_then(|lease| Some((lease, lease.spec.as_ref()?))) else {
            return Ok(Next::Rest);
        };
        let abandoned = self.is_abandoned(cluster, spec);
        if !liveness::is_released(spec) {
            if abandoned {
                // The released lease comes back through the watch, to everybody.
                self.release(lease).await?;
            }
            return Ok(Next::Again(self.duration(spec)));
        }
        for slice in left_by(&self.shared, cluster) {
            let namespace = slice.namespace().unwrap_or_default();
            delete(&Api::namespaced(self.shared.member.clone(), &namespace), &*slice).await?;
        }
        Ok(Next::Rest)
    }
}
