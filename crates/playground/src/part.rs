//! A part of Tombolo that runs, with its admin endpoint on the host's loopback.

use std::net::SocketAddr;

use prometheus_client::registry::Registry;
use tombolo_runtime::{Admin, Readiness};

use crate::directory;
use crate::error::{Doing as _, Error};
use crate::station::Task;

/// A part that runs and tells about itself; dropped, it is cut off.
pub(crate) struct Part {
    /// The cluster, or the node, and what it is.
    pub(crate) name: String,
    pub(crate) readiness: Readiness,
    admin: SocketAddr,
    _tasks: [Task; 2],
}

impl Part {
    /// Opens the admin endpoint of what `work` does.
    pub(crate) async fn start(
        name: String,
        registry: Registry,
        readiness: Readiness,
        work: Task,
    ) -> Result<Self, Error> {
        let cannot = format!("{name}: no admin endpoint");
        let admin =
            Admin::bind(([127, 0, 0, 1], 0).into(), registry, readiness.clone()).await.doing(&cannot)?;
        let address = admin.address().doing(&cannot)?;
        let serving = Task::here(admin.run(std::future::pending()));
        Ok(Self { name, readiness, admin: address, _tasks: [work, serving] })
    }

    /// What others are told about it.
    pub(crate) fn told(&self) -> directory::Part {
        let name = self.name.rsplit(' ').next().unwrap_or_default().to_owned();
        directory::Part { name, admin: self.admin.to_string() }
    }
}
