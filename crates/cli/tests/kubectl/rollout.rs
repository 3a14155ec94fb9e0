//! Deployments as kubectl follows them; the controllers stand behind it.

use crate::playground::Playground;

#[test]
fn a_deployment_rolls_out() {
    let playground = Playground::new();
    playground.run("create deployment web --image=example:1 --replicas=3").succeeds();
    playground
        .run("rollout status deploy/web --timeout=50s")
        .shows(&["deployment \"web\" successfully rolled out"]);
    playground.run("get deploy web").tabulates(&["NAME READY UP-TO-DATE AVAILABLE AGE", "web 3/3 3 3 *"]);
}
