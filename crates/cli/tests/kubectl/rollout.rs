//! Deployments, pods and nodes as kubectl follows them; the controllers stand behind it.

use crate::playground::Playground;

/// A cluster where `web` has three ready replicas.
fn rolled_out() -> Playground {
    let playground = Playground::new();
    playground.run("create deployment web --image=example:1 --replicas=3").succeeds();
    settled(&playground);
    playground
}

#[track_caller]
fn settled(playground: &Playground) {
    playground
        .run("rollout status deploy/web --timeout=50s")
        .shows(&["deployment \"web\" successfully rolled out"]);
}

#[test]
fn a_deployment_rolls_out() {
    let playground = rolled_out();
    playground.run("wait deploy/web --for=condition=Available").prints("deployment.apps/web condition met");
    playground.run("get deploy web").tabulates(&["NAME READY UP-TO-DATE AVAILABLE AGE", "web 3/3 3 3 *"]);
    playground.run("get rs").tabulates(&["NAME DESIRED CURRENT READY AGE", "* 3 3 3 *"]);
    playground.run("get pods -l app=web -o wide").tabulates(&[
        "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES",
        "* 1/1 Running 0 * * * <none> <none>",
        "* 1/1 Running 0 * * * <none> <none>",
        "* 1/1 Running 0 * * * <none> <none>",
    ]);
    playground.run("get pods --field-selector status.phase=Running -o name").shows(&["pod/web-"]);
    playground.run("get all").shows(&["deployment.apps/web", "replicaset.apps/web-", "pod/web-"]);
    playground.run("describe deploy web").mentions(&[
        "Replicas: 3 desired | 3 updated | 3 total | 3 available | 0 unavailable",
        "Available True MinimumReplicasAvailable",
        "Progressing True NewReplicaSetAvailable",
        "NewReplicaSet:",
    ]);
    playground.run("describe pods -l app=web").mentions(&[
        "Status: Running",
        "Controlled By: ReplicaSet/web-",
        "Ready: True",
    ]);
}

#[test]
fn replicas_follow_scale_and_come_back_when_deleted() {
    let playground = rolled_out();
    playground.run("scale deploy web --replicas=1").succeeds();
    playground.run("wait deploy/web --for=jsonpath={.status.replicas}=1 --timeout=50s").succeeds();
    let first = playground.run("get pods -o name");
    playground.run("delete pods --all").succeeds();
    playground.run("wait deploy/web --for=jsonpath={.status.readyReplicas}=1 --timeout=50s").succeeds();
    settled(&playground);
    let second = playground.run("get pods -o name");
    assert_ne!(first.succeeds(), second.succeeds());
    playground.run("scale deploy web --replicas=0").succeeds();
    playground.run("wait pods -l app=web --for=delete --timeout=50s").succeeds();
    playground.run("delete deploy web").succeeds();
    playground.run("wait rs -l app=web --for=delete --timeout=50s").succeeds();
    playground.run("get all -l app=web -o name").prints("");
}

#[test]
fn revisions_are_recorded_and_undone() {
    let playground = rolled_out();
    let image = "get deploy web -o jsonpath={.spec.template.spec.containers[0].image}";
    playground.run("set image deploy/web example=example:2").succeeds();
    settled(&playground);
    playground.run("annotate deploy web kubernetes.io/change-cause='second image'").succeeds();
    playground.run("rollout restart deploy/web").prints("deployment.apps/web restarted");
    settled(&playground);
    let history = playground.run("rollout history deploy/web");
    history.shows(&["REVISION  CHANGE-CAUSE\n1 ", "\n2 ", "\n3 "]);
    playground.run("rollout history deploy/web --revision=1").shows(&["example:1"]);
    let replicas = playground.run("get rs --sort-by=.spec.replicas -o jsonpath={.items[*].spec.replicas}");
    replicas.prints("0 0 3");
    playground.run("rollout undo deploy/web --to-revision=1").prints("deployment.apps/web rolled back");
    settled(&playground);
    playground.run(image).prints("example:1");
    let pods = playground.run(
        "get pods -o jsonpath='{.items[*].spec.containers[0].image}' --field-selector status.phase=Running",
    );
    assert!(pods.succeeds().split(' ').any(|image| image == "example:1"), "{pods}");
    playground
        .run("rollout undo deploy/web --to-revision=99")
        .fails(1, &["unable to find specified revision 99 in history"]);
}

#[test]
fn a_paused_rollout_waits() {
    let playground = rolled_out();
    playground.run("rollout pause deploy/web").prints("deployment.apps/web paused");
    playground.run("set image deploy/web example=example:2").succeeds();
    playground
        .run("rollout status deploy/web --timeout=2s")
        .fails(1, &["timed out waiting for the condition"]);
    playground
        .run("get pods -l app=web -o jsonpath={.items[0].spec.containers[0].image}")
        .prints("example:1");
    playground.run("rollout resume deploy/web").prints("deployment.apps/web resumed");
    settled(&playground);
}

#[test]
fn a_service_gets_the_endpoints_of_its_pods() {
    let playground = rolled_out();
    playground.run("expose deploy web --port=80 --target-port=8080").succeeds();
    playground
        .run("wait endpointslice -l kubernetes.io/service-name=web --for=jsonpath={.endpoints[2].conditions.ready}=true --timeout=50s")
        .succeeds();
    let pods = playground.run("get pods -l app=web -o jsonpath={.items[*].status.podIP}");
    let described = playground.run("describe svc web");
    for address in pods.succeeds().split(' ') {
        described.shows(&[&format!("{address}:8080")]);
    }
    playground
        .run("get endpointslices")
        .tabulates(&["NAME ADDRESSTYPE PORTS ENDPOINTS AGE", "* IPv4 8080 * *"]);
    playground.run("delete deploy web").succeeds();
    playground.run("wait pods -l app=web --for=delete --timeout=50s").succeeds();
    playground.run("delete svc web").succeeds();
    playground
        .run("wait endpointslice -l kubernetes.io/service-name=web --for=delete --timeout=50s")
        .succeeds();
}

#[test]
fn nodes_look_alive() {
    let playground = rolled_out();
    playground.run("wait nodes --all --for=condition=Ready --timeout=50s").succeeds();
    let nodes = playground.run("get nodes -o jsonpath={.items[*].metadata.name}");
    let nodes: Vec<&str> = nodes.succeeds().split(' ').collect();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    playground.run("get nodes --no-headers").shows(&[" Ready "]);
    playground.run("get nodes -o wide").shows(&["INTERNAL-IP"]);
    playground.run(&format!("describe node {}", nodes[0])).mentions(&[
        "Conditions:",
        "Ready",
        "Allocatable:",
        "Non-terminated Pods:",
        "web-",
    ]);
    playground.run(&format!("cordon {}", nodes[0])).shows(&["cordoned"]);
    playground.run(&format!("get node {} --no-headers", nodes[0])).shows(&["Ready,SchedulingDisabled"]);
    playground.run(&format!("uncordon {}", nodes[0])).shows(&["uncordoned"]);
    playground.run(&format!("drain {} --timeout=50s", nodes[0])).shows(&["evicted", "drained"]);
    playground.run(&format!("get pods --field-selector spec.nodeName={} -o name", nodes[0])).prints("");
    settled(&playground);
}

#[test]
fn every_namespace_has_an_account_and_an_authority() {
    let playground = Playground::new();
    playground.run("create ns shop").succeeds();
    playground.run("wait sa/default -n shop --for=create --timeout=50s").succeeds();
    playground.run("wait cm/kube-root-ca.crt -n shop --for=create --timeout=50s").succeeds();
    playground
        .run("get cm kube-root-ca.crt -n shop -o jsonpath='{.data.ca\\.crt}'")
        .shows(&["-----BEGIN CERTIFICATE-----"]);
    playground.run("create token default -n shop").succeeds();
}

const STATEFUL: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: peers
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: 'example:1'}]}
";

#[test]
fn a_stateful_set_rolls_out_scales_and_goes_back() {
    let playground = Playground::new();
    playground.apply(STATEFUL).prints("statefulset.apps/db created");
    let settled = || {
        playground
            .run("rollout status sts/db --timeout=50s")
            .shows(&["roll out complete: 3 new pods have been updated"])
            .code()
    };
    settled();
    playground.run("get sts").tabulates(&["NAME READY AGE", "db 3/3 *"]);
    playground.run("get pods -o name").prints("pod/db-0\npod/db-1\npod/db-2");
    playground.run("set image sts/db db=example:2").succeeds();
    settled();
    let images = "get pods -o jsonpath='{.items[*].spec.containers[0].image}'";
    playground.run(images).prints("example:2 example:2 example:2");
    playground.run("rollout history sts/db").mentions(&["REVISION CHANGE-CAUSE", "1 <none>", "2 <none>"]);
    playground.run("rollout undo sts/db").prints("statefulset.apps/db rolled back");
    settled();
    playground.run(images).prints("example:1 example:1 example:1");
    playground.run("scale sts db --replicas=1").prints("statefulset.apps/db scaled");
    playground.run("wait pod/db-1 --for=delete --timeout=50s").succeeds();
    playground.run("get pods -o name").prints("pod/db-0");
    playground.run("describe sts db").mentions(&["Replicas: 1 desired | 1 total", "Pods Status: 1 Running"]);
    playground.run("delete sts db").succeeds();
    playground.run("wait pod/db-0 --for=delete --timeout=50s").succeeds();
}
