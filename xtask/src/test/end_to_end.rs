//! The programs of tests that run on every API server.

use crate::kube;

type Failure = Box<dyn std::error::Error>;

/// A program of tests that takes its clusters from the test kit.
pub(crate) struct Program {
    pub(crate) package: &'static str,
    pub(crate) target: &'static str,
    /// Modules that are left out on real servers, and why.
    pub(crate) embedded: &'static [(&'static str, &'static str)],
    /// How many of its tests run at the same time on real servers.
    pub(crate) threads: &'static str,
    /// Whether its tests start all their servers themselves.
    pub(crate) has_own_servers: bool,
}

const fn program(package: &'static str, target: &'static str) -> Program {
    Program { package, target, embedded: &[], threads: MANY, has_own_servers: false }
}

/// The longest first, so that they end at the same time.
pub(crate) const PROGRAMS: [Program; 19] = [
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
    program("xtask", "chart"),
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
/// Each test has servers of its own, and waits for them most of the time.
const MANY: &str = "--test-threads=4";
/// A playground starts all its servers anew, with the nodes of three clusters.
const FEW: &str = "--test-threads=2";

/// How the servers are called in tables.
pub(crate) fn title() -> Result<String, Failure> {
    Ok(format!("kube-apiserver {}", kube::version()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

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
    fn programs(package: &str, folder: &Path) -> BTreeSet<(String, String)> {
        let tests = fs::read_dir(folder.join("tests")).into_iter().flatten().flatten();
        let programs = tests.filter(|test| {
            let path = test.path();
            (path.is_file() || path.join("main.rs").is_file()) && takes_clusters(&source(&path))
        });
        let target = |path: PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        programs.map(|test| (package.to_owned(), target(test.path()))).collect()
    }

    #[test]
    fn every_program_that_takes_clusters_from_the_test_kit_is_in_the_list() {
        let crates = fs::read_dir(root().join("crates")).expect("the crates");
        let mut found: BTreeSet<(String, String)> = crates
            .flatten()
            .map(|folder| (format!("tombolo-{}", folder.file_name().to_string_lossy()), folder.path()))
            .flat_map(|(package, folder)| programs(&package, &folder))
            .collect();
        found.extend(programs("xtask", &root().join("xtask")));
        let listed: Vec<(String, String)> =
            PROGRAMS.iter().map(|program| (program.package.to_owned(), program.target.to_owned())).collect();
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), found);
        assert_eq!(listed.len(), found.len(), "none is listed twice: {listed:?}");
        let targets: BTreeSet<&String> = listed.iter().map(|(_, target)| target).collect();
        assert_eq!(targets.len(), listed.len(), "a program is chosen by its target's name alone");
    }
}
