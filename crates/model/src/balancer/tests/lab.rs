//! A provider without a cluster: Services as values, looked at one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};
use tombolo_api::loadbalancer::{self, Profile, Service};
use tombolo_api::tombolo::{AddressPool, ServiceRef};

use crate::balancer::{Around, Capabilities, Decision, Ledger, Pools, decide};

/// The first second of every test.
pub(super) const START: i64 = 1_000;

/// A LoadBalancer Service default/web for port 80, with a spec of which these fields differ.
pub(super) fn service(spec: Value) -> Service {
    named("web", spec)
}

pub(super) fn named(name: &str, spec: Value) -> Service {
    let mut object = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid of {name}")},
        "spec": {
            "type": "LoadBalancer", "ipFamilies": ["IPv4"], "clusterIP": "10.96.0.1",
            "ports": [{"port": 80, "protocol": "TCP"}], "externalTrafficPolicy": "Cluster",
            "sessionAffinity": "None", "allocateLoadBalancerNodePorts": true,
        },
    });
    merge(&mut object["spec"], spec);
    serde_json::from_value(object).unwrap()
}

pub(super) fn annotated(mut service: Service, key: &str, value: &str) -> Service {
    service.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    service
}

/// Changes the spec as a user would.
pub(super) fn edit(service: &mut Service, spec: Value) {
    let mut object = serde_json::to_value(&*service).unwrap();
    merge(&mut object["spec"], spec);
    *service = serde_json::from_value(object).unwrap();
}

fn merge(target: &mut Value, changes: Value) {
    for (key, value) in changes.as_object().unwrap() {
        target[key] = value.clone();
    }
}

pub(super) fn pool(name: &str, spec: Value) -> AddressPool {
    let spec = if spec.is_array() { json!({ "addresses": spec }) } else { spec };
    serde_json::from_value(json!({
        "apiVersion": "tombolo.dev/v1alpha1", "kind": "AddressPool",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec,
    }))
    .unwrap()
}

pub(super) fn owner(name: &str) -> ServiceRef {
    ServiceRef { namespace: "default".into(), name: name.into() }
}

/// A provider and its clock.
pub(super) struct Bench {
    pub(super) capabilities: Capabilities,
    pub(super) ledger: Ledger,
    pub(super) second: i64,
    pub(super) built: Option<String>,
    pub(super) announcing: bool,
    pub(super) nodes: BTreeSet<IpAddr>,
}

impl Bench {
    /// With a pool of both families.
    pub(super) fn new(profile: Profile) -> Bench {
        Bench::with_pools(profile, &[pool("main", json!(["192.0.2.0/30", "2001:db8::/126"]))])
    }

    pub(super) fn with_pools(profile: Profile, pools: &[AddressPool]) -> Bench {
        let capabilities = Capabilities::from(profile);
        let mut ledger = Ledger::new(capabilities.most_addresses);
        ledger.set_pools(Pools::read(pools).0);
        Bench { capabilities, ledger, second: START, built: None, announcing: true, nodes: BTreeSet::new() }
    }

    /// Looks at the Service, writes what is decided into it, and lets a second pass.
    pub(super) fn look(&mut self, service: &mut Service) -> Decision {
        let decision = self.look_at_once(service);
        self.second += 1;
        decision
    }

    pub(super) fn look_at_once(&mut self, service: &mut Service) -> Decision {
        let labels = BTreeMap::new();
        let around = Around {
            capabilities: &self.capabilities,
            class: None,
            namespace_labels: &labels,
            built: self.built.as_deref(),
            unannounced: (!self.announcing).then_some("no node announces addresses"),
            nodes: &self.nodes,
        };
        let decision = decide(service, &mut self.ledger, &around);
        *service = decision.apply(service, Timestamp::from_second(self.second).unwrap());
        decision
    }

    /// Waits for the slow step that the last decision asks for, and looks again.
    pub(super) fn finish(&mut self, service: &mut Service, decision: Decision) -> Decision {
        self.built = Some(decision.building.expect("a slow step"));
        self.look(service)
    }
}

pub(super) fn condition(service: &Service, kind: loadbalancer::Condition) -> Option<&Condition> {
    service.conditions().iter().find(|condition| condition.type_ == kind.as_str())
}

/// The three conditions in short: `P=False/Complete S=True/Serving`, and `D=…` where it is there.
pub(super) fn said(service: &Service) -> String {
    use loadbalancer::Condition::{Degraded, Provisioning, Serving};
    let short = |letter: &str, kind| {
        condition(service, kind)
            .map(|condition| format!("{letter}={}/{}", condition.status, condition.reason))
    };
    let all = [short("P", Provisioning), short("S", Serving), short("D", Degraded)];
    all.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The transition times of `Provisioning` and `Serving`, in seconds since the start.
pub(super) fn times(service: &Service) -> (i64, i64) {
    use loadbalancer::Condition::{Provisioning, Serving};
    let since = |kind| condition(service, kind).unwrap().last_transition_time.0.as_second() - START;
    (since(Provisioning), since(Serving))
}

/// The addresses in the status.
pub(super) fn ingress(service: &Service) -> Vec<&str> {
    service.ingress().iter().filter_map(|entry| entry.ip.as_deref()).collect()
}

pub(super) const NORMAL: &str = "P=False/Complete S=True/Serving";
pub(super) const REFUSED: &str = "P=False/Complete S=False/Unsupported";
pub(super) const FAILED: &str = "P=False/Complete S=False/Infrastructure";
