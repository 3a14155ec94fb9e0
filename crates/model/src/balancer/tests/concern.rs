//! Which Services are handled at all: the rows G1 to G8.

use serde_json::json;
use tombolo_api::loadbalancer::{Profile, Service};

use super::lab::{Bench, edit, service};
use crate::balancer::{Concern, Record, concern, forget, is_answered, is_marked};

fn classed(class: &str) -> Service {
    service(json!({ "loadBalancerClass": class }))
}

#[test]
fn a_service_that_never_was_a_load_balancer_is_not_touched() {
    // G1
    for kind in ["ClusterIP", "NodePort", "ExternalName"] {
        let plain = service(json!({ "type": kind }));
        assert_eq!(concern(&plain, None), Concern::None, "{kind}");
        assert_eq!(concern(&plain, Some("a/b")), Concern::None, "{kind}");
    }
}

#[test]
fn the_class_decides_whose_a_load_balancer_is() {
    let cases = [
        ("G2", service(json!({})), None, Concern::Wanted),
        ("G2, empty is none", classed(""), None, Concern::Wanted),
        (
            "G3, a provider with a class leaves the others alone",
            service(json!({})),
            Some("a/b"),
            Concern::None,
        ),
        ("G4", classed("a/b"), Some("a/b"), Concern::Wanted),
        ("G5", classed("a/c"), Some("a/b"), Concern::None),
        ("G5, the default provider", classed("a/b"), None, Concern::None),
    ];
    for (row, service, class, expected) in cases {
        assert_eq!(concern(&service, class), expected, "{row}");
    }
}

#[test]
fn required_features_that_are_seen_are_answered_with_conditions() {
    // G7: whoever sets conditions has read the list; here both always come together.
    let mut required = service(json!({"requiredLoadBalancerFeatures": ["Ports"]}));
    Bench::new(Profile::Full).look(&mut required);
    assert_eq!(super::lab::said(&required), super::lab::NORMAL);
}

#[test]
fn where_the_server_has_no_field_the_annotation_counts() {
    // G8: the field vanished on its way; what a user can do instead.
    let key = "tombolo.dev/required-load-balancer-features";
    let mut required = super::lab::annotated(service(json!({})), key, "Ports, Wings");
    Bench::new(Profile::Full).look(&mut required);
    assert_eq!(super::lab::said(&required), super::lab::REFUSED);
    // The field goes before the annotation.
    edit(&mut required, json!({"requiredLoadBalancerFeatures": ["Ports"]}));
    Bench::new(Profile::Full).look(&mut required);
    assert_eq!(super::lab::said(&required), super::lab::NORMAL);
}

#[test]
fn what_is_left_of_a_load_balancer_is_the_business_of_the_provider_that_made_it() {
    let mut former = service(json!({}));
    Bench::new(Profile::Full).look(&mut former);
    edit(&mut former, json!({"type": "ClusterIP"}));
    assert_eq!(concern(&former, None), Concern::Former);
    assert_eq!(concern(&former, Some("a/b")), Concern::None);
    let forgotten = forget(&former);
    assert_eq!(concern(&forgotten, None), Concern::None);
    assert_eq!(Record::of(&forgotten), None);
    assert!(forgotten.conditions().is_empty() && forgotten.metadata.finalizers.unwrap().is_empty());
}

#[test]
fn a_service_that_is_being_deleted_gets_no_load_balancer_any_more() {
    let mut deleted = service(json!({}));
    deleted.metadata.deletion_timestamp = Some(crate::testing::at(5));
    assert_eq!(concern(&deleted, None), Concern::None, "it never had one");
    deleted.metadata.deletion_timestamp = None;
    Bench::new(Profile::Full).look(&mut deleted);
    deleted.metadata.deletion_timestamp = Some(crate::testing::at(5));
    assert_eq!(concern(&deleted, None), Concern::Former);
}

#[test]
fn a_service_that_lost_its_record_is_still_given_up() {
    let mut lost = service(json!({}));
    Bench::new(Profile::Full).look(&mut lost);
    lost.metadata.annotations = None;
    assert_eq!(concern(&lost, None), Concern::Wanted);
    let mut former = lost.clone();
    edit(&mut former, json!({"type": "ClusterIP"}));
    let mut deleted = lost.clone();
    deleted.metadata.deletion_timestamp = Some(crate::testing::at(5));
    for left in [former, deleted] {
        assert!(is_marked(&left));
        assert_eq!(concern(&left, None), Concern::Former);
        assert_eq!(concern(&left, Some("a/b")), Concern::None, "it has no class");
        assert!(!is_marked(&forget(&left)));
        // Other providers have the same finalizer, and no conditions.
        let mut foreign = left.clone();
        foreign.status.conditions = None;
        assert!(!is_marked(&foreign));
        assert_eq!(concern(&foreign, None), Concern::None);
    }
}

#[test]
fn a_service_is_answered_while_what_was_said_is_about_what_it_asks_for_now() {
    let (mut bench, mut service) = (Bench::new(Profile::Full), service(json!({})));
    assert!(!is_answered(&service, None));
    assert!(is_answered(&service, Some("example.com/other")), "nobody waits for them");
    bench.look(&mut service);
    assert!(is_answered(&service, None));
    edit(&mut service, json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]}));
    assert!(!is_answered(&service, None));
    bench.look(&mut service);
    assert!(is_answered(&service, None));
    edit(&mut service, json!({"type": "ClusterIP"}));
    assert!(!is_answered(&service, None), "what is left of it has to go");
}
