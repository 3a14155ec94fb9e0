//! Which API servers a playground is to have: flags of `up` and `demo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tombolo_playground::Servers;

use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Apiserver {
    /// Within this program, up in milliseconds.
    Embedded,
    /// kube-apiserver and etcd, with kube-controller-manager if there is one.
    Kube,
}

#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// The API servers of hub and clusters.
    #[arg(long, value_enum, default_value = "embedded")]
    apiserver: Apiserver,
    /// Where to look for etcd, kube-apiserver and kube-controller-manager before the PATH. `cargo xtask kube` builds them.
    #[arg(long, value_name = "DIR", requires = "apiserver")]
    kube_programs: Option<PathBuf>,
}

impl ServerArguments {
    /// Finds the programs, if any are needed.
    pub(crate) fn find(&self) -> Result<Servers, Failure> {
        if self.apiserver == Apiserver::Embedded {
            return Ok(Servers::Embedded);
        }
        let missing = |cause| {
            Failure::new("no real API servers can be started")
                .because(cause)
                .hint("`cargo xtask kube` builds them and prints the folder for --kube-programs")
        };
        Servers::find_kube(self.kube_programs.as_deref()).map_err(missing)
    }

    /// The same again, as it would be typed.
    pub(crate) fn words(&self) -> Vec<std::ffi::OsString> {
        let mut words = Vec::new();
        if self.apiserver == Apiserver::Kube {
            words.extend(["--apiserver".into(), "kube".into()]);
        }
        if let Some(folder) = &self.kube_programs {
            words.extend(["--kube-programs".into(), folder.into()]);
        }
        words
    }
}
