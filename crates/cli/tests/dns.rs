//! `tombolo dns` as a process: a cluster over TLS, a client over UDP, and a person who asks why.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tombolo_apiserver::{Options, kubeconfig};
use tombolo_testkit::{Cluster, Kubectl};

/// Much longer than anything here takes; what reaches it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

const IMPORT: &str = r#"
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: echo, namespace: demo}
spec: {type: ClusterSetIP, ips: [10.96.1.1], ports: [{name: http, port: 80}]}
"#;

/// A cluster with an import; dropped, it ends.
struct World {
    kubectl: Kubectl,
    _cluster: Cluster,
    _runtime: Runtime,
}

impl World {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let cluster = runtime.block_on(Cluster::with_definitions(Options::named("east")));
        let context = runtime.block_on(cluster.serve());
        let kubectl = Kubectl::new();
        kubectl.file("kubeconfig", &kubeconfig(&[context]));
        kubectl.run("--context=east create namespace demo").succeeds();
        kubectl.file("import.yaml", IMPORT);
        kubectl.run("--context=east apply -f import.yaml").succeeds();
        Self { kubectl, _cluster: cluster, _runtime: runtime }
    }

    fn tombolo(&self, arguments: &[&str]) -> Command {
        let kubeconfig = self.kubectl.home().join("kubeconfig");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
        command.arg("dns").args(arguments).arg("--kubeconfig").arg(kubeconfig).args(["--context", "east"]);
        command.env_remove("RUST_LOG").env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command
    }
}

/// A running server; dropped, it is killed.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it and waits for the address it listens on.
fn start(mut command: Command) -> (Server, SocketAddr) {
    let mut server = Server(command.spawn().expect("tombolo starts"));
    let stderr = BufReader::new(server.0.stderr.take().expect("a pipe"));
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once("listening address=") {
                let _ = sender.send(address.trim().to_owned());
            }
        }
    });
    let address = receiver.recv_timeout(PATIENCE).expect("it listens");
    (server, address.parse().expect("an address"))
}

/// The code and the number of answers for `echo.demo.svc.clusterset.local A`.
fn ask(address: SocketAddr) -> Option<(u8, u8)> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    let query = b"\x00\x07\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04echo\x04demo\x03svc\x0aclusterset\x05local\x00\x00\x01\x00\x01";
    socket.send_to(query, address).ok()?;
    let mut reply = [0; 512];
    socket.recv(&mut reply).ok()?;
    Some((reply[3] & 0x0f, reply[7]))
}

#[test]
fn a_server_answers_until_it_is_told_to_end() {
    let world = World::start();
    let options = ["--listen", "127.0.0.1:0", "--admin-address", "127.0.0.1:0", "--drain", "0s"];
    let (mut server, address) = start(world.tombolo(&options));
    let deadline = Instant::now() + PATIENCE;
    while ask(address) != Some((0, 1)) {
        assert!(Instant::now() < deadline, "it never answers");
    }
    let id = server.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
    let status = server.0.wait().expect("an end");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_person_is_told_what_would_be_answered_and_why() {
    let world = World::start();
    let said = |arguments: &[&str]| {
        let output = world.tombolo(arguments).output().expect("an end");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text + &String::from_utf8_lossy(&output.stderr))
    };
    let cases = [
        (
            vec!["query", "echo.demo.svc.clusterset.local"],
            0,
            "echo.demo.svc.clusterset.local. 5 IN A 10.96.1.1",
        ),
        (vec!["query", "echo.demo.svc.clusterset.local"], 0, "; ServiceImport demo/echo: type ClusterSetIP"),
        (vec!["query", "_http._tcp.echo.demo.svc.clusterset.local", "srv"], 0, "IN SRV 0 100 80 echo.demo"),
        (vec!["query", "other.demo.svc.clusterset.local"], 0, "there is no ServiceImport demo/other"),
        (vec!["query", "echo.gone.svc.clusterset.local"], 0, "namespace gone does not exist"),
        (vec!["query", "example.org"], 0, "in none of the zones"),
        (vec!["query", "a..b"], 1, "is no domain name"),
        (vec!["query", "a.b", "NONSENSE"], 1, "is no type of records"),
        (vec!["--mcs-zone", "a..b"], 1, "is no domain name"),
        (vec!["--listen", "192.0.2.1:5300"], 1, "cannot listen on"),
    ];
    for (arguments, code, expected) in cases {
        let (got, text) = said(&arguments);
        assert!(got == Some(code) && text.contains(expected), "{arguments:?} ended with {got:?}:\n{text}");
    }
}
