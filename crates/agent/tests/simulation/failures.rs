//! What goes wrong in a run: links, agents, clocks, the hub, and members that lie.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Error};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::tombolo::{Dialect, MANAGED_BY_LABEL, MANAGER, Membership, OFFER_LABEL, STATEMENT};
use tombolo_model::names;
use tombolo_testkit::{FaultPlan, Faults, Outage};

use crate::convergence::FORGED;
use crate::schedule::{Run, SERVICES, key, ms};
use crate::truth::service;

/// Two leaders at once: until one of them stops, nobody can say which of them speaks.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(86_400);

/// What an agent writes in its last instant is heard after it.
const LAST_WORD: Duration = Duration::from_millis(1);

/// So many stay, or there would be nothing to see.
const FEWEST: usize = 2;

/// A heartbeat every 5 s, and some of them fail.
const MARK: Duration = Duration::from_secs(12);

/// Links.
impl Run {
    /// Which links of a member: that to the hub, that to its own API server, or both.
    fn draw_links(&mut self, place: usize) -> (Vec<Faults>, &'static str) {
        let member = &self.world.members[place];
        let (hub, own) = (member.hub_link.clone(), member.own_link.clone());
        match self.dice.u32(0..5) {
            0..3 => (vec![hub], "hub"),
            3 => (vec![own], "own API server"),
            _ => (vec![hub, own], "hub and own API server"),
        }
    }

    /// Everything goes wrong now and then, on some links very often.
    pub(crate) fn spoil(&mut self, place: usize) {
        let (links, which) = self.draw_links(place);
        let errors = if self.dice.u32(0..5) == 0 { 0.5 } else { 0.1 };
        let mut chance = |most: f64| self.dice.f64() * most;
        let plan = FaultPlan {
            conflict: chance(0.1),
            expired: chance(0.1),
            throttled: chance(0.05),
            server_error: chance(errors),
            lost_answer: chance(0.1),
            hang: chance(0.02),
            cut_watch: chance(0.1),
            latency: ms(0)..ms(self.dice.u64(1..400)),
            ..FaultPlan::default()
        };
        self.note(place, &format!("faults between the agent and {which}: {plan:?}"));
        links.iter().for_each(|link| link.plan(plan.clone()));
        self.world.members[place].is_spoiled = true;
        self.mark(place);
    }

    pub(crate) fn cut(&mut self, place: usize) {
        let (links, which) = self.draw_links(place);
        let outage = if self.dice.bool() { Outage::Refused } else { Outage::Silent };
        self.note(place, &format!("{outage:?} between the agent and {which}"));
        self.cuts.push(Instant::now());
        links.iter().for_each(|link| link.outage(outage));
        self.world.members[place].is_cut = true;
        self.mark(place);
    }

    pub(crate) fn heal(&mut self, place: usize) {
        self.note(place, "all faults heal");
        let member = &mut self.world.members[place];
        member.hub_link.heal();
        member.own_link.heal();
        (member.is_cut, member.is_spoiled) = (false, false);
        self.mark(place);
    }
}

/// Agents.
impl Run {
    pub(crate) fn kill(&mut self, place: usize) {
        self.note(place, "the agent is killed");
        self.world.kill(place);
        self.begin_life(place);
    }

    /// Leaders are elected at the member's own API server: without it nobody begins.
    fn can_lead(&self, place: usize) -> bool {
        !self.world.members[place].own_link.is_out()
    }

    pub(crate) fn start(&mut self, place: usize) {
        let member = &self.world.members[place];
        if !member.is_running() && !member.has_left && self.can_lead(place) {
            self.note(place, "the agent starts");
            self.world.start(place);
            self.begin_life(place);
        }
    }

    /// Another process takes over, and for a moment the former leader does not know. Two leaders may contradict each
    /// other, so their requests have to take time.
    pub(crate) async fn take_over(&mut self, place: usize) {
        if !self.world.members[place].is_running() || !self.can_lead(place) {
            return;
        }
        self.note(place, "a second agent takes over");
        self.slow_down(place);
        self.world.take_over(place);
        self.begin_life(place);
        sleep(ms(self.dice.u64(0..2_000))).await;
        self.retire(place);
    }

    /// Requests of a member's agents take a while.
    fn slow_down(&mut self, place: usize) {
        let member = &mut self.world.members[place];
        let plan = FaultPlan { latency: ms(1)..ms(50), ..FaultPlan::default() };
        [&member.hub_link, &member.own_link].iter().for_each(|link| link.plan(plan.clone()));
        member.is_spoiled = true;
        self.mark(place);
    }

    pub(crate) fn retire(&mut self, place: usize) {
        if self.world.members[place].has_two_leaders() {
            self.note(place, "the former leader stops");
            self.world.retire(place);
            self.begin_life(place);
        }
    }

    fn begin_life(&mut self, place: usize) {
        let member = &self.world.members[place];
        let unclear = if member.has_two_leaders() { FOR_EVER } else { LAST_WORD };
        self.guard.begin_life(member, unclear);
        // Whoever begins gives every source the time it gives all.
        self.world.members[place].clean = None;
        self.mark(place);
    }

    /// A service changes, and before all of it is written the agent dies.
    pub(crate) async fn crash_while_writing(&mut self, place: usize, which: usize) {
        self.slow_down(place);
        self.set_endpoints(place, which).await;
        sleep(ms(self.dice.u64(1..200))).await;
        self.kill(place);
        sleep(ms(self.dice.u64(0..2_000))).await;
        self.start(place);
    }

    /// Takes note of since when a member is well.
    pub(crate) fn mark(&mut self, place: usize) {
        let member = &mut self.world.members[place];
        let unobstructed = member.is_running() && !member.is_cut;
        let since = |well: bool, known: Option<Instant>| well.then(|| known.unwrap_or_else(Instant::now));
        member.unobstructed = since(unobstructed, member.unobstructed);
        member.clean = since(unobstructed && !member.is_spoiled, member.clean);
    }
}

/// Clocks and the hub.
impl Run {
    /// The clock of a member's agent, or of its API server, is set by up to ten minutes.
    pub(crate) fn jump(&mut self, place: usize) {
        let (seconds, agent) = (self.dice.i64(-600..=600), self.dice.bool());
        self.note(place, &format!("the clock jumps by {seconds} s (agent: {agent})"));
        let member = &self.world.members[place];
        let clock = if agent { &member.config.clock } else { &member.server_clock };
        clock.jump(SignedDuration::from_secs(seconds));
    }

    pub(crate) fn back_up_hub(&mut self) {
        self.log.note("a backup of the hub is taken");
        self.backups.push((self.world.hub.backup(), Instant::now()));
    }

    /// The hub is restored from the last backup: everything there is as it was, and revisions are handed out again.
    pub(crate) async fn restore_hub(&mut self) {
        let Some((backup, _)) = self.backups.iter().rfind(|(_, at)| self.is_noticeable(*at)) else { return };
        self.log.note("the hub is restored from its backup");
        self.world.restore_hub(&backup.clone());
        self.restored = Some(Instant::now());
        for member in &mut self.world.members {
            let now = |since: Option<Instant>| since.map(|_| Instant::now());
            (member.unobstructed, member.clean) = (now(member.unobstructed), now(member.clean));
        }
        self.guard.forget_all(&self.world);
        // Whoever let them go does so again.
        for place in (0..self.world.members.len()).filter(|place| self.world.members[*place].has_left) {
            self.world.clear_place(place).await;
        }
    }
}

/// Clusters that leave, and come back.
impl Run {
    /// As with `tombolo leave --force`: the cluster keeps what it has, and nobody keeps anything of it.
    pub(crate) async fn leave(&mut self, place: usize) {
        if self.world.members[place].has_left || self.world.joined().count() <= FEWEST {
            return;
        }
        self.kill(place);
        self.note(place, "the cluster leaves");
        self.world.members[place].has_left = true;
        for which in 0..SERVICES.len() {
            self.touch(place, which, "its cluster leaves");
        }
        self.world.clear_place(place).await;
    }

    pub(crate) fn come_back(&mut self, place: usize) {
        if !self.world.members[place].has_left {
            return;
        }
        self.note(place, "the cluster joins again");
        self.world.members[place].has_left = false;
        for which in 0..SERVICES.len() {
            self.touch(place, which, "its cluster joins again");
        }
        self.start(place);
    }
}

impl Run {
    /// Whether every agent has left a mark at the hub since a backup was taken. One that has not cannot know that the hub
    /// went back: this is a limit of the agent, too.
    fn is_noticeable(&self, backup: Instant) -> bool {
        // Agents that begin anew have yet to leave another one.
        let begun = self.restored.unwrap_or(backup).max(backup);
        let marked = begun + MARK;
        Instant::now() > marked && !self.cuts.iter().any(|cut| (begun..marked).contains(cut))
    }
}

/// Members that lie, as far as the hub lets them: in their own namespace.
impl Run {
    pub(crate) async fn forge(&mut self, place: usize, which: usize) {
        let victim = self.dice.usize(0..self.world.members.len());
        let dialect = Dialect::ALL[self.dice.usize(0..Dialect::ALL.len())];
        let kind = self.dice.u32(0..5);
        if self.world.members[place].has_left {
            return;
        }
        self.note(place, &format!("a forgery of kind {kind} about {}", key(which)));
        match kind {
            0 => self.forge_offer(place, victim, which).await,
            1 => self.write_nonsense(place).await,
            2 => self.forge_slice(place, victim, which, dialect).await,
            3 => self.widen_statement(place).await,
            _ => self.forge_membership(place, victim).await,
        }
    }

    async fn write(&self, place: usize, group: &str, kind: &str, value: Value) {
        let (group, version) = (group.split_once('/').unwrap().0, group.split_once('/').unwrap().1);
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let namespace = names::hub_namespace(&self.world.members[place].config.cluster);
        let api: Api<DynamicObject> = Api::namespaced_with(self.world.hub.client(), &namespace, &resource);
        let name = value["metadata"]["name"].as_str().unwrap().to_owned();
        match api.patch(&name, &PatchParams::apply(FORGED).force(), &Patch::Apply(&value)).await {
            // Once written, a Membership stays whose it is.
            Err(Error::Api(status)) if kind == "Membership" && status.code == 422 => {}
            outcome => drop(outcome.unwrap()),
        }
    }

    /// An offer in another cluster's name.
    async fn forge_offer(&mut self, place: usize, victim: usize, which: usize) {
        let (victim, key) = (self.world.members[victim].name(), key(which));
        let value = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "ServiceOffer",
            "metadata": {"name": format!("{FORGED}-{}", key.name)},
            "spec": {
                "cluster": victim, "dialect": "mcs", "service": {"namespace": key.namespace, "name": key.name},
                "exportedAt": "2020-01-01T00:00:00Z", "type": "ClusterIP", "ipFamilies": ["IPv4"],
                "ports": [{"name": "evil", "port": 6666, "protocol": "TCP"}],
            },
        });
        self.write(place, "tombolo.dev/v1alpha1", "ServiceOffer", value).await;
    }

    /// An object that cannot be read at all.
    async fn write_nonsense(&mut self, place: usize) {
        let value = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "ServiceOffer",
            "metadata": {"name": format!("{FORGED}-nonsense")},
            "spec": {"cluster": 7, "ports": "many"},
        });
        self.write(place, "tombolo.dev/v1alpha1", "ServiceOffer", value).await;
    }

    /// Endpoints that are not the member's: of another cluster, of nobody, of whoever reads them.
    pub(crate) async fn forge_slice(&mut self, place: usize, victim: usize, which: usize, dialect: Dialect) {
        let names = [place, victim].map(|place| self.world.members[place].name().to_owned());
        let claimed = &names[self.dice.usize(0..2)];
        let key = key(which);
        let stolen = format!("10.{}.{which}.250", victim + 1);
        let stolen = if victim == place { "10.98.0.1".to_owned() } else { stolen };
        let addresses = [stolen.as_str(), "127.0.0.1", "169.254.169.254"];
        let endpoints: Vec<Value> = addresses.iter().map(|ip| json!({"addresses": [ip]})).collect();
        let value = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("{FORGED}-{}", key.name), "labels": {
                OFFER_LABEL: names::offer(dialect, &service(&key)),
                SOURCE_CLUSTER_LABEL: claimed, MANAGED_BY_LABEL: MANAGER,
            }},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        let namespace = names::hub_namespace(&self.world.members[place].config.cluster);
        let api: Api<EndpointSlice> = Api::namespaced(self.world.hub.client(), &namespace);
        let params = PatchParams::apply(FORGED).force();
        // The server itself refuses loopback and link-local addresses.
        if api.patch(&format!("{FORGED}-{}", key.name), &params, &Patch::Apply(&value)).await.is_err() {
            let mut value = value;
            value["endpoints"].as_array_mut().unwrap().truncate(1);
            api.patch(&format!("{FORGED}-{}", key.name), &params, &Patch::Apply(&value)).await.unwrap();
        }
    }

    /// A member that says its pods are everywhere.
    pub(crate) async fn widen_statement(&mut self, place: usize) {
        let namespace = names::hub_namespace(&self.world.members[place].config.cluster);
        let api: Api<Membership> = Api::namespaced(self.world.hub.client(), &namespace);
        let everywhere = json!({"spec": {"podCIDRs": ["0.0.0.0/0", "::/0"]}});
        let widened = api.patch(STATEMENT, &PatchParams::default(), &Patch::Merge(&everywhere)).await;
        assert!(widened.is_ok() || widened.as_ref().is_err_and(tombolo_runtime::is_not_found), "{widened:?}");
    }

    /// A member that says it is another one.
    async fn forge_membership(&mut self, place: usize, victim: usize) {
        let victim = if victim == place { "nobody" } else { self.world.members[victim].name() };
        let value = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Membership", "metadata": {"name": FORGED},
            "spec": {"cluster": victim, "identity": "forged", "podCIDRs": ["0.0.0.0/0"]},
        });
        self.write(place, "tombolo.dev/v1alpha1", "Membership", value).await;
    }
}
