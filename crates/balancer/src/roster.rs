//! The nodes that announce: which of them are alive, and what each says it answers for.
//!
//! Every node renews a Lease; whoever does not for a while is dead. A node that does not see its own renewals come back
//! cannot hear the others either, so then it takes nobody for dead: losing the API server must not stop traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tombolo_api::tombolo::{ANNOUNCED_ANNOTATION, ANNOUNCER_LABEL, MUTE_ANNOTATION};
use tombolo_model::hearing::Hearing;
use tombolo_model::liveness::{Beat, Liveness, Patience, Pulse};
use tombolo_model::names::load_balancer_class;
use tombolo_runtime::{Key, with_causes};

use crate::shared::{Shared, WRITER};

/// How often the roster is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const PREFIX: &str = "tombolo-announcer.";

/// How the Leases of nodes are called and marked. Balancers of two classes on one node have one each, and nothing to do with those
/// of the other class.
#[derive(Debug)]
pub(crate) struct Naming {
    prefix: String,
    /// The value of the label by which they are found.
    pub(crate) mark: String,
}

impl Naming {
    pub(crate) fn of(class: Option<&str>) -> Self {
        match class.map(load_balancer_class) {
            None => Self { prefix: PREFIX.to_owned(), mark: "true".to_owned() },
            Some(mark) => Self { prefix: format!("{PREFIX}{mark}."), mark },
        }
    }

    fn lease_of(&self, node: &str) -> String {
        format!("{}{node}", self.prefix)
    }

    fn node_of(&self, lease: &Lease) -> Option<String> {
        lease.name_any().strip_prefix(&self.prefix).map(str::to_owned)
    }
}

/// The addresses each live node says it answers for.
pub(crate) type Claims = BTreeMap<String, BTreeSet<IpAddr>>;

/// Who is alive, as far as this node can tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roster {
    pub(crate) live: Claims,
    /// Those of them that have no link to answer on.
    pub(crate) mute: BTreeSet<String>,
    /// Whether the API server can be heard.
    pub(crate) in_contact: bool,
}

impl Roster {
    /// Takes over what the live nodes say by now.
    pub(crate) fn refresh(&mut self, shared: &Shared) {
        self.mute.clear();
        for lease in shared.leases.all() {
            let Some(node) = shared.naming.node_of(&lease) else { continue };
            if let Some(known) = self.live.get_mut(&node) {
                *known = claims_of(&lease);
                if is_mute(&lease) {
                    self.mute.insert(node);
                }
            }
        }
    }
}

/// Tells that this node is alive and what it answers for, until `stop` resolves; then says good-bye.
pub(crate) async fn beat(
    shared: Arc<Shared>,
    mut claims: watch::Receiver<BTreeSet<IpAddr>>,
    mut mute: watch::Receiver<bool>,
    mut stop: watch::Receiver<bool>,
) {
    shared.synced().await;
    let mut claimed = inherited(&shared);
    let mut ticks = interval(shared.config.heartbeat);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !*stop.borrow() {
        tokio::select! {
            _ = ticks.tick() => {}
            Ok(()) = claims.changed() => claimed = claims.borrow_and_update().clone(),
            Ok(()) = mute.changed() => {}
            _ = stop.changed() => break,
        }
        let mute = *mute.borrow_and_update();
        let said = if mute { &BTreeSet::new() } else { &claimed };
        renew(&shared, &shared.config.node, said, mute).await;
    }
    renew(&shared, "", &BTreeSet::new(), false).await;
}

/// One renewal; one that takes too long is given up for the next.
async fn renew(shared: &Shared, holder: &str, claims: &BTreeSet<IpAddr>, mute: bool) {
    let config = &shared.config;
    let api: Api<Lease> = Api::namespaced(shared.client.clone(), &config.namespace);
    let name = shared.naming.lease_of(&config.node);
    let claims: Vec<String> = claims.iter().map(ToString::to_string).collect();
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": name, "labels": {ANNOUNCER_LABEL: shared.naming.mark},
            "annotations": {ANNOUNCED_ANNOTATION: claims.join(",")},
        },
        "spec": {
            "holderIdentity": holder, "renewTime": MicroTime(config.clock.now()),
            "leaseDurationSeconds": config.dead_after.as_secs().max(1),
        },
    });
    if mute {
        lease["metadata"]["annotations"][MUTE_ANNOTATION] = json!("true");
    }
    let params = PatchParams::apply(WRITER).force();
    let patch = Patch::Apply(&lease);
    let written = timeout(config.dead_after, api.patch(&name, &params, &patch)).await;
    if let Ok(Err(error)) = written {
        tracing::warn!(error = %with_causes(&error), "the heartbeat of this node could not be written");
    }
}

/// Keeps the roster, for ever.
pub(crate) async fn keep(shared: Arc<Shared>, roster: watch::Sender<Roster>) {
    let mut keeper = Keeper {
        shared,
        start: Instant::now(),
        hearing: Hearing::default(),
        own: None,
        heard_at: Duration::ZERO,
        pulses: BTreeMap::new(),
    };
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let next = keeper.look();
        roster.send_if_modified(|current| {
            let changed = *current != next;
            *current = next;
            changed
        });
    }
}

struct Keeper {
    shared: Arc<Shared>,
    start: Instant,
    hearing: Hearing,
    /// The own heartbeat, as the API server last showed it.
    own: Option<Beat>,
    heard_at: Duration,
    pulses: BTreeMap<String, Pulse>,
}

impl Keeper {
    fn look(&mut self) -> Roster {
        let now = self.start.elapsed();
        self.listen_for_oneself(now);
        let shared = self.shared.clone();
        let leases = shared.leases.all();
        let nodes: BTreeSet<String> =
            leases.iter().filter_map(|lease| shared.naming.node_of(lease)).collect();
        self.pulses.retain(|node, _| nodes.contains(node));
        let live = leases.iter().filter_map(|lease| {
            let node = shared.naming.node_of(lease)?;
            let alive = self.judge(&node, lease, now) != Liveness::Expired;
            alive.then(|| (node, claims_of(lease)))
        });
        let live = live.collect();
        let in_contact = now.saturating_sub(self.heard_at) < self.shared.config.dead_after;
        let mut roster = Roster { live, mute: BTreeSet::new(), in_contact };
        roster.refresh(&self.shared);
        roster
    }

    /// Whoever hears itself hears the others, too: all heartbeats come over one watch.
    fn listen_for_oneself(&mut self, now: Duration) {
        let config = &self.shared.config;
        let name = self.shared.naming.lease_of(&config.node);
        let lease = self.shared.leases.get(&Key::new(config.namespace.clone(), name));
        let own = lease.and_then(|lease| lease.spec.as_ref().map(Beat::from));
        if own.is_some() && own != self.own {
            self.hearing.hear(now, config.heartbeat, config.dead_after);
            self.heard_at = now;
            self.own = own;
        }
    }

    fn judge(&mut self, node: &str, lease: &Lease, now: Duration) -> Liveness {
        let config = &self.shared.config;
        if node == config.node {
            return Liveness::Alive;
        }
        let beat = lease.spec.as_ref().map(Beat::from).unwrap_or_default();
        let pulse = self.pulses.entry(node.to_owned());
        let pulse = pulse.or_insert_with(|| Pulse::first_seen(Some(beat.clone()), now));
        pulse.observe(beat, now);
        // Who cannot hear knows nothing, however long that lasts: it must not answer for the addresses of everybody.
        let patience = Patience { duration: config.dead_after, hold: Duration::MAX };
        pulse.judge(self.hearing.contact(now, config.heartbeat), &patience, now)
    }
}

/// What this node answered for before it was started again, unless somebody else does by now.
pub(crate) fn inherited(shared: &Shared) -> BTreeSet<IpAddr> {
    let own = shared.naming.lease_of(&shared.config.node);
    left_to(&own, &shared.leases.all(), shared.config.dead_after)
}

/// What the holder of the Lease `own` may go on with. A Lease that was silent already when the own one was renewed for the last time is
/// that of a dead node: others have answered since for what it claims, maybe this one.
fn left_to(own: &str, leases: &[Arc<Lease>], dead_after: Duration) -> BTreeSet<IpAddr> {
    let renewed = |lease: &Lease| Some(lease.spec.as_ref()?.renew_time.as_ref()?.0);
    let (own, others): (Vec<_>, Vec<_>) = leases.iter().partition(|lease| lease.name_any() == own);
    let last = own.iter().find_map(|lease| renewed(lease));
    let was_dead = |lease: &Lease| match (renewed(lease), last) {
        (Some(theirs), Some(ours)) => ours.duration_since(theirs).as_secs_f64() > dead_after.as_secs_f64(),
        _ => false,
    };
    let others = others.iter().filter(|lease| !was_dead(lease));
    let taken: BTreeSet<IpAddr> = others.flat_map(|lease| claims_of(lease)).collect();
    own.iter().flat_map(|lease| claims_of(lease)).filter(|address| !taken.contains(address)).collect()
}

/// What the node that a Lease belongs to says it answers for.
pub(crate) fn claims_of(lease: &Lease) -> BTreeSet<IpAddr> {
    let claimed = lease.annotations().get(ANNOUNCED_ANNOTATION).map(String::as_str).unwrap_or_default();
    claimed.split(',').filter_map(|address| address.parse().ok()).collect()
}

fn is_mute(lease: &Lease) -> bool {
    lease.annotations().contains_key(MUTE_ANNOTATION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(node: &str, second: u32, claims: &str) -> Arc<Lease> {
        let lease = json!({
            "metadata": {"name": node, "annotations": {ANNOUNCED_ANNOTATION: claims}},
            "spec": {"renewTime": format!("2026-01-01T00:00:{second:02}.000000Z")},
        });
        Arc::new(serde_json::from_value(lease).unwrap())
    }

    #[test]
    fn who_starts_again_goes_on_with_what_nobody_took_over() {
        let left = |others: &[Arc<Lease>]| {
            let leases = [&[lease("own", 30, "192.0.2.1,192.0.2.2")], others].concat();
            let left = left_to("own", &leases, Duration::from_millis(2500));
            left.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(left(&[lease("other", 31, "192.0.2.3")]), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(left(&[lease("stepped-in", 31, "192.0.2.1")]), ["192.0.2.2"]);
        assert_eq!(left(&[lease("at-the-same-time", 28, "192.0.2.1")]), ["192.0.2.2"]);
        assert_eq!(left(&[lease("dead-before", 20, "192.0.2.1")]), ["192.0.2.1", "192.0.2.2"]);
    }

    #[test]
    fn leases_of_two_classes_on_one_node_are_two() {
        let (none, some) = (Naming::of(None), Naming::of(Some("example.com/l2")));
        assert_eq!(
            (none.lease_of("node1").as_str(), none.mark.as_str()),
            ("tombolo-announcer.node1", "true")
        );
        assert_ne!((none.lease_of("node1"), &none.mark), (some.lease_of("node1"), &some.mark));
        let named = lease(&some.lease_of("node1"), 1, "");
        assert_eq!(some.node_of(&named).as_deref(), Some("node1"));
        assert_eq!(Naming::of(Some("example.com/other")).node_of(&named), None);
    }
}
