//! The rules of both dialects, one by one.

use tombolo_api::mcs::ConflictReason as Reason;
use tombolo_api::service::InternalTrafficPolicy;
use tombolo_api::tombolo::{Dialect, OfferType, Tier};

use super::*;
use crate::offer::affinity_config;
use crate::testing::{at, echo, id, offer, ports, service, with};

type Change = fn(&mut ServiceOfferSpec);

/// Offers by `a` (the oldest), `b` and `c`, each with its change.
fn merged(dialect: Dialect, changes: &[Change]) -> Merged {
    let offers: Vec<ServiceOffer> = ["a", "b", "c"]
        .iter()
        .zip(changes)
        .zip(100..)
        .map(|((cluster, change), second)| {
            with(offer(dialect, cluster), |spec| {
                spec.exported_at = at(second);
                change(spec);
            })
        })
        .collect();
    merge(Policy::of(dialect), &echo(), &offers)
}

type Check = fn(&Import) -> bool;

const SAME: Change = |_| {};

fn reasons(merged: &Merged) -> Vec<Reason> {
    let mut all = merged
        .verdicts
        .values()
        .map(|verdict| verdict.conflicts.iter().map(|conflict| conflict.reason).collect::<Vec<_>>());
    let first = all.next().unwrap();
    assert!(all.all(|reasons| reasons == first), "all exporting clusters hear of the same conflicts");
    first
}

#[test]
fn exports_of_one_name_are_one_service_with_all_exporting_clusters() {
    for &dialect in Dialect::ALL {
        let merged = merged(dialect, &[SAME, SAME, SAME]);
        let import = merged.import.as_ref().unwrap();
        let clusters: Vec<_> = import.clusters.iter().map(|part| part.cluster.as_str()).collect();
        assert_eq!(clusters, ["a", "b", "c"]);
        assert_eq!((&import.service, &import.ports), (&echo(), &ports(&["http:80"])));
        assert_eq!(reasons(&merged), []);
        assert_eq!(merged.complaints, []);
    }
}

#[test]
fn without_any_export_there_is_no_import() {
    for &dialect in Dialect::ALL {
        assert_eq!(merged(dialect, &[]), Merged::default());
    }
}

#[test]
fn exports_of_one_dialect_merge_only_with_each_other() {
    let offers = [offer(Dialect::Kep, "a"), offer(Dialect::Mcs, "b")];
    for (policy, cluster) in [(&Policy::KEP, "a"), (&Policy::MCS, "b")] {
        let merged = merge(policy, &echo(), &offers);
        assert_eq!(merged.verdicts.keys().map(ClusterId::as_str).collect::<Vec<_>>(), [cluster]);
        assert_eq!(merged.complaints.len(), 1);
    }
    let other = merge(&Policy::MCS, &service("demo", "other"), &offers);
    assert_eq!((other.import, other.complaints.len()), (None, 2));
}

#[test]
fn of_two_offers_of_one_cluster_the_first_by_name_counts() {
    let named = |name: &str, port: &'static str| {
        let mut offer = with(offer(Dialect::Mcs, "a"), |spec| spec.ports = ports(&[port]));
        offer.metadata.name = Some(name.into());
        offer
    };
    let offers = [named("y", "http:2"), named("x", "http:1")];
    let merged = merge(&Policy::MCS, &echo(), &offers);
    assert_eq!(merged.import.unwrap().ports, ports(&["http:1"]));
    assert_eq!(
        merged.complaints[0].to_string(),
        "offer tombolo-a/y: cluster a offers the service already with offer tombolo-a/x"
    );
}

#[test]
fn an_offer_of_no_cluster_is_ignored_with_a_complaint() {
    let bad = with(offer(Dialect::Mcs, "a"), |spec| spec.cluster = "Not A Cluster".into());
    let merged = merge(&Policy::MCS, &echo(), [&bad]);
    assert!(merged.import.is_none() && merged.verdicts.is_empty());
    assert_eq!(merged.complaints.len(), 1);
}

#[test]
fn the_first_edition_exposes_the_superset_of_ports() {
    let merged = merged(Dialect::Kep, &[SAME, |spec| spec.ports = ports(&["metrics:9090", "http:80"]), SAME]);
    assert_eq!(merged.import.as_ref().unwrap().ports, ports(&["http:80", "metrics:9090"]));
    assert_eq!(reasons(&merged), []);
}

#[test]
fn the_first_edition_withdraws_a_service_whose_exports_disagree_on_a_global_property() {
    let cases: [(Change, Reason, &str); 7] = [
        (
            |spec| spec.ports = ports(&["http:8080"]),
            Reason::PortConflict,
            "port http is 80/TCP in a, c but 8080/TCP in b",
        ),
        (
            |spec| spec.ports = ports(&["http:80/UDP"]),
            Reason::PortConflict,
            "port http is 80/TCP in a, c but 80/UDP in b",
        ),
        (
            |spec| spec.ports = ports(&["web:80"]),
            Reason::PortConflict,
            "port 80/TCP is named http in a, c but web in b",
        ),
        (
            |spec| spec.ports = ports(&[":80"]),
            Reason::PortConflict,
            "80/TCP is named (unnamed) in b but http in a, c",
        ),
        (
            |spec| spec.ports = ports(&[":81"]),
            Reason::PortConflict,
            "there are ports with a name in a, c but without a name in b",
        ),
        (
            |spec| spec.ip_families = vec![IpFamily::V6],
            Reason::IpFamilyConflict,
            "the IP family is IPv4 in a, c but IPv6 in b",
        ),
        (
            |spec| spec.type_ = OfferType::Headless,
            Reason::TypeConflict,
            "the Service is headless in b but not headless in a, c",
        ),
    ];
    for (change, reason, said) in cases {
        let merged = merged(Dialect::Kep, &[SAME, change, SAME]);
        assert_eq!(merged.import, None, "{said}");
        assert_eq!(reasons(&merged), [reason]);
        for verdict in merged.verdicts.values() {
            assert!(verdict.is_withdrawn());
            assert!(verdict.message().contains(said), "{said}: {}", verdict.message());
        }
    }
}

#[test]
fn one_port_number_under_two_protocols_is_no_conflict() {
    for &dialect in Dialect::ALL {
        let both: Change = |spec| spec.ports = ports(&["dns:53", "dns-udp:53/UDP"]);
        let merged = merged(dialect, &[both, both]);
        assert_eq!(merged.import.as_ref().unwrap().ports.len(), 2);
        assert_eq!(reasons(&merged), []);
    }
}

#[test]
fn the_first_edition_takes_a_family_that_all_exports_have() {
    let both: Change = |spec| spec.ip_families = vec![IpFamily::V6, IpFamily::V4];
    for (changes, family) in [
        ([SAME, SAME], IpFamily::V4),
        ([both, SAME], IpFamily::V4),
        ([SAME, both], IpFamily::V4),
        ([both, both], IpFamily::V6),
    ] {
        assert_eq!(merged(Dialect::Kep, &changes).import.unwrap().ip_families, [family]);
    }
}

#[test]
fn the_first_edition_carries_component_properties_per_cluster_without_merging_them() {
    let sticky: Change = |spec| {
        spec.topology_keys = vec!["topology.kubernetes.io/zone".into()];
        spec.publish_not_ready_addresses = true;
        spec.session_affinity = SessionAffinity::ClientIp;
        spec.session_affinity_config = Some(affinity_config(10));
    };
    let merged = merged(Dialect::Kep, &[SAME, sticky]);
    assert_eq!(reasons(&merged), []);
    let import = merged.import.unwrap();
    assert_eq!(import.session_affinity, SessionAffinity::None);
    let (a, b) = (&import.clusters[0], &import.clusters[1]);
    assert_eq!(
        (a.topology_keys.len(), a.publish_not_ready_addresses, a.session_affinity),
        (0, false, SessionAffinity::None)
    );
    assert_eq!(b.topology_keys, ["topology.kubernetes.io/zone"]);
    assert!(b.publish_not_ready_addresses);
    assert_eq!(
        (b.session_affinity, b.session_affinity_config.clone()),
        (SessionAffinity::ClientIp, Some(affinity_config(10)))
    );
}

#[test]
fn affinity_that_all_clusters_have_is_that_of_the_whole_service() {
    let sticky: Change = |spec| spec.session_affinity = SessionAffinity::ClientIp;
    let import = merged(Dialect::Kep, &[sticky, sticky]).import.unwrap();
    assert_eq!(import.session_affinity, SessionAffinity::ClientIp);
    assert_eq!(import.session_affinity_config, Some(affinity_config(10800)));
    let short: Change = |spec| {
        spec.session_affinity = SessionAffinity::ClientIp;
        spec.session_affinity_config = Some(affinity_config(10));
    };
    let differing = merged(Dialect::Kep, &[sticky, short]).import.unwrap();
    assert_eq!(
        (differing.session_affinity, differing.session_affinity_config),
        (SessionAffinity::None, None)
    );
}

#[test]
fn a_conflict_disappears_with_the_export_that_caused_it() {
    let conflicting: Change = |spec| spec.ports = ports(&["http:8080"]);
    assert!(merged(Dialect::Kep, &[SAME, conflicting]).import.is_none());
    assert!(merged(Dialect::Kep, &[SAME]).import.is_some());
}

#[test]
fn today_the_oldest_export_decides_every_field_and_every_export_hears_of_it() {
    let cases: [(Change, Reason, Check); 8] = [
        (
            |spec| spec.ports = ports(&["http:8080"]),
            Reason::PortConflict,
            |import| import.ports == ports(&["http:80"]),
        ),
        (|spec| spec.type_ = OfferType::Headless, Reason::TypeConflict, |import| !import.is_headless()),
        (
            |spec| spec.session_affinity = SessionAffinity::ClientIp,
            Reason::SessionAffinityConflict,
            |import| import.session_affinity == SessionAffinity::None,
        ),
        (
            |spec| spec.exported_labels = [("a".into(), "b".into())].into(),
            Reason::LabelsConflict,
            |import| import.labels.is_empty(),
        ),
        (
            |spec| spec.exported_annotations = [("a".into(), "b".into())].into(),
            Reason::AnnotationsConflict,
            |import| import.annotations.is_empty(),
        ),
        (
            |spec| spec.internal_traffic_policy = Some(InternalTrafficPolicy::Local),
            Reason::InternalTrafficPolicyConflict,
            |import| import.internal_traffic_policy.is_none(),
        ),
        (
            |spec| spec.traffic_distribution = Some("PreferClose".into()),
            Reason::TrafficDistributionConflict,
            |import| import.traffic_distribution.is_none(),
        ),
        (
            |spec| spec.ip_families = vec![IpFamily::V6],
            Reason::IpFamilyConflict,
            |import| import.ip_families == [IpFamily::V4, IpFamily::V6],
        ),
    ];
    for (change, reason, decided) in cases {
        let merged = merged(Dialect::Mcs, &[SAME, change, SAME]);
        assert_eq!(reasons(&merged), [reason]);
        assert!(decided(merged.import.as_ref().unwrap()), "{reason}");
        for verdict in merged.verdicts.values() {
            assert_eq!(verdict.winner, Some(id("a")));
            assert!(verdict.message().contains("in 1 of 3 clusters"), "{}", verdict.message());
        }
    }
}

#[test]
fn affinity_and_its_timeout_are_two_conflicts() {
    let sticky: Change = |spec| spec.session_affinity = SessionAffinity::ClientIp;
    let short: Change = |spec| {
        spec.session_affinity = SessionAffinity::ClientIp;
        spec.session_affinity_config = Some(affinity_config(10));
    };
    let default: Change = |spec| {
        spec.session_affinity = SessionAffinity::ClientIp;
        spec.session_affinity_config = Some(affinity_config(10800));
    };
    assert_eq!(reasons(&merged(Dialect::Mcs, &[sticky, short])), [Reason::SessionAffinityConfigConflict]);
    assert_eq!(reasons(&merged(Dialect::Mcs, &[sticky, default])), [], "a default that is spelled out");
    assert_eq!(reasons(&merged(Dialect::Mcs, &[SAME, short])), [Reason::SessionAffinityConflict]);
    assert_eq!(
        reasons(&merged(Dialect::Mcs, &[sticky, short, SAME])),
        [Reason::SessionAffinityConflict, Reason::SessionAffinityConfigConflict]
    );
}

#[test]
fn affinity_is_ignored_when_the_service_is_headless() {
    let headless: Change = |spec| spec.type_ = OfferType::Headless;
    let sticky: Change = |spec| {
        spec.type_ = OfferType::Headless;
        spec.session_affinity = SessionAffinity::ClientIp;
    };
    assert_eq!(reasons(&merged(Dialect::Mcs, &[headless, sticky])), []);
}

#[test]
fn several_conflicts_are_joined_by_commas() {
    let change: Change = |spec| {
        spec.ports = ports(&["http:8080"]);
        spec.ip_families = vec![IpFamily::V6];
        spec.exported_labels = [("a".into(), "b".into())].into();
    };
    let merged = merged(Dialect::Mcs, &[SAME, change]);
    assert_eq!(merged.verdicts[&id("a")].reason(), "PortConflict,LabelsConflict,IPFamilyConflict");
}

#[test]
fn today_ports_are_a_union_in_which_older_exports_take_names_and_numbers_first() {
    let cases: [(&[&str], &[&str], &[&str]); 8] = [
        (&["http:80"], &["metrics:9090"], &["http:80", "metrics:9090"]),
        (&["http:80"], &["http:8080"], &["http:80"]),
        (&["http:80"], &["web:80"], &["http:80"]),
        (&["http:80"], &["web:80/UDP"], &["http:80", "web:80/UDP"]),
        (&["a:1", "b:2"], &["b:1", "c:3"], &["a:1", "b:2", "c:3"]),
        // A Service with several ports names them all, so an unnamed port stands alone.
        (&[":80"], &["metrics:9090"], &[":80"]),
        (&["http:80"], &[":81"], &["http:80"]),
        (&[":80"], &[":81"], &[":80"]),
    ];
    for (old, young, union) in cases {
        let mut offers = [offer(Dialect::Mcs, "a"), offer(Dialect::Mcs, "b")];
        (offers[0].spec.ports, offers[1].spec.ports) = (ports(old), ports(young));
        let merged = merge(&Policy::MCS, &echo(), &offers);
        assert_eq!(merged.import.as_ref().unwrap().ports, ports(union), "{old:?} {young:?}");
        assert_eq!(
            reasons(&merged),
            [Reason::PortConflict],
            "port sets that are not identical are a conflict"
        );
        let skipped = &merged.verdicts[&id("b")].skipped;
        let expected: Vec<_> = young.iter().filter(|port| !union.contains(port)).copied().collect();
        assert_eq!(skipped, &ports(&expected));
    }
}

#[test]
fn the_order_of_ports_and_families_is_no_conflict() {
    let one: Change = |spec| {
        spec.ports = ports(&["a:1", "b:2"]);
        spec.ip_families = vec![IpFamily::V4, IpFamily::V6];
    };
    let other: Change = |spec| {
        spec.ports = ports(&["b:2", "a:1"]);
        spec.ip_families = vec![IpFamily::V6, IpFamily::V4];
    };
    assert_eq!(reasons(&merged(Dialect::Mcs, &[one, other])), []);
}

#[test]
fn labels_come_as_a_whole_from_the_oldest_export() {
    let one: Change = |spec| spec.exported_labels = [("a".into(), "1".into())].into();
    let other: Change = |spec| spec.exported_labels = [("b".into(), "2".into())].into();
    let import = merged(Dialect::Mcs, &[one, other]).import.unwrap();
    assert_eq!(import.labels, [("a".into(), "1".into())].into());
}

#[test]
fn the_oldest_export_decides_whatever_its_cluster_is_called() {
    let aged = |cluster: &str, second: i64, port: &str| {
        with(offer(Dialect::Mcs, cluster), |spec| {
            spec.exported_at = at(second);
            spec.ports = ports(&[port]);
        })
    };
    let offers = [aged("a", 300, "http:3"), aged("z", 100, "http:1"), aged("m", 200, "http:2")];
    let merged = merge(&Policy::MCS, &echo(), &offers);
    let import = merged.import.unwrap();
    assert_eq!(import.ports, ports(&["http:1"]));
    let listed: Vec<_> = import.clusters.iter().map(|part| part.cluster.as_str()).collect();
    assert_eq!(listed, ["a", "m", "z"], "clusters are listed by id all the same");
    assert!(merged.verdicts.values().all(|verdict| verdict.winner == Some(id("z"))));
    assert!(merged.verdicts[&id("a")].message().contains("in 2 of 3 clusters"));
}

#[test]
fn among_exports_of_one_second_the_first_cluster_id_decides() {
    let tied =
        |cluster: &str, port: &str| with(offer(Dialect::Mcs, cluster), |spec| spec.ports = ports(&[port]));
    let offers = [tied("b", "http:2"), tied("a", "http:1")];
    let merged = merge(&Policy::MCS, &echo(), &offers);
    assert_eq!(merged.import.unwrap().ports, ports(&["http:1"]));
    assert_eq!(merged.verdicts[&id("b")].winner, Some(id("a")));
}

#[test]
fn headlessness_may_change_when_the_oldest_export_goes() {
    let headless: Change = |spec| spec.type_ = OfferType::Headless;
    assert!(merged(Dialect::Mcs, &[headless, SAME]).import.unwrap().is_headless());
    assert!(!merged(Dialect::Mcs, &[SAME]).import.unwrap().is_headless());
}

#[test]
fn the_preferred_tiers_are_those_of_the_oldest_export() {
    let near: Change = |spec| spec.prefer = vec![Tier::Zone, Tier::Any];
    for &dialect in Dialect::ALL {
        assert_eq!(merged(dialect, &[near, SAME]).import.unwrap().prefer, [Tier::Zone, Tier::Any]);
        assert_eq!(merged(dialect, &[SAME, near]).import.unwrap().prefer, []);
    }
}

#[test]
fn an_unclean_offer_is_used_as_far_as_it_makes_sense_and_its_cluster_hears_of_it() {
    let unclean: Change = |spec| spec.ports = ports(&["http:80", "web:80", "x:0"]);
    for &dialect in Dialect::ALL {
        let merged = merged(dialect, &[unclean, SAME]);
        assert_eq!(merged.import.as_ref().unwrap().ports, ports(&["http:80"]));
        assert_eq!(merged.verdicts[&id("a")].complaints.len(), 1);
        assert_eq!(merged.verdicts[&id("b")].complaints, []);
    }
}

#[test]
fn a_message_does_not_grow_with_the_number_of_clusters() {
    for &dialect in Dialect::ALL {
        let offers: Vec<_> = (0..500)
            .map(|i| {
                with(offer(dialect, &format!("cluster-{i}")), |spec| {
                    spec.ports = (1..50).map(|n| port_of(i + n)).collect();
                })
            })
            .collect();
        let merged = merge(Policy::of(dialect), &echo(), &offers);
        assert!(merged.verdicts.values().all(|verdict| verdict.message().len() < 20_000));
    }
}

fn port_of(number: i32) -> ServicePort {
    ServicePort { name: Some(format!("p{}", number % 50)), port: number, ..ServicePort::default() }
}
