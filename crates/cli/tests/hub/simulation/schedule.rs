//! What happens in one run, drawn from its seed.

use std::time::Duration;

use kube::Api;
use kube::api::DeleteParams;
use tokio::time::{Instant, sleep};
use tombolo_api::karmada::cluster::Cluster;
use tombolo_apiserver::Backup;
use tombolo_testkit::{FaultPlan, Outage};

use super::guard::{Broken, Guard, Invariant, Log};
use super::sight::{HubSight, MemberSight};
use super::truth;
use crate::fleet::{Fleet, make_namespace};

/// Enough for several faults to meet each other in a few simulated minutes.
const STEPS: usize = 60;
const MEMBERS: usize = 3;
/// As many as may join.
const MOST_MEMBERS: usize = 5;
const LOOK: Duration = Duration::from_secs(1);
/// Longer than a lease, a heartbeat, the dwelling of `LocalFirst` and every retry together.
const CONVERGENCE: Duration = Duration::from_secs(180);
/// Longer than a write that hangs is waited for.
const SETTLING: Duration = Duration::from_secs(40);
const QUIET: Duration = Duration::from_secs(20);
/// A heartbeat every 5 s, and some of them fail.
const MARK: Duration = Duration::from_secs(12);

/// How one party is.
#[derive(Default)]
pub(crate) struct Health {
    cut: bool,
    spoiled: bool,
    /// Since when it runs without any fault.
    pub(crate) well: Option<Instant>,
    /// Since when nothing of it can reach the hub.
    pub(crate) silent: Option<Instant>,
    /// Its link to the hub is out.
    unheard: bool,
}

impl Health {
    fn mark(&mut self, runs: bool) {
        let since = |holds: bool, known: Option<Instant>| holds.then(|| known.unwrap_or_else(Instant::now));
        self.well = since(runs && !self.cut && !self.spoiled, self.well);
        self.silent = since(!runs || self.unheard, self.silent);
    }

    fn heal(&mut self) {
        (self.cut, self.spoiled, self.unheard) = (false, false, false);
    }
}

/// One run.
pub(crate) struct Run {
    pub(crate) dice: fastrand::Rng,
    pub(crate) fleet: Fleet,
    pub(crate) hub_sight: HubSight,
    pub(crate) sights: Vec<MemberSight>,
    pub(crate) members: Vec<Health>,
    pub(crate) hub: Health,
    pub(crate) guard: Guard,
    pub(crate) log: Log,
    /// The hub as it was, and when.
    backups: Vec<(Backup, Instant)>,
    /// When links were cut or spoiled.
    cuts: Vec<Instant>,
}

impl Run {
    /// A hub and some members, and nothing shared yet.
    pub(crate) async fn begin(seed: u64, log: Log) -> Self {
        let fleet = Fleet::of(MEMBERS).await;
        for place in MEMBERS..MOST_MEMBERS {
            make_namespace(&fleet.hub.client(), &format!("tombolo-member{}", place + 1)).await;
        }
        log.note("begin");
        let hub_sight = HubSight::new(&fleet.hub.client());
        let guard = Guard::new(&hub_sight, log.clone());
        let (backups, cuts) = (vec![(fleet.backup(), Instant::now())], Vec::new());
        let dice = fastrand::Rng::with_seed(seed);
        let (sights, members, hub) = (Vec::new(), Vec::new(), Health::default());
        let mut run = Self { dice, fleet, hub_sight, sights, members, hub, guard, log, backups, cuts };
        (0..MEMBERS).for_each(|place| run.watch(place));
        run.hub.mark(true);
        run
    }

    fn watch(&mut self, place: usize) {
        let member = &self.fleet.members[place];
        let sight = MemberSight::new(&member.cluster.client());
        self.guard.watch(member.name(), &sight);
        self.sights.push(sight);
        self.members.push(Health::default());
        self.members[place].mark(true);
    }

    /// One with services of which some are shared, and some objects of users.
    pub(crate) async fn new(seed: u64, log: Log) -> Self {
        let mut run = Self::begin(seed, log).await;
        run.add_foreign_objects().await;
        for _ in 0..MEMBERS * 2 {
            run.set_endpoints().await;
        }
        for _ in 0..2 {
            run.write_template().await;
            run.write_object().await;
        }
        run
    }

    /// The whole run: faults, healing, convergence.
    pub(crate) async fn finish(mut self) -> Result<(), Broken> {
        for _ in 0..STEPS {
            self.step().await;
            let pause = match self.dice.u32(0..100) {
                0..70 => self.dice.u64(0..2_000),
                70..92 => self.dice.u64(2_000..10_000),
                _ => self.dice.u64(40_000..70_000),
            };
            self.wait(Duration::from_millis(pause)).await?;
        }
        self.conclude().await
    }

    /// Everything heals, becomes what it should be, stays so, and is quiet.
    pub(crate) async fn conclude(&mut self) -> Result<(), Broken> {
        self.log.note("everything heals");
        self.heal_hub();
        self.start_hub();
        for place in 0..self.fleet.members.len() {
            self.heal(place);
            self.start(place);
        }
        self.mend_objects().await;
        self.converge().await?;
        self.wait(SETTLING).await?;
        let before = truth::versions(self);
        self.wait(QUIET).await?;
        let after = truth::versions(self);
        if before != after {
            let changed: Vec<_> = after.iter().filter(|one| !before.contains(*one)).collect();
            return Err(Broken::new(Invariant::Quiet, format!("there was nothing to do, but: {changed:?}")));
        }
        self.converged()
    }

    pub(crate) async fn converge(&mut self) -> Result<(), Broken> {
        let deadline = Instant::now() + CONVERGENCE;
        loop {
            self.wait(LOOK).await?;
            match self.converged() {
                Err(_) if Instant::now() < deadline => {}
                outcome => return outcome,
            }
        }
    }

    fn converged(&self) -> Result<(), Broken> {
        let found = truth::differences(self);
        match found.is_empty() {
            true => Ok(()),
            false => Err(Broken::new(Invariant::Convergence, found.join("\n"))),
        }
    }

    /// Lets time pass and watches.
    pub(crate) async fn wait(&mut self, time: Duration) -> Result<(), Broken> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            sleep(LOOK.min(until - Instant::now())).await;
            let Self { guard, fleet, hub_sight, sights, members, hub, .. } = self;
            guard.look(fleet, hub_sight, sights, members, hub).await?;
        }
        Ok(())
    }

    pub(crate) fn draw_member(&mut self) -> usize {
        self.dice.usize(0..self.fleet.members.len())
    }

    async fn step(&mut self) {
        let place = self.draw_member();
        match self.dice.u32(0..108) {
            0..22 => self.set_endpoints().await,
            22..26 => self.remove_endpoints().await,
            26..40 => self.write_object().await,
            40..43 => self.delete_object().await,
            43..47 => self.write_template().await,
            47..49 => self.delete_template().await,
            49..52 => self.tamper().await,
            52..61 => self.spoil(place),
            61..68 => self.cut(place),
            68..80 => self.heal(place),
            80..84 => self.kill(place),
            84..91 => self.start(place),
            91..94 => self.restart_hub(),
            94..96 => self.kill_hub(),
            96..99 => self.start_hub(),
            99..101 => self.disturb_hub(),
            101..103 => self.heal_hub(),
            103..104 => self.leave(place).await,
            104..105 => self.join().await,
            105..107 => self.back_up(),
            _ => self.restore(),
        }
    }

    pub(crate) fn note(&self, place: usize, what: &str) {
        self.log.note(&format!("{}: {what}", self.fleet.members[place].name()));
    }
}

/// Links and agents.
impl Run {
    fn draw_faults(&mut self) -> FaultPlan {
        let mut chance = |most: f64| self.dice.f64() * most;
        FaultPlan {
            conflict: chance(0.1),
            expired: chance(0.1),
            throttled: chance(0.05),
            server_error: chance(0.2),
            lost_answer: chance(0.1),
            hang: chance(0.02),
            cut_watch: chance(0.1),
            latency: Duration::ZERO..Duration::from_millis(self.dice.u64(1..400)),
            ..FaultPlan::default()
        }
    }

    fn mark(&mut self, place: usize) {
        let runs = self.fleet.members[place].is_running();
        self.members[place].mark(runs);
    }

    fn spoil(&mut self, place: usize) {
        let (plan, own) = (self.draw_faults(), self.dice.bool());
        self.note(place, &format!("faults (own API server: {own}): {plan:?}"));
        let member = &self.fleet.members[place];
        let link = if own { &member.own_link } else { &member.link };
        link.plan(plan);
        self.cuts.push(Instant::now());
        self.members[place].spoiled = true;
        self.mark(place);
    }

    pub(crate) fn cut(&mut self, place: usize) {
        let outage = if self.dice.bool() { Outage::Refused } else { Outage::Silent };
        let own = self.dice.u32(0..4) == 0;
        self.note(place, &format!("{outage:?} (own API server: {own})"));
        let member = &self.fleet.members[place];
        let link = if own { &member.own_link } else { &member.link };
        link.outage(outage);
        self.cuts.push(Instant::now());
        let health = &mut self.members[place];
        health.cut = true;
        health.unheard |= !own;
        self.mark(place);
    }

    fn heal(&mut self, place: usize) {
        self.note(place, "all faults heal");
        let member = &self.fleet.members[place];
        member.link.heal();
        member.own_link.heal();
        self.members[place].heal();
        self.mark(place);
    }

    pub(crate) fn kill(&mut self, place: usize) {
        if self.fleet.members[place].is_running() {
            self.note(place, "the agent is killed");
            self.fleet.kill(place);
            self.mark(place);
        }
    }

    fn start(&mut self, place: usize) {
        if !self.fleet.members[place].is_running() {
            self.note(place, "the agent starts");
            self.guard.forget_leave(self.fleet.members[place].name());
            self.fleet.start(place);
            self.mark(place);
        }
    }

    /// The cluster is dead and made to leave.
    pub(crate) async fn leave(&mut self, place: usize) {
        self.kill(place);
        self.note(place, "leaves");
        let name = self.fleet.members[place].name().to_owned();
        let api: Api<Cluster> = Api::all(self.fleet.hub.client());
        // One that the hub has not met yet cannot be sent away.
        if api.delete(&name, &DeleteParams::default()).await.is_ok() {
            self.guard.note_leave(&name);
        }
    }

    async fn join(&mut self) {
        if self.fleet.members.len() < MOST_MEMBERS {
            let place = self.fleet.join().await;
            self.watch(place);
            self.note(place, "joins");
        }
    }
}

/// The hub.
impl Run {
    fn mark_hub(&mut self) {
        let runs = self.fleet.has_hub();
        self.hub.mark(runs);
    }

    fn kill_hub(&mut self) {
        if self.fleet.has_hub() {
            self.log.note("the hub is killed");
            self.fleet.kill_hub();
            self.mark_hub();
        }
    }

    fn start_hub(&mut self) {
        if !self.fleet.has_hub() {
            self.log.note("the hub starts");
            self.fleet.start_hub();
            self.mark_hub();
        }
    }

    fn restart_hub(&mut self) {
        self.kill_hub();
        self.start_hub();
    }

    fn disturb_hub(&mut self) {
        self.cuts.push(Instant::now());
        if self.dice.bool() {
            let plan = self.draw_faults();
            self.log.note(&format!("faults between the hub and its API server: {plan:?}"));
            self.fleet.link.plan(plan);
            self.hub.spoiled = true;
        } else {
            let outage = if self.dice.bool() { Outage::Refused } else { Outage::Silent };
            self.log.note(&format!("{outage:?} between the hub and its API server"));
            self.fleet.link.outage(outage);
            self.hub.cut = true;
        }
        self.mark_hub();
    }

    fn heal_hub(&mut self) {
        self.log.note("the hub's faults heal");
        self.fleet.link.heal();
        self.hub.heal();
        self.mark_hub();
    }

    pub(crate) fn back_up(&mut self) {
        self.log.note("a backup of the hub is taken");
        self.backups.push((self.fleet.backup(), Instant::now()));
    }

    /// Whether everybody has left a mark at the hub since a backup was taken. Who has not cannot know that it went back.
    fn is_noticeable(&self, backup: Instant) -> bool {
        let marked = backup + MARK;
        Instant::now() > marked && !self.cuts.iter().any(|cut| (backup..marked).contains(cut))
    }

    /// The hub's API server goes back to a backup: everything there is as it was, and revisions are handed out again.
    pub(crate) fn restore(&mut self) {
        let old: Vec<usize> =
            (0..self.backups.len()).filter(|which| self.is_noticeable(self.backups[*which].1)).collect();
        let Some(which) = self.dice.choice(old) else { return };
        self.log.note(&format!("the hub is restored from backup {which}"));
        let backup = self.backups[which].0.clone();
        // Later ones are of a future that never came.
        self.backups.truncate(which + 1);
        self.fleet.restore(&backup);
        self.hub_sight.look_anew(&self.fleet.hub.client());
        let now = |since: Option<Instant>| since.map(|_| Instant::now());
        self.hub.well = now(self.hub.well);
        for member in &mut self.members {
            (member.well, member.silent) = (now(member.well), now(member.silent));
        }
        self.guard.note_restore();
    }
}
