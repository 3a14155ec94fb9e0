//! Whose addresses and ports are whose.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::invalid::Problem;

#[test]
fn a_taken_address_is_refused_and_leaves_no_trace() {
    let mut pool = Addresses::new(single_stack());
    let gates = Features::default();
    write(&mut pool, None, json!({"ports": one_port(), "clusterIP": "10.0.0.5"}), &gates).expect("good");
    let before = format!("{pool:?}");
    let wrong = write(&mut pool, None, json!({"ports": one_port(), "clusterIP": "10.0.0.5"}), &gates);
    assert_eq!(
        wrong.expect_err("taken"),
        [
            "spec.clusterIPs: Invalid value: [\"10.0.0.5\"]: failed to allocate IP 10.0.0.5: provided IP is already \
             allocated",
        ]
    );
    assert_eq!(format!("{pool:?}"), before);
}

#[test]
fn a_full_range_says_so() {
    let network =
        Network { service_cidrs: vec!["10.0.0.0/30".parse().expect("a network")], node_ports: 30000..=30000 };
    let mut pool = Addresses::new(network);
    let gates = Features::default();
    let node_port = json!({"type": "NodePort", "ports": one_port()});
    let first = write(&mut pool, None, node_port.clone(), &gates).expect("room for one");
    assert_eq!(first["spec"]["clusterIP"], "10.0.0.2", "the first address is the kubernetes service's");
    let full = write(&mut pool, None, json!({"ports": one_port()}), &gates).expect_err("no room");
    assert_eq!(
        full,
        [
            "spec.clusterIPs: Internal error: failed to allocate a serviceIP for Service \"web\": range is full"
        ]
    );
    let kubernetes = json!({"ports": one_port(), "clusterIP": "10.0.0.1"});
    assert!(write(&mut pool, None, kubernetes, &gates).is_ok());
    release(&mut pool, &first);
    assert!(write(&mut pool, None, node_port, &gates).is_ok());
}

#[test]
fn reasons_that_are_nobodys_mistake_are_internal() {
    let network =
        Network { service_cidrs: vec!["10.0.0.0/31".parse().expect("a network")], node_ports: 1..=1 };
    let mut service = object(json!({"type": "ClusterIP", "ipFamilies": ["IPv4"]}));
    let wrong = allocate(&mut Addresses::new(network), None, &mut service, &mut lowest).expect_err("full");
    assert_eq!(wrong[0].problem, Problem::Internal);
}

/// One thing that happens to the pool.
#[derive(Clone, Debug)]
enum Step {
    Create { kind: &'static str, ip: Option<u8>, node_port: Option<u16>, local: bool },
    Change { which: usize, kind: &'static str, node_port: Option<u16>, local: bool },
    Delete { which: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = || prop::sample::select(vec!["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]);
    let port = || prop::option::of(29998u16..30012);
    let create = (kind(), prop::option::of(any::<u8>()), port(), any::<bool>())
        .prop_map(|(kind, ip, node_port, local)| Step::Create { kind, ip, node_port, local });
    let change = (any::<usize>(), kind(), port(), any::<bool>())
        .prop_map(|(which, kind, node_port, local)| Step::Change { which, kind, node_port, local });
    let delete = any::<usize>().prop_map(|which| Step::Delete { which });
    prop::collection::vec(prop_oneof![3 => create, 2 => change, 1 => delete], 1..40)
}

fn requested(kind: &str, ip: Option<u8>, node_port: Option<u16>, local: bool) -> Value {
    let mut spec = json!({"type": kind, "ports": [{"port": 80}]});
    let uses_ports = matches!(kind, "NodePort" | "LoadBalancer");
    if kind == "ExternalName" {
        return json!({"type": kind, "externalName": "a.example.com", "ports": [{"port": 80}]});
    }
    if let Some(ip) = ip {
        spec["clusterIP"] = format!("10.0.0.{ip}").into();
    }
    if let (true, Some(port)) = (uses_ports, node_port) {
        spec["ports"][0]["nodePort"] = port.into();
    }
    if uses_ports && local {
        spec["externalTrafficPolicy"] = "Local".into();
    }
    spec
}

proptest! {
    /// Whatever happens: no address is held twice, the pool holds exactly what the services hold, and a refused write
    /// changes nothing.
    #[test]
    fn the_pool_is_what_the_services_hold(steps in steps(), seed in any::<u64>()) {
        let network = Network { service_cidrs: vec!["10.0.0.0/27".parse().expect("a network")], node_ports: 30000..=30009 };
        let mut pool = Addresses::new(network.clone());
        let mut services: Vec<Value> = Vec::new();
        let mut state = seed;
        for step in steps {
            let (old, spec) = match step {
                Step::Delete { which } => {
                    if !services.is_empty() {
                        let gone = services.swap_remove(which % services.len());
                        release(&mut pool, &gone);
                    }
                    continue;
                }
                Step::Create { kind, ip, node_port, local } => (None, requested(kind, ip, node_port, local)),
                Step::Change { which, kind, node_port, local } => {
                    if services.is_empty() { continue; }
                    (Some(which % services.len()), requested(kind, None, node_port, local))
                }
            };
            let before = format!("{pool:?}");
            let stored = old.map(|index| services[index].clone());
            let mut new = object(spec);
            let gates = Features::default();
            default(&mut new, &gates);
            let prepared = match &stored {
                None => prepare_create(&mut new, &gates, &network),
                Some(stored) => prepare_update(stored, &mut new, &gates, &network),
            };
            let unallocated = new.clone();
            let mut pick = |bound: u64| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) % bound
            };
            if prepared.is_err() || !validate(&new, stored.as_ref()).is_empty() {
                prop_assert_eq!(format!("{pool:?}"), before);
                continue;
            }
            match allocate(&mut pool, stored.as_ref(), &mut new, &mut pick) {
                Err(_) => {
                    prop_assert_eq!(format!("{pool:?}"), before);
                    prop_assert_eq!(&new, &unallocated);
                }
                Ok(()) => {
                    prop_assert!(validate(&new, stored.as_ref()).is_empty(), "what is chosen is valid");
                    match old {
                        None => services.push(new),
                        Some(index) => services[index] = new,
                    }
                }
            }
            let mut ips: Vec<_> = services.iter().filter(|one| needs_cluster_ip(one)).flat_map(parsed_ips).collect();
            let count = ips.len();
            ips.sort_unstable();
            ips.dedup();
            prop_assert_eq!(ips.len(), count, "no address twice");
            let mut ports: Vec<_> = services.iter().flat_map(node_ports).collect();
            let health = services.iter().filter(|one| needs_health_check(one));
            ports.extend(health.map(|one| field::number(one, "spec.healthCheckNodePort")));
            let count = ports.len();
            ports.sort_unstable();
            ports.dedup();
            prop_assert_eq!(ports.len(), count, "no port twice");
            let mut rebuilt = Addresses::new(network.clone());
            services.iter().for_each(|service| rebuilt.adopt(service));
            prop_assert_eq!(format!("{rebuilt:?}"), format!("{pool:?}"));
        }
    }
}
