//! Cargo, called by a program that Cargo has started.
//!
//! Cargo tells a program about its package in variables. Passed on, they are news to build scripts that ask for such
//! variables (ring has one), and everything that depends on them is built again, each time somebody calls Cargo the other way.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::root;

type Failure = Box<dyn std::error::Error>;

/// Cargo in the root of the checkout, as if a person had called it there.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_about_us(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.current_dir(root());
    command
}

/// Builds the program of a package optimised, as users run it, and returns where it is.
pub(crate) fn release(package: &str) -> Result<PathBuf, Failure> {
    let mut command = cargo();
    command.args(["build", "--release", "--package", package]);
    executable(command)
}

/// Lets Cargo build, and returns where the last program is that it speaks of.
pub(crate) fn executable(mut command: Command) -> Result<PathBuf, Failure> {
    let output = command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?} failed").into());
    }
    let messages = String::from_utf8(output.stdout)?;
    let values = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let executable = values.filter_map(|value| value["executable"].as_str().map(PathBuf::from)).next_back();
    Ok(executable.ok_or("Cargo built no program")?)
}

fn is_about_us(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_tells_of_this_package_is_not_passed_on() {
        let command = cargo();
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).collect();
        assert!(removed.iter().any(|(name, _)| *name == "CARGO_PKG_NAME"), "{removed:?}");
        assert!(!removed.iter().any(|(name, _)| *name == "CARGO_TARGET_DIR"), "{removed:?}");
    }
}
