//! Plans of MultiClusterServices: who gets what, and what is said about it.

mod balancer;
mod conditions;
mod properties;
mod refusals;
mod reports;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use proptest::prelude::*;
use serde_json::{Value, from_value, json};
use tombolo_api::condition::{Desired, Status, Stored as _};
use tombolo_api::karmada::networking::{COLLECTED_CONDITION, MultiClusterService};
use tombolo_api::karmada::work::{Work, WorkStatus};

use super::*;
use crate::testing::{at, id, service};

/// A MultiClusterService demo/foo, the Service, and what members have reported and confirmed.
struct World {
    object: MultiClusterService,
    template: Option<Service>,
    members: BTreeMap<ClusterId, Member>,
    works: Vec<Work>,
    unwritten: Unwritten,
}

impl World {
    fn new(spec: Value) -> Self {
        let mut full = json!({"types": ["CrossCluster"]});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object = from_value(json!({
            "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
            "metadata": {"name": "foo", "namespace": "demo", "generation": 3}, "spec": full,
        }));
        let template = from_value(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "foo", "namespace": "demo", "labels": {"app": "foo"}, "uid": "u", "annotations":
                {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"}},
            "spec": {"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "selector": {"app": "foo"}, "type": "NodePort",
                "ports": [{"name": "http", "port": 80, "nodePort": 30000}, {"name": "admin", "port": 81}]},
        }));
        let world = Self {
            object: object.unwrap(),
            template: template.unwrap(),
            members: BTreeMap::new(),
            works: vec![],
            unwritten: Unwritten::new(),
        };
        world.with(&["member1", "member2", "member3"], true)
    }

    fn with(mut self, names: &[&str], ready: bool) -> Self {
        for name in names {
            self.members.insert(id(name), Member { ready, settled: ready, declared: Declared::Nothing });
        }
        self
    }

    /// What a cluster reports of one of its slices.
    fn reports(mut self, cluster: &str, slice: &str, generation: i64) -> Self {
        let slice = slice_of(slice, generation);
        let (cluster, service) = (id(cluster), service("demo", "foo"));
        let collection = Collection { cluster: &cluster, service: &service, declared: &Declared::Nothing };
        self.works.push(collect(&collection, &slice).unwrap().0);
        self
    }

    fn plan(&self) -> Plan {
        let works: Vec<&Work> = self.works.iter().collect();
        plan(&View {
            object: &self.object,
            template: self.template.as_ref(),
            members: &self.members,
            works: &works,
            limits: &Limits::default(),
            unwritten: &self.unwritten,
        })
    }

    /// Writes what is planned, as a hub and its members would, each with these conditions.
    fn settled(mut self, conditions: &[(&str, Status)]) -> Self {
        let plan = self.plan();
        self.works.retain(|work| plan.keep.contains(&place(work)));
        for mut work in plan.works.into_values() {
            work.metadata.generation = Some(1);
            let said = conditions.iter().map(|(type_, status)| {
                let desired = Desired::new(type_, *status, "Reason", "out of order.").observed(Some(1));
                Condition::build(desired, at(1))
            });
            work.status = Some(WorkStatus { conditions: said.collect(), ..WorkStatus::default() });
            self.works.push(work);
        }
        self
    }

    /// (cluster, kind, source) of everything planned.
    fn sent(&self) -> BTreeSet<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = self.plan().works.into_iter().map(|((namespace, _), work)| {
            let manifest = work.spec.workload.unwrap().manifests.remove(0);
            let source = &manifest["metadata"]["annotations"]["endpointslice.karmada.io/provision-cluster"];
            (namespace.trim_start_matches("karmada-es-").to_owned(), text(&manifest["kind"]), text(source))
        });
        all.collect()
    }

    fn said(&self) -> Vec<(String, String, String)> {
        let all = self.plan().conditions.into_iter();
        all.map(|one| (format!("{}={}", one.type_, one.status), one.reason, one.message)).collect()
    }
}

fn slice_of(name: &str, generation: i64) -> EndpointSlice {
    from_value(json!({
        "metadata": {"name": name, "namespace": "demo", "generation": generation, "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"kubernetes.io/service-name": "foo"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.0.1"], "nodeName": "n", "conditions": {"ready": true},
            "hints": {"forZones": [{"name": "z"}]}, "targetRef": {"kind": "Pod", "name": "p"}}],
        "ports": [{"name": "http", "port": 8080}, {"name": "admin", "port": 8081}],
    }))
    .unwrap()
}

fn check(world: &World, expected: &[(&str, &str, &str)]) {
    let expected: BTreeSet<_> =
        expected.iter().map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string())).collect();
    assert_eq!(world.sent(), expected);
}

const SERVICE: &str = "Service";
const SLICE: &str = "EndpointSlice";
