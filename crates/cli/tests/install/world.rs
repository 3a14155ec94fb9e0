//! A hub and two clusters with nothing in them, and whoever would run pods there.
//!
//! Nothing there runs pods, so the test does what a kubelet would: it lays the ConfigMap and the Secret of a pod
//! into a directory, gives the process the token of its account, and starts it with the arguments of its container.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio::runtime::Runtime;
use tombolo_apiserver::Options;
use tombolo_apiserver::controllers::Settings;
use tombolo_testkit::{Cluster, Kubectl, eventually, serve_all};

/// Much longer than anything here takes; what reaches it hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Clusters by the names of their contexts; dropped, they end.
pub(crate) struct World {
    pub(crate) kubectl: Kubectl,
    _clusters: [Cluster; 3],
    _runtime: Runtime,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn succeeds(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }

    #[track_caller]
    pub(crate) fn fails(self, part: &str) -> Self {
        assert_eq!(self.code, Some(1), "{}{}", self.out, self.err);
        assert!(self.err.contains(part), "{part:?} is not in\n{}", self.err);
        self
    }
}

impl World {
    pub(crate) fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let kubectl = Kubectl::new();
        let clusters = ["hub", "east", "west"].map(|name| launch(&runtime, name));
        kubectl.file("kubeconfig", &runtime.block_on(serve_all(&clusters)));
        Self { kubectl, _clusters: clusters, _runtime: runtime }
    }

    pub(crate) fn at(&self, context: &str) -> Kubectl {
        self.kubectl.with(&format!("--context={context}"))
    }

    /// Starts `tombolo` with these words.
    pub(crate) fn start_tombolo(&self, line: &str) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
        command
            .args(line.split_whitespace())
            .env("KUBECONFIG", self.kubectl.home().join("kubeconfig"))
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs `tombolo` with these words to its end.
    pub(crate) fn tombolo(&self, line: &str) -> Said {
        finish(self.start_tombolo(line))
    }

    pub(crate) fn json(&self, context: &str, line: &str) -> Value {
        self.at(context).run(&format!("{line} -o json")).json()
    }

    /// Runs the agent that is installed in a cluster, as a kubelet would.
    pub(crate) fn run_agent(&self, context: &str) -> Process {
        let folder = self.mount(context);
        let member = self.account(context, "tombolo-agent");
        let deployment = self.json(context, "get deployment -n tombolo-system tombolo-agent");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let given = container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let arguments: Vec<String> = given
            .map(|word| match word.split_once('=') {
                Some(("--membership", _)) => format!("--membership={}", folder.display()),
                Some(("--admin-address", _)) => "--admin-address=127.0.0.1:0".to_owned(),
                _ => word.to_owned(),
            })
            .collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
        command.args(&arguments).arg(format!("--kubeconfig={}", member.display()));
        Process::start(command)
    }

    /// The projected volume of the agent's pods, as it is or as it has become.
    pub(crate) fn mount(&self, context: &str) -> PathBuf {
        let folder = self.kubectl.home().join(format!("{context}-membership"));
        std::fs::create_dir_all(&folder).unwrap();
        let facts = self.json(context, "get configmap -n tombolo-system tombolo-member");
        for (name, text) in facts["data"].as_object().unwrap() {
            std::fs::write(folder.join(name), text.as_str().unwrap()).unwrap();
        }
        let secret = self.json(context, "get secret -n tombolo-system tombolo-hub");
        let token = STANDARD.decode(secret["data"]["token"].as_str().unwrap()).unwrap();
        std::fs::write(folder.join("token"), token).unwrap();
        folder
    }

    /// A kubeconfig with nothing but the token of an account.
    fn account(&self, context: &str, account: &str) -> PathBuf {
        let token =
            self.at(context).run(&format!("create token -n tombolo-system {account}")).succeeds().to_owned();
        let minified = self.at(context).run("config view --minify --raw").succeeds().to_owned();
        let file = self.kubectl.file(&format!("{context}-{account}"), &minified);
        let edit = self.kubectl.with(&format!("--kubeconfig={}", file.display()));
        edit.run(&format!("config set-credentials account --token={}", token.trim())).succeeds();
        edit.run(&format!("config set-context {context} --user=account")).succeeds();
        file
    }
}

/// Waits for a command that was started.
pub(crate) fn finish(child: Child) -> Said {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn launch(runtime: &Runtime, name: &str) -> Cluster {
    let _inside = runtime.enter();
    let cluster = Cluster::pristine(Options { rbac: true, ..Options::named(name) });
    cluster.start_controllers(Settings::default());
    cluster
}

/// A part that runs; dropped, it is killed.
pub(crate) struct Process {
    child: Child,
    address: String,
    said: Arc<Mutex<String>>,
}

impl Process {
    fn start(mut command: Command) -> Self {
        command.env_remove("RUST_LOG").env("NO_COLOR", "1").stdin(Stdio::null());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (said, (sender, receiver)) = (Arc::new(Mutex::new(String::new())), mpsc::channel());
        let log = said.clone();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if let Some((_, address)) = line.split_once("admin endpoint address=") {
                    let _ = sender.send(address.trim().to_owned());
                }
                *log.lock().unwrap() += &format!("{line}\n");
            }
        });
        let address = receiver.recv_timeout(PATIENCE);
        let address = address.unwrap_or_else(|_| panic!("no admin endpoint:\n{}", said.lock().unwrap()));
        Self { child, address, said }
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.get("/readyz").starts_with("HTTP/1.1 200")
    }

    /// Nothing that it tried was forbidden.
    #[track_caller]
    pub(crate) fn was_allowed_everything(&self) {
        let metrics = self.get("/metrics");
        assert!(metrics.contains("result=\"ok\"") && !metrics.contains("result=\"forbidden\""), "{metrics}");
        let log = self.said.lock().unwrap();
        assert!(!log.contains("forbidden"), "{log}");
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn end(self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.ends();
    }

    /// Waits for its end, which must be in order.
    #[track_caller]
    pub(crate) fn ends(mut self) {
        eventually("it ends", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}:\n{}", self.said.lock().unwrap());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
