//! Many clusters and many services: what a change costs, and that heartbeats cost nothing.
//!
//! The members have no agent; the hub reaches into them and runs there what an agent would. So everything is in one
//! process, and what is counted are writes, which do not depend on the machine.

#![allow(clippy::print_stdout, reason = "a person reads the figures")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use serde_json::{from_value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tombolo_api::condition;
use tombolo_api::karmada::networking::MultiClusterService;
use tombolo_api::karmada::work::Work;
use tombolo_hub::PushMember;
use tombolo_runtime::{Cache, follow};
use tombolo_testkit::{Cluster, embedded_only};

use crate::fleet::{Fleet, NAMESPACE, cluster, empty_cluster};

/// Long enough for every member to be heard several times.
const IDLE: Duration = Duration::from_secs(30);

/// How large a run is.
#[derive(Clone, Copy)]
struct Size {
    clusters: usize,
    services: usize,
    changes: usize,
}

/// What came out.
#[derive(Debug)]
struct Figures {
    works: usize,
    /// From the start of the hub until every cluster has confirmed everything.
    shared_in: Duration,
    /// Looks at services, and writes of Works and MultiClusterServices, while only hearts beat.
    idle: (u64, u64),
    /// Writes of Works and MultiClusterServices per change of a slice.
    writes: Vec<u64>,
    /// From a change of a slice until the last consumer has it.
    took: Vec<Duration>,
}

struct Large {
    size: Size,
    fleet: Fleet,
    members: Vec<Cluster>,
    objects: Arc<Cache<MultiClusterService>>,
    works: Arc<Cache<Work>>,
    written: Arc<AtomicU64>,
    _observers: JoinSet<()>,
}

impl Large {
    async fn new(size: Size) -> Self {
        let mut fleet = Fleet::with(cluster("hub", 1), Vec::new());
        let members: Vec<Cluster> =
            (0..size.clusters).map(|place| empty_cluster(&member_name(place), 2 + place as u64)).collect();
        let pushed = members.iter().enumerate().map(|(place, member)| PushMember {
            cluster: member_name(place).parse().unwrap(),
            client: member.client(),
            create_namespaces: false,
        });
        fleet.push = pushed.collect();
        let (objects, works) = (Cache::new(), Cache::new());
        let written = Arc::new(AtomicU64::new(0));
        let (count, also) = (written.clone(), written.clone());
        objects.listen_to_changes(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        works.listen_to_changes(move |_| {
            also.fetch_add(1, Ordering::Relaxed);
        });
        let (mut observers, client) = (JoinSet::new(), fleet.hub.client());
        observers.spawn(follow(objects.clone(), Api::all(client.clone()), watcher::Config::default()));
        observers.spawn(follow(works.clone(), Api::all(client), watcher::Config::default()));
        Self { size, fleet, members, objects, works, written, _observers: observers }
    }

    /// Every service is provided by one cluster, one after the other, and consumed by all.
    async fn fill(&self) {
        let hub = self.fleet.hub.client();
        for which in 0..self.size.services {
            self.set_endpoint(which, 1).await;
            let service: Service = from_value(json!({
                "metadata": {"name": service_name(which)},
                "spec": {"ports": [{"port": 80, "targetPort": 8080}], "selector": {"app": service_name(which)}},
            }))
            .unwrap();
            let services: Api<Service> = Api::namespaced(hub.clone(), NAMESPACE);
            services.create(&PostParams::default(), &service).await.unwrap();
            let object: MultiClusterService = from_value(json!({
                "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
                "metadata": {"name": service_name(which)},
                "spec": {"types": ["CrossCluster"],
                    "serviceProvisionClusters": [member_name(self.provider(which))]},
            }))
            .unwrap();
            let objects: Api<MultiClusterService> = Api::namespaced(hub.clone(), NAMESPACE);
            objects.create(&PostParams::default(), &object).await.unwrap();
        }
    }

    fn provider(&self, which: usize) -> usize {
        which % self.size.clusters
    }

    async fn set_endpoint(&self, which: usize, last: usize) {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("{}-abc", service_name(which)),
                "labels": {"kubernetes.io/service-name": service_name(which)}},
            "addressType": "IPv4", "endpoints": [{"addresses": [address(which, last)]}],
            "ports": [{"port": 8080, "protocol": "TCP"}],
        });
        let client = self.members[self.provider(which)].client();
        let slices: Api<EndpointSlice> = Api::namespaced(client, NAMESPACE);
        let name = slice["metadata"]["name"].as_str().unwrap();
        slices.patch(name, &PatchParams::apply("test"), &Patch::Apply(&slice)).await.unwrap();
    }

    fn is_shared(&self) -> bool {
        let objects = self.objects.all();
        objects.len() == self.size.services
            && objects.iter().all(|object| {
                let conditions = object.status.as_ref().map(|status| status.conditions.clone());
                let conditions = conditions.unwrap_or_default();
                conditions.len() == 3
                    && conditions.iter().all(|one| condition::is_true(&conditions, &one.type_))
            })
            && self.works.all().len() == self.size.services * 2 * self.size.clusters
    }

    async fn has(&self, place: usize, which: usize, last: usize) -> bool {
        let slices: Api<EndpointSlice> = Api::namespaced(self.members[place].client(), NAMESPACE);
        let label = format!("kubernetes.io/service-name={}", service_name(which));
        let found = slices.list(&ListParams::default().labels(&label)).await.unwrap();
        let endpoints = found.items.into_iter().flat_map(|slice| slice.endpoints.unwrap_or_default());
        endpoints.into_iter().any(|endpoint| endpoint.addresses == [address(which, last)])
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Waits until nothing has been written, and the hub has looked at nothing, for a while.
    async fn rest(&self) {
        let mut before = None;
        loop {
            let now = (self.written(), self.fleet.metrics.service_reconciles());
            if before.replace(now) == Some(now) {
                return;
            }
            sleep(Duration::from_secs(2)).await;
        }
    }

    async fn change(&self, which: usize) -> (u64, Duration) {
        let (before, start) = (self.written(), Instant::now());
        self.set_endpoint(which, 2).await;
        for place in 0..self.size.clusters {
            while !self.has(place, which, 2).await {
                sleep(Duration::from_millis(1)).await;
            }
        }
        let took = start.elapsed();
        self.rest().await;
        (self.written() - before, took)
    }
}

fn member_name(place: usize) -> String {
    format!("member{place}")
}

fn service_name(which: usize) -> String {
    format!("service-{which}")
}

fn address(which: usize, last: usize) -> String {
    format!("10.{}.{}.{last}", which / 250, which % 250)
}

async fn measure(size: Size) -> Figures {
    let mut large = Large::new(size).await;
    large.fill().await;
    let start = Instant::now();
    large.fleet.start_hub();
    while !large.is_shared() {
        sleep(Duration::from_millis(200)).await;
    }
    let shared_in = start.elapsed();
    large.rest().await;
    let (reconciles, written) = (large.fleet.metrics.service_reconciles(), large.written());
    sleep(IDLE).await;
    let idle = (large.fleet.metrics.service_reconciles() - reconciles, large.written() - written);
    let (mut writes, mut took) = (Vec::new(), Vec::new());
    for which in 0..size.changes {
        let (count, time) = large.change(which).await;
        writes.push(count);
        took.push(time);
    }
    took.sort();
    Figures { works: large.works.all().len(), shared_in, idle, writes, took }
}

#[tokio::test(start_paused = true)]
async fn a_change_costs_one_write_per_consumer_and_heartbeats_none() {
    embedded_only!("nine API servers");
    let size = Size { clusters: 8, services: 12, changes: 4 };
    let figures = measure(size).await;
    assert_eq!(figures.idle, (0, 0), "nothing is looked at and nothing is written while only hearts beat");
    let consumers = size.clusters as u64 - 1;
    assert!(figures.writes.iter().all(|writes| *writes <= consumers + 2), "{figures:?}");
}

fn number(variable: &str) -> usize {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is set")).parse().unwrap()
}

#[test]
#[ignore = "takes CLUSTERS, SERVICES and CHANGES: cargo xtask bench works"]
fn large() {
    let size =
        Size { clusters: number("CLUSTERS"), services: number("SERVICES"), changes: number("CHANGES") };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let Figures { works, shared_in, idle, writes, took } = runtime.block_on(measure(size));
    let part = |share: usize| took.get((took.len() * share / 100).min(took.len() - 1)).unwrap();
    println!("{} clusters, {} services: {works} Works", size.clusters, size.services);
    println!("everything is shared and confirmed after {shared_in:.1?}");
    println!("in {IDLE:?} of heartbeats: {} looks at services, {} writes", idle.0, idle.1);
    println!("writes per change: {writes:?}, consumers: {}", size.clusters - 1);
    println!("change to the last consumer: p50 {:.1?}, p90 {:.1?}", part(50), part(90));
}
