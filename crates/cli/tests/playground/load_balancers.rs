//! Load balancers of the playground: reached from outside, refused where a provider could not.

use tombolo_testkit::eventually;

use crate::world::{Playground, shared_echo, up};

const BALANCED: &str = "
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
    let mut up = up();
    up.args(["--balancer-capabilities", "member2=TCP-ONLY"]);
    let playground = Playground::start_with(up, 2, 2);
    for cluster in ["member1", "member2"] {
        let member = playground.at(cluster);
        playground.deploy_echo(cluster);
        member.feed("apply -f -", BALANCED).succeeds();
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

#[test]
fn the_gathered_addresses_of_a_multi_cluster_service_lead_from_outside_to_the_cluster_that_provides_it() {
    let playground = Playground::start(3, 2);
    playground.deploy_echo("member1");
    let hub = playground.at("hub");
    hub.feed("apply -f -", &shared_echo("LoadBalancer", "member2, member3")).succeeds();
    let ingress = "get multiclusterservice echo -o jsonpath={.status.loadBalancer.ingress[*].ip}";
    eventually("both consumers have an address", || hub.run(ingress).stdout.split_whitespace().count() == 2);
    for address in hub.run(ingress).succeeds().split_whitespace() {
        let url = format!("http://{address}/path");
        eventually(&format!("{address} is answered"), || {
            let asked = playground.command(&["outside", "--", "curl", "-sf", "-m", "2", &url]);
            String::from_utf8_lossy(&asked.stdout).contains("\"cluster\":\"member1\"")
        });
    }
    playground.at("member1").run("get service echo -o jsonpath={.spec.type}").prints("ClusterIP");

    hub.run("delete multiclusterservice echo").succeeds();
    eventually("the load balancer has gone", || {
        !playground.at("member2").run("get service echo").stdout.contains("LoadBalancer")
    });
}
