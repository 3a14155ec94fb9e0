//! The programs of tests, built once for a whole run.
//!
//! Cargo is asked about the whole workspace, as it is for a run of all tests: asked for one package, it takes other features of
//! what that depends on and builds it again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo::cargo;

type Failure = Box<dyn std::error::Error>;

/// Where each is, by package and target.
pub(crate) struct Built(BTreeMap<(String, String), Place>);

struct Place {
    program: PathBuf,
    /// Where Cargo starts it.
    folder: PathBuf,
}

impl Built {
    /// Builds what is missing of all.
    pub(crate) fn all() -> Result<Self, Failure> {
        let mut command = cargo();
        command.args(["test", "--workspace", "--locked", "--no-run"]);
        command.arg("--message-format=json-render-diagnostics");
        let output = command.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err("the tests could not be built".into());
        }
        Ok(Self(read(&String::from_utf8(output.stdout)?)))
    }

    /// Runs all tests of one.
    pub(crate) fn tests_of(&self, package: &str, target: &str) -> Result<Command, Failure> {
        let place = self.place(package, target)?;
        let mut command = Command::new(&place.program);
        command.current_dir(&place.folder);
        Ok(command)
    }

    /// The same, while nobody else wants the processor; they end with the thread that starts them.
    pub(crate) fn idle_tests_of(&self, package: &str, target: &str) -> Result<Command, Failure> {
        let place = self.place(package, target)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "chrt", "--idle", "0"]);
        command.arg(&place.program).current_dir(&place.folder);
        Ok(command)
    }

    fn place(&self, package: &str, target: &str) -> Result<&Place, Failure> {
        let key = (package.to_owned(), target.to_owned());
        Ok(self.0.get(&key).ok_or_else(|| format!("{package} has no tests {target}"))?)
    }
}

/// Reads what Cargo says of what it has built, a line each.
fn read(messages: &str) -> BTreeMap<(String, String), Place> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter_map(|message| test_program(&message)).collect()
}

fn test_program(message: &Value) -> Option<((String, String), Place)> {
    let (target, folder) = (&message["target"], Path::new(message["manifest_path"].as_str()?).parent()?);
    let is_test = target["kind"].as_array()?.iter().any(|kind| kind == "test");
    let program = message["executable"].as_str().filter(|_| is_test)?;
    let package = format!("tombolo-{}", folder.file_name()?.to_str()?);
    let place = Place { program: program.into(), folder: folder.to_owned() };
    Some(((package, target["name"].as_str()?.to_owned()), place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_found_among_all_that_cargo_builds() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/w/crates/agent/Cargo.toml","target":{"kind":["lib"],"name":"tombolo_agent"},"executable":"/t/tombolo_agent-1"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/agent/Cargo.toml","target":{"kind":["test"],"name":"services"},"executable":"/t/services-2"}
{"reason":"build-finished","success":true}"#;
        let found = read(messages);
        assert_eq!(found.len(), 1);
        let place = &found[&("tombolo-agent".to_owned(), "services".to_owned())];
        assert_eq!(
            (place.program.as_path(), place.folder.as_path()),
            (Path::new("/t/services-2"), Path::new("/w/crates/agent"))
        );
    }
}
