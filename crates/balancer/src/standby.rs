//! What is said while the provider does not answer: it was killed, or has too much to do.
//!
//! Whoever stands by sees the same Services. What it says is an event, which changes nothing that the provider decides by.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tombolo_api::loadbalancer::Service;
use tombolo_model::balancer::is_answered;
use tombolo_runtime::{Change, Events, Key, News};

use crate::roster::Roster;
use crate::shared::{Shared, WRITER, locked};

/// A provider that works answers much sooner, and people should know within a second.
const PATIENCE: Duration = Duration::from_millis(600);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// One of so many can speak, even if another is the provider that died. Not everybody has to say the same.
const SPEAKERS: usize = 2;

/// A process that could be the provider.
pub(crate) struct Standby {
    shared: Arc<Shared>,
    roster: watch::Receiver<Roster>,
    waiting: Arc<Mutex<BTreeMap<Key, Wait>>>,
    events: Events,
}

/// How long a Service has waited for an answer.
#[derive(Clone, Copy)]
struct Wait {
    since: Instant,
    told: bool,
}

impl Standby {
    /// One that sees every change from now on.
    pub(crate) fn new(shared: &Arc<Shared>, roster: watch::Receiver<Roster>) -> Self {
        let config = &shared.config;
        let events = Events::new(shared.client.clone(), config.clock.clone(), WRITER, &config.instance);
        let waiting: Arc<Mutex<BTreeMap<Key, Wait>>> = Arc::default();
        let (noted, class) = (waiting.clone(), config.class.clone());
        shared.services.listen_to_changes(move |change| note(&mut locked(&noted), change, class.as_deref()));
        Self { shared: shared.clone(), roster, waiting, events }
    }

    /// Tells about what waits for whoever holds `lease`, except while this process `leads`. Never ends.
    pub(crate) async fn speak(&self, lease: &str, leads: &AtomicBool) {
        loop {
            sleep(LOOK_EVERY).await;
            if leads.load(Ordering::Relaxed) || !self.is_speaker() {
                continue;
            }
            for key in self.overdue() {
                let Some(service) = self.shared.services.get(&key) else { continue };
                if is_answered(&service, self.shared.class()) {
                    continue;
                }
                let note = self.why(lease).await;
                let news = News { severity: "Warning", reason: "WaitingForProvider", note: &note };
                self.events.tell(&*service, &news).await;
            }
        }
    }

    fn is_speaker(&self) -> bool {
        self.roster.borrow().live.keys().take(SPEAKERS).any(|node| *node == self.shared.config.node)
    }

    /// Those that have waited too long, once each.
    fn overdue(&self) -> Vec<Key> {
        let mut waiting = locked(&self.waiting);
        let overdue = waiting.iter_mut().filter(|(_, wait)| !wait.told && wait.since.elapsed() >= PATIENCE);
        overdue
            .map(|(key, wait)| {
                wait.told = true;
                key.clone()
            })
            .collect()
    }

    async fn why(&self, lease: &str) -> String {
        let api: Api<Lease> = Api::namespaced(self.shared.client.clone(), &self.shared.config.namespace);
        let spec = api.get_opt(lease).await.ok().flatten().and_then(|lease| lease.spec).unwrap_or_default();
        match (spec.holder_identity.filter(|holder| !holder.is_empty()), spec.renew_time) {
            (Some(holder), Some(renewed)) => format!(
                "the provider {holder} has not looked at this yet; it was last heard of at {}, and another follows when it has \
                 been silent for {} s",
                renewed.0,
                spec.lease_duration_seconds.unwrap_or_default()
            ),
            _ => "there is no provider at the moment; this node is about to become one".to_owned(),
        }
    }
}

/// Keeps since when the present state of a Service has waited for an answer.
fn note(waiting: &mut BTreeMap<Key, Wait>, change: &Change<'_, Service>, class: Option<&str>) {
    match change {
        Change::Put { new, .. } if !is_answered(new, class) => {
            waiting.entry(Key::of(*new)).or_insert(Wait { since: Instant::now(), told: false });
        }
        Change::Put { new: known, .. } | Change::Gone(known) => drop(waiting.remove(&Key::of(*known))),
    }
}
