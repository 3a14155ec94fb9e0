//! `tombolo agent` as a process: two members and a hub over TLS, with a kubectl that looks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use tombolo_apiserver::{Authority, Context, Options, kubeconfig};
use tombolo_testkit::{Cluster, EDITIONS, Kubectl, eventually, exported_echo, serve_all};

/// Much longer than anything here takes; what reaches it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A hub and two members without agents; dropped, they end.
struct Fleet {
    kubectl: Kubectl,
    clusters: Vec<Cluster>,
    runtime: Runtime,
}

impl Fleet {
    fn start() -> Self {
        Self::with(false)
    }

    fn with(rbac: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let kubectl = Kubectl::new();
        let clusters: Vec<Cluster> =
            ["hub", "east", "west"].map(|name| runtime.block_on(launch(name, rbac))).into();
        kubectl.file("kubeconfig", &runtime.block_on(serve_all(&clusters)));
        for member in ["east", "west"] {
            kubectl.run(&format!("--context=hub create namespace tombolo-{member}")).succeeds();
            kubectl.run(&format!("--context={member} create namespace demo")).succeeds();
        }
        Self { kubectl, clusters, runtime }
    }

    fn at(&self, context: &str) -> Kubectl {
        self.kubectl.with(&format!("--context={context}"))
    }

    /// `tombolo agent` of a member, with these options.
    fn agent(&self, member: &str, options: &[&str]) -> Command {
        let kubeconfig = self.kubectl.home().join("kubeconfig").display().to_string();
        self.agent_with(&kubeconfig, member, options)
    }

    fn agent_with(&self, kubeconfig: &str, member: &str, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
        command
            .args(["agent", "--kubeconfig", kubeconfig, "--context", member, "--hub-context", "hub"])
            .args(["--admin-address", "127.0.0.1:0"])
            .args(options)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

async fn launch(name: &str, rbac: bool) -> Cluster {
    Cluster::with_definitions(Options { rbac, ..Options::named(name) }).await
}

/// A running agent; dropped, it is killed.
struct Agent {
    child: Child,
    address: String,
    said: Arc<Mutex<String>>,
}

impl Agent {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("tombolo starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let said = Arc::new(Mutex::new(String::new()));
        let (sender, receiver) = mpsc::channel();
        let log = said.clone();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if let Some((_, address)) = line.split_once("admin endpoint address=") {
                    let _ = sender.send(address.trim().to_owned());
                }
                log.lock().expect("the log").push_str(&format!("{line}\n"));
            }
        });
        let address = receiver.recv_timeout(PATIENCE);
        let address =
            address.unwrap_or_else(|_| panic!("no admin endpoint:\n{}", said.lock().expect("the log")));
        Self { child, address, said }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("the admin endpoint");
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn log(&self) -> String {
        self.said.lock().expect("the log").clone()
    }

    /// Asks it to end and gives the exit code that follows.
    fn end_with(&mut self, name: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().expect("kill runs").success());
        let mut code = None;
        eventually("the agent ends", || {
            code = self.child.try_wait().expect("its state");
            code.is_some()
        });
        code.and_then(|status| status.code())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs an agent that is expected to end soon.
fn fails(command: &mut Command) -> (Option<i32>, String) {
    let output: Output = command.output().expect("an end");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

const PROPERTY: &str = r#"
apiVersion: about.k8s.io/v1beta1
kind: ClusterProperty
metadata: {name: cluster.clusterset.k8s.io}
spec: {value: west}
"#;

#[test]
fn two_agents_share_a_service_say_how_they_are_and_end_when_asked() {
    let fleet = Fleet::start();
    fleet.at("west").feed("apply -f -", PROPERTY).succeeds();
    let mut east = Agent::start(fleet.agent("east", &["--cluster-id", "east", "--pod-cidr", "10.1.0.0/16"]));
    let mut west = Agent::start(fleet.agent("west", &["--region", "north"]));
    for agent in [&east, &west] {
        eventually("ready", || agent.get("/readyz").starts_with("HTTP/1.1 200"));
        assert!(agent.get("/livez").starts_with("HTTP/1.1 200"));
    }
    let log = west.log();
    for part in ["cluster=west", "region=\"north\"", "ip_families=[", "heartbeat=5s", "identity="] {
        assert!(log.contains(part), "{part:?} is not in\n{log}");
    }

    fleet.at("east").feed("apply -f -", &exported_echo(&EDITIONS[1..])).succeeds();
    let endpoints = "get endpointslices -n demo -l multicluster.kubernetes.io/source-cluster=east \
        -o jsonpath={.items[*].endpoints[*].addresses[*]}";
    eventually("imported", || fleet.at("west").run(endpoints).succeeds() == "10.1.0.7");
    let type_ = "get serviceimports.multicluster.x-k8s.io -n demo echo -o jsonpath={.spec.type}";
    fleet.at("west").run(type_).prints("ClusterSetIP");
    fleet
        .at("east")
        .run("wait -n demo serviceexports.multicluster.x-k8s.io/echo --for=condition=Ready")
        .succeeds();
    for part in [
        "tombolo_agent_imports{dialect=\"mcs\"} 1.0",
        "tombolo_agent_source_state{source=\"east\",state=\"alive\"} 1.0",
        "tombolo_agent_writes_total{side=\"member\",resource=\"serviceimports\",result=\"ok\"} ",
    ] {
        eventually(part, || west.get("/metrics").contains(part));
    }

    assert_eq!(east.end_with("TERM"), Some(0), "{}", east.log());
    assert_eq!(west.end_with("INT"), Some(0), "{}", west.log());
    // Whoever stops in order lets the next one lead at once.
    let holder = "get lease -n tombolo-system tombolo-agent -o jsonpath={.spec.holderIdentity}";
    fleet.at("east").run(holder).prints("");
}

#[test]
fn an_id_that_another_cluster_uses_is_refused_with_what_to_do() {
    let fleet = Fleet::start();
    let east = Agent::start(fleet.agent("east", &["--cluster-id", "east"]));
    eventually("ready", || east.get("/readyz").starts_with("HTTP/1.1 200"));
    let (code, said) = fails(&mut fleet.agent("west", &["--cluster-id", "east"]));
    assert_eq!(code, Some(1), "{said}");
    for part in [
        "error: the hub does not take cluster east",
        "another cluster uses this id",
        "hint: ",
        "--cluster-id",
    ] {
        assert!(said.contains(part), "{part:?} is not in\n{said}");
    }
}

#[test]
fn what_cannot_work_is_said_at_the_start() {
    let fleet = Fleet::start();
    let cases: [(&[&str], i32, &str); 7] = [
        (&[], 1, "hint: create it, or give the id with --cluster-id"),
        (&["--cluster-id", "nowhere"], 1, "creates namespace tombolo-nowhere"),
        (&["--cluster-id", "No Name"], 2, "is no cluster id"),
        (&["--cluster-id", "east", "--pod-cidr", "10.1"], 1, "\"10.1\" is no CIDR"),
        (&["--cluster-id", "east", "--heartbeat", "30s"], 1, "less than --dead-after"),
        (&["--cluster-id", "east", "--hold", "soon"], 2, "is no span of time"),
        (&["--cluster-id", "east", "--ip-family", "IPv5"], 2, "--ip-family"),
    ];
    for (options, expected, part) in cases {
        let (code, said) = fails(&mut fleet.agent("east", options));
        assert_eq!(code, Some(expected), "{options:?}: {said}");
        assert!(said.contains(part), "{options:?}: {part:?} is not in\n{said}");
    }
}

/// Somebody has to let go of what dead sources left.
#[test]
fn an_agent_whose_token_ran_out_starts_only_where_something_was_imported() {
    let fleet = Fleet::start();
    let contexts = fleet.clusters.iter().map(|cluster| fleet.runtime.block_on(cluster.serve()));
    let contexts: Vec<Context> = contexts
        .map(|context| match context.name.as_str() {
            "hub" => Context { token: "ran-out".to_owned(), ..context },
            _ => context,
        })
        .collect();
    fleet.kubectl.file("late", &kubeconfig(&contexts));
    let late = fleet.kubectl.home().join("late").display().to_string();
    let (code, said) = fails(&mut fleet.agent_with(&late, "west", &["--cluster-id", "west"]));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("error: the hub does not take cluster west"), "{said}");

    let _east = Agent::start(fleet.agent("east", &["--cluster-id", "east"]));
    let mut west = Agent::start(fleet.agent("west", &["--cluster-id", "west"]));
    let lease = "get leases -n tombolo-system -l multicluster.kubernetes.io/source-cluster=east -o name";
    eventually("a lease", || !fleet.at("west").run(lease).succeeds().is_empty());
    assert_eq!(west.end_with("TERM"), Some(0), "{}", west.log());
    let west = Agent::start(fleet.agent_with(&late, "west", &["--cluster-id", "west"]));
    eventually("it tries again", || west.log().contains("the heartbeat did not reach the hub"));
    let log = west.log();
    assert!(log.contains("does not take this cluster any more") && log.contains("grants the agent"), "{log}");
    assert!(west.get("/readyz").contains("first heartbeat"), "{}", west.get("/readyz"));
}

/// It may be replaced at any moment, so the agent goes on; but nobody would look for that behind a hub that is away.
#[test]
fn a_hub_that_shows_the_certificate_of_a_stranger_is_told_apart_from_one_that_is_away() {
    let fleet = Fleet::start();
    let contexts = fleet.clusters.iter().map(|cluster| fleet.runtime.block_on(cluster.serve()));
    let stranger = Authority::new("stranger").expect("an authority");
    let contexts: Vec<Context> = contexts
        .map(|context| match context.name.as_str() {
            "hub" => Context { authority: stranger.pem().to_owned(), ..context },
            _ => context,
        })
        .collect();
    fleet.kubectl.file("strange", &kubeconfig(&contexts));
    let strange = fleet.kubectl.home().join("strange").display().to_string();
    let agent = Agent::start(fleet.agent_with(&strange, "east", &["--cluster-id", "east"]));
    eventually("the certificate is spoken of", || {
        agent
            .log()
            .lines()
            .any(|line| line.contains("the hub is out of reach") && line.contains("invalid peer certificate"))
    });
}

#[test]
fn a_second_agent_of_a_cluster_stands_by_and_takes_over() {
    let fleet = Fleet::start();
    let mut first = Agent::start(fleet.agent("east", &["--cluster-id", "east"]));
    eventually("ready", || first.get("/readyz").starts_with("HTTP/1.1 200"));
    let second = Agent::start(fleet.agent("east", &["--cluster-id", "east"]));
    eventually("stands by", || second.get("/readyz").starts_with("HTTP/1.1 200"));
    assert!(
        !second.get("/metrics").contains("tombolo_agent_imports"),
        "who does not lead has nothing to tell"
    );
    assert_eq!(first.end_with("TERM"), Some(0), "{}", first.log());
    eventually("leads", || second.get("/metrics").contains("tombolo_agent_imports{"));
}

/// A kubeconfig whose contexts are the agent of one member, in its cluster and at the hub.
fn accounts(fleet: &Fleet, member: &str) -> String {
    let roles = include_str!("../../../deploy/hub/member-roles.yaml");
    fleet.at("hub").feed("apply --server-side -f -", roles).succeeds();
    let hub_rules = include_str!("../../../deploy/hub/member-rbac.yaml");
    let hub_rules = hub_rules.replace("NAMESPACE", &format!("tombolo-{member}"));
    let hub_rules = hub_rules.replace("POD_CIDRS", "0.0.0.0/0,::/0");
    fleet.at("hub").feed("apply --server-side -f -", &hub_rules).succeeds();
    let member_rules = include_str!("../../../deploy/member/agent-rbac.yaml");
    fleet.at(member).feed("apply --server-side -f -", member_rules).succeeds();
    let file = format!("{member}-agent");
    let config = std::fs::read_to_string(fleet.kubectl.home().join("kubeconfig")).expect("a kubeconfig");
    let path = fleet.kubectl.file(&file, &config).display().to_string();
    let token = |context: &str, account: &str| {
        let token = fleet.at(context).run(&format!("create token {account}")).succeeds().to_owned();
        let edit = fleet.kubectl.with(&format!("--kubeconfig={path}"));
        edit.run(&format!("config set-credentials {context}-agent --token={token}")).succeeds();
        edit.run(&format!("config set-context {context} --user={context}-agent")).succeeds();
    };
    token("hub", &format!("agent -n tombolo-{member}"));
    token(member, "tombolo-agent -n tombolo-system");
    path
}

#[test]
fn the_shipped_rules_are_enough_for_the_process() {
    let fleet = Fleet::with(true);
    fleet.at("west").feed("apply -f -", PROPERTY).succeeds();
    let (east, west) = (accounts(&fleet, "east"), accounts(&fleet, "west"));
    let east = Agent::start(fleet.agent_with(&east, "east", &["--cluster-id", "east"]));
    let west = Agent::start(fleet.agent_with(&west, "west", &[]));
    fleet.at("east").feed("apply -f -", &exported_echo(&EDITIONS[1..])).succeeds();
    let ready = "wait -n demo serviceexports.multicluster.x-k8s.io/echo --for=condition=Ready --timeout=60s";
    fleet.at("east").run(ready).succeeds();
    fleet.at("west").run("get serviceimports.multicluster.x-k8s.io -n demo echo").succeeds();
    for agent in [&east, &west] {
        let metrics = agent.get("/metrics");
        assert!(!metrics.contains("result=\"forbidden\""), "{metrics}");
    }
}

/// The first example of Karmada's MultiClusterService proposal, verbatim.
const SHARED: &str = r#"
apiVersion: v1
kind: Service
metadata:
  name: foo
spec:
  ports:
  - port: 80
    targetPort: 8080
  selector:
    app: foo
---
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata:
  name: foo
spec:
  types:
  - CrossCluster
  serviceProvisionClusters:
  - member2
  serviceConsumptionClusters:
  - member3
"#;

const ENDPOINTS: &str = r#"
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: foo-1, labels: {kubernetes.io/service-name: foo}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.7], conditions: {ready: true}}]
ports: [{port: 8080, protocol: TCP}]
"#;

#[test]
fn a_hub_shares_a_service_between_a_member_with_an_agent_and_one_without() {
    let fleet = Fleet::start();
    fleet.at("hub").run("create namespace tombolo-member2").succeeds();
    let kubeconfig = fleet.kubectl.home().join("kubeconfig");
    let text = std::fs::read_to_string(&kubeconfig).expect("a kubeconfig");
    let west = fleet.kubectl.file("west-only", &text).display().to_string();
    fleet.kubectl.with(&format!("--kubeconfig={west}")).run("config use-context west").succeeds();
    let agent = Agent::start(fleet.agent("east", &["--cluster-id", "member2"]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
    command
        .args(["hub", "--context", "hub", "--admin-address", "127.0.0.1:0", "--kubeconfig"])
        .arg(&kubeconfig)
        .args(["--push", &format!("member3={west}")])
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut hub = Agent::start(command);
    eventually("ready", || hub.get("/readyz").starts_with("HTTP/1.1 200"));
    fleet.at("east").feed("apply -f -", ENDPOINTS).succeeds();
    fleet.at("hub").feed("apply -f -", SHARED).succeeds();
    for condition in ["ServiceApplied", "EndpointSliceCollected", "EndpointSliceApplied"] {
        let wait = format!("wait multiclusterservice/foo --for=condition={condition} --timeout=60s");
        fleet.at("hub").run(&wait).succeeds();
    }
    let endpoints = "get endpointslices -l kubernetes.io/service-name=foo \
        -o jsonpath={.items[*].endpoints[*].addresses[*]}";
    fleet.at("west").run(endpoints).prints("10.1.0.7");
    fleet
        .at("hub")
        .run("get clusters -o name")
        .prints("cluster.cluster.karmada.io/member2\ncluster.cluster.karmada.io/member3");
    // Only a change of a slice that is shared takes time that is told.
    fleet.at("east").feed("apply -f -", &ENDPOINTS.replace("10.1.0.7", "10.1.0.8")).succeeds();
    eventually("the change", || fleet.at("west").run(endpoints).succeeds() == "10.1.0.8");
    // What was written is seen before the writer has noted how long it took.
    for (part, way) in [(&hub, "dispatched"), (&agent, "collected")] {
        let count = format!("mcs_sync_eps_duration_seconds_count{{way=\"{way}\"}}");
        eventually("measured", || part.get("/metrics").contains(&count));
    }
    fleet.at("hub").run("delete multiclusterservice foo --timeout=60s").succeeds();
    eventually("taken back", || {
        fleet.at("west").run("get services foo --ignore-not-found").succeeds().is_empty()
    });
    assert_eq!(hub.end_with("TERM"), Some(0), "{}", hub.log());
}
