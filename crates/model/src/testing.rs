//! Builders for the tests of this crate: what matters in a test is written there, all else is as usual.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use tombolo_api::service::{InternalTrafficPolicy, IpFamily, Protocol, ServicePort, SessionAffinity};
use tombolo_api::tombolo::{Dialect, OfferType, ServiceOffer, ServiceOfferSpec, ServiceRef, Tier};

use crate::cluster::ClusterId;
use crate::names;
use crate::offer::affinity_config;

pub(crate) fn id(text: &str) -> ClusterId {
    text.parse().unwrap()
}

pub(crate) fn service(namespace: &str, name: &str) -> ServiceRef {
    ServiceRef { namespace: namespace.into(), name: name.into() }
}

pub(crate) fn echo() -> ServiceRef {
    service("demo", "echo")
}

pub(crate) fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

/// `name:80/UDP`; an empty name is none, `/TCP` may be left out.
pub(crate) fn port(text: &str) -> ServicePort {
    let (name, rest) = text.split_once(':').unwrap();
    let (number, protocol) = rest.split_once('/').unwrap_or((rest, "TCP"));
    ServicePort {
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        protocol: protocol.parse().unwrap(),
        app_protocol: None,
        port: number.parse().unwrap(),
    }
}

pub(crate) fn ports(texts: &[&str]) -> Vec<ServicePort> {
    texts.iter().map(|text| port(text)).collect()
}

/// The offer of demo/echo by a cluster, exported at second 100: port http:80, IPv4.
pub(crate) fn offer(dialect: Dialect, cluster: &str) -> ServiceOffer {
    let spec = ServiceOfferSpec {
        dialect,
        cluster: cluster.into(),
        service: echo(),
        exported_at: at(100),
        type_: OfferType::ClusterIp,
        ports: ports(&["http:80"]),
        ip_families: vec![IpFamily::V4],
        session_affinity: SessionAffinity::None,
        session_affinity_config: None,
        topology_keys: Vec::new(),
        publish_not_ready_addresses: false,
        internal_traffic_policy: None,
        traffic_distribution: None,
        prefer: Vec::new(),
        exported_labels: Default::default(),
        exported_annotations: Default::default(),
    };
    let mut offer = ServiceOffer::new(&names::offer(dialect, &spec.service), spec);
    offer.metadata.namespace = Some(names::hub_namespace(&id(cluster)));
    offer.metadata.resource_version = Some("7".into());
    offer
}

/// The same offer with its spec changed.
pub(crate) fn with(mut offer: ServiceOffer, change: impl FnOnce(&mut ServiceOfferSpec)) -> ServiceOffer {
    change(&mut offer.spec);
    offer
}

pub(crate) fn any_port() -> impl Strategy<Value = ServicePort> {
    let names = prop_oneof![Just(None), Just(Some("a".to_owned())), Just(Some("b".to_owned()))];
    let protocols = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    let numbers = prop_oneof![9 => 80..83, 1 => -1..1];
    let layers = prop_oneof![4 => Just(None), 1 => Just(Some("h2c".to_owned()))];
    (names, protocols, numbers, layers).prop_map(|(name, protocol, port, app_protocol)| ServicePort {
        name,
        protocol,
        port,
        app_protocol,
    })
}

fn any_families() -> impl Strategy<Value = Vec<IpFamily>> {
    use IpFamily::{V4, V6};
    prop_oneof![
        4 => Just(vec![V4]),
        2 => prop::collection::vec(prop_oneof![Just(V4), Just(V6)], 0..3),
    ]
}

prop_compose! {
    /// An offer of demo/echo as any member might write it, sense or nonsense.
    pub(crate) fn any_offer(dialect: Dialect)(
        cluster in "[a-e]",
        second in 100..104i64,
        headless in prop::bool::weighted(0.2),
        ports in prop::collection::vec(any_port(), 0..4),
        families in any_families(),
        sticky in prop::bool::weighted(0.3),
        seconds in prop::option::of(1..3i32),
        keys in prop::collection::vec("[a-c*]", 0..3),
        early in any::<bool>(),
        local in prop::option::of(any::<bool>()),
        distribution in prop::option::of(Just("PreferClose".to_owned())),
        prefer in prop::collection::vec(prop_oneof![Just(Tier::Zone), Just(Tier::Any)], 0..2),
        labels in prop::collection::btree_map("[a-b ]", "[x-y ]", 0..2),
    ) -> ServiceOffer {
        with(offer(dialect, &cluster), |spec| {
            spec.exported_at = at(second);
            spec.type_ = if headless { OfferType::Headless } else { OfferType::ClusterIp };
            spec.ports = ports;
            spec.ip_families = families;
            spec.session_affinity = if sticky { SessionAffinity::ClientIp } else { SessionAffinity::None };
            spec.session_affinity_config = seconds.map(affinity_config);
            spec.topology_keys = keys;
            spec.publish_not_ready_addresses = early;
            spec.internal_traffic_policy = local
                .map(|local| if local { InternalTrafficPolicy::Local } else { InternalTrafficPolicy::Cluster });
            spec.traffic_distribution = distribution;
            spec.prefer = prefer;
            spec.exported_annotations = labels.clone();
            spec.exported_labels = labels;
        })
    }
}

/// A few offers of demo/echo, now and then two by one cluster.
pub(crate) fn any_offers(dialect: Dialect) -> impl Strategy<Value = Vec<ServiceOffer>> {
    prop::collection::vec(any_offer(dialect), 0..6).prop_map(|mut offers| {
        for (index, offer) in offers.iter_mut().enumerate() {
            offer.metadata.name = Some(format!("offer-{index}"));
        }
        offers
    })
}
