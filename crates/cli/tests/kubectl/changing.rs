//! Commands that change one thing: edit, patch, label, annotate, scale, set, expose, run.

use serde_json::json;

use crate::playground::Playground;

const DATA: &str = "get cm settings -o jsonpath={.data}";

fn settings() -> Playground {
    let playground = Playground::bare();
    playground.run("create cm settings --from-literal=color=red").succeeds();
    playground
}

/// An editor that runs sed on the file it is given.
fn editor(playground: &Playground, script: &str) -> tombolo_testkit::Kubectl {
    playground.kubectl.env("KUBE_EDITOR", &format!("sed -i {script}"))
}

#[test]
fn edit_saves_what_the_editor_wrote() {
    let playground = settings();
    editor(&playground, "s/red/blue/").run("edit cm settings").prints("configmap/settings edited");
    playground.run(DATA).prints(r#"{"color":"blue"}"#);
    let same = editor(&playground, "s/green/yellow/").run("edit cm settings");
    assert!(same.code() == Some(0) && same.stderr.contains("Edit cancelled, no changes made."), "{same}");
    let broken = editor(&playground, "s/blue/{/").run("edit cm settings");
    assert!(broken.code().is_some_and(|code| code != 0), "{broken}");
    playground.run(DATA).prints(r#"{"color":"blue"}"#);
}

#[test]
fn edit_of_a_service_keeps_what_the_server_filled_in() {
    let playground = Playground::bare();
    playground.run("create service clusterip web --tcp=80").succeeds();
    let address = playground.run("get svc web -o jsonpath={.spec.clusterIP}");
    editor(&playground, "s/port:.80/port:\\ 81/").run("edit svc web").prints("service/web edited");
    playground
        .run("get svc web -o jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
        .prints(&format!("{}:81", address.succeeds()));
}

#[test]
fn patches_come_in_three_kinds() {
    let playground = Playground::bare();
    playground.run("create deployment web --image=one").succeeds();
    let image = "get deploy web -o jsonpath={.spec.template.spec.containers[*].image}";
    playground
        .run(r#"patch deploy web -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"two"}]}}}}'"#)
        .prints("deployment.apps/web patched");
    assert_eq!(
        playground.run(image).succeeds().split(' ').count(),
        2,
        "a strategic patch merges containers by name"
    );
    playground
        .run(r#"patch deploy web --type=merge -p '{"spec":{"template":{"spec":{"containers":[{"name":"only","image":"three"}]}}}}'"#)
        .prints("deployment.apps/web patched");
    playground.run(image).prints("three");
    playground
        .run(r#"patch deploy web --type=json -p '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"four"}]'"#)
        .prints("deployment.apps/web patched");
    playground.run(image).prints("four");
    playground
        .run(r#"patch deploy web --type=merge -p '{"spec":{"replicas":1}}'"#)
        .prints("deployment.apps/web patched (no change)");
    playground.run(r#"patch deploy nope -p '{}'"#).fails(1, &["NotFound"]);
    playground
        .run(r#"patch deploy web --type=json -p '[{"op":"test","path":"/spec/replicas","value":7}]'"#)
        .fails(1, &["the server rejected our request due to an error in our request"]);
    playground
        .run(r#"patch deploy web --type=merge -p '{"spec":{"replicas":-1}}'"#)
        .fails(1, &["The Deployment \"web\" is invalid: spec.replicas: Invalid value: -1"]);
    playground
        .run(r#"patch deploy web --type=merge -p '{"spec":{"selector":{"matchLabels":{"app":"other"}}}}'"#)
        .fails(1, &["is invalid"]);
}

#[test]
fn the_status_is_patched_apart() {
    let playground = Playground::bare();
    playground.run("create service loadbalancer public --tcp=80").succeeds();
    let patch =
        r#"{"spec":{"selector":{"lost":"yes"}},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}"#;
    playground
        .run(&format!("patch svc public --subresource=status --type=merge -p '{patch}'"))
        .prints("service/public patched");
    playground
        .run("get svc public")
        .tabulates(&["NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE", "public LoadBalancer * 192.0.2.7 * *"]);
    playground.run("get svc public -o jsonpath={.spec.selector}").prints(r#"{"app":"public"}"#);
    let status = playground.run("get svc public --subresource=status -o json").json();
    assert_eq!(status["status"]["loadBalancer"]["ingress"], json!([{"ip": "192.0.2.7", "ipMode": "VIP"}]));
}

#[test]
fn labels_and_annotations_are_added_changed_and_removed() {
    let playground = settings();
    playground.run("label cm settings tier=front").prints("configmap/settings labeled");
    playground.run("label cm settings tier=front").prints("configmap/settings not labeled");
    playground
        .run("label cm settings tier=back")
        .fails(1, &["'tier' already has a value (front), and --overwrite is false"]);
    playground.run("label cm settings tier=back --overwrite").prints("configmap/settings labeled");
    playground.run("label cm --all color=red").succeeds();
    playground
        .run("get cm settings -o jsonpath={.metadata.labels}")
        .prints(r#"{"color":"red","tier":"back"}"#);
    playground.run("label cm settings tier- color-").prints("configmap/settings unlabeled");
    playground.run("get cm settings -o jsonpath={.metadata.labels}").prints("");
    playground.run("label cm settings bad/label/key=x").fails(1, &[]);
    playground.run("label cm nope tier=front").fails(1, &["NotFound"]);
    playground.run("annotate cm settings note='two words'").prints("configmap/settings annotated");
    playground.run("get cm settings -o jsonpath={.metadata.annotations.note}").prints("two words");
    playground.run("annotate cm settings note-").prints("configmap/settings annotated");
    playground.run("get cm settings -o jsonpath={.metadata.annotations}").prints("");
}

#[test]
fn scale_goes_through_the_scale_subresource() {
    let playground = Playground::bare();
    playground.run("create deployment web --image=example --replicas=2").succeeds();
    playground.run("scale deploy web --replicas=5").prints("deployment.apps/web scaled");
    playground.run("get deploy web -o jsonpath={.spec.replicas}").prints("5");
    playground
        .run("scale deploy web --current-replicas=2 --replicas=1")
        .fails(1, &["Expected replicas to be 2, was 5"]);
    playground.run("scale deploy web --current-replicas=5 --replicas=0").prints("deployment.apps/web scaled");
    playground.run("get deploy web -o jsonpath={.spec.replicas}").prints("0");
    playground.run("scale deploy nope --replicas=1").fails(1, &[]);
    playground.run("scale cm kube-root-ca.crt --replicas=1").fails(1, &[]);
    let scale = playground.run("get --raw /apis/apps/v1/namespaces/default/deployments/web/scale").json();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(scale["status"]["selector"], "app=web");
}

#[test]
fn set_changes_parts_of_a_pod_template() {
    let playground = Playground::bare();
    playground.run("create deployment web --image=one").succeeds();
    playground.run("set image deploy/web one=two:2").prints("deployment.apps/web image updated");
    playground.run("set env deploy/web COLOR=red").prints("deployment.apps/web env updated");
    playground
        .run("set resources deploy/web --requests=cpu=100m")
        .prints("deployment.apps/web resource requirements updated");
    let container =
        playground.run("get deploy web -o json").json()["spec"]["template"]["spec"]["containers"][0].clone();
    assert_eq!(container["image"], "two:2");
    assert_eq!(container["env"], json!([{"name": "COLOR", "value": "red"}]));
    assert_eq!(container["resources"]["requests"]["cpu"], "100m");
    playground.run("set image deploy/web nope=two").fails(1, &["unable to find container named \"nope\""]);
    playground.run("get deploy web -o jsonpath={.metadata.generation}").prints("4");
}

#[test]
fn expose_and_run_make_services_and_pods() {
    let playground = Playground::bare();
    playground.run("create deployment web --image=example --port=8080").succeeds();
    playground.run("expose deploy web --port=80 --target-port=8080").prints("service/web exposed");
    playground
        .run("get svc web -o jsonpath='{.spec.selector} {.spec.ports[0].targetPort}'")
        .prints(r#"{"app":"web"} 8080"#);
    playground
        .run("run solo --image=example --port=80 --expose --labels=app=solo")
        .shows(&["service/solo created", "pod/solo created"]);
    playground.run("get pods").tabulates(&["NAME READY STATUS RESTARTS AGE", "solo 0/1 Pending 0 *"]);
    playground.run("run solo --image=example").fails(1, &["pods \"solo\" already exists"]);
}
