//! What happens in one run, drawn from its seed.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tombolo_api::tombolo::Dialect;
use tombolo_api::{kep, mcs};
use tombolo_model::names;
use tombolo_runtime::Key;
use tombolo_testkit::{FaultPlan, Faults, Outage};

use crate::convergence::{Exempt, differences};
use crate::invariants::{Foreign, Guard, Log};
use crate::truth::service;
use crate::world::World;

/// Enough for several faults to meet each other in a few simulated minutes.
const STEPS: usize = 40;
/// How often the invariants that need a look are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Longer than a lease, a heartbeat and every retry together.
const CONVERGENCE: Duration = Duration::from_secs(180);
/// Namespace, name and whether it is headless. The last namespace is missing in some members at first.
const SERVICES: [(&str, &str, bool); 4] =
    [("demo", "echo", false), ("demo", "web", false), ("late", "echo", false), ("late", "db", true)];

/// One run.
pub(crate) struct Run {
    dice: fastrand::Rng,
    world: World,
    guard: Guard,
    log: Log,
    exempt: Exempt,
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

impl Run {
    pub(crate) async fn new(seed: u64, clusters: usize, log: Log) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        let world = World::new(clusters, &mut dice).await;
        log.note("begin");
        let guard = Guard::new(&world, log.clone());
        let mut run = Self { dice, world, guard, log, exempt: Exempt::new() };
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
    pub(crate) async fn finish(mut self) -> Result<(), String> {
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
            self.heal(place);
            self.start(place);
        }
        self.converge().await?;
        self.wait(Duration::from_secs(40)).await?;
        self.converged().map_err(|why| format!("it did not stay converged: {why}"))?;
        self.log.note(&format!("end: {} endpoint-seconds were watched", self.guard.watched));
        Ok(())
    }

    async fn converge(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + CONVERGENCE;
        loop {
            self.wait(LOOK).await?;
            match self.converged() {
                Ok(()) => return Ok(()),
                Err(why) if Instant::now() > deadline => return Err(format!("it does not converge: {why}")),
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
    async fn wait(&mut self, time: Duration) -> Result<(), String> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            sleep(LOOK.min(until - Instant::now())).await;
            self.guard.look(&self.world).await?;
        }
        Ok(())
    }

    async fn step(&mut self) {
        let place = self.dice.usize(0..self.world.members.len());
        let (user, which) = self.draw_service();
        match self.dice.u32(0..100) {
            0..24 => self.set_endpoints(user, which).await,
            24..34 => self.serve(user, which).await,
            34..37 => self.delete_service(user, which).await,
            37..50 => self.export(user, which).await,
            50..56 => self.unexport(user, which).await,
            56..60 => self.make_namespace(place).await,
            60..71 => self.spoil(place),
            71..79 => self.cut(place),
            79..90 => self.heal(place),
            90..94 => self.kill(place),
            _ => self.start(place),
        }
    }

    fn note(&self, place: usize, what: &str) {
        self.log.note(&format!("{}: {what}", self.world.members[place].name()));
    }
}

/// What users do.
impl Run {
    /// A member and a service whose namespace it has.
    fn draw_service(&mut self) -> (usize, usize) {
        loop {
            let place = self.dice.usize(0..self.world.members.len());
            let which = self.dice.usize(0..SERVICES.len());
            if self.world.members[place].has_namespace(SERVICES[which].0) || SERVICES[which].0 == "demo" {
                return (place, which);
            }
        }
    }

    /// Takes note that a service changes.
    fn touch(&mut self, place: usize, which: usize, what: &str) -> Key {
        let key = Key::new(SERVICES[which].0, SERVICES[which].1);
        self.note(place, &format!("{key}: {what}"));
        self.guard.touch(place, &key);
        key
    }

    async fn serve(&mut self, place: usize, which: usize) {
        let port = if self.dice.u32(0..10) == 0 { 8080 } else { 80 };
        let key = self.touch(place, which, &format!("Service with port {port}"));
        let mut value = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": key.name},
            "spec": {"ports": [{"name": "http", "port": port, "targetPort": 8080}]},
        });
        if SERVICES[which].2 {
            value["spec"]["clusterIP"] = json!("None");
        }
        self.world.members[place].apply::<Service>(&key, &value).await;
    }

    async fn delete_service(&mut self, place: usize, which: usize) {
        let key = self.touch(place, which, "delete the Service");
        self.world.members[place].delete::<Service>(&key).await;
    }

    /// Changes one of the two slices of a service, or deletes it.
    async fn set_endpoints(&mut self, place: usize, which: usize) {
        let slice = self.dice.usize(0..2);
        let hosts: Vec<usize> = (1..5).filter(|_| self.dice.u32(0..3) > 0).collect();
        let mut addresses: Vec<String> =
            hosts.iter().map(|host| format!("10.{}.{which}.{}", place + 1, slice * 10 + host)).collect();
        let key = self.touch(place, which, &format!("slice {slice} has {addresses:?}"));
        let name = format!("{}-{slice}", key.name);
        let member = &self.world.members[place];
        if addresses.is_empty() {
            return member.delete::<EndpointSlice>(&Key::new(key.namespace, name)).await;
        }
        addresses.iter().for_each(|address| self.guard.allow(member.name(), &key, address));
        if self.dice.u32(0..8) == 0 {
            addresses.push("10.99.0.1".to_owned());
        }
        let ready = self.dice.u32(0..6) > 0;
        let endpoints: Vec<Value> = addresses
            .iter()
            .map(|ip| json!({"addresses": [ip], "conditions": {"ready": ready}, "nodeName": "n"}))
            .collect();
        let value = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": key.name}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        member.apply::<EndpointSlice>(&Key::new(key.namespace, name), &value).await;
    }

    async fn export(&mut self, place: usize, which: usize) {
        let kep = self.dice.bool();
        let key = self.touch(place, which, if kep { "export (kep)" } else { "export (mcs)" });
        let version = if kep { "multicluster.k8s.io/v1alpha1" } else { "multicluster.x-k8s.io/v1beta1" };
        let value = json!({"apiVersion": version, "kind": "ServiceExport", "metadata": {"name": key.name}});
        let member = &self.world.members[place];
        match kep {
            true => member.apply::<kep::ServiceExport>(&key, &value).await,
            false => member.apply::<mcs::ServiceExport>(&key, &value).await,
        }
    }

    async fn unexport(&mut self, place: usize, which: usize) {
        let kep = self.dice.bool();
        let key = self.touch(place, which, if kep { "unexport (kep)" } else { "unexport (mcs)" });
        let member = &self.world.members[place];
        match kep {
            true => member.delete::<kep::ServiceExport>(&key).await,
            false => member.delete::<mcs::ServiceExport>(&key).await,
        }
    }

    async fn make_namespace(&mut self, place: usize) {
        if !self.world.members[place].has_namespace("late") {
            self.note(place, "the namespace late appears");
            self.world.members[place].make_namespace("late").await;
            sleep(ms(1)).await;
        }
    }

    /// Objects of users that stand where the agents would like to put theirs.
    async fn add_foreign_objects(&mut self) {
        let size = self.world.members.len();
        let (web, echo) = (Key::new("demo", "web"), Key::new("demo", "echo"));
        let place = self.dice.usize(0..size);
        let name = names::derived_service(Dialect::Mcs, &service(&web));
        let value = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"name": "user", "port": 1}]},
        });
        self.world.members[place].apply::<Service>(&Key::new("demo", name.clone()), &value).await;
        self.protect(place, Foreign::Service, Key::new("demo", name), Some((Dialect::Mcs, web.clone())))
            .await;

        let place = self.dice.usize(0..size);
        // Without ports no Service of the name is made for it, so the user's own never meets one.
        let value = json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": {"name": "echo"},
            "spec": {"type": "ClusterSetIP", "ports": []},
        });
        self.world.members[place].apply::<mcs::ServiceImport>(&echo, &value).await;
        self.protect(place, Foreign::Import, echo, Some((Dialect::Mcs, Key::new("demo", "echo")))).await;

        let place = self.dice.usize(0..size);
        let published = names::hub_slice(Dialect::Kep, &service(&web), "web-0");
        let source = self.world.members[0].config.cluster.clone();
        let ours = names::imported_slice(&service(&web), &source, &published);
        for (name, blocks) in [(ours, Some((Dialect::Kep, web))), ("web-user".to_owned(), None)] {
            let value = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": name, "labels": {
                    "multicluster.kubernetes.io/source-cluster": "b", "multicluster.kubernetes.io/service-name": "web",
                }},
                "addressType": "IPv4", "endpoints": [{"addresses": ["10.77.0.1"]}], "ports": [],
            });
            let key = Key::new("demo", name);
            self.world.members[place].apply::<EndpointSlice>(&key, &value).await;
            self.protect(place, Foreign::Slice, key, blocks).await;
        }
    }

    async fn protect(&mut self, place: usize, kind: Foreign, key: Key, blocks: Option<(Dialect, Key)>) {
        self.note(place, &format!("{kind:?} {key} belongs to a user"));
        let member = self.world.members[place].name().to_owned();
        self.exempt.extend(blocks.map(|name| (member, name)));
        self.guard.protect(&self.world, place, kind, key).await;
    }
}

/// What goes wrong.
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

    /// Everything goes wrong now and then.
    fn spoil(&mut self, place: usize) {
        let (links, which) = self.draw_links(place);
        let mut chance = |most: f64| self.dice.f64() * most;
        let plan = FaultPlan {
            conflict: chance(0.1),
            expired: chance(0.1),
            throttled: chance(0.05),
            server_error: chance(0.1),
            lost_answer: chance(0.1),
            cut_watch: chance(0.1),
            latency: ms(0)..ms(self.dice.u64(1..400)),
        };
        self.note(place, &format!("faults between the agent and {which}: {plan:?}"));
        links.iter().for_each(|link| link.plan(plan.clone()));
        self.world.members[place].is_spoiled = true;
        self.mark(place);
    }

    fn cut(&mut self, place: usize) {
        let (links, which) = self.draw_links(place);
        let outage = if self.dice.bool() { Outage::Refused } else { Outage::Silent };
        self.note(place, &format!("{outage:?} between the agent and {which}"));
        links.iter().for_each(|link| link.outage(outage));
        self.world.members[place].is_cut = true;
        self.mark(place);
    }

    fn heal(&mut self, place: usize) {
        self.note(place, "all faults heal");
        let member = &mut self.world.members[place];
        member.hub_link.heal();
        member.own_link.heal();
        (member.is_cut, member.is_spoiled) = (false, false);
        self.mark(place);
    }

    fn kill(&mut self, place: usize) {
        self.note(place, "the agent is killed");
        self.world.kill(place);
        self.mark(place);
    }

    fn start(&mut self, place: usize) {
        if !self.world.members[place].is_running() {
            self.note(place, "the agent starts");
            self.world.start(place);
            self.mark(place);
        }
    }

    /// Takes note of since when a member is well.
    fn mark(&mut self, place: usize) {
        let member = &mut self.world.members[place];
        let unobstructed = member.is_running() && !member.is_cut;
        let since = |well: bool, known: Option<Instant>| well.then(|| known.unwrap_or_else(Instant::now));
        member.unobstructed = since(unobstructed, member.unobstructed);
        member.clean = since(unobstructed && !member.is_spoiled, member.clean);
    }
}
