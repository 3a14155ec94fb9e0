//! The tests that run on every API server, and how they are run on real ones.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::built::{Built, Name};
use super::keeper::{HASTE, Keeper};
use super::meanwhile::Meanwhile;
use super::outcome::{Outcomes, Verdict, follow};
use super::path_with;
use crate::kube;

type Failure = Box<dyn std::error::Error>;

/// A program of tests that takes its clusters from the test kit.
pub(crate) struct Program {
    pub(crate) package: &'static str,
    pub(crate) target: &'static str,
    /// Modules that are left out on real servers, and why.
    pub(crate) embedded: &'static [(&'static str, &'static str)],
    /// How many of its tests run at the same time on real servers.
    threads: &'static str,
    /// Whether its tests start all their servers themselves.
    has_own_servers: bool,
}

const fn program(package: &'static str, target: &'static str) -> Program {
    Program { package, target, embedded: &[], threads: MANY, has_own_servers: false }
}

/// The longest first, so that lanes end at the same time.
pub(crate) const PROGRAMS: [Program; 18] = [
    program("tombolo-agent", "services"),
    Program {
        package: "tombolo-cli",
        target: "hub",
        embedded: &[("simulation::", "paused time, and faults that follow from a seed")],
        threads: MANY,
        has_own_servers: false,
    },
    program("tombolo-cli", "load_balancers"),
    program("tombolo-cli", "install"),
    program("tombolo-cli", "kubectl"),
    program("tombolo-balancer", "provider"),
    program("tombolo-dns", "scenarios"),
    program("tombolo-runtime", "leader"),
    program("tombolo-proxy", "cluster"),
    program("tombolo-cli", "agent"),
    program("tombolo-agent", "access"),
    program("tombolo-cli", "proxy"),
    program("tombolo-cli", "balancer"),
    program("tombolo-agent", "kube_proxy"),
    program("tombolo-testkit", "differential"),
    program("tombolo-runtime", "complete"),
    program("tombolo-cli", "dns"),
    Program {
        package: "tombolo-cli",
        target: "playground",
        embedded: &[
            ("command_line::", ITS_OWN),
            ("demo::", ITS_OWN),
            ("lifecycle::", ITS_OWN),
            ("ordinary_user::", ITS_OWN),
            ("streams::", ITS_OWN),
        ],
        threads: FEW,
        has_own_servers: true,
    },
];

/// What the playground itself is like is tested where it starts in milliseconds; `real_servers::` has what is different.
const ITS_OWN: &str = "it is about the playground and its own servers";
/// The variable that the test kit reads.
const SERVER: &str = "TOMBOLO_TEST_APISERVER";

/// The variable that tells it where to find real clusters.
const KEEPER: &str = "TOMBOLO_TEST_KEEPER";

/// So many programs run at the same time on real servers: while the last tests of one wait, others begin.
const LANES: usize = 2;

/// Each test has servers of its own, and waits for them most of the time.
const MANY: &str = "--test-threads=3";
/// A playground starts all its servers anew, with the nodes of three clusters.
const FEW: &str = "--test-threads=2";

/// What is said of those that needed a second attempt.
const SECOND: &str = "only at the second attempt, alone";

/// Runs them on the real servers in `folder`, with `meanwhile` in the processor's idle time. Returns also those that were not
/// begun, because it was too late.
pub(crate) fn run_real(
    tools: &[PathBuf],
    folder: &Path,
    meanwhile: Meanwhile,
    deadline: Option<Instant>,
) -> Result<(Outcomes, Vec<&'static str>), Failure> {
    let path = path_with(tools.iter().cloned().chain([folder.to_owned()]))?;
    let keeper = Keeper::start(folder)?;
    let mut real = Real { built: Built::all()?, path, socket: Some(keeper.socket()), deadline };
    let (own, shared): (Vec<_>, Vec<_>) = PROGRAMS.iter().partition(|program| program.has_own_servers);
    let (mut outcomes, mut not_begun) = real.run(shared, LANES)?;
    // What is left has the processor for itself: servers of others are not idle even if nobody asks them for anything.
    drop(keeper);
    meanwhile.finish()?;
    real.socket = None;
    let (of_own, left) = real.run(own, 1)?;
    outcomes.add(of_own);
    not_begun.extend(left);
    for program in &PROGRAMS {
        let failed = outcomes.of(program.target).filter(|(_, verdict)| **verdict == Verdict::Failed);
        for test in failed.map(|(test, _)| test.to_owned()).collect::<Vec<_>>() {
            if real.passes_alone(program, &test)? {
                outcomes.set(program.target, &test, Verdict::PassedBut(SECOND.to_owned()));
            }
        }
    }
    Ok((outcomes, not_begun))
}

/// What programs of tests need to run on real servers.
struct Real {
    built: Built,
    path: OsString,
    /// Where the keeper of their clusters listens, unless each has its own.
    socket: Option<PathBuf>,
    deadline: Option<Instant>,
}

impl Real {
    /// Runs programs, some at the same time. Returns also those that were not begun.
    fn run(
        &self,
        programs: Vec<&'static Program>,
        lanes: usize,
    ) -> Result<(Outcomes, Vec<&'static str>), Failure> {
        let queue = Mutex::new(programs.into_iter());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let lane = || {
            let (mut outcomes, mut not_begun) = (Outcomes::default(), Vec::new());
            while let Some(program) = next() {
                if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                    not_begun.push(program.target);
                    continue;
                }
                outcomes.add(self.run_one(program).map_err(|failure| failure.to_string())?);
            }
            Ok::<_, String>((outcomes, not_begun))
        };
        let ended: Vec<_> = std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
            lanes.into_iter().map(|lane| lane.join().expect("a lane ends")).collect()
        });
        let (mut outcomes, mut not_begun) = (Outcomes::default(), Vec::new());
        for lane in ended {
            let (of_lane, left) = lane?;
            outcomes.add(of_lane);
            not_begun.extend(left);
        }
        Ok((outcomes, not_begun))
    }

    fn run_one(&self, program: &Program) -> Result<Outcomes, Failure> {
        let modules = program.embedded.iter().flat_map(|(module, _)| ["--skip", module]);
        let mut command = self.tests_of(program)?;
        command.arg(program.threads).args(modules);
        follow(command, program.target)
    }

    fn tests_of(&self, program: &Program) -> Result<Command, Failure> {
        let mut command = self.built.tests_of(&Name::new(program.package, program.target))?;
        command.env("PATH", &self.path).env(SERVER, "kube").envs(HASTE);
        command.envs(self.socket.iter().map(|socket| (KEEPER, socket)));
        Ok(command)
    }

    /// Several tests share two cores with many servers, whose time cannot be paused: what fails there is given a second
    /// attempt alone. That it needed one is told, in the table and at the end of the run.
    fn passes_alone(&self, program: &Program, test: &str) -> Result<bool, Failure> {
        println!("\n{} {test} failed; once more, alone", program.target);
        let mut command = self.tests_of(program)?;
        command.args(["--exact", test]);
        let outcomes = follow(command, program.target)?;
        let passed = |verdict: &Verdict| matches!(verdict, Verdict::Passed | Verdict::PassedBut(_));
        Ok(!outcomes.has_failures() && outcomes.count(passed) == 1)
    }
}

/// How the servers are called in tables.
pub(crate) fn title() -> Result<String, Failure> {
    Ok(format!("kube-apiserver {}", kube::version()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::root;

    /// What is in a file, or in all files of a folder.
    fn source(path: &Path) -> String {
        if path.is_file() {
            return fs::read_to_string(path).expect("a source");
        }
        let entries = fs::read_dir(path).expect("a folder");
        entries.map(|entry| source(&entry.expect("an entry").path())).collect()
    }

    /// What tests use of the kit that run on the servers of a run.
    const MARKS: [&str; 2] = ["Cluster", "real_only"];

    /// Whether tests use one of these: by its path, or by its name in a list of what is used.
    fn takes_clusters(source: &str) -> bool {
        source.split("tombolo_testkit::").skip(1).any(|rest| {
            let list = rest.strip_prefix('{').and_then(|list| list.split('}').next());
            let mut names =
                list.unwrap_or(rest).split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let first = names.clone().next().unwrap_or_default();
            MARKS.contains(&first) || list.is_some() && names.any(|name| MARKS.contains(&name))
        })
    }

    /// Programs of tests in a crate, as package and target.
    fn programs(folder: &Path) -> BTreeSet<(String, String)> {
        let package = format!("tombolo-{}", folder.file_name().unwrap_or_default().to_string_lossy());
        let tests = fs::read_dir(folder.join("tests")).into_iter().flatten().flatten();
        let programs = tests.filter(|test| {
            let path = test.path();
            (path.is_file() || path.join("main.rs").is_file()) && takes_clusters(&source(&path))
        });
        let target = |path: PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        programs.map(|test| (package.clone(), target(test.path()))).collect()
    }

    #[test]
    fn every_program_that_takes_clusters_from_the_test_kit_is_in_the_list() {
        let crates = fs::read_dir(root().join("crates")).expect("the crates");
        let found: BTreeSet<(String, String)> =
            crates.flatten().flat_map(|folder| programs(&folder.path())).collect();
        let listed: Vec<(String, String)> =
            PROGRAMS.iter().map(|program| (program.package.to_owned(), program.target.to_owned())).collect();
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), found);
        assert_eq!(listed.len(), found.len(), "none is listed twice: {listed:?}");
        let targets: BTreeSet<&String> = listed.iter().map(|(_, target)| target).collect();
        assert_eq!(targets.len(), listed.len(), "a program is chosen by its target's name alone");
    }
}
