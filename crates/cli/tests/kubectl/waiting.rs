//! `kubectl wait`: for a condition, for a value, for the end.

use crate::playground::Playground;

#[test]
fn wait_ends_when_the_value_is_there() {
    let playground = Playground::bare();
    playground.run("create service loadbalancer public --tcp=80").succeeds();
    let ingress = "--for=jsonpath='{.status.loadBalancer.ingress[0].ip}'=192.0.2.7";
    playground
        .run(&format!("wait svc/public {ingress} --timeout=1s"))
        .fails(1, &["timed out waiting for the condition"]);
    let waiting = playground.kubectl.start_watching(&format!("wait svc/public {ingress} --timeout=50s"));
    playground
        .run(r#"patch svc public --subresource=status --type=merge -p '{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}'"#)
        .succeeds();
    waiting.finish().prints("service/public condition met");
    playground.run(&format!("wait svc/public {ingress}")).prints("service/public condition met");
}

#[test]
fn wait_ends_when_the_condition_holds() {
    let playground = Playground::bare();
    playground.run("create service loadbalancer public --tcp=80").succeeds();
    let ready = |status: &str| {
        let condition = format!(
            r#"{{"type":"Ready","status":"{status}","reason":"Test","message":"","lastTransitionTime":"2026-11-15T10:00:00Z"}}"#
        );
        playground
            .run(&format!(
                r#"patch svc public --subresource=status --type=merge -p '{{"status":{{"conditions":[{condition}]}}}}'"#
            ))
            .succeeds();
    };
    ready("False");
    playground.run("wait svc/public --for=condition=Ready=False").prints("service/public condition met");
    let waiting = playground.kubectl.start_watching("wait svc/public --for=condition=Ready --timeout=50s");
    ready("True");
    waiting.finish().prints("service/public condition met");
    playground
        .run("wait svc/public --for=condition=Ready --timeout=50s")
        .prints("service/public condition met");
    playground.run("wait svc/nope --for=condition=Ready").fails(1, &["services \"nope\" not found"]);
}

#[test]
fn wait_for_deletion_is_at_once_when_nothing_is_there() {
    let playground = Playground::bare();
    playground.run("wait cm/nope --for=delete").succeeds();
    playground.run("create cm one").succeeds();
    playground
        .run("wait cm/one --for=delete --timeout=1s")
        .fails(1, &["timed out waiting for the condition"]);
    let waiting = playground.kubectl.start_watching("wait cm/one --for=delete --timeout=50s");
    playground.run("delete cm one").succeeds();
    waiting.finish().shows(&["configmap/one condition met"]);
}
