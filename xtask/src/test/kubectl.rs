//! A kubectl that is new enough: the one on the machine, one built from its published Go module, or Debian's.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{cache, debian, find};
use crate::root;

type Failure = Box<dyn std::error::Error>;

/// The oldest minor version of kubectl the tests work with.
const OLDEST: u64 = 31;
/// The minor version in `xtask/kubectl/go.mod`.
const BUILT: &str = "37";

/// Makes sure that there is a kubectl. Returns the folder to search first, if it is not on the path already.
pub(super) fn provide() -> Result<Option<PathBuf>, Failure> {
    if is_usable(Path::new("kubectl")) {
        return Ok(None);
    }
    let folder = cache()?.join(format!("kubectl-1.{BUILT}"));
    if is_usable(&folder.join("kubectl")) || (find("go").is_some() && build(&folder)) {
        return Ok(Some(folder));
    }
    if debian::install(&["kubernetes-client"]) && is_usable(Path::new("kubectl")) {
        return Ok(None);
    }
    Err(format!(
        "the tests need kubectl 1.{OLDEST} or newer: put one on the PATH, or install Go to have it built, or Debian's \
         package kubernetes-client (Debian 13 or newer)"
    )
    .into())
}

fn is_usable(program: &Path) -> bool {
    let output = Command::new(program).args(["version", "--client", "-o", "json"]).output();
    let version =
        output.ok().and_then(|output| serde_json::from_slice::<serde_json::Value>(&output.stdout).ok());
    let minor = version.as_ref().and_then(|version| version["clientVersion"]["minor"].as_str());
    minor
        .and_then(|minor| minor.trim_end_matches('+').parse::<u64>().ok())
        .is_some_and(|minor| minor >= OLDEST)
}

fn build(folder: &Path) -> bool {
    println!("building kubectl 1.{BUILT} from its Go module; this takes a few minutes once");
    let version = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {version}.gitMajor=1 -X {version}.gitMinor={BUILT} -X {version}.gitVersion=v1.{BUILT}.0"
    );
    let status = Command::new("go")
        .args(["build", "-ldflags", &flags, "-o"])
        .arg(folder.join("kubectl"))
        .arg(".")
        .current_dir(root().join("xtask/kubectl"))
        .status();
    status.is_ok_and(|status| status.success())
}
