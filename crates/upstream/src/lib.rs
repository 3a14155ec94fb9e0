//! The real thing: etcd, kube-apiserver and kube-controller-manager as processes.
//!
//! Set up for tests and the playground, not for production: data is not synced to disk, and the administrator has a token.
//! All else is as on a real cluster: TLS, RBAC, admission, service accounts. A process ends with the value that stands for
//! it, and when the thread that started it ends, however that happens.

mod control_plane;
mod etcd;
mod files;
mod process;
mod programs;

pub use self::control_plane::{ControlPlane, Place, Settings};
pub use self::etcd::Etcd;
pub use self::files::Folder;
pub use self::process::Process;
pub use self::programs::Programs;
pub use tombolo_apiserver::{Context, kubeconfig};

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no {program} {places}")]
    Missing { program: &'static str, places: String },
    #[error("{what}")]
    Io { what: String, source: std::io::Error },
    #[error("no certificates could be made")]
    Certificates(#[from] tombolo_apiserver::AuthorityError),
    #[error("{program} ended by itself; it said last:\n{said}")]
    Ended { program: String, said: String },
    #[error("{program} was not ready after {seconds} s; it said last:\n{said}")]
    Late { program: String, seconds: u64, said: String },
}

/// Gives an error of the system a sentence.
trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error::Io { what: what.into(), source })
    }
}
