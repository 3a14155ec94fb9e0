//! What kubectl finds out about a server: resources, versions, itself.

use tombolo_apiserver::Options;
use tombolo_testkit::eventually;

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
fn explain_names_the_fields_of_built_in_kinds() {
    let playground = Playground::bare();
    playground.run("explain svc").mentions(&[
        "KIND: Service",
        "VERSION: v1",
        "spec <ServiceSpec>",
        "metadata <ObjectMeta>",
    ]);
    playground.run("explain services.spec").mentions(&[
        "FIELD: spec <ServiceSpec>",
        "clusterIPs <[]string>",
        "selector <map[string]string>",
        "ports <[]ServicePort>",
    ]);
    playground.run("explain pod.spec.containers.ports.hostPort").mentions(&["FIELD: hostPort <integer>"]);
    playground.run("explain sts.spec.template.spec.containers").mentions(&["GROUP: apps", "image <string>"]);
    playground.run("explain deploy --recursive").mentions(&["matchExpressions <[]LabelSelectorRequirement>"]);
    playground.run("explain svc.spec.nonsense").fails(1, &["field \"nonsense\" does not exist"]);
    playground.run("explain unicorns").fails(1, &["the server doesn't have a resource type \"unicorns\""]);
}

#[test]
fn explain_shows_what_a_definition_says() {
    const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: lamps, kind: Lamp}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: Something that gives light.
        properties:
          spec:
            type: object
            properties: {color: {type: string, description: How it looks., enum: [red, blue]}}
";
    let playground = Playground::bare();
    playground.kubectl.feed("create -f -", DEFINITION).succeeds();
    // A real server publishes schemas a while after definitions.
    eventually("there is a schema", || playground.run("explain lamps").code() == Some(0));
    playground.run("explain lamps").mentions(&[
        "GROUP: example.com",
        "Something that gives light.",
        "metadata <ObjectMeta>",
        "spec <Object>",
    ]);
    playground.run("explain lamps.spec.color").mentions(&["FIELD: color <string>", "How it looks."]);
    playground
        .run("explain lamps.metadata.ownerReferences")
        .mentions(&["<[]OwnerReference>", "uid <string>"]);
}

#[test]
fn cluster_info_names_the_services_of_the_cluster() {
    let playground = Playground::bare();
    playground.run("create service clusterip kube-dns --tcp=53 -n kube-system").succeeds();
    playground.run("label svc kube-dns -n kube-system kubernetes.io/cluster-service=true").succeeds();
    playground.run("cluster-info").shows(&["kube-dns", "/api/v1/namespaces/kube-system/services/kube-dns"]);
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
