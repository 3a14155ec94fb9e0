//! The directory in which pods find who their cluster is: what `tombolo join` left in the cluster, a file per fact.
//!
//! It may come, change and go while a part runs, with a join, a leave, or a commit in somebody's repository. Nobody works on
//! with what was true before: [`Facts::outdated`] tells a part to end, and whoever started it starts it anew.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

use crate::failure::Failure;

/// How often to look whether the directory says something else.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A directory with a file per fact; what is not there is not known. The token is none: it is renewed all the time, and
/// clients read it anew by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    folder: Option<PathBuf>,
    pub(crate) cluster_id: Option<String>,
    pub(crate) pod_cidrs: Vec<String>,
    pub(crate) region: Option<String>,
    pub(crate) ip_families: Vec<String>,
    kubeconfig: Option<String>,
}

impl Facts {
    pub(crate) fn read(folder: Option<&Path>) -> Result<Self, Failure> {
        let Some(folder) = folder else { return Ok(Self::default()) };
        let list = |text: Option<String>| -> Vec<String> {
            text.iter().flat_map(|text| text.split(',')).map(|item| item.trim().to_owned()).collect()
        };
        Ok(Self {
            folder: Some(folder.to_owned()),
            cluster_id: fact(folder, "cluster-id")?,
            pod_cidrs: list(fact(folder, "pod-cidrs")?),
            region: fact(folder, "region")?,
            ip_families: list(fact(folder, "ip-families")?),
            kubeconfig: fact(folder, KUBECONFIG)?,
        })
    }

    /// The file with the way to the hub.
    pub(crate) fn kubeconfig(&self) -> Option<PathBuf> {
        self.kubeconfig.as_ref()?;
        Some(self.folder.as_ref()?.join(KUBECONFIG))
    }

    /// Resolves when the directory says something else. What cannot be read just now says nothing.
    pub(crate) async fn outdated(self) {
        loop {
            sleep(LOOK_EVERY).await;
            if Self::read(self.folder.as_deref()).is_ok_and(|now| now != self) {
                tracing::info!("the membership of this cluster changed: ending, to begin anew with it");
                return;
            }
        }
    }
}

const KUBECONFIG: &str = "kubeconfig";

fn fact(folder: &Path, name: &str) -> Result<Option<String>, Failure> {
    let path = folder.join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::new(format!("cannot read {}", path.display()))
            .because(error)
            .hint("see --membership; `tombolo join` writes what is read there")),
    }
}

/// What was typed, or what the directory says, if it makes sense.
pub(crate) fn parse<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, Failure>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|cause: T::Err| {
        Failure::new(format!("{what} {text:?} in --membership is of no use: {cause}"))
            .hint("run `tombolo join` again")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_other_facts_are_news_and_not_a_token() {
        let folder = std::env::temp_dir().join(format!("tombolo-membership-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        let read = || Facts::read(Some(&folder)).unwrap();
        let is_news =
            async |facts: Facts| tokio::time::timeout(3 * LOOK_EVERY, facts.outdated()).await.is_ok();
        let nothing = read();
        write("token", "first");
        assert!(!is_news(nothing.clone()).await);
        write("cluster-id", "east");
        assert!(is_news(nothing).await, "it joined");
        let joined = read();
        write("token", "second");
        assert!(!is_news(joined.clone()).await);
        write("kubeconfig", "{}");
        assert!(is_news(joined).await, "there is another way to the hub");
        let joined = read();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(is_news(joined).await, "it left");
        assert!(!is_news(Facts::read(None).unwrap()).await, "who names no directory watches none");
    }
}
