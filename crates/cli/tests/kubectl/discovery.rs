//! What kubectl finds out about a server: resources, versions, itself.

use tombolo_apiserver::Options;
use tombolo_testkit::embedded_only;

use crate::playground::Playground;

#[test]
fn api_resources_name_kinds_scopes_and_short_names() {
    let playground = Playground::bare();
    let outcome = playground.run("api-resources");
    let rows: Vec<Vec<&str>> =
        outcome.succeeds().lines().map(|row| row.split_whitespace().collect()).collect();
    for expected in [
        "NAME SHORTNAMES APIVERSION NAMESPACED KIND",
        "services svc v1 true Service",
        "namespaces ns v1 false Namespace",
        "deployments deploy apps/v1 true Deployment",
        "endpointslices discovery.k8s.io/v1 true EndpointSlice",
        "leases coordination.k8s.io/v1 true Lease",
        "customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false CustomResourceDefinition",
    ] {
        assert!(rows.contains(&expected.split_whitespace().collect()), "{expected}\n{outcome}");
    }
    playground.run("api-resources --namespaced=false -o name").shows(&["namespaces\n", "nodes\n"]);
    playground
        .run("api-resources --api-group=discovery.k8s.io -o name")
        .prints("endpointslices.discovery.k8s.io");
    let verbs = playground.run("api-resources --api-group=apps -o wide");
    verbs.shows(&["create,delete,deletecollection,get,list,patch,update,watch", "all"]);
}

#[test]
fn api_versions_and_the_server_s_version_are_told() {
    let playground = Playground::bare();
    let outcome = playground.run("api-versions");
    let versions: Vec<&str> = outcome.succeeds().lines().collect();
    for expected in
        ["v1", "apps/v1", "discovery.k8s.io/v1", "apiextensions.k8s.io/v1", "coordination.k8s.io/v1"]
    {
        assert!(versions.contains(&expected), "{expected}\n{outcome}");
    }
    playground.run("version").shows(&["Server Version: v1."]);
    assert_eq!(playground.run("version -o json").json()["serverVersion"]["major"], "1");
    playground.run("cluster-info").shows(&["is running at", "https://127.0.0.1:"]);
    let names = playground.run("get svc,deploy.apps,endpointslices.v1.discovery.k8s.io -o name");
    names.prints("service/kubernetes");
}

#[test]
fn explain_says_that_there_are_no_schemas_yet() {
    embedded_only!("a real server has schemas of everything");
    Playground::bare().run("explain services.spec").fails(1, &["not found in OpenAPI schema"]);
}

#[test]
fn clusters_of_one_process_know_nothing_of_each_other() {
    let playground =
        Playground::start((1..=3).map(|number| Options::named(format!("member{number}"))), false);
    playground.run("config get-contexts -o name").prints("member1\nmember2\nmember3");
    for number in 1..=3 {
        let member = playground.kubectl.with(&format!("--context=member{number}"));
        member.run(&format!("create cm only-{number}")).succeeds();
    }
    for number in 1..=3 {
        let member = playground.kubectl.with(&format!("--context=member{number}"));
        member.run("get cm -o name").prints(&format!("configmap/only-{number}"));
    }
    playground.run("config current-context").prints("member1");
}
