//! Real clusters for runs that are no tests: one etcd, and an API server with its controllers for each.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use tokio::task::JoinSet;
use tombolo_upstream::{ControlPlane, Etcd, Folder, Place, Programs, Settings, kubeconfig};

use crate::kube;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Clusters `member1`, `member2` and so on. They end with this value.
pub(crate) struct Real {
    pub(crate) planes: Vec<ControlPlane>,
    pub(crate) etcd: Etcd,
    /// The etcd of the one cluster that has its own.
    _apart: Option<Box<(Etcd, Folder)>>,
    folder: Folder,
}

impl Real {
    /// Builds the servers if they are missing, and starts them. The thread that does this has to live as long as they do.
    pub(crate) async fn start(clusters: usize) -> Result<Self, Failure> {
        Self::start_apart(clusters, None).await
    }

    /// The same, with an etcd of its own for one of the clusters, counted from 0.
    pub(crate) async fn start_apart(clusters: usize, apart: Option<usize>) -> Result<Self, Failure> {
        let programs = kube::provide().map_err(|failure| failure.to_string())?;
        let programs = Programs::find(Some(&programs))?;
        let (etcd, folder) = store(&programs).await?;
        let own = match apart {
            Some(_) => Some(store(&programs).await?),
            None => None,
        };
        let mut starting = JoinSet::new();
        for number in 1..=clusters {
            let name = format!("member{number}");
            let settings = Settings {
                service_cidrs: vec!["10.96.0.0/16".parse()?],
                place: Place::Loopback,
                etcd: own.as_ref().filter(|_| apart == Some(number - 1)).map_or(&etcd, |(own, _)| own).url(),
                prefix: format!("/{name}"),
                name,
            };
            let programs = programs.clone();
            starting.spawn(async move {
                let folder = Folder::new(&settings.name)?;
                ControlPlane::start(&programs, settings, folder).await
            });
        }
        let mut planes = starting.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
        planes.sort_by_key(|plane| (plane.context.name.len(), plane.context.name.clone()));
        let contexts: Vec<_> = planes.iter().map(|plane| plane.context.clone()).collect();
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig(&contexts))?;
        Ok(Self { planes, etcd, _apart: own.map(Box::new), folder })
    }

    /// Where more can be put that goes with the servers.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file with a context of each cluster's name.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

async fn store(programs: &Programs) -> Result<(Etcd, Folder), Failure> {
    let folder = Folder::new("etcd")?;
    let etcd = Etcd::start(&programs.etcd, folder.path(), IpAddr::V4(Ipv4Addr::LOCALHOST)).await?;
    Ok((etcd, folder))
}
