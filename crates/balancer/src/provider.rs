//! The provider: makes every LoadBalancer Service of its class what the model decides.
//!
//! One at a time in a cluster. It begins with the addresses that Services have already, and only then gives out new ones.
//! Everything it knows is in the Services themselves; so one that starts anew goes on where another stopped.

mod news;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};
use tombolo_api::loadbalancer::{Feature, Service};
use tombolo_api::tombolo::{LOAD_BALANCER_RECORD_ANNOTATION, ServiceRef};
use tombolo_model::balancer::{
    Around, Concern, Decision, Herald, Ledger, Phase, Pool, Pools, Wish, concern, decide, forget,
    node_addresses, rightful, sharing, unannounced, unreleasable,
};
use tombolo_runtime::{Change, Controller, Events, Key, Next, Queue, unless_gone};

use crate::pools::Used;
use crate::roster::Roster;
use crate::shared::{Shared, WRITER, locked};

/// How long after a change everything is counted.
const COUNT_AFTER: Duration = Duration::from_millis(100);

/// What the provider has to look at, kept while another one leads.
#[derive(Clone)]
pub(crate) struct Work {
    services: Arc<Queue<Key>>,
    /// Rung when a Node has changed.
    nodes: Arc<Notify>,
}

/// What the nodes are like.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ground {
    /// Why none of them announces addresses, if none does.
    unannounced: Option<String>,
    addresses: BTreeSet<IpAddr>,
}

/// The controller of LoadBalancer Services.
pub(crate) struct Provider {
    shared: Arc<Shared>,
    work: Work,
    state: Arc<Mutex<State>>,
    /// Rung when there is something new to count.
    changed: Arc<Notify>,
    roster: watch::Receiver<Roster>,
    ground: watch::Sender<Arc<Ground>>,
    used: Used,
    events: Events,
}

#[derive(Default)]
struct State {
    ledger: Ledger,
    /// Slow steps: what is being built, and when it is finished.
    building: BTreeMap<Key, (String, Instant)>,
    /// What was last decided.
    phases: BTreeMap<Key, (Phase, bool)>,
    /// Those that would take another address if there were one.
    wanting: BTreeSet<Key>,
}

/// What there is to look at, from now on.
pub(crate) fn listen(shared: &Arc<Shared>) -> Work {
    let work: Arc<Queue<Key>> = Arc::new(Queue::new());
    let add = work.clone();
    shared.services.listen(move |service| add.add(Key::of(service)));
    let (add, services) = (work.clone(), shared.services.clone());
    shared.pools.listen(move |_| add_all(&add, &services.all()));
    let (add, services) = (work.clone(), shared.services.clone());
    shared.namespaces.listen_to_changes(move |change| {
        if let Change::Put { new, .. } = change
            && matters(change)
        {
            add_all(&add, &services.within(&new.name_any()));
        }
    });
    let nodes = Arc::new(Notify::new());
    let ring = nodes.clone();
    shared.nodes.listen(move |_| ring.notify_one());
    Work { services: work, nodes }
}

/// Only selectors of pools look at namespaces, and only at their labels. Services of one that is new may have been seen before it.
fn matters(change: &Change<'_, Namespace>) -> bool {
    match change {
        Change::Put { old, new } => old.is_none_or(|old| old.labels() != new.labels()),
        Change::Gone(_) => false,
    }
}

fn add_all(work: &Queue<Key>, services: &[Arc<Service>]) {
    services.iter().for_each(|service| work.add(Key::of(&**service)));
}

impl Provider {
    /// One that begins its time as leader, with everything there is to be looked at.
    pub(crate) fn new(shared: &Arc<Shared>, work: Work, roster: watch::Receiver<Roster>, used: Used) -> Self {
        let config = &shared.config;
        let events = Events::new(shared.client.clone(), config.clock.clone(), WRITER, &config.instance);
        let ground = survey(shared, &roster.borrow());
        let ledger = load(shared, &ground.addresses);
        add_all(&work.services, &shared.services.all());
        let state = Arc::new(Mutex::new(State { ledger, ..State::default() }));
        let ground = watch::Sender::new(Arc::new(ground));
        Self { shared: shared.clone(), work, state, changed: Arc::default(), roster, ground, used, events }
    }

    /// Counts what there is, a moment after it has changed: counting with every change would take longer than changing.
    pub(crate) fn count(&self) -> impl Future<Output = ()> + Send + 'static {
        let (state, changed) = (self.state.clone(), self.changed.clone());
        let (used, metrics) = (self.used.clone(), self.shared.metrics.clone());
        async move {
            loop {
                changed.notified().await;
                sleep(COUNT_AFTER).await;
                let state = locked(&state);
                metrics.note_phases(state.phases.values().map(|(phase, less)| (phase, *less)));
                let count = |pool: &Pool| (pool.name.clone(), state.ledger.in_use(pool));
                used.send_replace(state.ledger.pools().iter().map(count).collect());
            }
        }
    }

    /// Looks at everything again when the first node begins to announce, or the last one ends or may not any more.
    pub(crate) fn watch_nodes(&self) -> impl Future<Output = ()> + Send + 'static {
        let (mut roster, shared, work) = (self.roster.clone(), self.shared.clone(), self.work.clone());
        let known = self.ground.clone();
        async move {
            loop {
                let next = survey(&shared, &roster.borrow_and_update());
                let before = known.send_replace(Arc::new(next));
                if before.unannounced != known.borrow().unannounced {
                    add_all(&work.services, &shared.services.all());
                }
                tokio::select! {
                    changed = roster.changed() => if changed.is_err() { return },
                    () = work.nodes.notified() => {}
                }
            }
        }
    }

    async fn provide(&self, key: &Key, service: &Service) -> Result<Next, Error> {
        // A Service may be seen before its namespace, which says what pools are for it and brings it here again.
        let Some(labels) = self.shared.labels_of(&key.namespace) else { return Ok(Next::Rest) };
        let decision = self.decide(key, service, &labels);
        let desired = decision.apply(service, self.shared.config.clock.now());
        if self.write(service, &desired).await? {
            for told in news::of(service, &desired, &decision) {
                self.events.tell(service, &told.as_news()).await;
            }
        }
        let due = locked(&self.state).building.get(key).map(|(_, due)| *due);
        Ok(match due.filter(|_| decision.building.is_some()) {
            Some(due) => Next::Again(due.saturating_duration_since(Instant::now())),
            None => Next::Rest,
        })
    }

    fn decide(&self, key: &Key, service: &Service, labels: &BTreeMap<String, String>) -> Decision {
        let ground = self.ground.borrow().clone();
        let mut state = locked(&self.state);
        let built = state.building.get(key).filter(|(_, due)| *due <= Instant::now());
        let built = built.map(|(mark, _)| mark.clone());
        let around = Around {
            capabilities: &self.shared.config.capabilities,
            class: self.shared.class(),
            namespace_labels: labels,
            built: built.as_deref(),
            unannounced: ground.unannounced.as_deref(),
            nodes: &ground.addresses,
        };
        state.ledger.set_pools(pools(&self.shared));
        let had = state.ledger.addresses_of(&reference(key));
        let decision = decide(service, &mut state.ledger, &around);
        self.note(&mut state, key, &had, &decision);
        decision
    }

    /// Keeps what the next look needs.
    fn note(&self, state: &mut State, key: &Key, had: &[IpAddr], decision: &Decision) {
        let has = state.ledger.addresses_of(&reference(key));
        if wants_more(decision) {
            state.wanting.insert(key.clone());
        } else {
            state.wanting.remove(key);
        }
        match (&decision.building, &decision.report.phase) {
            (Some(mark), _) if state.building.get(key).is_none_or(|(known, _)| known != mark) => {
                let due = Instant::now() + self.shared.config.slow_step;
                state.building.insert(key.clone(), (mark.clone(), due));
            }
            (None, Phase::Serving | Phase::Refused(_)) => drop(state.building.remove(key)),
            _ => {}
        }
        let said = (decision.report.phase.clone(), !decision.report.degraded.is_empty());
        state.phases.insert(key.clone(), said);
        self.changed.notify_one();
        if had.iter().any(|address| !has.contains(address)) {
            let others = state.wanting.iter().filter(|other| *other != key);
            others.for_each(|other| self.work.services.add(other.clone()));
        }
    }

    /// Forgets a Service that has no load balancer of ours.
    fn release(&self, key: &Key) {
        let mut state = locked(&self.state);
        state.building.remove(key);
        state.wanting.remove(key);
        if state.phases.remove(key).is_some() {
            self.changed.notify_one();
        }
        if state.ledger.release(&reference(key)) {
            state.wanting.iter().for_each(|other| self.work.services.add(other.clone()));
        }
    }

    /// Takes everything of ours off a Service, and its address back.
    async fn retire(&self, key: &Key, service: &Service) -> Result<Next, Error> {
        if let Some(why) = unreleasable(service) {
            let desired = news::stuck_release(service, &why, self.shared.config.clock.now());
            if self.write(service, &desired).await? {
                self.events.tell(service, &news::release_failed(&why).as_news()).await;
            }
            return Ok(Next::Rest);
        }
        if self.write(service, &forget(service)).await? {
            self.events.tell(service, &news::deleted().as_news()).await;
        }
        self.release(key);
        Ok(Next::Rest)
    }

    /// Makes the API server hold `desired`, unless it does; whether it was written. Finalizer, record, conditions and
    /// addresses go in one write, which fails if the Service has changed since it was looked at.
    async fn write(&self, current: &Service, desired: &Service) -> Result<bool, Error> {
        if current == desired {
            return Ok(false);
        }
        unless_gone(patch(&self.shared.client, desired).await)?;
        self.shared.metrics.count_write();
        Ok(true)
    }
}

/// Makes the API server hold what a provider has to say about a Service, if nobody has changed it since.
pub(crate) async fn patch(client: &Client, desired: &Service) -> Result<(), Error> {
    let api: Api<Service> = Api::namespaced(client.clone(), &desired.namespace().unwrap_or_default());
    let params = PatchParams { field_manager: Some(WRITER.to_owned()), ..PatchParams::default() };
    api.patch_status(&desired.name_any(), &params, &Patch::Merge(changes(desired))).await.map(drop)
}

fn changes(desired: &Service) -> Value {
    let ingress = desired.ingress();
    json!({
        "metadata": {
            "resourceVersion": desired.resource_version(),
            "finalizers": desired.finalizers(),
            "annotations": {
                LOAD_BALANCER_RECORD_ANNOTATION: desired.annotation(LOAD_BALANCER_RECORD_ANNOTATION),
            },
        },
        "status": {
            "conditions": desired.conditions(),
            "loadBalancer": {"ingress": if ingress.is_empty() { Value::Null } else { json!(ingress) }},
        },
    })
}

/// The addresses that Services have, the oldest Service first: of two that have one, it keeps it.
fn load(shared: &Shared, nodes: &BTreeSet<IpAddr>) -> Ledger {
    let mut ledger = Ledger::new(shared.config.capabilities.most_addresses);
    let pools = pools(shared);
    let mut services = shared.services.all();
    services.retain(|service| concern(service, shared.class()) != Concern::None);
    services.sort_by_key(|service| service.creation_timestamp().map(|time| time.0));
    for service in services {
        let terms = sharing(&service, &Wish::read(&service));
        let key = Key::of(&*service);
        let labels = shared.labels_of(&key.namespace).unwrap_or_default();
        let has = rightful(&service, &pools, &labels, nodes);
        ledger.keep(&reference(&key), &has, &terms);
    }
    ledger
}

fn pools(shared: &Shared) -> Pools {
    let pools = shared.pools.all();
    Pools::read(pools.iter().map(|pool| &**pool)).0
}

/// What the nodes are like at the moment.
fn survey(shared: &Shared, roster: &Roster) -> Ground {
    let nodes = shared.nodes.all();
    let named: BTreeMap<String, &Node> = nodes.iter().map(|node| (node.name_any(), &**node)).collect();
    let heralds = roster.live.keys().map(|name| Herald {
        name,
        node: named.get(name).copied(),
        mute: roster.mute.contains(name),
    });
    let addresses = nodes.iter().flat_map(|node| node_addresses(node)).collect();
    Ground { unannounced: unannounced(heralds), addresses }
}

/// Whether an address that is freed might be what the Service waits for.
fn wants_more(decision: &Decision) -> bool {
    let report = &decision.report;
    let lacks = |feature: Feature| report.degraded.iter().any(|less| less.feature == feature);
    let unserved = matches!(report.phase, Phase::Failed(_) | Phase::Refused(_));
    unserved || lacks(Feature::LoadBalancerIp) || lacks(Feature::IpFamilies)
}

fn reference(key: &Key) -> ServiceRef {
    ServiceRef { namespace: key.namespace.clone(), name: key.name.clone() }
}

impl Controller for Provider {
    type Item = Key;

    const NAME: &'static str = "load balancers";

    fn queue(&self) -> &Queue<Key> {
        &self.work.services
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(service) = self.shared.services.get(key) else {
            self.release(key);
            return Ok(Next::Rest);
        };
        match concern(&service, self.shared.class()) {
            Concern::Wanted => self.provide(key, &service).await,
            Concern::Former => self.retire(key, &service).await,
            Concern::None => {
                self.release(key);
                Ok(Next::Rest)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_matters_when_it_is_new_and_when_its_labels_change() {
        let namespace = |label: &str, note: &str| -> Namespace {
            let object =
                json!({"metadata": {"name": "n", "labels": {"l": label}, "annotations": {"a": note}}});
            serde_json::from_value(object).unwrap()
        };
        let (before, after) = (namespace("x", "1"), namespace("y", "1"));
        assert!(matters(&Change::Put { old: None, new: &before }), "its Services may have come first");
        assert!(matters(&Change::Put { old: Some(&before), new: &after }));
        assert!(!matters(&Change::Put { old: Some(&before), new: &namespace("x", "2") }));
        assert!(!matters(&Change::Gone(&before)));
    }
}
