//! What a kubelet does for the agents of a member: it starts them as they are installed, and keeps their files up to date.
//!
//! Tokens live for ten minutes, the least that API servers give, so that every longer run sees them run out.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::time::sleep;
use tombolo_runtime::request_token;
use tombolo_upstream::Context;

use crate::servers::Failure;

/// Where agents are installed, and what they, their account and their lease are called.
pub(super) const SYSTEM: &str = "tombolo-system";
pub(super) const AGENT: &str = "tombolo-agent";
/// How long the tokens of the agents' account live, and when they are replaced.
const TOKEN_SECONDS: i64 = 600;
const TOKEN_EVERY: Duration = Duration::from_secs(200);
/// Kubelets look at least every minute.
const LOOK_EVERY: Duration = Duration::from_secs(20);

/// How far a clock is off, as faketime reads it.
pub(super) type Skew = &'static str;

/// Where the library of faketime is. Its program would do, but stands between an agent and those who stop and kill it.
fn clock() -> Result<String, Failure> {
    let output =
        std::process::Command::new("faketime").args(["-f", "+0", "printenv", "LD_PRELOAD"]).output()?;
    let path = String::from_utf8(output.stdout)?.trim().to_owned();
    if path.is_empty() { Err("faketime does not say where its library is".into()) } else { Ok(path) }
}

/// A member's place for agents.
#[derive(Clone)]
pub(super) struct Station {
    client: Client,
    folder: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    /// The library that makes a clock wrong.
    clock: String,
}

impl Station {
    /// Reads what was installed, and writes the files that agents need.
    pub(super) async fn new(context: &Context, folder: PathBuf, log: PathBuf) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder.join("membership"))?;
        let client = context.client()?;
        let deployment = Api::<Deployment>::namespaced(client.clone(), SYSTEM).get(AGENT).await?;
        let pod = deployment.spec.template.spec.ok_or("a Deployment without pods")?;
        let given = pod.containers.into_iter().next().and_then(|container| container.args);
        let arguments = given.unwrap_or_default().into_iter().map(|word| match word.split_once('=') {
            Some(("--membership", _)) => format!("--membership={}", folder.join("membership").display()),
            Some(("--admin-address", _)) => "--admin-address=127.0.0.1:0".to_owned(),
            _ => word,
        });
        let arguments = arguments.collect();
        let station = Self { client, folder, arguments, log, clock: clock()? };
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "own",
            "clusters": [{"name": "own", "cluster": {
                "server": context.server, "certificate-authority-data": STANDARD.encode(&context.authority),
            }}],
            "users": [{"name": "agent", "user": {"tokenFile": station.folder.join("token")}}],
            "contexts": [{"name": "own", "context": {"cluster": "own", "user": "agent"}}],
        });
        station.write("kubeconfig", kubeconfig.to_string().as_bytes())?;
        station.write_token().await?;
        station.write_membership().await?;
        Ok(station)
    }

    /// Keeps the files up to date, for ever. A server that is away is asked later.
    pub(super) async fn keep(self) {
        let mut written = Instant::now();
        loop {
            sleep(LOOK_EVERY).await;
            let _ = self.write_membership().await;
            if written.elapsed() >= TOKEN_EVERY && self.write_token().await.is_ok() {
                written = Instant::now();
            }
        }
    }

    async fn write_token(&self) -> Result<(), Failure> {
        let token = request_token(&self.client, SYSTEM, AGENT, TOKEN_SECONDS).await?;
        self.write("token", token.as_bytes())
    }

    async fn write_membership(&self) -> Result<(), Failure> {
        let facts = Api::<ConfigMap>::namespaced(self.client.clone(), SYSTEM).get("tombolo-member").await?;
        for (name, text) in facts.data.unwrap_or_default() {
            self.write(&format!("membership/{name}"), text.as_bytes())?;
        }
        let secret = Api::<Secret>::namespaced(self.client.clone(), SYSTEM).get("tombolo-hub").await?;
        for (name, bytes) in secret.data.unwrap_or_default() {
            self.write(&format!("membership/{name}"), &bytes.0)?;
        }
        Ok(())
    }

    /// Nobody reads half a file.
    fn write(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let (unfinished, file) = (self.folder.join("unfinished"), self.folder.join(name));
        std::fs::write(&unfinished, content)?;
        Ok(std::fs::rename(unfinished, file)?)
    }

    /// Starts one more agent, on a machine whose clock is off by so much; what it says is added to the member's log.
    pub(super) fn launch(&self, binary: &Path, skew: Skew) -> Result<Child, Failure> {
        let kubeconfig = format!("--kubeconfig={}", self.folder.join("kubeconfig").display());
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(binary);
        command.args(&self.arguments).arg(kubeconfig).env("RUST_LOG", "info").kill_on_drop(true);
        command.env("LD_PRELOAD", &self.clock).env("FAKETIME", skew);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command.spawn()?)
    }
}
