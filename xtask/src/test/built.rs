//! The programs of tests, built once for a whole run.
//!
//! Cargo is asked about the whole workspace, as it is for a run of all tests: asked for one package, it takes other features of
//! what that depends on and builds it again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo::cargo;
use crate::priority::{idle, modest};

type Failure = Box<dyn std::error::Error>;

/// Where each is.
pub(crate) struct Built(BTreeMap<Name, Place>);

/// How a program of tests is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) package: String,
    pub(crate) target: String,
}

impl Name {
    pub(crate) fn new(package: &str, target: &str) -> Self {
        Self { package: package.to_owned(), target: target.to_owned() }
    }
}

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

    /// All there are.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Name> {
        self.0.keys()
    }

    /// Runs all tests of one, as Cargo would.
    pub(crate) fn tests_of(&self, name: &Name) -> Result<Command, Failure> {
        self.tests_with(name, |program| Command::new(program))
    }

    /// The same, while nobody else wants the processor; they end with the thread that starts them.
    pub(crate) fn idle_tests_of(&self, name: &Name) -> Result<Command, Failure> {
        self.tests_with(name, |program| idle(program))
    }

    /// The same, but others go first.
    pub(crate) fn modest_tests_of(&self, name: &Name) -> Result<Command, Failure> {
        self.tests_with(name, |program| modest(program))
    }

    fn tests_with(&self, name: &Name, start: impl Fn(&Path) -> Command) -> Result<Command, Failure> {
        let place = self.place(name)?;
        let mut command = start(&place.program);
        command.current_dir(&place.folder).env("CARGO_PKG_NAME", &name.package);
        Ok(command)
    }

    fn place(&self, name: &Name) -> Result<&Place, Failure> {
        let Name { package, target } = name;
        Ok(self.0.get(name).ok_or_else(|| format!("{package} has no tests {target}"))?)
    }
}

/// Reads what Cargo says of what it has built, a line each.
fn read(messages: &str) -> BTreeMap<Name, Place> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter_map(|message| test_program(&message)).collect()
}

fn test_program(message: &Value) -> Option<(Name, Place)> {
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let program = message["executable"].as_str().filter(|_| is_test)?;
    let name = folder.file_name()?.to_str()?;
    let is_crate = folder.parent()?.ends_with("crates");
    let package = if is_crate { format!("tombolo-{name}") } else { name.to_owned() };
    let place = Place { program: program.into(), folder: folder.to_owned() };
    Some((Name::new(&package, message["target"]["name"].as_str()?), place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_found_among_all_that_cargo_builds() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","target":{"kind":["bin"],"name":"tombolo"},"profile":{"test":false},"executable":"/t/tombolo"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/agent/Cargo.toml","target":{"kind":["lib"],"name":"tombolo_agent"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/crates/agent/Cargo.toml","target":{"kind":["lib"],"name":"tombolo_agent"},"profile":{"test":true},"executable":"/t/tombolo_agent-1"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/agent/Cargo.toml","target":{"kind":["test"],"name":"services"},"profile":{"test":true},"executable":"/t/services-2"}
{"reason":"compiler-artifact","manifest_path":"/w/xtask/Cargo.toml","target":{"kind":["test"],"name":"chart"},"profile":{"test":true},"executable":"/t/chart-3"}
{"reason":"build-finished","success":true}"#;
        let found = read(messages);
        let names = [("tombolo-agent", "services"), ("tombolo-agent", "tombolo_agent"), ("xtask", "chart")];
        assert!(found.keys().eq(&names.map(|(package, target)| Name::new(package, target))));
        let place = &found[&Name::new("tombolo-agent", "services")];
        assert_eq!(
            (place.program.as_path(), place.folder.as_path()),
            (Path::new("/t/services-2"), Path::new("/w/crates/agent"))
        );
    }
}
