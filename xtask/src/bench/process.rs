//! The server under test as a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

type Failure = Box<dyn std::error::Error>;

/// A running `tombolo apiserver`; ends with this value.
pub(super) struct Embedded {
    child: Child,
    dir: PathBuf,
    /// From starting the process to the kubeconfig it writes when all clusters are ready.
    pub(super) start: Duration,
}

impl Embedded {
    pub(super) async fn start(binary: &Path, clusters: usize) -> Result<Self, Failure> {
        let dir = std::env::temp_dir().join(format!("tombolo-bench-{}-{clusters}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let begin = Instant::now();
        let child = Command::new(binary)
            .args(["apiserver", "--clusters", &clusters.to_string(), "--dir"])
            .arg(&dir)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let kubeconfig = dir.join("kubeconfig");
        while !kubeconfig.exists() {
            if begin.elapsed() > Duration::from_secs(30) {
                return Err("the server did not become ready within 30 s".into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(Self { child, dir, start: begin.elapsed() })
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// Resident memory in megabytes.
    pub(super) fn memory(&self) -> Result<f64, Failure> {
        resident_memory(&self.child)
    }

    pub(super) async fn stop(mut self) -> Result<(), Failure> {
        self.child.kill().await?;
        std::fs::remove_dir_all(&self.dir)?;
        Ok(())
    }
}

/// The resident memory of a process, in megabytes.
pub(crate) fn resident_memory(child: &Child) -> Result<f64, Failure> {
    let id = child.id().ok_or("the process is gone")?;
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).ok_or("no VmRSS")?.parse()?;
    Ok(kilobytes / 1024.0)
}
