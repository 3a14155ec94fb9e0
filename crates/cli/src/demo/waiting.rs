//! Waiting in the tour: as kubectl would, for what has to come.

use std::time::Duration;

use serde_json::Value;

use super::stage::{DEPLOYMENT, Kind, Stage};
use crate::failure::Failure;
use crate::say::say;

/// Longer than anything takes; what reaches it does not come.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

impl Stage {
    /// Waits for a deployment.
    pub(super) async fn rolled_out(&self, cluster: &str, name: &str) -> Result<(), Failure> {
        self.kubectl(cluster, &format!("rollout status deployment/{name} --timeout=2m"));
        let api = self.api(cluster, DEPLOYMENT)?;
        let what = format!("deployment {name} is rolled out in {cluster}");
        self.until(&what, async || {
            let found = api.get_opt(name).await.ok().flatten()?;
            let wanted = found.data["spec"]["replicas"].as_i64()?;
            (found.data["status"]["availableReplicas"].as_i64() == Some(wanted)).then_some(())
        })
        .await?;
        say(format_args!("deployment \"{name}\" successfully rolled out"));
        Ok(())
    }

    /// Waits for a condition.
    pub(super) async fn condition(
        &self,
        cluster: &str,
        kind: Kind,
        name: &str,
        type_: &str,
        status: &str,
    ) -> Result<(), Failure> {
        let wanted = if status == "True" { type_.to_owned() } else { format!("{type_}={status}") };
        let resource = kind.told();
        self.kubectl(cluster, &format!("wait {resource}/{name} --for=condition={wanted} --timeout=2m"));
        let api = self.api(cluster, kind)?;
        let what = format!("{resource}/{name} of {cluster} is {wanted}");
        self.until(&what, async || {
            let found = api.get_opt(name).await.ok().flatten()?;
            let conditions = found.data["status"]["conditions"].as_array()?;
            // As kubectl does: what was said about an earlier generation does not count.
            let is_late = |one: &Value| one["observedGeneration"].as_i64() < found.metadata.generation;
            let is_it = |one: &Value| one["type"] == type_ && one["status"] == status;
            conditions
                .iter()
                .any(|one| is_it(one) && !(one["observedGeneration"].is_i64() && is_late(one)))
                .then_some(())
        })
        .await?;
        say(format_args!("{resource}/{name} condition met"));
        Ok(())
    }

    /// Waits until no object has some labels any more.
    pub(super) async fn gone(&self, cluster: &str, kind: Kind, selector: &str) -> Result<(), Failure> {
        let plural = kind.resource().plural;
        self.kubectl(cluster, &format!("wait {plural} -l {selector} --for=delete --timeout=2m"));
        let before = self.names(cluster, kind, selector).await?;
        let what = format!("{plural} with {selector} are gone from {cluster}");
        self.until(&what, async || {
            self.names(cluster, kind, selector).await.ok().filter(Vec::is_empty).map(drop)
        })
        .await?;
        before.iter().for_each(|name| say(format_args!("{}/{name} condition met", kind.told())));
        Ok(())
    }

    /// Tries again and again until something comes of it.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        attempt: impl AsyncFn() -> Option<T>,
    ) -> Result<T, Failure> {
        let tried = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(found) = attempt().await {
                    return found;
                }
                tokio::time::sleep(POLL).await;
            }
        });
        tried.await.map_err(|_| Failure::new(format!("it did not come to it that {what}")))
    }
}
