//! What goes wrong in a run: links, agents, clocks, the hub; and clusters that leave.

use std::time::Duration;

use jiff::SignedDuration;
use tokio::time::{Instant, sleep};
use tombolo_testkit::{FaultPlan, Faults, Outage};

use crate::schedule::{Run, SERVICES, ms};

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
        self.guard.welcome(self.world.members[place].name());
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
