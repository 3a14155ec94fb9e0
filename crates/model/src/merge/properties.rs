//! What holds for any offers whatsoever.

use proptest::prelude::*;
use tombolo_api::tombolo::Dialect;

use super::*;
use crate::import::read_ports;
use crate::testing::{any_offers, echo};

fn dialects() -> impl Strategy<Value = Dialect> {
    prop_oneof![Just(Dialect::Kep), Just(Dialect::Mcs)]
}

fn cases() -> impl Strategy<Value = (Dialect, Vec<ServiceOffer>)> {
    dialects().prop_flat_map(|dialect| (Just(dialect), any_offers(dialect)))
}

fn run(dialect: Dialect, offers: &[ServiceOffer]) -> Merged {
    merge(Policy::of(dialect), &echo(), offers)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_order_of_offers_does_not_matter(
        (dialect, offers, shuffled) in cases().prop_flat_map(|(dialect, offers)| {
            (Just(dialect), Just(offers.clone()), Just(offers).prop_shuffle())
        })
    ) {
        prop_assert_eq!(run(dialect, &offers), run(dialect, &shuffled));
    }

    #[test]
    fn merging_what_is_already_merged_changes_nothing((dialect, offers) in cases()) {
        let first = run(dialect, &offers);
        // Each cluster now offers exactly what the service is.
        let Some(import) = &first.import else { return Ok(()) };
        let agreed: Vec<ServiceOffer> = offers
            .iter()
            .map(|offer| {
                let mut offer = offer.clone();
                offer.spec.type_ = import.type_;
                offer.spec.ports = import.ports.clone();
                offer.spec.ip_families = import.ip_families.clone();
                offer.spec.session_affinity = import.session_affinity;
                offer.spec.session_affinity_config = import.session_affinity_config.clone();
                offer.spec.internal_traffic_policy = import.internal_traffic_policy;
                offer.spec.traffic_distribution = import.traffic_distribution.clone();
                offer.spec.prefer = import.prefer.clone();
                offer.spec.exported_labels = import.labels.clone();
                offer.spec.exported_annotations = import.annotations.clone();
                offer
            })
            .collect();
        let second = run(dialect, &agreed);
        prop_assert!(second.verdicts.values().all(|verdict| !verdict.has_conflict()));
        let mut again = second.import.expect("offers that agree make an import");
        again.clusters = import.clusters.clone();
        prop_assert_eq!(&again, import);
    }

    #[test]
    fn no_port_family_or_cluster_is_invented((dialect, offers) in cases()) {
        let merged = run(dialect, &offers);
        for cluster in merged.verdicts.keys() {
            prop_assert!(offers.iter().any(|offer| offer.spec.cluster == cluster.as_str()));
        }
        let Some(import) = merged.import else { return Ok(()) };
        for part in &import.clusters {
            prop_assert!(merged.verdicts.contains_key(&part.cluster));
        }
        prop_assert_eq!(import.clusters.len(), merged.verdicts.len());
        prop_assert!(!import.ip_families.is_empty());
        for port in &import.ports {
            prop_assert!(offers.iter().any(|offer| offer.spec.ports.contains(port)));
            prop_assert!(import.clusters.iter().any(|part| exposes(&part.ports, port)), "a port nobody serves");
        }
    }

    #[test]
    fn the_ports_of_an_import_are_ones_a_service_may_have((dialect, offers) in cases()) {
        let Some(import) = run(dialect, &offers).import else { return Ok(()) };
        for (place, port) in import.ports.iter().enumerate() {
            prop_assert!((1..=65535).contains(&port.port));
            prop_assert!(port.name.is_some() || import.ports.len() == 1);
            for other in &import.ports[..place] {
                prop_assert!(port.name != other.name);
                prop_assert!((port.protocol, port.port) != (other.protocol, other.port));
            }
        }
    }

    #[test]
    fn all_exporting_clusters_hear_the_same_conflicts((dialect, offers) in cases()) {
        let merged = run(dialect, &offers);
        let mut verdicts = merged.verdicts.values();
        let Some(first) = verdicts.next() else { return Ok(()) };
        for other in verdicts {
            prop_assert_eq!(&first.conflicts, &other.conflicts);
            prop_assert_eq!(&first.winner, &other.winner);
            prop_assert_eq!(first.reason(), other.reason());
        }
        for conflict in first.conflicts.iter() {
            prop_assert!(!conflict.disagreeing.is_empty());
            prop_assert!(conflict.disagreeing.iter().all(|cluster| merged.verdicts.contains_key(cluster)));
        }
        prop_assert_eq!(merged.import.is_none(), first.is_withdrawn());
    }

    #[test]
    fn a_single_cluster_never_conflicts_with_itself((dialect, offers) in cases()) {
        let merged = run(dialect, &offers[..offers.len().min(1)]);
        prop_assert!(merged.verdicts.values().all(|verdict| !verdict.has_conflict()));
        prop_assert_eq!(merged.import.is_some(), !offers.is_empty());
    }

    #[test]
    fn lowering_and_reading_back_keeps_the_ports((dialect, offers) in cases()) {
        let Some(import) = run(dialect, &offers).import else { return Ok(()) };
        let vips = ["10.96.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let lowered = import.mcs_import(&vips);
        prop_assert_eq!(read_ports(&lowered.spec), (import.ports.clone(), Vec::new()));
        prop_assert_eq!(&import.kep_import(&vips).spec.ports, &import.ports);
        if !import.is_headless() {
            prop_assert_eq!(lowered.spec.ips.len(), lowered.spec.ip_families.len());
        }
    }
}
