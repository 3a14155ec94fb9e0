//! Where the programs are.

use std::path::{Path, PathBuf};

use crate::Error;

/// The programs of a control plane.
#[derive(Clone, Debug)]
pub struct Programs {
    pub etcd: PathBuf,
    pub apiserver: PathBuf,
    /// Without it somebody else has to do its work.
    pub controller_manager: Option<PathBuf>,
}

impl Programs {
    /// Looks for them in `folder`, and on the search path where it has none.
    pub fn find(folder: Option<&Path>) -> Result<Self, Error> {
        let places = folder.map_or_else(String::new, |folder| format!("in {} or ", folder.display()));
        let missing = |program| Error::Missing { program, places: format!("{places}on the PATH") };
        let seek = |program: &'static str| seek(folder, program).ok_or_else(|| missing(program));
        Ok(Self {
            etcd: seek("etcd")?,
            apiserver: seek("kube-apiserver")?,
            controller_manager: seek("kube-controller-manager").ok(),
        })
    }
}

fn seek(folder: Option<&Path>, program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folder.map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}
