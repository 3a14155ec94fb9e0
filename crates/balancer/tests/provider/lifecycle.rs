//! From the first sight of a Service to its end.

use serde_json::json;
use tombolo_api::loadbalancer::Profile;
use tombolo_testkit::embedded_only;

use crate::world::{
    FAILED, FINALIZER, NORMAL, REFUSED, World, addresses, condition, finalizers, message, said, wait,
};

#[tokio::test]
async fn a_load_balancer_comes_changes_and_goes() {
    let world = World::new(&["192.0.2.0/30", "2001:db8::/126"]).await;
    let _running = world.start(Profile::Full);
    world.service("web", json!({"ipFamilyPolicy": "PreferDualStack"})).await;
    let service = world.until("web", NORMAL).await;
    assert_eq!(addresses(&service), ["192.0.2.0", "2001:db8::1"]);
    assert!(service.ingress().iter().all(|entry| entry.ip_mode.as_deref() == Some("VIP")));
    assert_eq!(finalizers(&service), [FINALIZER]);
    world.until_told("web", &["EnsuredLoadBalancer"]).await;

    let before = condition(&service, "LoadBalancerServing").unwrap().last_transition_time.clone();
    world.patch("web", json!({"spec": {"ports": [{"port": 81}]}})).await;
    wait(async || {
        let service = world.get("web").await;
        condition(&service, "LoadBalancerServing").unwrap().last_transition_time.0 > before.0
    })
    .await;
    world.until_told("web", &["EnsuredLoadBalancer", "UpdatedLoadBalancer"]).await;

    world.patch("web", json!({"spec": {"type": "ClusterIP"}})).await;
    let service = world.until("web", "").await;
    assert_eq!((finalizers(&service).len(), addresses(&service).len()), (0, 0));
    assert!(service.annotation("tombolo.dev/load-balancer").is_none());
    world.until_told("web", &["EnsuredLoadBalancer", "UpdatedLoadBalancer", "DeletedLoadBalancer"]).await;

    world.patch("web", json!({"spec": {"type": "LoadBalancer"}})).await;
    assert_eq!(finalizers(&world.until("web", NORMAL).await), [FINALIZER]);
    world.delete("web").await;
    wait(async || world.services().get_opt("web").await.unwrap().is_none()).await;
}

#[tokio::test]
async fn services_of_other_classes_are_not_touched_in_any_way() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let _running = world.start(Profile::Full);
    world.service("foreign", json!({"loadBalancerClass": "example.com/other"})).await;
    world.service("plain", json!({"type": "ClusterIP"})).await;
    let before = [world.get("foreign").await, world.get("plain").await];
    world.service("ours", json!({})).await;
    world.until("ours", NORMAL).await;
    world.delete("ours").await;
    wait(async || world.services().get_opt("ours").await.unwrap().is_none()).await;
    assert_eq!([world.get("foreign").await, world.get("plain").await], before);
    assert!(world.events("foreign").await.is_empty());
}

#[tokio::test]
async fn a_provider_with_a_class_serves_it_and_no_other() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let config = tombolo_balancer::Config { class: Some("tombolo.dev/l2".into()), ..world.config("node1") };
    let _running = world.start_with(config);
    world.service("nobodys", json!({})).await;
    world.service("ours", json!({"loadBalancerClass": "tombolo.dev/l2"})).await;
    world.until("ours", NORMAL).await;
    assert_eq!(said(&world.get("nobodys").await), "");
    // Leaving the type takes the class along; it is cleaned up all the same.
    world.patch("ours", json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null}})).await;
    assert!(finalizers(&world.until("ours", "").await).is_empty());
}

#[tokio::test]
async fn a_service_whose_annotations_were_written_anew_is_given_up_all_the_same() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let running = world.start(Profile::Full);
    world.service("web", json!({})).await;
    world.until("web", NORMAL).await;
    running.stop().await;
    let anew = json!({"metadata": {"annotations": null}, "spec": {"type": "ClusterIP"}});
    world.patch("web", anew).await;
    let _running = world.start(Profile::Full);
    assert!(finalizers(&world.until("web", "").await).is_empty());
}

#[tokio::test]
async fn load_balancers_of_balancers_that_are_gone_are_taken_back() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let config = tombolo_balancer::Config { class: Some("tombolo.dev/l2".into()), ..world.config("node1") };
    let running = world.start_with(config);
    world.service("web", json!({"loadBalancerClass": "tombolo.dev/l2"})).await;
    world.until("web", NORMAL).await;
    running.stop().await;
    world.service("foreign", json!({"loadBalancerClass": "example.com/other"})).await;
    world.patch("foreign", json!({"metadata": {"finalizers": [FINALIZER]}})).await;
    assert_eq!(tombolo_balancer::retire(&world.client).await.unwrap(), 1);
    let service = world.get("web").await;
    assert_eq!((said(&service).as_str(), finalizers(&service).len(), addresses(&service).len()), ("", 0, 0));
    assert_eq!(finalizers(&world.get("foreign").await), [FINALIZER], "somebody else's");
    assert_eq!(tombolo_balancer::retire(&world.client).await.unwrap(), 0);
}

#[tokio::test]
async fn who_waits_for_an_address_says_so_and_gets_the_first_that_is_freed() {
    let world = World::new(&["192.0.2.1"]).await;
    let _running = world.start(Profile::Full);
    world.service("first", json!({})).await;
    world.until("first", NORMAL).await;
    world.service("second", json!({})).await;
    let second = world.until("second", FAILED).await;
    assert_eq!(message(&second), "no IPv4 address is free in the pool main");
    assert_eq!(finalizers(&second), [FINALIZER]);
    world.delete("first").await;
    assert_eq!(addresses(&world.until("second", NORMAL).await), ["192.0.2.1"]);
    world.until_told("second", &["SyncLoadBalancerFailed", "EnsuredLoadBalancer"]).await;
}

#[tokio::test]
async fn without_any_pool_nobody_waits_in_silence_and_a_pool_helps() {
    let world = World::new(&[]).await;
    let _running = world.start(Profile::Full);
    world.service("web", json!({})).await;
    let service = world.until("web", FAILED).await;
    assert_eq!(message(&service), "there is no AddressPool to take an address from");
    world.pool("late", json!({"addresses": ["192.0.2.9"]})).await;
    assert_eq!(addresses(&world.until("web", NORMAL).await), ["192.0.2.9"]);
}

#[tokio::test]
async fn namespace_labels_decide_about_pools_as_they_change() {
    let world = World::new(&[]).await;
    let _running = world.start(Profile::Full);
    let selector = json!({"matchLabels": {"team": "a"}});
    world.pool("team", json!({"addresses": ["192.0.2.9"], "namespaceSelector": selector})).await;
    world.service("web", json!({})).await;
    let service = world.until("web", FAILED).await;
    assert_eq!(message(&service), "no AddressPool has IPv4 addresses for this Service");
    let api: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(world.client.clone());
    let patch = kube::api::Patch::Merge(json!({"metadata": {"labels": {"team": "a"}}}));
    api.patch("default", &kube::api::PatchParams::default(), &patch).await.unwrap();
    world.until("web", NORMAL).await;
}

#[tokio::test]
async fn required_features_are_read_from_the_field() {
    embedded_only!("no release has the field yet");
    let world = World::new(&["192.0.2.0/30"]).await;
    let _running = world.start(Profile::Proxy);
    let spec = json!({
        "externalTrafficPolicy": "Local", "requiredLoadBalancerFeatures": ["ExternalTrafficPolicy"],
    });
    world.service("field", spec).await;
    world.until("field", REFUSED).await;
}

#[tokio::test]
async fn required_features_are_read_from_the_annotation() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let _running = world.start(Profile::Proxy);
    let local = json!({"externalTrafficPolicy": "Local"});
    world.service("free", local.clone()).await;
    world.until("free", &format!("{NORMAL} D=True/ExternalTrafficPolicyNotSupported")).await;
    world.until_told("free", &["EnsuredLoadBalancer", "LoadBalancerDegraded"]).await;
    let key = "tombolo.dev/required-load-balancer-features";
    world.annotated("annotation", json!({key: "ExternalTrafficPolicy"}), local).await;
    world.until("annotation", REFUSED).await;
    world.until_told("annotation", &["SyncLoadBalancerFailed"]).await;
}

#[tokio::test]
async fn slow_providers_say_when_they_build_and_whether_they_serve_meanwhile() {
    for (profile, meanwhile) in
        [(Profile::SlowHitless, "S=True/Serving"), (Profile::SlowCutover, "S=False/Provisioning")]
    {
        let world = World::new(&["192.0.2.0/30"]).await;
        let _running = world.start(profile);
        world.service("web", json!({})).await;
        let first = world.until("web", "P=True/Provisioning S=False/Provisioning").await;
        assert!(addresses(&first).is_empty());
        world.until("web", NORMAL).await;
        world.patch("web", json!({"spec": {"ports": [{"port": 81}]}})).await;
        let between = world.until("web", &format!("P=True/Provisioning {meanwhile}")).await;
        assert_eq!(addresses(&between), ["192.0.2.0"]);
        world.until("web", NORMAL).await;
    }
}

#[tokio::test]
async fn steps_fail_on_purpose() {
    let world = World::new(&["192.0.2.0/29"]).await;
    let _running = world.start(Profile::Full);
    let fail = |steps: &str| json!({ "tombolo.dev/fail": steps });
    world.annotated("allocate", fail("allocate"), json!({})).await;
    world.until("allocate", FAILED).await;
    world.annotated("provision", fail("provision"), json!({})).await;
    world.until("provision", "P=True/Provisioning S=False/Provisioning").await;
    world.until("provision", FAILED).await;
    world.annotated("update", fail("update"), json!({})).await;
    world.until("update", NORMAL).await;
    world.patch("update", json!({"spec": {"ports": [{"port": 81}]}})).await;
    let stuck = world.until("update", "P=True/Provisioning S=True/Serving").await;
    assert!(message(&stuck).contains("serves as before"));
    world.until_told("update", &["EnsuredLoadBalancer", "UpdateLoadBalancerFailed"]).await;
    world.service("serve", json!({})).await;
    world.until("serve", NORMAL).await;
    world.patch("serve", json!({"metadata": {"annotations": fail("serve")}})).await;
    assert_eq!(addresses(&world.until("serve", FAILED).await).len(), 1);
    world.annotated("release", fail("release"), json!({})).await;
    world.until("release", NORMAL).await;
    world.delete("release").await;
    world.until_told("release", &["EnsuredLoadBalancer", "DeleteLoadBalancerFailed"]).await;
    let held = world.get("release").await;
    assert!(held.metadata.deletion_timestamp.is_some());
    assert!(condition(&held, "LoadBalancerProvisioning").unwrap().message.contains("cannot be taken down"));
    world.patch("release", json!({"metadata": {"annotations": {"tombolo.dev/fail": null}}})).await;
    wait(async || world.services().get_opt("release").await.unwrap().is_none()).await;
}

#[tokio::test]
async fn what_the_shipped_rules_grant_is_what_a_balancer_uses() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let config = tombolo_balancer::Config { elect_leader: true, ..world.config("node1") };
    let running = world.start_with(config);
    world.service("web", json!({})).await;
    world.until("web", NORMAL).await;
    world.until_told("web", &["EnsuredLoadBalancer"]).await;
    wait(async || world.witness.used().contains("patch tombolo.dev/addresspools/status")).await;
    wait(async || world.witness.used().contains("update coordination.k8s.io/leases")).await;
    running.stop().await;
    world.witness.used_exactly(&world.granted(), &[]);
}
