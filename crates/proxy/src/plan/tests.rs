//! Plans: what they contain, that they change no more than they must, and that the way to them does not matter.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tombolo_api::service::IpFamily;
use tombolo_model::routing::{
    Action, Backend, Balance as Wanted, Claim, Frontend, FrontendKind, Protocol, Reason, Route, Routes, Tier,
};
use tombolo_runtime::Key as ServiceKey;

use super::{Client, Key, Outcome, Plan, Update, Value};
use crate::simulate::{Fate, Origin, Packet, Simulator};

fn backend(last: u8) -> Backend {
    let address = [10, 1, 0, last].into();
    Backend { address, port: 8080, weight: 1, sticky: None, local: false, source: None }
}

fn to(backends: &[Backend]) -> Action {
    let mut backends = backends.to_vec();
    backends.sort();
    backends.dedup();
    Action::Balance(Wanted { backends, tier: Tier::All })
}

fn frontend(kind: FrontendKind, last: u8, port: u16) -> Frontend {
    let address = (kind != FrontendKind::NodePort).then(|| IpAddr::from([10, 96, 0, last]));
    Frontend { kind, family: IpFamily::V4, address, protocol: Protocol::Tcp, port }
}

fn route(kind: FrontendKind, last: u8, action: Action) -> Route {
    Route {
        frontend: frontend(kind, last, 80),
        port_name: String::new(),
        action,
        from_this_node: None,
        masquerade: false,
        allowed_sources: None,
    }
}

fn update(name: &str, routes: Vec<Route>) -> Update {
    let routes = Routes { routes, health_check: None };
    Update { service: ServiceKey::new("default", name), routes, serving: BTreeSet::new() }
}

fn cluster_ip(name: &str, last: u8, backends: &[Backend]) -> Update {
    update(name, vec![route(FrontendKind::ClusterIp, last, to(backends))])
}

fn packet(last: u8) -> Packet {
    Packet {
        source: [10, 1, 9, 9].into(),
        origin: Origin::Elsewhere,
        destination: [10, 96, 0, last].into(),
        to_node: false,
        protocol: Protocol::Tcp,
        port: 80,
    }
}

fn delivered(last: u8, masqueraded: bool) -> Fate {
    Fate::Delivered { to: ([10, 1, 0, last], 8080).into(), masqueraded }
}

/// A plan with its kernel.
#[derive(Default)]
struct World {
    plan: Plan,
    kernel: Simulator,
}

impl World {
    fn update(&mut self, update: Update) -> Outcome {
        let outcome = self.plan.update([update]);
        self.kernel.apply(&outcome.changes).unwrap();
        outcome
    }

    fn fates(&self, packet: &Packet) -> Vec<Fate> {
        let mut fates = self.kernel.fates(packet);
        fates.sort();
        fates
    }
}

#[test]
fn connections_are_spread_by_weight() {
    let mut world = World::default();
    let heavy = Backend { weight: 20, ..backend(1) };
    world.update(cluster_ip("a", 1, &[heavy, Backend { weight: 10, ..backend(2) }]));
    assert_eq!(world.fates(&packet(1)), [delivered(1, false), delivered(1, false), delivered(2, false)]);
    assert_eq!(world.fates(&packet(2)), [Fate::Untouched]);
    assert_eq!(world.fates(&Packet { port: 81, ..packet(1) }), [Fate::Rejected], "no such port");
}

#[test]
fn replacing_an_endpoint_writes_one_element_and_adding_one_writes_two() {
    let mut world = World::default();
    let many: Vec<Backend> = (1..=10).map(backend).collect();
    assert_eq!(world.update(cluster_ip("a", 1, &many)).changes.len(), 12);
    let mut other = many.clone();
    other[3] = backend(99);
    let changes = world.update(cluster_ip("a", 1, &other)).changes;
    assert_eq!((changes.removed().count(), changes.added().count()), (1, 1));
    other.push(backend(100));
    let changes = world.update(cluster_ip("a", 1, &other)).changes;
    assert_eq!(
        (changes.removed().count(), changes.added().count()),
        (1, 2),
        "one slot, and how many there are"
    );
    other.remove(0);
    let changes = world.update(cluster_ip("a", 1, &other)).changes;
    assert_eq!(
        (changes.removed().count(), changes.added().count()),
        (3, 2),
        "the last slot moves into the hole"
    );
    assert!(world.update(cluster_ip("a", 1, &other)).changes.is_empty());
    world.update(update("a", Vec::new()));
    assert!(world.kernel.elements().is_empty());
    assert_eq!(world.plan.services().count(), 0);
}

#[test]
fn refusals_differ_by_how_they_are_told() {
    let mut world = World::default();
    let refused = route(FrontendKind::ClusterIp, 1, Action::Reject(Reason::NoEndpoints));
    world.update(update("a", vec![refused]));
    let dropped = route(FrontendKind::ClusterIp, 2, Action::Drop(Reason::NoLocalInternal));
    world.update(update("b", vec![dropped]));
    assert_eq!(world.fates(&packet(1)), [Fate::Rejected]);
    assert_eq!(world.fates(&packet(2)), [Fate::Dropped]);
}

#[test]
fn connections_from_this_node_have_slots_of_their_own() {
    let mut world = World { kernel: Simulator::new(true), ..World::default() };
    let mut local = route(FrontendKind::LoadBalancer, 1, to(&[backend(1)]));
    local.from_this_node = Some(to(&[backend(1), backend(2)]));
    world.update(update("a", vec![local.clone()]));
    let from = |origin| Packet { origin, ..packet(1) };
    assert_eq!(world.fates(&from(Origin::Elsewhere)), [delivered(1, false)]);
    assert_eq!(world.fates(&from(Origin::Pod)), [delivered(1, false), delivered(2, false)]);
    assert_eq!(world.fates(&from(Origin::Host)), [delivered(1, true), delivered(2, true)]);
    local.action = Action::Drop(Reason::NoLocalExternal);
    world.update(update("a", vec![local]));
    assert_eq!(world.fates(&from(Origin::Elsewhere)), [Fate::Dropped]);
    assert_eq!(world.fates(&from(Origin::Pod)), [delivered(1, false), delivered(2, false)]);
}

#[test]
fn node_ports_take_what_comes_to_the_node() {
    let mut world = World::default();
    let mut port = route(FrontendKind::NodePort, 0, to(&[backend(1)]));
    port.masquerade = true;
    world.update(update("a", vec![port]));
    let node = Packet { destination: [172, 18, 0, 1].into(), to_node: true, ..packet(1) };
    assert_eq!(world.fates(&node), [delivered(1, true)]);
    assert_eq!(world.fates(&Packet { to_node: false, ..node }), [Fate::Untouched]);
    assert_eq!(world.fates(&Packet { destination: [127, 0, 0, 1].into(), ..node }), [Fate::Untouched]);
}

#[test]
fn only_allowed_sources_come_in() {
    let mut world = World::default();
    let guarded = |ranges: &[&str]| {
        let mut route = route(FrontendKind::LoadBalancer, 1, to(&[backend(1)]));
        route.allowed_sources = Some(ranges.iter().map(|range| range.parse().unwrap()).collect());
        update("a", vec![route])
    };
    world.update(guarded(&["192.168.0.0/16", "192.168.7.0/24", "fd00::/8"]));
    let from = |source: [u8; 4]| Packet { source: source.into(), ..packet(1) };
    assert_eq!(world.fates(&from([192, 168, 7, 7])), [delivered(1, false)]);
    assert_eq!(world.fates(&from([10, 0, 0, 1])), [Fate::Dropped]);
    world.update(guarded(&["fd00::/8"]));
    assert_eq!(world.fates(&from([192, 168, 7, 7])), [Fate::Dropped], "ranges of one family close the other");
}

#[test]
fn a_backend_that_is_its_own_client_is_masqueraded() {
    let mut world = World::default();
    let local = Backend { local: true, ..backend(1) };
    world.update(cluster_ip("a", 1, std::slice::from_ref(&local)));
    world.update(cluster_ip("b", 2, std::slice::from_ref(&local)));
    let own = |last| Packet { source: [10, 1, 0, 1].into(), origin: Origin::Pod, ..packet(last) };
    assert_eq!(world.fates(&own(1)), [delivered(1, true)]);
    world.update(update("b", Vec::new()));
    assert_eq!(world.fates(&own(1)), [delivered(1, true)], "another service still wants it");
}

#[test]
fn clients_stick_only_to_sticky_backends_and_never_to_gone_ones() {
    let mut world = World::default();
    let sticky = Backend { sticky: Some(Duration::from_secs(60)), ..backend(1) };
    world.update(cluster_ip("a", 1, &[sticky.clone(), backend(2)]));
    let other = |world: &mut World| (world.kernel.send(&packet(1), 1), world.kernel.send(&packet(1), 1));
    assert_eq!(other(&mut world), (delivered(2, false), delivered(2, false)));
    assert_eq!(world.kernel.send(&packet(1), 0), delivered(1, false));
    assert_eq!(other(&mut world), (delivered(1, false), delivered(1, false)));
    let longer = Backend { sticky: Some(Duration::from_secs(90)), ..sticky };
    world.update(cluster_ip("a", 1, &[longer, backend(2)]));
    assert_eq!(other(&mut world).0, delivered(1, false), "another duration sends nobody away");
    world.update(cluster_ip("a", 1, &[backend(2), backend(3)]));
    assert_ne!(other(&mut world).0, delivered(1, false));
}

#[test]
fn of_two_services_with_one_frontend_the_first_has_it_until_it_goes() {
    let mut world = World::default();
    world.update(cluster_ip("b", 1, &[backend(2)]));
    world.update(cluster_ip("a", 1, &[backend(1)]));
    assert_eq!(world.fates(&packet(1)), [delivered(1, false)]);
    let clashes: Vec<usize> = world.plan.clashes().map(|(_, services)| services.len()).collect();
    assert_eq!(clashes, [2]);
    world.update(update("a", Vec::new()));
    assert_eq!(world.fates(&packet(1)), [delivered(2, false)]);
    assert_eq!(world.plan.clashes().count(), 0);
}

#[test]
fn an_external_address_takes_no_cluster_ip_and_none_of_a_balancer_whatever_its_name() {
    use FrontendKind::{ClusterIp, ExternalIp, LoadBalancer};
    let wants = |name: &str, kind, last| update(name, vec![route(kind, 1, to(&[backend(last)]))]);
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        let mut world = World::default();
        let all = [wants("a", ExternalIp, 1), wants("b", LoadBalancer, 2), wants("c", ClusterIp, 3)];
        order.into_iter().for_each(|place| drop(world.update(all[place].clone())));
        assert_eq!(world.fates(&packet(1)), [delivered(3, false)]);
        world.update(update("c", Vec::new()));
        assert_eq!(world.fates(&packet(1)), [delivered(2, false)]);
        // The same address, and no balancer's any more.
        world.update(wants("b", ExternalIp, 2));
        assert_eq!(world.fates(&packet(1)), [delivered(1, false)]);
        world.update(wants("b", LoadBalancer, 2));
        assert_eq!(world.fates(&packet(1)), [delivered(2, false)]);
    }
}

#[test]
fn udp_flows_end_when_their_server_serves_no_more() {
    let mut plan = Plan::new();
    let udp = |backends: &[Backend], serving: &[u8]| {
        let mut update = cluster_ip("a", 1, backends);
        update.routes.routes[0].frontend.protocol = Protocol::Udp;
        update.serving = serving.iter().map(|last| SocketAddr::from(([10, 1, 0, *last], 8080))).collect();
        update
    };
    plan.update([udp(&[backend(1), backend(2)], &[1, 2])]);
    assert!(
        plan.update([udp(&[backend(1)], &[1, 2])]).gone.is_empty(),
        "not chosen any more, but it still serves"
    );
    let gone = plan.update([udp(&[backend(3)], &[3])]).gone;
    let targets: Vec<SocketAddr> = gone.into_iter().map(|(_, target)| target).collect();
    assert_eq!(
        targets,
        [1, 2].map(|last| SocketAddr::from(([10, 1, 0, last], 8080))),
        "also the one that lingered"
    );
}

#[test]
fn who_comes_from_outside_leaves_a_backend_that_only_this_node_may_reach() {
    let sticky = |last| Backend { sticky: Some(Duration::from_secs(60)), ..backend(last) };
    let mut world = World { kernel: Simulator::new(true), ..World::default() };
    let mut route = route(FrontendKind::LoadBalancer, 1, to(&[sticky(1), sticky(2)]));
    world.update(update("a", vec![route.clone()]));
    assert_eq!(world.kernel.send(&packet(1), 1), delivered(2, false));
    assert_eq!(world.kernel.send(&packet(1), 0), delivered(2, false));
    route.from_this_node = Some(route.action.clone());
    route.action = to(&[sticky(1)]);
    world.update(update("a", vec![route]));
    assert_eq!(world.kernel.send(&packet(1), 0), delivered(1, false));
}

#[test]
fn of_clients_of_an_earlier_proxy_those_stay_that_may() {
    let sticky = |last| Backend { sticky: Some(Duration::from_secs(60)), ..backend(last) };
    let mut local = route(FrontendKind::LoadBalancer, 1, to(&[sticky(1)]));
    local.from_this_node = Some(to(&[sticky(1), sticky(2)]));
    let port = route(FrontendKind::NodePort, 0, to(&[sticky(1)]));
    let mut plan = Plan::new();
    plan.load([update("a", vec![local, port])]);
    let here = ["10.1.9.0/24", "172.18.0.1/32"].map(|range| range.parse().unwrap());
    let may = |source: [u8; 4], address: [u8; 4], last: u8| {
        let frontend =
            Claim { address: Some(address.into()), ..frontend(FrontendKind::ClusterIp, 1, 80).claim() };
        let target = ([10, 1, 0, last], 8080).into();
        plan.stickiness().allows(&Client { source: source.into(), frontend, target }, &here)
    };
    let (lb, node) = ([10, 96, 0, 1], [172, 18, 0, 1]);
    assert!(may([10, 1, 9, 9], lb, 2), "a pod");
    assert!(may([172, 18, 0, 1], lb, 2), "the node itself");
    assert!(!may([192, 0, 2, 1], lb, 2), "who is outside keeps to this node");
    assert!(may([192, 0, 2, 1], lb, 1));
    assert!(may([192, 0, 2, 1], node, 1), "any address has node ports");
    assert!(!may([192, 0, 2, 1], [10, 96, 0, 7], 9), "no such backend any more");
}

#[test]
fn udp_flows_of_an_earlier_proxy_go_if_nobody_serves_them() {
    let udp = |mut route: Route| {
        route.frontend.protocol = Protocol::Udp;
        route
    };
    let mut here_only = route(FrontendKind::LoadBalancer, 3, Action::Drop(Reason::NoLocalExternal));
    here_only.from_this_node = Some(to(&[backend(1)]));
    // A backend at the very address and port of its frontend.
    let own = Backend { address: [10, 96, 0, 4].into(), port: 80, ..backend(0) };
    let routes = vec![
        udp(route(FrontendKind::ClusterIp, 1, to(&[backend(1)]))),
        udp(route(FrontendKind::NodePort, 0, to(&[backend(1)]))),
        udp(here_only),
        udp(route(FrontendKind::ExternalIp, 4, to(&[own]))),
    ];
    let mut plan = Plan::new();
    let serving = [1, 2].map(|last| SocketAddr::from(([10, 1, 0, last], 8080))).into();
    plan.load([Update { serving, ..update("a", routes) }]);
    let ranges = ["10.96.0.0/16".parse().unwrap()];
    let is_gone = |to: [u8; 4], server: ([u8; 4], u16)| {
        let claim =
            Claim { family: IpFamily::V4, address: Some(to.into()), protocol: Protocol::Udp, port: 80 };
        !plan.gone([(claim, server.into())], &ranges).is_empty()
    };
    let (vip, node) = ([10, 96, 0, 1], [172, 18, 0, 1]);
    assert!(!is_gone(vip, ([10, 1, 0, 1], 8080)), "chosen");
    assert!(!is_gone(vip, ([10, 1, 0, 2], 8080)), "not chosen, but it serves");
    assert!(is_gone(vip, ([10, 1, 0, 3], 8080)));
    assert!(is_gone(vip, (vip, 80)), "nobody translated it");
    assert!(is_gone(node, ([10, 1, 0, 3], 8080)), "a node port");
    assert!(!is_gone(node, (node, 80)), "of the node itself");
    assert!(is_gone([10, 96, 0, 3], ([10, 96, 0, 3], 80)), "served for this node only");
    assert!(!is_gone([10, 96, 0, 4], ([10, 96, 0, 4], 80)), "that is its backend");
}

#[test]
fn udp_flows_to_services_that_went_while_no_proxy_ran_go_where_only_services_have_addresses() {
    let ranges = ["10.96.0.0/16".parse().unwrap()];
    let is_gone = |to: [u8; 4], server: [u8; 4]| {
        let claim =
            Claim { family: IpFamily::V4, address: Some(to.into()), protocol: Protocol::Udp, port: 53 };
        !Plan::new().gone([(claim, (server, 53).into())], &ranges).is_empty()
    };
    assert!(is_gone([10, 96, 0, 9], [10, 1, 0, 1]));
    assert!(!is_gone([10, 96, 0, 9], [10, 96, 0, 9]), "it leads nowhere, as it should");
    assert!(!is_gone([192, 0, 2, 9], [10, 1, 0, 1]), "somebody else translates that");
}

#[test]
fn a_service_with_a_hundred_thousand_endpoints_changes_one_slot_at_a_time() {
    let mut plan = Plan::new();
    let many: Vec<Backend> = (0..100_000_u32)
        .map(|number| Backend {
            address: std::net::Ipv4Addr::from(0x0a01_0000 + number).into(),
            ..backend(0)
        })
        .collect();
    plan.update([cluster_ip("a", 1, &many)]);
    let changes = plan.update([cluster_ip("a", 1, &many[1..])]).changes;
    assert_eq!(changes.len(), 3);
}

/// Random Services over few addresses, so that they clash and share.
fn random_update(random: &mut fastrand::Rng) -> Update {
    let name = ["a", "b", "c", "d"][random.usize(..4)];
    let routes = (0..random.usize(..4)).map(|_| random_route(random)).collect::<Vec<_>>();
    let mut seen = BTreeSet::new();
    let routes = routes.into_iter().filter(|route| seen.insert(route.frontend.claim())).collect();
    let serving = (1..7).filter(|_| random.bool()).map(|last| SocketAddr::from(([10, 1, 0, last], 8080)));
    Update { serving: serving.collect(), ..update(name, routes) }
}

fn random_route(random: &mut fastrand::Rng) -> Route {
    let kinds = [FrontendKind::ClusterIp, FrontendKind::LoadBalancer, FrontendKind::NodePort];
    let kind = kinds[random.usize(..3)];
    let mut route = route(kind, random.u8(1..4), random_action(random));
    route.frontend.protocol = [Protocol::Tcp, Protocol::Udp][random.usize(..2)];
    route.masquerade = random.bool();
    route.from_this_node = random.bool().then(|| random_action(random));
    if kind == FrontendKind::LoadBalancer && random.bool() {
        let range = |random: &mut fastrand::Rng| format!("10.{}.0.0/{}", random.u8(..3), random.u8(8..17));
        let ranges = (0..random.usize(..3)).map(|_| range(random).parse().unwrap());
        route.allowed_sources = Some(ranges.collect());
    }
    route
}

fn random_action(random: &mut fastrand::Rng) -> Action {
    let backends: Vec<Backend> = (0..random.usize(..5))
        .map(|_| {
            let last = random.u8(1..7);
            let sticky = (last > 4).then(|| Duration::from_secs(u64::from(last)));
            Backend { weight: u32::from(last % 3 + 1), local: last < 3, sticky, ..backend(last) }
        })
        .collect();
    match (backends.is_empty(), random.bool()) {
        (true, true) => Action::Reject(Reason::NoEndpoints),
        (true, false) => Action::Drop(Reason::NoLocalInternal),
        _ => to(&backends),
    }
}

/// All that can be asked about these addresses.
fn fates(kernel: &Simulator) -> Vec<Vec<Fate>> {
    let mut all = Vec::new();
    for origin in [Origin::Elsewhere, Origin::Pod, Origin::Host] {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            for source in [[10, 1, 0, 1], [10, 2, 0, 1]] {
                for last in 0..4 {
                    let to_node = last == 0;
                    let packet = Packet { origin, protocol, source: source.into(), to_node, ..packet(last) };
                    let mut found = kernel.fates(&packet);
                    found.sort();
                    all.push(found);
                }
            }
        }
    }
    all
}

/// Slots may be in any order; everything else is the same.
fn unordered(kernel: &Simulator) -> Vec<(Key, Option<Value>)> {
    let blur = |(key, value): (&Key, &Value)| match key {
        Key::Slot(..) => (*key, None),
        _ => (*key, Some(*value)),
    };
    kernel.elements().iter().map(blur).collect()
}

fn check_sequence(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = World { kernel: Simulator::new(true), ..World::default() };
    let mut flows: BTreeSet<(Claim, SocketAddr)> = BTreeSet::new();
    for step in 0..random.usize(2..12) {
        let outcome = world.update(random_update(&mut random));
        flows.extend(super::datagrams(world.kernel.elements()));
        flows.retain(|flow| !outcome.gone.contains(flow));
        assert!(
            world.plan.gone(flows.iter().copied(), &[]).is_empty(),
            "seed {seed}, step {step}: step by step as much is forgotten as at once"
        );
        let slots: BTreeSet<(Claim, u32)> = world.kernel.elements().keys().filter_map(slot).collect();
        for (claim, slot) in &slots {
            let first = *slot == 0 || *slot == super::FROM_HERE;
            assert!(
                first || slots.contains(&(*claim, slot - 1)),
                "seed {seed}, step {step}: a hole before {slot}"
            );
        }
    }
    let mut fresh = World { kernel: Simulator::new(true), ..World::default() };
    let all: Vec<(ServiceKey, Routes)> =
        world.plan.services().map(|(service, routes)| (service.clone(), routes.clone())).collect();
    for (service, routes) in all {
        fresh.update(Update { service, routes, serving: BTreeSet::new() });
    }
    assert_eq!(fates(&world.kernel), fates(&fresh.kernel), "seed {seed}");
    assert_eq!(unordered(&world.kernel), unordered(&fresh.kernel), "seed {seed}");
}

fn slot(key: &Key) -> Option<(Claim, u32)> {
    match key {
        Key::Slot(claim, slot) => Some((*claim, *slot)),
        _ => None,
    }
}

#[test]
fn after_ten_thousand_random_sequences_the_result_is_that_of_a_fresh_build() {
    (0..10_000).for_each(check_sequence);
}
