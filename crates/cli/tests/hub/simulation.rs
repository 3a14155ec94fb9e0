//! Everything at once, drawn from a seed: endpoints that change, agents and hubs that die, links that fail. When it is
//! over, every cluster has what it should, nothing foreign has changed, and nothing is left after the end.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::DeleteParams;
use serde_json::json;
use tombolo_testkit::{FaultPlan, Outage};

use crate::fleet::{Fleet, NAMESPACE, apply, eventually, template};

const SEEDS: std::ops::Range<u64> = 0..6;
const STEPS: u8 = 40;

fn trouble() -> FaultPlan {
    FaultPlan {
        latency: Duration::ZERO..Duration::from_millis(50),
        conflict: 0.05,
        expired: 0.02,
        throttled: 0.02,
        server_error: 0.05,
        lost_answer: 0.05,
        cut_watch: 0.05,
        ..FaultPlan::default()
    }
}

/// What is going on, and what should come of it.
struct Simulation {
    seed: u64,
    dice: fastrand::Rng,
    fleet: Fleet,
    /// The endpoint that each member has.
    endpoints: Vec<Option<String>>,
    shared: bool,
}

impl Simulation {
    async fn new(seed: u64) -> Self {
        let fleet = Fleet::of(3).await;
        fleet.share(json!({})).await;
        for member in &fleet.members {
            member.link.plan(trouble());
        }
        fleet.link.plan(trouble());
        let endpoints = vec![None; fleet.members.len()];
        Self { seed, dice: fastrand::Rng::with_seed(seed), fleet, endpoints, shared: true }
    }

    async fn step(&mut self, step: u8) {
        let place = self.dice.usize(..self.fleet.members.len());
        match self.dice.u8(..10) {
            0..=3 => {
                let address = format!("10.{}.0.{}", place + 1, step + 1);
                self.fleet.members[place].endpoints(&[&address]).await;
                self.endpoints[place] = Some(address);
            }
            4 if self.endpoints[place].take().is_some() => {
                let slices = self.fleet.members[place].api::<EndpointSlice>();
                slices.delete("foo-abc", &DeleteParams::default()).await.unwrap();
            }
            5 => self.fleet.restart(place, |_| {}),
            6 => {
                let outage = *self.dice.choice(&[Outage::None, Outage::Refused, Outage::Silent]).unwrap();
                self.fleet.members[place].link.outage(outage);
            }
            7 => {
                self.fleet.kill_hub();
                self.fleet.start_hub();
            }
            8 => self.toggle().await,
            _ => tokio::time::sleep(Duration::from_secs(self.dice.u64(..60))).await,
        }
        tokio::time::sleep(Duration::from_millis(self.dice.u64(..2000))).await;
    }

    /// Takes the service back, or shares it again.
    async fn toggle(&mut self) {
        match self.fleet.object().await {
            Some(object) if object.metadata.deletion_timestamp.is_none() => {
                self.fleet.delete_object().await;
                self.shared = false;
            }
            Some(_) => {}
            None => {
                self.fleet.share(json!({})).await;
                self.shared = true;
            }
        }
    }

    async fn settle(&mut self) {
        for member in &self.fleet.members {
            member.link.heal();
        }
        self.fleet.link.heal();
        if !self.shared {
            eventually("the deletion is over", || async { self.fleet.object().await.is_none() }).await;
            self.fleet.share(json!({})).await;
        }
        let mut expected: Vec<String> = self.endpoints.iter().flatten().cloned().collect();
        expected.sort();
        for (place, member) in self.fleet.members.iter().enumerate() {
            let what = format!("seed {}: member{} reaches {expected:?}", self.seed, place + 1);
            eventually(&what, || async { member.reached().await == expected }).await;
        }
        let what = format!("seed {}: the conditions are true", self.seed);
        eventually(&what, || async { self.fleet.all_true().await }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_every_cluster_has_in_the_end_what_it_should() {
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed).await;
        let member3 = simulation.fleet.members[2].cluster.client();
        let mut own = template();
        own["metadata"]["name"] = json!("own");
        apply::<Service>(&member3, NAMESPACE, &own).await;
        let foreign = kube::Api::<Service>::namespaced(member3, NAMESPACE);
        let before = foreign.get("own").await.unwrap();
        for step in 0..STEPS {
            simulation.step(step).await;
        }
        simulation.settle().await;
        assert_eq!(foreign.get("own").await.unwrap(), before, "seed {seed}: nothing foreign changes");
        let fleet = &simulation.fleet;
        fleet.delete_object().await;
        for member in &fleet.members {
            let what = format!("seed {seed}: nothing is left");
            eventually(&what, || async {
                member.imported().await.is_empty() && member.service().await.is_none()
            })
            .await;
        }
        eventually("nor at the hub", || async { fleet.works().await.is_empty() }).await;
    }
}
