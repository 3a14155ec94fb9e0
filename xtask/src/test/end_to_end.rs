//! The tests that run on every API server, and how they are run on real ones.

use std::path::Path;
use std::process::Command;

use super::outcome::{Outcomes, follow};
use super::{cargo, path_with};
use crate::{kube, root};

type Failure = Box<dyn std::error::Error>;

/// A program of tests that takes its clusters from the test kit.
pub(crate) struct Program {
    package: &'static str,
    pub(crate) target: &'static str,
    /// Modules that are left out on real servers, and why.
    pub(crate) embedded: &'static [(&'static str, &'static str)],
}

const fn program(package: &'static str, target: &'static str) -> Program {
    Program { package, target, embedded: &[] }
}

/// In this order; what breaks first tells most.
pub(crate) const PROGRAMS: [Program; 7] = [
    program("tombolo-runtime", "leader"),
    program("tombolo-agent", "access"),
    Program {
        package: "tombolo-agent",
        target: "services",
        embedded: &[("native::", "three of it failed there, and nobody has read why yet")],
    },
    program("tombolo-agent", "kube_proxy"),
    program("tombolo-cli", "agent"),
    program("tombolo-cli", "dns"),
    Program {
        package: "tombolo-cli",
        target: "playground",
        embedded: &[
            ("command_line::", ITS_OWN),
            ("demo::", ITS_OWN),
            ("lifecycle::", ITS_OWN),
            ("load_balancers::", ITS_OWN),
            ("native_names::", ITS_OWN),
            ("ordinary_user::", ITS_OWN),
            ("strategies::", ITS_OWN),
            ("streams::", ITS_OWN),
            ("traffic::", ITS_OWN),
        ],
    },
];

/// Those that take their clusters from the test kit, too, but are not held to real servers yet, and why.
pub(crate) const NOT_YET: [(Program, &str); 6] = [
    (program("tombolo-balancer", "provider"), NOT_TRIED),
    (program("tombolo-dns", "scenarios"), NOT_TRIED),
    (
        Program {
            package: "tombolo-cli",
            target: "hub",
            embedded: &[("simulation::", "paused time, and faults that follow from a seed")],
        },
        NOT_TRIED,
    ),
    (program("tombolo-cli", "kubectl"), "17 of the 57 tests that were tried failed, and nobody has read why"),
    (program("tombolo-proxy", "cluster"), NOT_TRIED),
    (program("tombolo-testkit", "differential"), "the embedded server differs in details that it shows"),
];

/// Of the playground only what is about real servers runs there: the rest starts embedded ones in any case.
const ITS_OWN: &str = "it starts servers of its own";
const NOT_TRIED: &str = "it has not been tried there";

/// How many tests run at the same time. Each has servers of its own, and waits for them most of the time.
const THREADS: &str = "--test-threads=3";

/// Runs them on real servers.
pub(crate) fn run(tools: &[std::path::PathBuf], folder: &Path) -> Result<Outcomes, Failure> {
    let mut all = Outcomes::default();
    for program in &PROGRAMS {
        let mut command = Command::new(cargo());
        command
            .args(["test", "--locked", "-p", program.package, "--test", program.target])
            .args(["--", THREADS])
            .args(program.embedded.iter().flat_map(|(module, _)| ["--skip", module]))
            .env("PATH", path_with(tools.iter().cloned().chain([folder.to_owned()]))?)
            .env("TOMBOLO_TEST_APISERVER", "kube")
            .current_dir(root());
        let (_, outcomes) = follow(command)?;
        all.add(outcomes);
    }
    Ok(all)
}

/// How the servers are called in tables.
pub(crate) fn title() -> Result<String, Failure> {
    Ok(format!("kube-apiserver {}", kube::version()?))
}
