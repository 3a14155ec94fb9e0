//! Which API servers a playground has.

use std::path::Path;

use tombolo_upstream::Programs;

use crate::error::Error;

/// The API servers of the hub and of all members.
#[derive(Clone, Debug)]
pub enum Servers {
    /// Those within this process.
    Embedded,
    /// kube-apiserver and etcd as processes, with kube-controller-manager where there is one.
    Kube(Programs),
}

impl Servers {
    /// Looks for the programs of real ones in `folder`, then on the search path.
    pub fn find_kube(folder: Option<&Path>) -> Result<Self, Error> {
        Programs::find(folder).map(Self::Kube).map_err(|missing| Error::new(missing.to_string()))
    }
}
