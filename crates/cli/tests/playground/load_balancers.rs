//! Load balancers of the playground: reached from outside, refused where a provider could not.

use crate::world::{Playground, tombolo};

const ECHO: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo}
spec:
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec: {containers: [{name: echo, image: tombolo/echo}]}
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec: {type: LoadBalancer, selector: {app: echo}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: talk}
spec: {type: LoadBalancer, selector: {app: echo}, ports: [{port: 81, targetPort: 8081, protocol: UDP}]}
";

#[test]
fn a_load_balancer_is_reached_from_outside_and_a_lesser_provider_says_what_it_cannot_do() {
    let mut up = tombolo(&["up"]);
    up.args(["--balancer-capabilities", "member2=TCP-ONLY"]);
    let playground = Playground::start_with(up, 2, 2);
    for cluster in ["member1", "member2"] {
        let member = playground.at(cluster);
        member.feed("apply -f -", ECHO).succeeds();
        member.run("rollout status deployment/echo --timeout=50s").succeeds();
        member.run("wait service/echo --for=condition=LoadBalancerServing --timeout=50s").succeeds();
        let address = member.run("get service echo -o jsonpath={.status.loadBalancer.ingress[0].ip}");
        let url = format!("http://{}/path", address.succeeds());
        let answer =
            playground.does(&["outside", "--", "curl", "-sf", "--retry", "5", "--retry-connrefused", &url]);
        assert!(answer.contains(&format!("\"cluster\":\"{cluster}\"")), "{answer}");
    }
    let serving = |cluster: &str, status: &str| {
        let wait = format!("wait service/talk --for=condition=LoadBalancerServing={status} --timeout=50s");
        playground.at(cluster).run(&wait).succeeds();
    };
    serving("member1", "True");
    serving("member2", "False");
}
