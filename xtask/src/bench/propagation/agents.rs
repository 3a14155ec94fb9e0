//! Agents as processes, and what their metrics say.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::bench::client::Failure;
use crate::bench::process::resident_memory;

const ADMIN_PORT: u16 = 9464;

/// A running `tombolo agent`; it ends with this value.
pub(super) struct Agent {
    child: Child,
    admin: SocketAddr,
}

/// How often agents have written.
#[derive(Clone, Copy, Default)]
pub(super) struct Writes {
    pub(super) leases: f64,
    pub(super) others: f64,
}

impl Agent {
    /// The agent of context `member` in the kubeconfig, which meets the others in context `hub`. `place` is its own.
    pub(super) fn start(
        binary: &Path,
        kubeconfig: &Path,
        place: u16,
        member: &str,
        hub: &str,
    ) -> Result<Self, Failure> {
        // An address for each: a port that is free now is soon taken by a connection of the agents before.
        let [high, low] = place.to_be_bytes();
        let admin = SocketAddr::from(([127, 1, high, low], ADMIN_PORT));
        let child = Command::new(binary)
            .args(["agent", "--no-leader-elect", "--context", member, "--hub-context", hub])
            .args(["--cluster-id", member, "--admin-address", &admin.to_string(), "--kubeconfig"])
            .arg(kubeconfig)
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self { child, admin })
    }

    /// Resident memory in megabytes.
    pub(super) fn memory(&self) -> Result<f64, Failure> {
        resident_memory(&self.child).map_err(|failure| failure.to_string().into())
    }

    /// Waits until it has so many imports.
    pub(super) async fn has_imported(&self, services: usize, patience: Duration) -> Result<(), Failure> {
        let wanted = format!("tombolo_agent_imports{{dialect=\"mcs\"}} {services}.0");
        let begin = Instant::now();
        while !self.metrics().await.unwrap_or_default().lines().any(|line| line == wanted) {
            if begin.elapsed() > patience {
                return Err(format!("an agent has not imported {services} services in {patience:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    pub(super) async fn writes(&self) -> Result<Writes, Failure> {
        let mut writes = Writes::default();
        for line in
            self.metrics().await?.lines().filter(|line| line.starts_with("tombolo_agent_writes_total{"))
        {
            let count: f64 = line.rsplit(' ').next().unwrap_or_default().parse()?;
            let is_lease = line.contains("resource=\"leases\"");
            *(if is_lease { &mut writes.leases } else { &mut writes.others }) += count;
        }
        Ok(writes)
    }

    async fn metrics(&self) -> Result<String, Failure> {
        let mut stream = TcpStream::connect(self.admin).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    pub(super) async fn stop(mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }
}
