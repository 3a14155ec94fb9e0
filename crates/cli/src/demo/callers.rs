//! Who calls a service in the tour: a pod `client`, or the host that belongs to no cluster.

use serde_json::Value;
use tokio::process::Command;

use super::calls::Tally;
use super::stage::{NAMESPACE, Stage};
use crate::failure::Failure;
use crate::say::say;

impl Stage {
    /// One call from the pod `client`, and its answer.
    pub(super) async fn call(&self, cluster: &str, url: &str) -> Result<Value, Failure> {
        self.kubectl(cluster, &format!("exec client -- curl -s -m 5 {url}"));
        let said = self.exec(cluster, &["curl", "-s", "-m", "5", url]).await?;
        let answer = serde_json::from_str(&said);
        let answer = answer.map_err(|_| Failure::new(format!("nobody answered at {url} in {cluster}")))?;
        say(said.trim_end());
        Ok(answer)
    }

    /// So many calls, one after the other, and who answered.
    pub(super) async fn calls(
        &self,
        cluster: &str,
        url: &str,
        count: usize,
        prefix: &str,
    ) -> Result<Tally, Failure> {
        let script = format!("for i in $(seq {count}); do curl -sf -m 2 {url} || echo failed; done");
        let pattern = format!("{prefix}[0-9]+|failed");
        self.kubectl(
            cluster,
            &format!("exec client -- sh -c '{script}' | grep -oE '{pattern}' | sort | uniq -c"),
        );
        let said = self.exec(cluster, &["sh", "-c", &script]).await?;
        let tally = Tally::of(&said, prefix);
        say(&tally);
        Ok(tally)
    }

    /// Whether a call is answered; nothing is told about it.
    pub(super) async fn answers(&self, cluster: &str, url: &str) -> bool {
        let said = self.pods.run(cluster, NAMESPACE, "client", &["curl", "-sf", "-m", "1", url]).await;
        said.is_ok_and(|said| said.code == 0)
    }

    async fn exec(&self, cluster: &str, command: &[&str]) -> Result<String, Failure> {
        let said = self.pods.run(cluster, NAMESPACE, "client", command).await;
        let said = said.map_err(|cause| Failure::new("no command can be run in a pod").because(cause))?;
        Ok(said.stdout)
    }

    /// One call from outside, and its answer.
    pub(super) async fn call_from_outside(&self, url: &str) -> Result<Value, Failure> {
        self.typed(&format!("tombolo outside -- curl -s -m 5 {url}"));
        let said = self.outside(&["curl", "-s", "-m", "5", url]).await?;
        let answer = serde_json::from_str(&said);
        let answer = answer.map_err(|_| Failure::new(format!("nobody answered at {url} outside")))?;
        say(said.trim_end());
        Ok(answer)
    }

    /// Whether a call from outside is answered; nothing is told about it.
    pub(super) async fn answers_outside(&self, url: &str) -> bool {
        self.outside(&["curl", "-sf", "-m", "1", url]).await.is_ok_and(|said| !said.is_empty())
    }

    /// This very program, since only a process without threads can go there.
    async fn outside(&self, command: &[&str]) -> Result<String, Failure> {
        let cannot = |cause: std::io::Error| Failure::new("no command can be run outside").because(cause);
        let mut outside = Command::new(std::env::current_exe().map_err(cannot)?);
        outside.arg("outside").arg("--dir").arg(self.directory.path()).arg("--").args(command);
        let said = outside.kill_on_drop(true).output().await.map_err(cannot)?;
        Ok(String::from_utf8_lossy(&said.stdout).into_owned())
    }
}
