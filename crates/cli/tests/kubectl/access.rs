//! Who one is and what one may do: tokens, roles, reviews.

use tombolo_apiserver::Options;
use tombolo_testkit::Kubectl;

use crate::playground::Playground;

#[test]
fn the_administrator_may_do_everything() {
    let playground = Playground::bare();
    playground.run("auth whoami").shows(&["system:masters"]);
    playground.run("auth can-i create deployments.apps").prints("yes");
    playground.run("auth can-i '*' '*' -A").prints("yes");
    playground.run("auth can-i --list").shows(&["*.*"]);
}

/// A kubectl that acts with the token of a service account in `default`.
fn as_robot(playground: &Playground) -> Kubectl {
    playground.run("create sa robot").succeeds();
    let token = playground.run("create token robot");
    assert_eq!(token.succeeds().split('.').count(), 3, "{token}");
    playground.kubectl.with(&format!("--token={}", token.succeeds()))
}

#[test]
fn a_token_speaks_for_its_service_account() {
    let playground = Playground::bare();
    let robot = as_robot(&playground);
    robot
        .run("auth whoami")
        .shows(&["system:serviceaccount:default:robot", "system:serviceaccounts:default"]);
    playground.run("create role reader --verb=list --resource=configmaps").succeeds();
    playground.run("create rolebinding reader --role=reader --serviceaccount=default:robot").succeeds();
    robot.run("get cm").succeeds();
    playground.run("create token nobody").fails(1, &["serviceaccounts \"nobody\" not found"]);
    playground
        .kubectl
        .with("--token=nonsense")
        .run("get cm")
        .fails(1, &["You must be logged in to the server"]);
}

#[test]
fn roles_decide_when_rbac_is_on() {
    let playground = Playground::with(Options { rbac: true, ..Options::named("member1") });
    let robot = as_robot(&playground);
    let answer = robot.run("auth can-i get services");
    assert_eq!((answer.code(), answer.stdout.trim_end()), (Some(1), "no"), "{answer}");
    robot.run("get svc").fails(
        1,
        &["Error from server (Forbidden): services is forbidden: User \"system:serviceaccount:default:robot\" cannot list \
           resource \"services\" in API group \"\" in the namespace \"default\""],
    );
    playground.run("create role reader --verb=get,list,watch --resource=services").succeeds();
    playground.run("create rolebinding reader --role=reader --serviceaccount=default:robot").succeeds();
    robot.run("get svc -o name").prints("service/kubernetes");
    robot.run("auth can-i list services").prints("yes");
    robot.run("auth can-i --list").shows(&["services", "[get list watch]"]);
    robot.run("get svc -n kube-system").fails(1, &["Forbidden", "in the namespace \"kube-system\""]);
    robot.run("delete svc kubernetes").fails(1, &["Forbidden", "cannot delete resource \"services\""]);
    robot.run("get nodes").fails(1, &["Forbidden", "at the cluster scope"]);
}

#[test]
fn whoever_may_can_act_as_somebody_else_and_then_has_only_their_rights() {
    let playground = Playground::with(Options { rbac: true, ..Options::named("member1") });
    let jane = playground.kubectl.with("--as=jane");
    jane.run("auth whoami").shows(&["jane", "system:authenticated"]);
    jane.run("get svc").fails(1, &["User \"jane\" cannot list resource \"services\""]);
    playground.run("create role reader --verb=list --resource=services").succeeds();
    playground.run("create rolebinding reader --role=reader --user=jane").succeeds();
    jane.run("get svc -o name").prints("service/kubernetes");
    let robot = as_robot(&playground);
    // Which right is missing depends on the release.
    robot.with("--as=jane").run("get svc").fails(1, &["Forbidden", "cannot impersonate"]);
}
