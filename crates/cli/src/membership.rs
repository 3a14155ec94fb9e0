//! The directory in which pods find who their cluster is: what `tombolo join` left in the cluster, a file per fact.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A directory with a file per fact; what is not there is not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) cluster_id: Option<String>,
    pub(crate) pod_cidrs: Vec<String>,
    pub(crate) region: Option<String>,
    pub(crate) ip_families: Vec<String>,
    /// The way to the hub.
    pub(crate) kubeconfig: Option<PathBuf>,
}

impl Facts {
    pub(crate) fn read(folder: Option<&Path>) -> Result<Self, Failure> {
        let Some(folder) = folder else { return Ok(Self::default()) };
        let kubeconfig = folder.join("kubeconfig");
        let list = |text: Option<String>| -> Vec<String> {
            text.iter().flat_map(|text| text.split(',')).map(|item| item.trim().to_owned()).collect()
        };
        Ok(Self {
            cluster_id: fact(folder, "cluster-id")?,
            pod_cidrs: list(fact(folder, "pod-cidrs")?),
            region: fact(folder, "region")?,
            ip_families: list(fact(folder, "ip-families")?),
            kubeconfig: kubeconfig.exists().then_some(kubeconfig),
        })
    }
}

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
