//! Helm's own engine for the chart, built from its published Go module.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{cache, find};
use crate::root;

type Failure = Box<dyn std::error::Error>;

/// The version in `xtask/helm/go.mod`, and which of our programs around it.
const BUILT: &str = "3-2";
const PROGRAM: &str = "chart-renderer";

/// Makes sure that there is one. Returns the folder to search first, if it is not on the path already.
pub(super) fn provide() -> Result<Option<PathBuf>, Failure> {
    if find(PROGRAM).is_some() {
        return Ok(None);
    }
    let folder = cache()?.join(format!("helm-{BUILT}"));
    if folder.join(PROGRAM).is_file() || (find("go").is_some() && build(&folder)) {
        return Ok(Some(folder));
    }
    Err("the tests render the Helm chart with Helm's own engine: install Go to have it built".into())
}

fn build(folder: &Path) -> bool {
    println!("building Helm's engine from its Go module; this takes a few minutes once");
    let status = Command::new("go")
        .args(["build", "-ldflags", "-s -w", "-o"])
        .arg(folder.join(PROGRAM))
        .arg(".")
        .current_dir(root().join("xtask/helm"))
        .status();
    status.is_ok_and(|status| status.success())
}
