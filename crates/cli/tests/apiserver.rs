//! `tombolo apiserver` as a process: how it starts, what it says when it cannot, how it ends.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tombolo_testkit::Kubectl;

/// Much longer than anything here takes; what reaches it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn tombolo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
    command
        .args(arguments)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// `tombolo apiserver` with these options, to an end that is expected soon.
fn apiserver(options: &[&str]) -> Output {
    let mut arguments = vec!["apiserver"];
    arguments.extend(options);
    let child = tombolo(&arguments).spawn().expect("tombolo starts");
    let id = child.id();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    receiver.recv_timeout(PATIENCE).map(|output| output.expect("its output")).unwrap_or_else(|_| {
        signal(id, "KILL");
        panic!("tombolo apiserver {options:?} did not end")
    })
}

fn signal(id: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), id.to_string()]).status().expect("kill runs");
    assert!(status.success(), "kill -{name} {id}");
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Running clusters whose kubeconfig is that of a kubectl; dropped, it is killed.
struct Clusters {
    child: Child,
    stdout: BufReader<ChildStdout>,
    kubectl: Kubectl,
}

impl Clusters {
    fn start(options: &[&str]) -> Self {
        Self::start_for(Kubectl::new(), options)
    }

    fn start_for(kubectl: Kubectl, options: &[&str]) -> Self {
        let home = kubectl.home().display().to_string();
        let mut arguments = vec!["apiserver", "--dir", &home];
        arguments.extend(options);
        let mut child = tombolo(&arguments).spawn().expect("tombolo starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        assert!(line.ends_with("ready:\n"), "{line:?}");
        Self { child, stdout, kubectl }
    }

    /// Sends a signal and gives the exit code that follows.
    fn end_with(&mut self, name: &str) -> Option<i32> {
        signal(self.child.id(), name);
        let (sender, receiver) = mpsc::channel::<()>();
        let id = self.child.id();
        let watchdog = thread::spawn(move || {
            if receiver.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                signal(id, "KILL");
            }
        });
        let status = self.child.wait().expect("an end");
        drop(sender);
        watchdog.join().expect("the watchdog ends");
        status.code()
    }
}

impl Drop for Clusters {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn three_clusters_answer_until_a_signal_ends_them() {
    let mut clusters = Clusters::start(&["--clusters", "3"]);
    let config = clusters.kubectl.home().join("kubeconfig");
    let mode = std::fs::metadata(config).expect("a kubeconfig").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it holds administrators' tokens");
    clusters.kubectl.run("config get-contexts -o name").prints("member1\nmember2\nmember3");
    clusters.kubectl.run("config current-context").prints("member1");
    for number in 1..=3 {
        let member = clusters.kubectl.with(&format!("--context=member{number}"));
        member.run("get --raw /readyz").prints("ok");
        member.run(&format!("create ns only-{number}")).succeeds();
        member.run("get ns -o name").shows(&[&format!("namespace/only-{number}")]);
    }
    assert_eq!(clusters.end_with("TERM"), Some(0));
    let mut welcome = String::new();
    clusters.stdout.read_to_string(&mut welcome).expect("the rest of what it said");
    for part in ["member1    https://127.0.0.1:", "member3    https://127.0.0.1:", "export KUBECONFIG="] {
        assert!(welcome.contains(part), "{part:?} is not in\n{welcome}");
    }
}

#[test]
fn open_watches_do_not_keep_it_from_ending() {
    for name in ["TERM", "INT"] {
        let mut clusters = Clusters::start(&["--clusters", "1"]);
        let watch = clusters.kubectl.start_watching("get ns -w");
        assert_eq!(clusters.end_with(name), Some(0), "after SIG{name}");
        drop(watch);
    }
}

#[test]
fn an_idle_connection_does_not_keep_it_from_ending() {
    let mut clusters = Clusters::start(&["--clusters", "1"]);
    let address = clusters.kubectl.run("config view -o jsonpath={.clusters[0].cluster.server}");
    let address = address.succeeds().trim_start_matches("https://").to_owned();
    let silent = std::net::TcpStream::connect(address).expect("a connection that never says anything");
    assert_eq!(clusters.end_with("INT"), Some(0));
    drop(silent);
}

#[test]
fn the_port_can_be_chosen() {
    // Two neighbouring ports that were free a moment ago; somebody may take one, so there are a few tries.
    for _ in 0..5 {
        let first = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port")
            .port();
        let Some(second) =
            first.checked_add(1).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        else {
            continue;
        };
        let clusters = Clusters::start(&["--clusters", "2", "--port", &first.to_string()]);
        let servers = clusters.kubectl.run("config view -o jsonpath={.clusters[*].cluster.server}");
        servers.prints(&format!("https://127.0.0.1:{first} https://127.0.0.1:{second}"));
        return clusters.kubectl.with("--context=member2").run("get --raw /readyz").prints("ok");
    }
    panic!("no two neighbouring ports are free");
}

#[test]
fn a_port_in_use_gives_one_line_and_a_hint() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let kubectl = Kubectl::new();
    let home = kubectl.home().display().to_string();
    let output = apiserver(&["--clusters", "1", "--port", &port.to_string(), "--dir", &home]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = stderr(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with(&format!("error: member1: cannot listen on 127.0.0.1:{port}: ")), "{said}");
    assert!(lines[1].starts_with("hint: ") && lines[1].contains("--port"), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(!kubectl.home().join("kubeconfig").exists(), "no kubeconfig for clusters that do not run");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let kubectl = Kubectl::new();
    let file = kubectl.file("occupied", "");
    let dir = file.join("below").display().to_string();
    let output = apiserver(&["--clusters", "1", "--dir", &dir]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = stderr(&output);
    assert!(said.starts_with(&format!("error: cannot write {dir}/kubeconfig: ")), "{said}");
    assert!(said.contains("hint: choose another --dir"), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn a_kubeconfig_of_an_earlier_run_is_replaced() {
    let kubectl = Kubectl::new();
    let config = kubectl.file("kubeconfig", "stale");
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o644)).expect("a mode");
    let clusters = Clusters::start_for(kubectl, &["--clusters", "1"]);
    clusters.kubectl.run("get --raw /readyz").prints("ok");
    let mode = std::fs::metadata(config).expect("a kubeconfig").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn flags_that_make_no_sense_are_usage_errors() {
    let cases: [(&[&str], &str); 8] = [
        (&["--clusters", "0"], "--clusters"),
        (&["--clusters", "many"], "--clusters"),
        (&["--clusters", "201"], "1..=200"),
        (&["--port", "70000"], "--port"),
        (&["--address", "here"], "--address"),
        (&["--feature-gates", "Nonsense=true"], "known gates are ServiceInternalTrafficPolicy"),
        (&["--feature-gates", "ServiceInternalTrafficPolicy=maybe"], "neither true nor false"),
        (&["--color", "red"], "unexpected argument"),
    ];
    for (options, part) in cases {
        let output = apiserver(options);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
        assert!(stderr(&output).contains(part), "{options:?}: {part:?} is not in\n{}", stderr(&output));
    }
}

#[test]
fn help_names_every_flag() {
    let output = apiserver(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for flag in [
        "--clusters",
        "--dir",
        "--data",
        "--address",
        "--port",
        "--rbac",
        "--feature-gates",
        "--verbose",
        "--help",
    ] {
        assert!(said.contains(flag), "{flag} is not in\n{said}");
    }
    assert_eq!(tombolo(&["--help"]).status().expect("an end").code(), Some(0));
    let nothing = tombolo(&[]).output().expect("an end");
    assert_eq!(nothing.status.code(), Some(2), "{nothing:?}");
}

#[test]
fn rbac_is_a_switch() {
    for (options, expected) in [(&["--clusters", "1"][..], 0), (&["--clusters", "1", "--rbac"][..], 1)] {
        let clusters = Clusters::start(options);
        clusters.kubectl.run("create sa robot").succeeds();
        let token = clusters.kubectl.run("create token robot");
        let robot = clusters.kubectl.with(&format!("--token={}", token.succeeds()));
        let outcome = robot.run("get secrets");
        assert_eq!(outcome.code(), Some(expected), "{options:?}: {outcome}");
    }
}

#[test]
fn feature_gates_drop_the_fields_they_guard() {
    const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n\
        spec: {type: LoadBalancer, internalTrafficPolicy: Local, requiredLoadBalancerFeatures: [Ports], ports: [{port: 80}]}\n";
    let fields =
        "get svc web -o jsonpath='{.spec.internalTrafficPolicy} {.spec.requiredLoadBalancerFeatures}'";
    let cases = [
        ("ServiceInternalTrafficPolicy=true,LoadBalancerStatusImprovements=true", "Local [\"Ports\"]"),
        ("ServiceInternalTrafficPolicy=false,LoadBalancerStatusImprovements=true", " [\"Ports\"]"),
        ("ServiceInternalTrafficPolicy=true,LoadBalancerStatusImprovements=false", "Local"),
    ];
    for (gates, expected) in cases {
        let clusters = Clusters::start(&["--clusters", "1", "--feature-gates", gates]);
        clusters.kubectl.feed("create -f -", SERVICE).succeeds();
        clusters.kubectl.run(fields).prints(expected);
    }
}
