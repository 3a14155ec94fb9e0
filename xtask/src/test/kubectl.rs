//! A kubectl that is new enough: the one on the machine, one built from its published Go module, or Debian's.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{cache, debian, find};
use crate::root;

type Failure = Box<dyn std::error::Error>;

/// The oldest minor version of kubectl the tests work with.
const OLDEST: u64 = 31;
/// The minor version in `xtask/kubectl/go.mod`.
const BUILT: &str = "37";

/// Makes sure that there is a kubectl. Returns the folder to search first, if it is not on the path already.
pub(super) fn provide() -> Result<Option<PathBuf>, Failure> {
    let found = version(Path::new("kubectl")).filter(is_new_enough);
    if found.is_some_and(|version| !starts_another(&version) || find("go").is_none()) {
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
    version(program).is_some_and(|version| is_new_enough(&version))
}

/// What one says of itself.
fn version(program: &Path) -> Option<Value> {
    let output = Command::new(program).args(["version", "--client", "-o", "json"]).output().ok()?;
    let said: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(said["clientVersion"].clone())
}

fn is_new_enough(version: &Value) -> bool {
    let minor = version["minor"].as_str().and_then(|minor| minor.trim_end_matches('+').parse::<u64>().ok());
    minor.is_some_and(|minor| minor >= OLDEST)
}

/// Some distributions have one that asks each server for its version and starts another for it, which is twice the work.
fn starts_another(version: &Value) -> bool {
    version["gitVersion"].as_str().is_some_and(|name| name.ends_with("-dispatcher"))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_told_which_kubectl_is_new_enough_and_which_starts_another() {
        let version = |minor: &str, name: &str| json!({"minor": minor, "gitVersion": name});
        let judged = |version: Value| (is_new_enough(&version), starts_another(&version));
        assert_eq!(judged(version("31", "v1.31.0")), (true, false));
        assert_eq!(judged(version("30+", "v1.30.9-gke.1")), (false, false));
        assert_eq!(judged(version("32+", "v1.32.4-dispatcher")), (true, true));
        assert_eq!(judged(Value::Null), (false, false));
    }
}
