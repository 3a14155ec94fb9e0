//! What must be true at every moment, whatever goes wrong.
//!
//! Endpoints are watched event by event, so that not even the shortest gap is missed. An endpoint counts as settled once
//! nothing about its service has changed for a while, the hub has exactly what the members offer, and the consumer has
//! the endpoint: from then on only a change of the service or the silence of its source excuses its absence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use serde_json::Value;
use tokio::time::Instant;
use tombolo_api::mcs;
use tombolo_api::tombolo::{Dialect, HEARTBEAT, OFFER_LABEL, STATEMENT};
use tombolo_model::names;
use tombolo_runtime::{Cache, Key};

use crate::claims::{self, Claims};
use crate::closure::Closures;
use crate::convergence::{Exempt, FORGED};
use crate::failures::FOR_EVER;
use crate::log::{Log, locked};
use crate::native;
use crate::truth::{Name, Offered, Origin, Truth, addresses, lean, meaning, origin, service};
use crate::world::{Member, World};

/// How long nothing may have disturbed a service before it counts as settled: longer than any retry.
const CALM: Duration = Duration::from_secs(15);
/// A heartbeat comes every 5 s and may fail now and then; a source silent for longer may be taken for dead at 30 s.
const SILENCE: Duration = Duration::from_secs(20);
/// Finding out what is settled costs more than anything else, so not every look does; what is settled is watched always.
const SETTLE_EVERY: usize = 4;
/// An export that was everywhere may take so long to say that it is not: members are given 5 s to follow, and one attempt
/// to say it may hang for 10 s.
const LONGEST_LIE: Duration = Duration::from_secs(16);
/// A source is dead after 30 s; looking, writing and removing take the rest.
const DEATH: Duration = Duration::from_secs(35);
/// A consumer that was disturbed needs to reach the hub again first: two heartbeats and the longest retry of a watch.
const RECOVERY: Duration = Duration::from_secs(50);

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invariant {
    /// Healed, everything becomes what the model says, and stays so.
    Convergence,
    /// An endpoint of a live source that settled never blinks.
    Presence,
    /// None of a dead source outlives its lease.
    Expiry,
    /// Nothing foreign changes.
    Ownership,
    /// No endpoint appears that its source did not publish.
    Provenance,
    /// No local endpoint stands behind a Service whose strategy is `RemoteOnly`, once it is carried out.
    Closure,
    /// An export is said to be everywhere only when it is, in every live member, or was so seconds ago.
    Truth,
    /// A watermark does not go back while its agent lives.
    Watermark,
    /// The time of a condition's transition moves only with its status.
    Transition,
    /// When nothing changes, nothing is written.
    Quiet,
}

/// An invariant that does not hold, and how.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) invariant: Invariant,
    pub(crate) what: String,
}

impl Broken {
    pub(crate) fn new(invariant: Invariant, what: String) -> Self {
        Self { invariant, what }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Endpoint {
    consumer: String,
    from: Origin,
    address: String,
}

#[derive(Default)]
pub(crate) struct State {
    settled: BTreeSet<Endpoint>,
    /// Every address that a source has ever had for a service, inside of what it declares.
    published: BTreeSet<(String, Key, String)>,
    broken: Vec<Broken>,
    pub(crate) claims: Claims,
}

impl State {
    pub(crate) fn report(&mut self, log: &Log, invariant: Invariant, what: String) {
        log.note(&format!("{invariant:?}: {what}"));
        self.broken.push(Broken::new(invariant, what));
    }
}

/// An object of a user's that nobody may touch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Foreign {
    Service,
    Slice,
    Import,
}

/// One of them.
struct Protected {
    place: usize,
    kind: Foreign,
    key: Key,
    /// As it was.
    object: Value,
    /// The version that was last found to be the same.
    version: Option<String>,
}

/// What changes when a member shows the hub that it lives: the version of its heartbeat, and which statement it made. A hub
/// that was brought back from before a member joined hears the statement first, and others believe it as they do a new one.
type Beat = [Option<String>; 2];

/// Watches the invariants of one run.
#[derive(Default)]
pub(crate) struct Guard {
    state: Arc<Mutex<State>>,
    log: Log,
    touched: BTreeMap<Key, (Instant, BTreeSet<usize>)>,
    beats: BTreeMap<String, (Beat, Instant)>,
    foreign: Vec<Protected>,
    pub(crate) closures: Closures,
    looks: usize,
    /// What is untrue, since when.
    lies: BTreeMap<String, Instant>,
    /// How many endpoints were settled, summed over all looks: a run that settles nothing checks nothing.
    pub(crate) watched: usize,
    /// How many of them stood behind native names.
    pub(crate) watched_natives: usize,
}

impl Guard {
    pub(crate) fn new(world: &World, log: Log) -> Self {
        let guard = Self { log, ..Self::default() };
        for member in &world.members {
            let (state, cache) = (guard.state.clone(), Arc::downgrade(&member.sight.slices));
            let (consumer, log) = (member.name().to_owned(), guard.log.clone());
            member.sight.slices.listen(move |slice| check(&state, &cache, &consumer, slice, &log));
            guard.closures.watch(member, &guard.state, &guard.log);
            follow(&guard.log, member);
            claims::watch_conditions(&guard.state, member, &guard.log);
        }
        guard.log.follow("hub", &world.hub_sight.offers);
        guard.log.follow("hub", &world.hub_sight.slices);
        claims::watch_watermarks(&guard.state, world, &guard.log);
        guard
    }

    /// The agents of a member are others than before; for a while it may be unclear which of them speaks.
    pub(crate) fn begin_life(&self, member: &Member, unclear: Duration) {
        locked(&self.state).claims.begin_life(member, unclear);
    }

    /// The hub is not what it was: nobody knows yet what is still true.
    pub(crate) fn forget_all(&mut self, world: &World) {
        for (when, places) in self.touched.values_mut() {
            *when = Instant::now();
            places.extend(0..world.members.len());
        }
        locked(&self.state).settled.clear();
        // Each agent notices in its own time, and begins anew.
        world.members.iter().for_each(|member| self.begin_life(member, FOR_EVER));
    }

    /// A user is about to change something about a service in a member.
    pub(crate) fn touch(&mut self, place: usize, key: &Key) {
        let entry = self.touched.entry(key.clone()).or_insert_with(|| (Instant::now(), BTreeSet::new()));
        entry.0 = Instant::now();
        entry.1.insert(place);
        locked(&self.state).settled.retain(|endpoint| endpoint.from.name.1 != *key);
    }

    /// A user is about to do something after which local endpoints may stand behind a Service again.
    pub(crate) fn open(&mut self, member: &Member, key: &Key) {
        self.closures.open(member, key);
    }

    pub(crate) fn allow(&self, source: &str, key: &Key, address: &str) {
        locked(&self.state).published.insert((source.to_owned(), key.clone(), address.to_owned()));
    }

    pub(crate) async fn protect(&mut self, world: &World, place: usize, kind: Foreign, key: Key) {
        let object = read(&world.members[place], kind, &key).await;
        self.foreign.push(Protected { place, kind, key, object, version: None });
    }

    /// Checks everything that is not checked event by event.
    pub(crate) async fn look(&mut self, world: &World, exempt: &Exempt) -> Result<(), Broken> {
        self.listen_to_hearts(world);
        self.find_the_dead(world);
        self.closures.look(world);
        if self.looks.is_multiple_of(SETTLE_EVERY) {
            self.settle(world, exempt);
        }
        self.looks += 1;
        for protected in &mut self.foreign {
            protected.look(&world.members[protected.place]).await?;
        }
        match locked(&self.state).broken.first() {
            Some(broken) => Err(broken.clone()),
            None => Ok(()),
        }
    }

    /// Takes note that a cluster joins, which is a sign of life: others believe it for as long as any other before they miss its
    /// heartbeat.
    pub(crate) fn welcome(&mut self, member: &str) {
        self.beats.insert(member.to_owned(), (Beat::default(), Instant::now()));
    }

    fn listen_to_hearts(&mut self, world: &World) {
        let now = Instant::now();
        for member in &world.members {
            let key = |name| Key::new(names::hub_namespace(&member.config.cluster), name);
            let heartbeat = world.hub_sight.heartbeats.get(&key(HEARTBEAT));
            let statement = world.hub_sight.memberships.get(&key(STATEMENT));
            let known = self.beats.entry(member.name().to_owned()).or_insert((Beat::default(), now));
            let beat = [
                heartbeat.and_then(|heartbeat| heartbeat.resource_version()),
                statement.and_then(|statement| statement.uid()).or_else(|| known.0[1].clone()),
            ];
            if known.0 != beat {
                *known = (beat, now);
            }
            if now.duration_since(known.1) > SILENCE {
                locked(&self.state).settled.retain(|endpoint| endpoint.from.source != member.name());
            }
        }
    }

    fn find_the_dead(&self, world: &World) {
        let now = Instant::now();
        for consumer in &world.members {
            let Some(clean) = consumer.clean else { continue };
            for (source, (_, beat)) in &self.beats {
                let over = now > (*beat + DEATH).max(clean + RECOVERY) && source != consumer.name();
                if over && present(consumer).keys().any(|from| from.source == *source) {
                    let silent = now.duration_since(*beat);
                    let text =
                        format!("{source}, silent for {silent:?}, outlives its lease in {}", consumer.name());
                    locked(&self.state).report(&self.log, Invariant::Expiry, text);
                }
            }
        }
    }

    fn settle(&mut self, world: &World, exempt: &Exempt) {
        let (truth, mut lies) = (Truth::of(world), BTreeSet::new());
        let consumers = world.members.iter().filter(|member| is_long_ago(member.unobstructed));
        let consumers: Vec<(&Member, Present)> = consumers.map(|member| (member, present(member))).collect();
        for (name, offered) in &truth.offered {
            if !self.is_calm(world, name) || !hub_has(world, name, offered) {
                continue;
            }
            let Some(import) = truth.merged(name).import else { continue };
            let is_heard =
                |source: &str| self.beats.get(source).is_some_and(|beat| beat.1.elapsed() < SILENCE);
            lies.extend(claims::lies(world, &truth, name, &import, exempt, is_heard));
            for (consumer, present) in &consumers {
                let mut slices = truth.slices(name, &import, &consumer.config.cluster);
                if name.0 == Dialect::Mcs {
                    slices.extend(native::slices(&truth, consumer, &name.1));
                }
                for slice in slices {
                    let Some(from) = origin(&slice) else { continue };
                    let Some(held) = present.get(&from) else { continue };
                    let settled = addresses(&slice).into_iter().filter(|address| held.contains(address));
                    let consumer = consumer.name();
                    // A source that is silent may disappear at any moment.
                    if is_heard(&from.source) {
                        locked(&self.state).settled.extend(settled.map(|address| Endpoint {
                            consumer: consumer.to_owned(),
                            from: from.clone(),
                            address,
                        }));
                    }
                }
            }
        }
        let state = locked(&self.state);
        self.watched += state.settled.len();
        self.watched_natives += state.settled.iter().filter(|endpoint| endpoint.from.native).count();
        drop(state);
        self.judge(lies);
    }

    /// What is untrue has to be taken back soon.
    fn judge(&mut self, lies: BTreeSet<String>) {
        self.lies.retain(|lie, _| lies.contains(lie));
        for lie in lies {
            let since = *self.lies.entry(lie.clone()).or_insert_with(Instant::now);
            if since.elapsed() >= LONGEST_LIE {
                locked(&self.state).report(&self.log, Invariant::Truth, lie);
            }
        }
    }

    /// Whether nothing is on its way any more.
    fn is_calm(&self, world: &World, name: &Name) -> bool {
        self.touched.get(&name.1).is_some_and(|(when, places)| {
            when.elapsed() >= CALM
                && places
                    .iter()
                    .map(|place| &world.members[*place])
                    .all(|member| member.has_left || is_long_ago(member.unobstructed))
        })
    }
}

/// Takes what happens in a member into the trace.
fn follow(log: &Log, member: &Member) {
    let (name, sight) = (member.name(), &member.sight);
    log.follow(name, &sight.services);
    log.follow(name, &sight.slices);
    log.follow(name, &sight.kep_exports);
    log.follow(name, &sight.mcs_exports);
    log.follow(name, &sight.kep_imports);
    log.follow(name, &sight.mcs_imports);
}

pub(crate) fn is_long_ago(moment: Option<Instant>) -> bool {
    moment.is_some_and(|moment| moment.elapsed() >= CALM)
}

/// Whether the hub has what is offered of a service, and no more.
fn hub_has(world: &World, name: &Name, offered: &BTreeMap<tombolo_model::ClusterId, Offered>) -> bool {
    let offers = world.hub_sight.offers.all();
    let offers = offers.iter().filter(|offer| {
        let concerned = offer.spec.dialect == name.0 && offer.spec.service == service(&name.1);
        concerned && !offer.name_any().starts_with(FORGED)
    });
    let found: BTreeMap<String, Value> =
        offers.map(|offer| (offer.spec.cluster.clone(), lean(&offer.spec))).collect();
    let wanted = offered.iter().map(|(cluster, offered)| (cluster.to_string(), lean(&offered.offer.spec)));
    let label = names::offer(name.0, &service(&name.1));
    let slices = world.hub_sight.slices.all();
    let slices = slices.iter().filter(|slice| {
        slice.labels().get(OFFER_LABEL) == Some(&label) && !slice.name_any().starts_with(FORGED)
    });
    let held: BTreeMap<_, _> = slices.map(|slice| (Key::of(&**slice), meaning(slice))).collect();
    let published = offered.values().flat_map(|offered| &offered.slices);
    found == wanted.collect() && held == published.map(|slice| (Key::of(slice), meaning(slice))).collect()
}

type Present = BTreeMap<Origin, BTreeSet<String>>;

/// The imported addresses in a member.
pub(crate) fn present(member: &Member) -> Present {
    let mut present = Present::new();
    for slice in member.sight.slices.all() {
        if let Some(from) = origin(&slice) {
            present.entry(from).or_default().extend(addresses(&slice));
        }
    }
    present
}

/// Called with every change of a slice in a consumer.
fn check(
    state: &Mutex<State>,
    cache: &Weak<Cache<EndpointSlice>>,
    consumer: &str,
    slice: &EndpointSlice,
    log: &Log,
) {
    let (Some(cache), Some(from)) = (cache.upgrade(), origin(slice)) else { return };
    let all = cache.within(&from.name.1.namespace);
    let same = all.iter().filter(|other| origin(other).is_some_and(|found| found == from));
    let held: BTreeSet<String> = same.flat_map(|slice| addresses(slice)).collect();
    let mut state = locked(state);
    let mut broken = Vec::new();
    for endpoint in &state.settled {
        let concerned = endpoint.consumer == consumer && endpoint.from == from;
        if concerned && !held.contains(&endpoint.address) {
            broken.push((Invariant::Presence, format!("a settled endpoint blinks: {endpoint:?}")));
        }
    }
    for address in &held {
        let Origin { name, source, .. } = &from;
        if !state.published.contains(&(source.clone(), name.1.clone(), address.clone())) {
            let what =
                format!("{consumer} has {address} of {name:?} from {source}, which never published it");
            broken.push((Invariant::Provenance, what));
        }
    }
    for (invariant, what) in broken {
        state.report(log, invariant, what);
    }
}

impl Protected {
    async fn look(&mut self, member: &Member) -> Result<(), Broken> {
        let Self { kind, key, object, .. } = self;
        let version = version(member, *kind, key);
        if version.is_some() && version == self.version {
            return Ok(());
        }
        let now = read(member, *kind, key).await;
        if now != *object {
            let what = format!("{kind:?} {key} of a user in {} changed:\n{object}\n{now}", member.name());
            return Err(Broken::new(Invariant::Ownership, what));
        }
        self.version = version;
        Ok(())
    }
}

/// The version of an object, if it has been seen.
fn version(member: &Member, kind: Foreign, key: &Key) -> Option<String> {
    match kind {
        Foreign::Service => member.sight.services.get(key)?.resource_version(),
        Foreign::Slice => member.sight.slices.get(key)?.resource_version(),
        Foreign::Import => member.sight.mcs_imports.get(key)?.resource_version(),
    }
}

async fn read(member: &Member, kind: Foreign, key: &Key) -> Value {
    match kind {
        Foreign::Service => member.get::<Service>(key).await,
        Foreign::Slice => member.get::<EndpointSlice>(key).await,
        Foreign::Import => apart_from_status(member.get::<mcs::ServiceImport>(key).await),
    }
}

/// An import says how its strategy does; all else in it is the user's.
fn apart_from_status(mut import: Value) -> Value {
    import["status"] = Value::Null;
    for field in ["resourceVersion", "managedFields"] {
        import["metadata"][field] = Value::Null;
    }
    import
}
