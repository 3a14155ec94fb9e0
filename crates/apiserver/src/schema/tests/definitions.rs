//! Definitions: what is completed, accepted and refused.

use serde_json::{Value, json};

use super::{SERVICE_IMPORT, define, texts, yaml};
use crate::schema::{Definition, compare_versions, complete};

fn crd(schema: Value) -> Value {
    json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

#[track_caller]
fn refused(crd: &Value, expected: &[&str]) {
    let errors = Definition::parse(crd).expect_err("the definition must be refused");
    assert_eq!(texts(&errors), expected);
}

#[test]
fn completion_fills_in_names_conversion_and_stored_versions() {
    let mut crd = crd(json!({"type": "object"}));
    complete(&mut crd);
    assert_eq!(
        crd["spec"]["names"],
        json!({"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"})
    );
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    let once = crd.clone();
    complete(&mut crd);
    assert_eq!(crd, once);
}

#[test]
fn a_realistic_definition_becomes_types() {
    let definition = define(&yaml(SERVICE_IMPORT));
    assert_eq!(definition.names.list_kind, "ServiceImportList");
    assert_eq!(definition.names.short_names, ["svcim", "svcimport"]);
    assert!(definition.namespaced);
    assert!(definition.versions.iter().all(|version| version.served));
    assert_eq!(definition.storage().map(|version| version.name.as_str()), Some("v1beta1"));
    let alpha = definition.versions.iter().find(|version| version.name == "v1alpha1").unwrap();
    assert_eq!((alpha.deprecated, alpha.warning.as_deref(), alpha.status), (true, Some("use v1beta1"), true));
    let columns: Vec<(&str, &str, i32)> =
        alpha.columns.iter().map(|c| (c.name.as_str(), c.kind.as_str(), c.priority)).collect();
    assert_eq!(
        columns,
        [("Type", "string", 0), ("IP", "string", 0), ("Ready", "string", 1), ("Age", "date", 0)]
    );
}

#[test]
fn a_realistic_object_is_pruned_defaulted_and_checked() {
    let definition = define(&yaml(SERVICE_IMPORT));
    let schema = definition.storage().and_then(|version| version.schema.clone()).unwrap();
    let mut import = json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": {"name": "web"},
        "spec": {"type": "ClusterSetIP", "ports": [{"port": 80, "nodePort": 30000}], "ips": null},
        "status": {"clusters": [{"cluster": "a"}, {"cluster": "b"}]},
    });
    assert_eq!(schema.prune(&mut import), ["spec.ports[0].nodePort"]);
    schema.drop_nulls(&mut import);
    schema.default(&mut import);
    let spec = json!({"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}], "sessionAffinity": "None"});
    assert_eq!(import["spec"], spec);
    assert_eq!(texts(&schema.validate(&import, None)), [""; 0]);

    import["spec"]["type"] = json!("NodePort");
    import["spec"]["ips"] = json!(["1", "2", "3"]);
    import["spec"]["ports"][0]["port"] = json!("http");
    import["status"]["clusters"][1]["cluster"] = json!("a");
    import["status"]["conditions"] = json!([{"type": "Ready", "status": "yes", "lastTransitionTime": "now", "reason": "-", "message": ""}]);
    assert_eq!(
        texts(&schema.validate(&import, None)),
        [
            "spec.ips: Too many: 3: must have at most 2 items",
            r#"spec.ports[0].port: Invalid value: "string": spec.ports[0].port in body must be of type integer: "string""#,
            r#"spec.type: Unsupported value: "NodePort": supported values: "ClusterSetIP", "Headless""#,
            r#"status.conditions[0].lastTransitionTime: Invalid value: "now": status.conditions[0].lastTransitionTime in body must be of type date-time: "now""#,
            r#"status.conditions[0].reason: Invalid value: "-": status.conditions[0].reason in body should match '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$'"#,
            r#"status.conditions[0].status: Unsupported value: "yes": supported values: "True", "False", "Unknown""#,
            r#"status.clusters[1]: Duplicate value: {"cluster":"a"}"#,
        ]
    );
}

#[test]
fn schemas_have_to_be_structural() {
    let at = "spec.validation.openAPIV3Schema";
    let cases = [
        (json!({}), vec!["type: Required value: must not be empty at the root"]),
        (json!({"type": "string"}), vec![r#"type: Invalid value: "string": must be object at the root"#]),
        (
            json!({"type": "object", "properties": {"a": {}}}),
            vec!["properties[a].type: Required value: must not be empty for specified object fields"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            vec!["properties[a].items: Required value: must be specified"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
            vec!["properties[a].items.type: Required value: must not be empty for specified array items"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "$ref": "#/x"}}}),
            vec!["properties[a].$ref: Forbidden: $ref is not supported"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "text"}}}),
            vec![
                r#"properties[a].type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#,
            ],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            vec![
                "properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"type": "string"}, {"description": "d"}]}}}),
            vec![
                "properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
                "properties[a].anyOf[1].description: Forbidden: must be empty to be structural",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}}),
            vec![
                "properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}}),
            vec![
                "properties[a].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
            vec![
                r#"properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#,
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "default": {"z": 1}, "properties": {"y": {"type": "string"}}}}}),
            vec![r#"properties[a].default: Invalid value: {"z":1}: must not have unknown fields"#],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}}),
            vec![
                r#"properties[a].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within spec.validation.openAPIV3Schema.properties[a]"#,
            ],
        ),
    ];
    for (schema, expected) in cases {
        let expected: Vec<String> = expected.iter().map(|text| format!("{at}.{text}")).collect();
        refused(&crd(schema), &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn versions_that_differ_are_reported_one_by_one() {
    let mut crd = crd(json!({"type": "object"}));
    let second = json!({"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {}}});
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    refused(
        &crd,
        &["spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root"],
    );
}

#[test]
fn names_versions_and_scope_have_to_fit() {
    let change = |pointer: &str, value: Value| {
        let mut crd = crd(json!({"type": "object"}));
        *crd.pointer_mut(pointer).unwrap() = value;
        crd
    };
    let cases = [
        (
            "/metadata/name",
            json!("bars.example.com"),
            r#"metadata.name: Invalid value: "bars.example.com": must be spec.names.plural+"."+spec.group"#,
        ),
        (
            "/spec/scope",
            json!("Galaxy"),
            r#"spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced""#,
        ),
        (
            "/spec/versions/0/storage",
            json!(false),
            r#"spec.versions: Invalid value: ["v1"]: must have exactly one version marked as storage version"#,
        ),
        (
            "/spec/versions/0/served",
            json!(false),
            r#"spec.versions: Invalid value: ["v1"]: must have at least one version marked as served"#,
        ),
        ("/spec/versions/0/schema", json!(null), "spec.versions[0].schema.openAPIV3Schema: Required value"),
        (
            "/spec/versions/0/name",
            json!("V1"),
            r#"spec.versions[0].name: Invalid value: "V1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"#,
        ),
    ];
    for (pointer, value, expected) in cases {
        refused(&change(pointer, value), &[expected]);
    }
}

#[test]
fn community_groups_need_an_approval() {
    let approved = |annotation: Option<&str>| {
        let mut crd = crd(json!({"type": "object"}));
        crd["spec"]["group"] = json!("multicluster.k8s.io");
        crd["metadata"] = json!({"name": "foos.multicluster.k8s.io", "annotations": {"api-approved.kubernetes.io": annotation}});
        crd
    };
    refused(
        &approved(None),
        &[
            r#"metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#,
        ],
    );
    refused(
        &approved(Some("yes")),
        &[
            r#"metadata.annotations[api-approved.kubernetes.io]: Invalid value: "yes": protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111"#,
        ],
    );
    define(&approved(Some("https://github.com/kubernetes/enhancements/pull/1")));
    define(&approved(Some("unapproved, for a test")));
    let mut other = crd(json!({"type": "object"}));
    other["spec"]["group"] = json!("x-k8s.io");
    other["metadata"]["name"] = json!("foos.x-k8s.io");
    define(&other);
}

#[test]
fn columns_scale_and_selectable_fields_are_read_and_checked() {
    let mut crd = crd(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "color": {"type": "string"}, "replicas": {"type": "integer"}, "deep": {"type": "object"},
    }}}}));
    let version = |crd: &mut Value, key: &str, value: Value| crd["spec"]["versions"][0][key] = value;
    version(
        &mut crd,
        "subresources",
        json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}),
    );
    version(&mut crd, "selectableFields", json!([{"jsonPath": ".spec.color"}]));
    let definition = define(&crd);
    let v1 = definition.versions.iter().find(|version| version.name == "v1").unwrap();
    assert_eq!(v1.selectable_fields[0].name, "spec.color");
    let scale = v1.scale.as_ref().unwrap();
    assert_eq!(scale.spec_replicas.find(&json!({"spec": {"replicas": 3}})), [&json!(3)]);
    assert_eq!((scale.label_selector.is_none(), v1.status), (true, false));

    version(
        &mut crd,
        "subresources",
        json!({"scale": {"specReplicasPath": ".replicas", "statusReplicasPath": ".status.replicas"}}),
    );
    version(&mut crd, "selectableFields", json!([{"jsonPath": ".spec.shape"}, {"jsonPath": ".spec.deep"}]));
    version(
        &mut crd,
        "additionalPrinterColumns",
        json!([{"name": "A", "type": "text", "jsonPath": "a"}, {"name": "B", "type": "string", "jsonPath": ".a..b"}]),
    );
    refused(
        &crd,
        &[
            r#"spec.subresources.scale.specReplicasPath: Invalid value: ".replicas": should be a json path under .spec"#,
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string"#,
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with ."#,
            r#"spec.additionalPrinterColumns[1].JSONPath: Invalid value: ".a..b": recursive descent ('..') is not supported"#,
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.shape": is an invalid path: does not refer to a valid field"#,
            r#"spec.selectableFields[1].jsonPath: Invalid value: ".spec.deep": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#,
        ],
    );
}

#[test]
fn conversion_webhooks_are_refused() {
    let mut crd = crd(json!({"type": "object"}));
    crd["spec"]["conversion"] = json!({"strategy": "Webhook"});
    refused(&crd, &[r#"spec.conversion.strategy: Unsupported value: "Webhook": supported values: "None""#]);
}

#[test]
fn malformed_definitions_are_refused_and_do_not_panic() {
    for odd in [
        json!(null),
        json!([]),
        json!({}),
        json!({"spec": []}),
        json!({"spec": {"versions": [1, null]}, "status": 3}),
    ] {
        assert!(Definition::parse(&odd).is_err(), "{odd}");
        complete(&mut odd.clone());
    }
    let deep = (0..100)
        .fold(json!({"type": "string"}), |inner, _| json!({"type": "object", "properties": {"a": inner}}));
    assert!(Definition::parse(&crd(deep)).is_err());
    assert!(compare_versions("v1", "v1beta1").is_lt());
}
