//! The directory that tells about a playground: `kubeconfig`, `endpoints.json` and the socket it is asked through.
//!
//! What a playground leaves there it also takes away, so it never takes a directory in which something of another kind has one
//! of these names.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Doing as _, Error};
use crate::inside::provide_tools;

const KUBECONFIG: &str = "kubeconfig";
const ENDPOINTS: &str = "endpoints.json";
/// Files that pods see.
const SCRATCH: &str = "run";
const TOOLS: &str = "bin";
/// What API servers keep, a folder each.
const DATA: &str = "kube";
/// Says that the rest is a playground's, also after one that was killed.
const MARKER: &str = ".playground";

/// What `endpoints.json` says: where everything is.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Endpoints {
    /// The process that runs it all.
    pub pid: u32,
    pub hub: Hub,
    pub members: Vec<Member>,
    /// The network namespace of the host that belongs to no cluster; absent without networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<Outside>,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Hub {
    pub server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Outside {
    pub address: String,
    /// A file that stands for the network namespace, as long as the playground runs.
    pub namespace: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    pub name: String,
    pub server: String,
    pub pod_cidr: String,
    pub node_cidr: String,
    pub service_cidr: String,
    pub load_balancer_cidr: String,
    /// Where the cluster's pods ask for names; absent while there is no server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub nodes: Vec<Node>,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub name: String,
    pub address: String,
    pub pod_cidr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub parts: Vec<Part>,
}

/// Something that runs, and where `/metrics`, `/livez` and `/readyz` are answered.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Part {
    pub name: String,
    pub admin: String,
}

/// A part, and where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartAt {
    /// `hub`, or the member.
    pub cluster: String,
    /// The cluster or node, and what it is: `member1/node2 proxy`.
    pub name: String,
    pub admin: String,
}

impl Endpoints {
    /// Everything that runs: the hub's, then each member's and its nodes'.
    pub fn parts(&self) -> Vec<PartAt> {
        let at = |cluster: &str, place: &str, parts: &[Part]| -> Vec<PartAt> {
            let one = |part: &Part| PartAt {
                cluster: cluster.to_owned(),
                name: format!("{place} {}", part.name),
                admin: part.admin.clone(),
            };
            parts.iter().map(one).collect()
        };
        let mut all = at("hub", "hub", &self.hub.parts);
        for member in &self.members {
            all.extend(at(&member.name, &member.name, &member.parts));
            for node in &member.nodes {
                all.extend(at(&member.name, &format!("{}/{}", member.name, node.name), &node.parts));
            }
        }
        all
    }
}

/// Where a playground leaves what others need.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

impl Directory {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.0.join(KUBECONFIG)
    }

    pub(crate) fn scratch(&self) -> PathBuf {
        self.0.join(SCRATCH)
    }

    /// Where the API server of a cluster keeps what it needs.
    pub(crate) fn data(&self, cluster: &str) -> PathBuf {
        self.scratch().join(DATA).join(cluster)
    }

    /// Where containers, and whoever goes outside, find tools that this computer may lack.
    pub fn tools(&self) -> PathBuf {
        self.scratch().join(TOOLS)
    }

    pub(crate) fn make(&self) -> Result<(), Error> {
        self.claim()?;
        let cannot = format!("cannot make {}", self.0.display());
        fs::create_dir_all(self.scratch()).doing(&cannot)?;
        provide_tools(&self.tools()).doing(&cannot)
    }

    fn claim(&self) -> Result<(), Error> {
        let is_there = |name: &&str| fs::symlink_metadata(self.0.join(name)).is_ok();
        let found: Vec<&str> = [KUBECONFIG, ENDPOINTS, SCRATCH].into_iter().filter(is_there).collect();
        if !is_there(&MARKER) && !found.is_empty() {
            let (path, found) = (self.0.display(), found.join(" and "));
            return Err(Error::new(format!(
                "{path} has {found}, but not from a playground, which would take it away"
            )));
        }
        let cannot = format!("cannot make {}", self.0.display());
        fs::create_dir_all(&self.0).doing(&cannot)?;
        fs::write(self.0.join(MARKER), "What `tombolo up` leaves here it takes away again.\n").doing(&cannot)
    }

    /// Where everything is, as the playground that runs here told it.
    pub fn endpoints(&self) -> Result<Endpoints, Error> {
        let path = self.0.join(ENDPOINTS);
        let cannot = format!("no playground runs in {}", self.0.display());
        let text = fs::read(&path).doing(&cannot)?;
        serde_json::from_slice(&text).doing(&cannot)
    }

    pub(crate) fn write(&self, kubeconfig: &str, endpoints: &Endpoints) -> Result<(), Error> {
        let cannot = format!("cannot write into {}", self.0.display());
        write_private(&self.kubeconfig(), kubeconfig.as_bytes()).doing(&cannot)?;
        let text = serde_json::to_vec_pretty(endpoints).doing(&cannot)?;
        write_private(&self.0.join(ENDPOINTS), &text).doing(&cannot)
    }

    /// Takes away what is of no use any more once the playground has ended.
    pub(crate) fn clear(&self) {
        for name in [KUBECONFIG, ENDPOINTS] {
            let _ = fs::remove_file(self.0.join(name));
        }
        let _ = fs::remove_dir_all(self.scratch());
        // Last: if this was not all, the next one may go on.
        let _ = fs::remove_file(self.0.join(MARKER));
    }
}

/// The kubeconfig holds administrators' tokens: only its owner may read it, from the first byte on.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    let next = path.with_extension("next");
    let _ = fs::remove_file(&next);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    file.write_all(content)?;
    fs::rename(&next, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_has_there_is_neither_written_over_nor_taken_away() {
        let place = std::env::temp_dir().join(format!("tombolo-directory-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        for name in [KUBECONFIG, ENDPOINTS, SCRATCH] {
            let own = place.join(name);
            fs::create_dir_all(&own).unwrap();
            let refused = Directory::new(&place).make().unwrap_err().to_string();
            assert!(refused.contains(&format!("has {name}, but not from a playground")), "{refused}");
            assert_eq!(fs::read_dir(&place).unwrap().count(), 1, "{name}");
            fs::remove_dir(own).unwrap();
        }
        // One that was killed has left everything behind, and the next one may use it.
        let directory = Directory::new(&place);
        for _ in 0..2 {
            directory.make().unwrap();
            fs::write(directory.kubeconfig(), "x").unwrap();
        }
        fs::write(place.join("notes"), "mine").unwrap();
        directory.clear();
        let left = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["notes"]);
        fs::remove_dir_all(place).unwrap();
    }
}
