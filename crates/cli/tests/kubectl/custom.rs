//! Tombolo's own kinds as custom resources: short names, columns, versions, validation.

use crate::playground::Playground;

/// A cluster that knows the kinds of `deploy/crds`.
fn with_kinds() -> Playground {
    let playground = Playground::bare();
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
    let created = playground.run(&format!("apply -f {crds}"));
    let files = std::fs::read_dir(crds).expect("the CRDs").count();
    assert_eq!(created.succeeds().lines().count(), files, "{created}");
    playground.run("wait crd --all --for=condition=Established --timeout=50s").succeeds();
    playground
}

#[test]
fn custom_kinds_are_found_by_their_short_names() {
    let playground = with_kinds();
    let crds = playground.run("get crd -o json").json();
    for crd in crds["items"].as_array().expect("items") {
        let names = &crd["spec"]["names"];
        for short in names["shortNames"].as_array().into_iter().flatten().filter_map(|name| name.as_str()) {
            let outcome = playground.run(&format!("get {short} -A"));
            assert!(
                outcome.code() == Some(0) && outcome.stderr.contains("No resources found"),
                "{short}: {outcome}"
            );
        }
    }
}

#[test]
fn printer_columns_come_from_the_definition() {
    let playground = with_kinds();
    playground
        .apply(
            r#"
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: web}
spec: {type: ClusterSetIP, ips: [10.96.9.9], ports: [{port: 80, name: http}]}
---
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: web}
spec: {types: [CrossCluster]}
"#,
        )
        .prints("serviceimport.multicluster.x-k8s.io/web created\nmulticlusterservice.networking.karmada.io/web created");
    playground.run("get svcim").tabulates(&["NAME TYPE IP AGE", r#"web ClusterSetIP ["10.96.9.9"] *"#]);
    playground
        .run("get mcs")
        .tabulates(&["NAME TYPES SERVICE COLLECTED APPLIED AGE", r#"web ["CrossCluster"] *"#]);
    let mut watch = playground.kubectl.start_watching("get mcs -w --no-headers");
    watch.next_is(r#"web ["CrossCluster"] *"#);
    let condition = r#"{"type":"ServiceApplied","status":"True","reason":"Done","message":"","lastTransitionTime":"2026-11-15T10:00:00Z"}"#;
    playground
        .run(&format!(
            r#"patch mcs web --subresource=status --type=merge -p '{{"status":{{"conditions":[{condition}]}}}}'"#
        ))
        .prints("multiclusterservice.networking.karmada.io/web patched");
    watch.next_is(r#"web ["CrossCluster"] True *"#);
    playground.run("get mcs --no-headers").tabulates(&[r#"web ["CrossCluster"] True *"#]);
    playground.run("wait mcs/web --for=condition=ServiceApplied").succeeds();
    playground.run("describe mcs web").mentions(&["Kind: MultiClusterService", "CrossCluster"]);
    playground.run("get multicluster -o name").prints("serviceimport.multicluster.x-k8s.io/web");
}

#[test]
fn every_served_version_shows_the_same_object() {
    let playground = with_kinds();
    let export = "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceExport\nmetadata: {name: web}\n";
    playground.apply(export).prints("serviceexport.multicluster.x-k8s.io/web created");
    for version in ["v1alpha1", "v1beta1"] {
        playground
            .run(&format!(
                "get serviceexports.{version}.multicluster.x-k8s.io web -o jsonpath={{.apiVersion}}"
            ))
            .prints(&format!("multicluster.x-k8s.io/{version}"));
    }
    playground.run("get svcex web -o name").prints("serviceexport.multicluster.x-k8s.io/web");
    playground
        .apply(&export.replace("v1alpha1", "v1beta1"))
        .shows(&["serviceexport.multicluster.x-k8s.io/web"]);
    playground.apply(&export.replace("v1alpha1", "v7")).fails(1, &["no matches for kind \"ServiceExport\""]);
    playground.run("delete svcex web").shows(&["\"web\" deleted"]);
    playground.run("get serviceexports.v1alpha1.multicluster.x-k8s.io web").fails(1, &["NotFound"]);
}

#[test]
fn custom_objects_are_validated_by_their_schema() {
    let playground = with_kinds();
    let import = |spec: &str| {
        playground.apply(&format!(
            "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceImport\nmetadata: {{name: web}}\nspec: {{{spec}}}\n"
        ))
    };
    import("type: Headless, ports: [{port: 80}], zz: 1")
        .fails(1, &["strict decoding error: unknown field \"spec.zz\""]);
    import("type: Sideways, ports: []").fails(
        1,
        &[
            "The ServiceImport \"web\" is invalid",
            "Unsupported value: \"Sideways\": supported values: \"ClusterSetIP\", \"Headless\"",
        ],
    );
    import("type: Headless, ports: [{port: many}]")
        .fails(1, &["is invalid", "must be of type integer: \"string\""]);
    import("type: Headless, ports: [{name: http}]").fails(1, &["ports[0].port: Required value"]);
    let service = |spec: &str| {
        playground.apply(&format!(
            "apiVersion: networking.karmada.io/v1alpha1\nkind: MultiClusterService\nmetadata: {{name: web}}\nspec: {{{spec}}}\n"
        ))
    };
    service("types: [CrossCluster], ports: [{name: a, port: 1}, {name: a, port: 2}]")
        .fails(1, &["The MultiClusterService \"web\" is invalid", "port names must be unique"]);
    service("types: [CrossCluster]").succeeds();
    service("types: [LoadBalancer]").fails(1, &["is invalid", "spec.types"]);
    playground.run(r#"patch mcs web -p '{"spec":{}}' --type=strategic"#).fails(
        1,
        &["application/strategic-merge-patch+json is not supported", "application/merge-patch+json"],
    );
}

#[test]
fn custom_objects_are_edited_applied_and_diffed_like_others() {
    let playground = with_kinds();
    let export = |labels: &str| {
        format!(
            "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {{name: web}}\nspec: {{exportedLabels: {{{labels}}}}}\n"
        )
    };
    let labels = "get svcex web -o jsonpath={.spec.exportedLabels}";
    playground.apply(&export("a: b, c: d")).shows(&["created"]);
    playground.apply(&export("a: b, c: d")).shows(&["unchanged"]);
    playground.apply(&export("a: red")).shows(&["configured"]);
    playground.run(labels).prints(r#"{"a":"red"}"#);
    let diff = playground.kubectl.feed("diff -f -", &export("a: green"));
    assert!(diff.code() == Some(1) && diff.stdout.contains("+    a: green\n"), "{diff}");
    playground
        .kubectl
        .feed("apply --server-side --field-manager=me -f -", &export("a: blue"))
        .fails(1, &["conflict"]);
    playground.kubectl.env("KUBE_EDITOR", "sed -i s/red$/edited/").run("edit svcex web").shows(&["edited"]);
    playground.run(labels).prints(r#"{"a":"edited"}"#);
    playground.run("label svcex web tier=front").shows(&["labeled"]);
    playground.run("get svcex -l tier=front -o name").prints("serviceexport.multicluster.x-k8s.io/web");
}

#[test]
fn deleting_a_definition_takes_its_objects_along() {
    let playground = with_kinds();
    playground
        .apply("apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: web}\n")
        .succeeds();
    playground.run("delete crd serviceexports.multicluster.x-k8s.io").shows(&["deleted"]);
    playground.run("get svcex").fails(1, &["the server could not find the requested resource"]);
    let crd =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds/serviceexports.multicluster.x-k8s.io.yaml");
    playground.run(&format!("apply -f {crd}")).shows(&["created"]);
    playground.run("wait crd/serviceexports.multicluster.x-k8s.io --for=condition=Established").succeeds();
    let again = playground.run("get svcex");
    assert!(again.code() == Some(0) && again.stderr.contains("No resources found"), "{again}");
}
