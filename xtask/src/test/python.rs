//! A Python that has the official Kubernetes client, in a virtual environment of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{cache, debian, find};

type Failure = Box<dyn std::error::Error>;

/// The client's version on PyPI.
const CLIENT: &str = "37.0.2";
/// The name under which tests look for it.
const PROGRAM: &str = "python-kubernetes";

/// Makes sure that there is one. Returns the folder to search first, if it is not on the path already.
pub(super) fn provide() -> Result<Option<PathBuf>, Failure> {
    if find(PROGRAM).is_some() {
        return Ok(None);
    }
    let folder = cache()?.join(format!("python-kubernetes-{CLIENT}"));
    if works(&folder) {
        return Ok(Some(folder));
    }
    if !has_environments() {
        debian::install(&["python3", "python3-venv"]);
    }
    if has_environments() && make(&folder)? && works(&folder) {
        return Ok(Some(folder));
    }
    Err("the tests use the official Python client: install python3 with its module venv (Debian's package \
         python3-venv) to have it fetched from PyPI"
        .into())
}

fn works(folder: &Path) -> bool {
    let output = Command::new(folder.join(PROGRAM)).args(["-c", "import kubernetes"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Debian's python3 alone has the module venv, but not what that needs.
fn has_environments() -> bool {
    let output = Command::new("python3").args(["-c", "import venv, ensurepip"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// A program of its own name, so that this python3 does not get before the one that other tests use.
fn make(folder: &Path) -> Result<bool, Failure> {
    println!("installing the Python client {CLIENT} from PyPI");
    let environment = folder.join("environment");
    let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment).status()?;
    let client = format!("kubernetes=={CLIENT}");
    let python = environment.join("bin/python3");
    let arguments = ["-m", "pip", "install", "--quiet", &client];
    let installed = made.success() && Command::new(&python).args(arguments).status()?.success();
    if installed {
        let script = format!("#!/bin/sh\nexec {:?} \"$@\"\n", python.display().to_string());
        std::fs::write(folder.join(PROGRAM), script)?;
        Command::new("chmod").arg("+x").arg(folder.join(PROGRAM)).status()?;
    }
    Ok(installed)
}
