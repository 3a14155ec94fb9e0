//! From nothing to two joined clusters that share a service, and back to nothing.

use tombolo_testkit::{EDITIONS, eventually, exported_echo};

use crate::world::{World, finish};

const READY: &str =
    "wait -n demo serviceexports.multicluster.x-k8s.io/echo --for=condition=Ready --timeout=100s";
const EAST: &str = "join --name east --context east --hub-context hub --pod-cidr 10.1.0.0/16";
const WEST: &str = "join --name west --context west --hub-context hub --pod-cidr 10.2.0.0/16 --region north";

/// What an installation of all that members and hub need leaves.
fn install(world: &World) {
    let said = world.tombolo("install --hub --context hub").succeeds();
    assert!(said.contains("deployment/tombolo-hub in tombolo-system created\n"), "{said}");
    for member in ["east", "west"] {
        let said = world.tombolo(&format!("install --member --dns --context {member}")).succeeds();
        assert!(said.contains("deployment/tombolo-agent in tombolo-system created\n"), "{said}");
        world.at(member).run("create namespace demo").succeeds();
    }
}

/// Whether nothing was left to do.
#[track_caller]
fn changed_nothing(said: &str) {
    assert!(said.contains(" unchanged"), "{said}");
    for word in [" created", " configured", "begin anew"] {
        assert!(!said.contains(word), "{word:?}:\n{said}");
    }
}

#[test]
fn clusters_are_installed_join_share_a_service_and_leave_without_a_trace() {
    let world = World::start();
    install(&world);
    changed_nothing(&world.tombolo("install --hub --context hub").succeeds());
    let said = world.tombolo("install --hub --monitoring --context hub").succeeds();
    assert!(
        said.contains("servicemonitor/tombolo in tombolo-system left out: the cluster has no such kind\n"),
        "{said}"
    );
    for (line, name) in [(EAST, "east"), (WEST, "west")] {
        let said = world.tombolo(line).succeeds();
        assert!(said.contains(&format!("namespace/tombolo-{name} created\n")), "{said}");
        assert!(
            said.contains("agents begin anew") && said.ends_with(&format!("{name} is a member\n")),
            "{said}"
        );
        changed_nothing(&world.tombolo(line).succeeds());
        let set = "get clusterproperty clusterset.k8s.io -o jsonpath={.spec.value}";
        assert_eq!(world.at(name).run(set).succeeds(), "tombolo");
        world.tombolo(&format!("{line} --cluster-set other")).fails("member of the set tombolo");
        assert_eq!(world.at(name).run(set).succeeds(), "tombolo");
    }
    let (east, west) = (world.run_agent("east"), world.run_agent("west"));
    for agent in [&east, &west] {
        eventually("ready", || agent.is_ready());
    }
    let told = world.json("hub", "get memberships -n tombolo-west member");
    assert_eq!(
        (&told["spec"]["region"], &told["spec"]["podCIDRs"][0]),
        (&"north".into(), &"10.2.0.0/16".into())
    );

    world.at("east").feed("apply -f -", &exported_echo(&EDITIONS)).succeeds();
    world.at("east").run(READY).succeeds();
    world.at("west").run("get serviceimports.multicluster.x-k8s.io -n demo echo").succeeds();
    east.was_allowed_everything();
    west.was_allowed_everything();

    // Whoever leaves waits for its agent, which a kubelet ends.
    let before = everything(&world, "west");
    assert!(before.contains("derived-") && before.contains("imported-"), "{before}");
    let leaving = world.start_tombolo("leave --name west --context west --hub-context hub");
    let replicas = "get deployment -n tombolo-system tombolo-agent -o jsonpath={.spec.replicas}";
    eventually("asked to end", || world.at("west").run(replicas).succeeds() == "0");
    west.end();
    let said = finish(leaving).succeeds();
    assert!(said.ends_with("west is no member any more\n"), "{said}");
    let after = everything(&world, "west");
    assert!(!after.contains("derived-") && !after.contains("imported-"), "{after}");
    for gone in [
        "configmap tombolo-member",
        "secret tombolo-hub",
        "clusterproperty cluster.clusterset.k8s.io",
        "clusterproperty clusterset.k8s.io",
    ] {
        world.at("west").run(&format!("get -n tombolo-system {gone}")).fails(1, &["NotFound"]);
    }
    world.at("hub").run("get namespace tombolo-west").fails(1, &["NotFound"]);
    world.tombolo("leave --name west --context west --hub-context hub").succeeds();
    // The other one goes on, and needs nobody's confirmation any more.
    world.at("east").run(READY).succeeds();

    // A cluster that is dead cannot be asked.
    drop(east);
    let said = world.tombolo("leave --force --name east --hub-context hub").succeeds();
    assert!(said.contains("nobody asked the cluster itself"), "{said}");
    world.at("hub").run("get namespace tombolo-east").fails(1, &["NotFound"]);
    world.at("hub").run("get clusterrolebinding tombolo-east-reader").fails(1, &["NotFound"]);

    // Who left may come back.
    let said = world.tombolo(WEST).succeeds();
    assert!(said.contains("agents begin anew"), "{said}");
    assert_eq!(world.at("west").run(replicas).succeeds(), "2");
    let west = world.run_agent("west");
    eventually("ready again", || west.is_ready());
}

#[test]
fn who_comes_back_has_as_many_agents_as_before() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    world.tombolo("install --member --replicas 3 --context east").succeeds();
    let replicas =
        || world.json("east", "get deployment -n tombolo-system tombolo-agent")["spec"]["replicas"].clone();
    world.tombolo(EAST).succeeds();
    for _ in 0..2 {
        // The second time nothing is left to end, and still nothing is forgotten.
        world.tombolo("leave --name east --context east --hub-context hub").succeeds();
        assert_eq!(replicas(), 0);
    }
    world.tombolo(EAST).succeeds();
    assert_eq!(replicas(), 3);
    world.tombolo("leave --name east --context east --hub-context hub").succeeds();
    world
        .at("east")
        .run("annotate deployment -n tombolo-system tombolo-agent tombolo.dev/replicas-")
        .succeeds();
    world.tombolo(EAST).succeeds();
    assert_eq!(replicas(), 2, "where nobody remembers, as many as usual");
}

#[test]
fn whoever_leaves_waits_for_pods_that_are_still_on_their_way_out() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    world.tombolo("install --member --context east").succeeds();
    world.tombolo(EAST).succeeds();
    // On a node, so that it goes only when its kubelet, which is the test, says so.
    let pod = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "last", "namespace": "tombolo-system", "finalizers": ["example.com/kubelet"],
            "labels": {"app.kubernetes.io/name": "tombolo", "app.kubernetes.io/component": "agent"},
        },
        "spec": {"containers": [{"name": "agent", "image": "tombolo"}]},
    });
    eventually("made", || world.at("east").feed("apply -f -", &pod.to_string()).code() == Some(0));
    let mut leaving = world.start_tombolo("leave --name east --context east --hub-context hub");
    let replicas =
        || world.json("east", "get deployment -n tombolo-system tombolo-agent")["spec"]["replicas"].clone();
    eventually("asked to end", || replicas() == 0);
    world.at("east").run("delete pod -n tombolo-system last --wait=false").succeeds();
    let is_going =
        || world.json("east", "get pod -n tombolo-system last")["metadata"]["deletionTimestamp"].is_string();
    eventually("on its way out", is_going);
    assert!(leaving.try_wait().unwrap().is_none(), "an agent may still work");
    world.at("hub").run("get namespace tombolo-east").succeeds();
    let gone = r#"{"metadata":{"finalizers":null}}"#;
    world.at("east").run(&format!("patch pod -n tombolo-system last --type=merge -p {gone}")).succeeds();
    finish(leaving).succeeds();
    world.at("hub").run("get namespace tombolo-east").fails(1, &["NotFound"]);
}

/// The names of all that agents may have made.
fn everything(world: &World, context: &str) -> String {
    let kinds =
        "services,endpointslices,serviceimports.multicluster.x-k8s.io,importedservices.multicluster.k8s.io";
    world.at(context).run(&format!("get {kinds} -n demo -o name")).succeeds().to_owned()
}

const TAKEN_OVER: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: demo}
spec: {selector: {app: echo}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: echo, namespace: demo, annotations: {discovery.karmada.io/strategy: RemoteOnly}}
spec: {type: ClusterSetIP, ports: [{port: 80, protocol: TCP}]}
"#;

#[test]
fn a_cluster_that_leaves_gives_back_what_it_exported_and_what_it_put_aside() {
    let world = World::start();
    install(&world);
    world.tombolo(EAST).succeeds();
    world.tombolo(WEST).succeeds();
    let (east, west) = (world.run_agent("east"), world.run_agent("west"));
    world.at("west").feed("apply -f -", TAKEN_OVER).succeeds();
    world.at("east").feed("apply -f -", &exported_echo(&EDITIONS)).succeeds();
    let selector = || world.json("west", "get service -n demo echo")["spec"]["selector"].clone();
    eventually("put aside", || selector().as_object().is_some_and(|keys| keys.len() == 2));
    west.end();
    let said = world.tombolo("leave --name west --context west --hub-context hub").succeeds();
    assert!(said.contains("1 selectors given back"), "{said}");
    assert_eq!(selector(), serde_json::json!({"app": "echo"}));
    let import = world.json("west", "get serviceimports.multicluster.x-k8s.io -n demo echo");
    assert!(
        import["metadata"]["finalizers"].is_null(),
        "what a user wrote stays, without our finalizer: {import}"
    );
    world.at("east").run(READY).succeeds();
    let export = "get serviceexports.multicluster.x-k8s.io -n demo echo";
    assert!(world.json("east", export)["metadata"]["finalizers"].is_array());
    east.end();
    world.tombolo("leave --name east --context east --hub-context hub").succeeds();
    let export = world.json("east", export);
    assert!(export["metadata"]["finalizers"].is_null(), "{export}");
    assert_eq!(export["status"]["conditions"], serde_json::json!([]), "nobody keeps them true");
    world.at("east").run("delete serviceexports.multicluster.x-k8s.io -n demo echo --timeout=30s").succeeds();
    world.at("east").run("get service -n demo echo").succeeds();
}

const COREDNS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    .:53 {
        errors
        health {
           lameduck 5s
        }
        ready
        kubernetes cluster.local in-addr.arpa ip6.arpa {
           pods insecure
           fallthrough in-addr.arpa ip6.arpa
           ttl 30
        }
        forward . /etc/resolv.conf
        cache 30
        loop
        reload
        loadbalance
    }
"#;

#[test]
fn core_dns_passes_the_zones_on_when_asked_to_and_is_as_before_without_the_part() {
    let world = World::start();
    world.at("east").feed("apply -f -", COREDNS).succeeds();
    let corefile = || world.json("east", "get configmap -n kube-system coredns")["data"]["Corefile"].clone();
    let before = corefile();
    let said = world.tombolo("install --dns --context east --dns-address 10.96.0.53").succeeds();
    let block = "clusterset.local:53 {\n    errors\n";
    assert!(said.contains(block) && said.contains("    forward . 10.96.0.53\n"), "{said}");
    assert_eq!(corefile(), before, "only said");

    let configure = "install --dns --context east --dns-address 10.96.0.53 --configure-coredns";
    let said = world.tombolo(configure).succeeds();
    assert!(said.contains("configmap/coredns in kube-system configured\n"), "{said}");
    assert!(corefile().as_str().unwrap().contains(block));
    let said = world.tombolo(configure).succeeds();
    changed_nothing(&said);
    assert!(!said.contains("NodeLocal"), "{said}");
    let cache = ".:53 {\n    bind 169.254.20.10\n    forward . /etc/resolv.conf\n}";
    let file = world.kubectl.file("Corefile", cache);
    let create = format!("create configmap -n kube-system node-local-dns --from-file={}", file.display());
    world.at("east").run(&create).succeeds();
    let said = world.tombolo(configure).succeeds();
    assert!(said.contains("NodeLocal DNSCache") && said.contains("    bind 169.254.20.10\n"), "{said}");

    let said = world.tombolo("uninstall --dns --context east").succeeds();
    assert!(said.contains("deployment/tombolo-dns deleted\n"), "{said}");
    assert_eq!(corefile(), before);
    let left = world.at("east").run("get all,serviceaccounts,poddisruptionbudgets -n tombolo-system -o name");
    assert!(!left.succeeds().contains("tombolo-dns"), "{left:?}");
    world.at("east").run("get crd serviceimports.multicluster.x-k8s.io").succeeds();
    let said = world.tombolo("uninstall --dns --kinds --context east").succeeds();
    assert!(
        said.contains("customresourcedefinition/serviceimports.multicluster.x-k8s.io deleted\n"),
        "{said}"
    );
}

#[test]
fn kinds_that_another_part_needs_stay_when_one_is_taken_out() {
    let world = World::start();
    world.tombolo("install --member --dns --context east").succeeds();
    world.at("east").run("create namespace demo").succeeds();
    world.at("east").feed("apply -f -", &exported_echo(&EDITIONS)).succeeds();
    let exports = "customresourcedefinition/serviceexports.multicluster.x-k8s.io";
    let said = world.tombolo("uninstall --dns --kinds --context east").succeeds();
    assert!(said.contains(&format!("{exports} stays: tombolo-agent in tombolo-system needs it\n")), "{said}");
    assert!(said.contains("deployment/tombolo-dns deleted\n"), "{said}");
    world.at("east").run("get serviceexports.multicluster.x-k8s.io -n demo echo").succeeds();
    // The same part in another namespace is another one.
    let said = world.tombolo("uninstall --member --kinds --namespace elsewhere --context east").succeeds();
    assert!(!said.contains(&format!("{exports} deleted\n")), "{said}");
    let said = world.tombolo("uninstall --member --kinds --context east").succeeds();
    assert!(said.contains(&format!("{exports} deleted\n")), "{said}");
}
