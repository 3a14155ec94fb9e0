//! Every CRD is one that a real API server takes: structural schema, proper names, consistent versions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tombolo_api::crds;

/// Keywords that a structural schema may not have, or that we do without.
const FORBIDDEN: [&str; 13] = [
    "$ref",
    "$schema",
    "additionalItems",
    "allOf",
    "anyOf",
    "definitions",
    "dependencies",
    "not",
    "nullable",
    "oneOf",
    "patternProperties",
    "title",
    "uniqueItems",
];
/// Number formats that the API server knows; any other is ignored there.
const NUMBER_FORMATS: [&str; 2] = ["int32", "int64"];

fn schemas(crd: &CustomResourceDefinition) -> Vec<(String, Value)> {
    let versions = crd.spec.versions.iter();
    versions
        .map(|version| {
            let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            (
                format!("{} {}", version.name, crd.spec.names.kind),
                serde_json::to_value(schema).expect("a schema is JSON"),
            )
        })
        .collect()
}

fn crd_named(name: &str) -> CustomResourceDefinition {
    crds().into_iter().find(|crd| crd.metadata.name.as_deref() == Some(name)).expect(name)
}

/// Calls `visit` with the path and content of every node of the schema.
fn walk(path: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), property, visit);
    }
    for (keyword, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(inner) = schema.get(keyword) {
            walk(&format!("{path}{suffix}"), inner, visit);
        }
    }
}

fn for_every_node(mut visit: impl FnMut(&str, &Value)) {
    for (name, schema) in crds().iter().flat_map(schemas) {
        walk(&name, &schema, &mut visit);
    }
}

#[test]
fn every_node_has_a_type_and_no_forbidden_keyword() {
    for_every_node(|path, node| {
        let type_ = node["type"].as_str().unwrap_or_else(|| panic!("{path} has no type: {node}"));
        assert!(["array", "boolean", "integer", "object", "string"].contains(&type_), "{path} is {type_}");
        for keyword in FORBIDDEN {
            assert!(node.get(keyword).is_none(), "{path} has {keyword}");
        }
    });
}

#[test]
fn every_object_says_what_it_holds_and_every_array_what_its_items_are() {
    for_every_node(|path, node| {
        let keywords = ["properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields"];
        let says = keywords.iter().filter(|keyword| node.get(**keyword).is_some()).count();
        match node["type"].as_str() {
            // The status of a ClusterProperty is an object without fields.
            Some("object") => {
                assert!(says == 1 || path.ends_with("ClusterProperty.status"), "{path}: {says}")
            }
            Some("array") => assert!(node["items"].is_object(), "{path} has no items"),
            _ => assert_eq!(says, 0, "{path}"),
        }
    });
}

#[test]
fn enums_hold_strings_and_numbers_have_formats_the_server_knows() {
    for_every_node(|path, node| {
        for value in node["enum"].as_array().into_iter().flatten() {
            assert!(value.is_string(), "{path} allows {value}");
        }
        if node["type"] == "integer" {
            let format = node["format"].as_str().unwrap_or_default();
            assert!(NUMBER_FORMATS.contains(&format), "{path} has format {format:?}");
        }
    });
}

#[test]
fn required_fields_exist_and_the_keys_of_keyed_lists_are_required() {
    for_every_node(|path, node| {
        for name in node["required"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap()) {
            assert!(node["properties"].get(name).is_some(), "{path} requires {name}, which it does not have");
        }
        assert_eq!(
            node["x-kubernetes-list-type"] == "map",
            node.get("x-kubernetes-list-map-keys").is_some(),
            "{path}"
        );
        for key in node["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
            assert!(node["items"]["required"].as_array().unwrap().contains(key), "{path} is keyed by {key}");
        }
    });
}

#[test]
fn conditions_are_merged_by_type() {
    let mut seen = 0;
    for_every_node(|path, node| {
        if path.ends_with(".status.conditions") {
            assert_eq!(node["x-kubernetes-list-map-keys"], serde_json::json!(["type"]), "{path}");
            seen += 1;
        }
    });
    assert_eq!(seen, 9, "one list of conditions per served version of a kind that has them");
}

#[test]
fn every_crd_is_named_after_its_plural_and_group_and_stores_one_served_version() {
    for crd in crds() {
        let expected = format!("{}.{}", crd.spec.names.plural, crd.spec.group);
        assert_eq!(crd.metadata.name, Some(expected));
        let stored: Vec<_> = crd.spec.versions.iter().filter(|version| version.storage).collect();
        assert_eq!(stored.len(), 1);
        assert!(crd.spec.versions.iter().all(|version| version.served));
        assert!(crd.status.is_none());
    }
}

#[test]
fn the_order_of_the_crds_is_stable_and_no_name_appears_twice() {
    let names: Vec<_> = crds().into_iter().filter_map(|crd| crd.metadata.name).collect();
    assert_eq!(
        names,
        [
            "serviceexports.multicluster.k8s.io",
            "importedservices.multicluster.k8s.io",
            "serviceexports.multicluster.x-k8s.io",
            "serviceimports.multicluster.x-k8s.io",
            "clusterproperties.about.k8s.io",
            "multiclusterservices.networking.karmada.io",
            "works.work.karmada.io",
            "clusters.cluster.karmada.io",
            "serviceoffers.tombolo.dev",
            "memberships.tombolo.dev",
            "addresspools.tombolo.dev",
        ]
    );
}

#[test]
fn kinds_of_protected_groups_carry_the_approval_annotation_and_others_do_not() {
    for crd in crds() {
        let protected = crd.spec.group.ends_with(".k8s.io") && !crd.spec.group.ends_with(".x-k8s.io");
        let approval = crd.metadata.annotations.unwrap_or_default().remove("api-approved.kubernetes.io");
        // The server wants a URL or a text that begins with this word.
        let accepted = approval.as_deref().is_some_and(|text| {
            text.starts_with("unapproved") || text.starts_with("https://github.com/kubernetes/")
        });
        assert_eq!(accepted, protected, "{:?}", crd.metadata.name);
    }
}

#[test]
fn kinds_with_two_versions_have_one_schema_and_store_the_newer() {
    for name in [
        "serviceexports.multicluster.x-k8s.io",
        "serviceimports.multicluster.x-k8s.io",
        "clusterproperties.about.k8s.io",
    ] {
        let crd = crd_named(name);
        let [older, newer] = crd.spec.versions.as_slice() else { panic!("{name} has not two versions") };
        assert_eq!((older.name.as_str(), older.storage), ("v1alpha1", false));
        assert_eq!((newer.name.as_str(), newer.storage), ("v1beta1", true));
        assert_eq!(older.schema, newer.schema);
        assert_eq!(older.subresources, newer.subresources);
        assert_eq!(older.additional_printer_columns, newer.additional_printer_columns);
    }
}

#[test]
fn the_kinds_of_todays_api_say_which_upstream_schema_they_have() {
    for name in ["serviceexports.multicluster.x-k8s.io", "serviceimports.multicluster.x-k8s.io"] {
        let labels = crd_named(name).metadata.labels.unwrap();
        assert_eq!(labels["multicluster.x-k8s.io/release-version"], "v0.5.2");
        assert_eq!(labels["multicluster.x-k8s.io/crd-schema-revision"], "0");
    }
}

#[test]
fn short_names_are_those_people_type() {
    let cases = [
        ("serviceexports.multicluster.x-k8s.io", &["svcex", "svcexport"][..]),
        ("serviceimports.multicluster.x-k8s.io", &["svcim", "svcimport"]),
        ("multiclusterservices.networking.karmada.io", &["mcs"]),
        ("works.work.karmada.io", &["wk"]),
    ];
    for (name, expected) in cases {
        assert_eq!(crd_named(name).spec.names.short_names.unwrap(), expected, "{name}");
    }
    let all: Vec<_> = crds().into_iter().filter_map(|crd| crd.spec.names.short_names).flatten().collect();
    let unique: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(unique.len(), all.len(), "a short name means one kind");
}

/// What a schema says at a JSON pointer below `properties`, in each version of a kind.
fn check(name: &str, cases: &[(&str, Value)]) {
    for (version, schema) in schemas(&crd_named(name)) {
        for (pointer, expected) in cases {
            let found = schema.pointer(&format!("/properties{pointer}")).unwrap_or(&Value::Null);
            assert_eq!(found, expected, "{version} {pointer}");
        }
    }
}

#[test]
fn a_service_import_has_the_fields_and_bounds_of_todays_api_and_none_that_were_removed() {
    let cases = [
        ("/spec/required", json!(["ports", "type"])),
        ("/spec/properties/type/enum", json!(["ClusterSetIP", "Headless"])),
        ("/spec/properties/ips/maxItems", json!(2)),
        ("/spec/properties/ipFamilies/maxItems", json!(2)),
        ("/spec/properties/ports/x-kubernetes-list-type", json!("atomic")),
        ("/spec/properties/ports/items/required", json!(["port"])),
        ("/spec/properties/ports/items/properties/appProtocol/type", json!("string")),
        ("/spec/properties/ports/items/properties/targetPort", Value::Null),
        ("/spec/properties/ports/items/properties/nodePort", Value::Null),
        ("/spec/properties/internalTrafficPolicy/enum", Value::Null),
        ("/spec/properties/trafficDistribution/enum", Value::Null),
        ("/spec/properties/clusters", Value::Null),
        ("/status/properties/clusters/x-kubernetes-list-map-keys", json!(["cluster"])),
        ("/status/properties/endpointSliceObjects/enum", json!(["Present", "Absent"])),
    ];
    check("serviceimports.multicluster.x-k8s.io", &cases);
}

#[test]
fn conditions_of_todays_exports_are_complete_and_those_of_the_first_edition_need_only_say_yes_or_no() {
    let required = |fields: &[&str]| [("/status/properties/conditions/items/required", json!(fields))];
    let today = required(&["lastTransitionTime", "message", "reason", "status", "type"]);
    check("serviceexports.multicluster.x-k8s.io", &today);
    check("serviceexports.multicluster.k8s.io", &required(&["status", "type"]));
    check(
        "serviceexports.multicluster.x-k8s.io",
        &[
            ("/status/properties/conditions/items/properties/reason/minLength", json!(1)),
            ("/status/properties/conditions/items/properties/reason/maxLength", json!(1024)),
        ],
    );
}

#[test]
fn a_cluster_property_has_a_value() {
    check(
        "clusterproperties.about.k8s.io",
        &[("/spec/required", json!(["value"])), ("/spec/properties/value/minLength", json!(1))],
    );
}
