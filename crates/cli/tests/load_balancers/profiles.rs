//! Every case with every profile: it passes, or the conditions say why it cannot.

use tombolo_api::loadbalancer::Profile;
use tombolo_testkit::lab::isolated;

use crate::cases::CASES;
use crate::world::with_world;

/// Runs all cases one after the other; those and no others may be skipped.
fn check(profile: Profile, skipped: &[&str]) {
    with_world(profile, async |world| {
        let mut found = Vec::new();
        for case in CASES {
            let outcome = (case.run)(world).await;
            println!("{profile}: {}: {outcome:?}", case.name);
            if outcome.is_err() {
                found.push(case.name.split(' ').next().unwrap().to_owned());
            }
            world.clear().await;
        }
        assert_eq!(found, skipped, "{profile}");
    });
}

#[test]
fn a_full_provider_passes_everything() {
    isolated(|| check(Profile::Full, &[]));
}

#[test]
fn a_provider_without_ipv6_skips_two_families() {
    isolated(|| check(Profile::V4Only, &["KEP"]));
}

#[test]
fn a_provider_with_tcp_only_skips_udp() {
    isolated(|| check(Profile::TcpOnly, &["2", "10", "11", "KEP"]));
}

#[test]
fn a_provider_that_needs_node_ports_skips_services_without() {
    isolated(|| check(Profile::NodePortOnly, &["9"]));
}

#[test]
fn a_provider_that_is_a_proxy_skips_affinity_and_client_addresses() {
    isolated(|| check(Profile::Proxy, &["4", "5", "6", "7", "14b", "17b"]));
}

#[test]
fn a_slow_provider_passes_everything() {
    isolated(|| check(Profile::SlowHitless, &[]));
}

#[test]
fn a_slow_provider_with_interruptions_passes_everything() {
    isolated(|| check(Profile::SlowCutover, &[]));
}

#[test]
fn a_provider_with_one_address_passes_everything() {
    isolated(|| check(Profile::PoolOfOne, &[]));
}
