//! What happens in one run, drawn from its seed.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tombolo_apiserver::Backup;
use tombolo_runtime::Key;

use crate::convergence::{Exempt, differences};
use crate::invariants::{Broken, Guard, Invariant};
use crate::log::Log;
use crate::world::World;

/// Enough for several faults to meet each other in a few simulated minutes.
const STEPS: usize = 40;
/// How often the invariants that need a look are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Longer than a lease, a heartbeat, the longest reconciliation and every retry together.
const CONVERGENCE: Duration = Duration::from_secs(180);
/// Longer than a write that hangs is waited for: then there is nothing more to say.
const SETTLING: Duration = Duration::from_secs(40);
/// How long it has to be quiet after that.
const QUIET: Duration = Duration::from_secs(10);
/// Namespace, name and whether it is headless. The last namespace is missing in some members at first.
pub(crate) const SERVICES: [(&str, &str, bool); 4] =
    [("demo", "echo", false), ("demo", "web", false), ("late", "echo", false), ("late", "db", true)];

/// One run.
pub(crate) struct Run {
    pub(crate) dice: fastrand::Rng,
    pub(crate) world: World,
    pub(crate) guard: Guard,
    pub(crate) log: Log,
    pub(crate) exempt: Exempt,
    /// The hub as it was, and when.
    pub(crate) backups: Vec<(Backup, Instant)>,
    /// When the hub last went back to one of them.
    pub(crate) restored: Option<Instant>,
    /// When links were cut.
    pub(crate) cuts: Vec<Instant>,
}

pub(crate) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) fn key(which: usize) -> Key {
    Key::new(SERVICES[which].0, SERVICES[which].1)
}

impl Run {
    /// A supercluster in which nothing has happened yet.
    pub(crate) async fn begin(seed: u64, clusters: usize, log: Log) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        let world = World::new(clusters, &mut dice).await;
        log.note("begin");
        let guard = Guard::new(&world, log.clone());
        let backups = vec![(world.hub.backup(), Instant::now())];
        Self { dice, world, guard, log, exempt: Exempt::new(), backups, restored: None, cuts: Vec::new() }
    }

    /// One with services, exports and running agents.
    pub(crate) async fn new(seed: u64, clusters: usize, log: Log) -> Self {
        let mut run = Self::begin(seed, clusters, log).await;
        if run.dice.bool() {
            run.add_foreign_objects().await;
        }
        for place in 0..clusters {
            if run.dice.bool() {
                run.make_namespace(place).await;
            }
            run.start(place);
        }
        sleep(ms(10)).await;
        for _ in 0..clusters * 2 {
            let (place, which) = run.draw_service();
            run.serve(place, which).await;
            run.set_endpoints(place, which).await;
            run.export(place, which).await;
        }
        run
    }

    /// The whole run: faults, healing, convergence.
    pub(crate) async fn finish(mut self) -> Result<(), Broken> {
        // Imports are there by then, most of them.
        self.wait(ms(3_000)).await?;
        for _ in 0..self.world.members.len() {
            self.set_strategy().await;
        }
        for _ in 0..STEPS {
            self.step().await;
            let pause = match self.dice.u32(0..100) {
                0..70 => self.dice.u64(0..2_000),
                70..95 => self.dice.u64(2_000..10_000),
                _ => self.dice.u64(40_000..70_000),
            };
            self.wait(ms(pause)).await?;
        }
        for place in 0..self.world.members.len() {
            if self.dice.bool() {
                self.come_back(place);
            }
            self.heal(place);
            self.retire(place);
            self.start(place);
            self.world.members[place].controllers.are_running = true;
        }
        self.conclude().await
    }

    /// Everything becomes what the model says, stays so, and is quiet.
    pub(crate) async fn conclude(&mut self) -> Result<(), Broken> {
        self.converge().await?;
        self.wait(SETTLING).await?;
        let events = self.log.events();
        self.wait(QUIET).await?;
        if self.log.events() != events {
            let (count, last) = (self.log.events() - events, self.log.last_event());
            let what = format!("{count} changes when there was nothing to do, at last {last}");
            return Err(Broken::new(Invariant::Quiet, what));
        }
        self.converged().map_err(|why| not_converged(&format!("it did not stay so: {why}")))?;
        let Guard { watched, watched_natives, closures, .. } = &self.guard;
        self.log.note(&format!(
            "end: looked at {watched} endpoints, {watched_natives} of native names, and at {} closures",
            closures.watched
        ));
        Ok(())
    }

    pub(crate) async fn converge(&mut self) -> Result<(), Broken> {
        let deadline = Instant::now() + CONVERGENCE;
        loop {
            self.wait(LOOK).await?;
            match self.converged() {
                Ok(()) => return Ok(()),
                Err(why) if Instant::now() > deadline => return Err(not_converged(&why)),
                Err(_) => {}
            }
        }
    }

    fn converged(&self) -> Result<(), String> {
        let found = differences(&self.world, &self.exempt);
        if found.is_empty() {
            Ok(())
        } else {
            Err(format!("{} differences\n{}", found.len(), found.join("\n")))
        }
    }

    /// Lets time pass and watches.
    pub(crate) async fn wait(&mut self, time: Duration) -> Result<(), Broken> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            sleep(LOOK.min(until - Instant::now())).await;
            self.control().await;
            self.guard.look(&self.world, &self.exempt).await?;
        }
        Ok(())
    }

    async fn step(&mut self) {
        let place = self.dice.usize(0..self.world.members.len());
        let (user, which) = self.draw_service();
        match self.dice.u32(0..146) {
            0..24 => self.set_endpoints(user, which).await,
            24..34 => self.serve(user, which).await,
            34..37 => self.delete_service(user, which).await,
            37..50 => self.export(user, which).await,
            50..56 => self.unexport(user, which).await,
            56..60 => self.make_namespace(place).await,
            60..71 => self.spoil(place),
            71..79 => self.cut(place),
            79..90 => self.heal(place),
            90..93 => self.kill(place),
            93..99 => self.start(place),
            99..104 => self.tamper(user, which).await,
            104..106 => self.delete_namespace(place).await,
            106..108 => self.back_up_hub(),
            108..109 => self.restore_hub().await,
            109..114 => self.take_over(place).await,
            114..116 => self.jump(place),
            116..118 => self.forge(place, which).await,
            118..126 => self.set_strategy().await,
            126..128 => self.toggle_controllers(place),
            128..132 => self.tamper_with_native(user, which).await,
            132..135 => self.crash_while_writing(user, which).await,
            135..140 => self.label(user, which).await,
            140..142 => self.leave(place).await,
            _ => self.come_back(place),
        }
    }

    pub(crate) fn note(&self, place: usize, what: &str) {
        self.log.note(&format!("{}: {what}", self.world.members[place].name()));
    }
}

fn not_converged(why: &str) -> Broken {
    Broken::new(Invariant::Convergence, why.to_owned())
}
