//! ARCHITECTURE.md is the map: the crates it names exist, all that exist are named, and no edge is drawn that it forbids.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What tests may use beyond what the crate itself may.
const FOR_TESTS: [&str; 2] = ["testkit", "apiserver"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The rows `| crate | purpose | may use |` under "The crates": each crate with the ones it may use.
fn map() -> BTreeMap<String, BTreeSet<String>> {
    let text = read("ARCHITECTURE.md");
    let section = text.split("## The crates").nth(1).expect("a section about the crates");
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| crate "));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let uses = cells[3].split(',').map(str::trim).filter(|name| *name != "–");
        (cells[1].to_owned(), uses.map(str::to_owned).collect())
    })
    .collect()
}

/// The workspace's packages by short name, each with its edges to others: the name and whether it is for tests only.
fn packages() -> BTreeMap<String, Vec<(String, bool)>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap();
    let short = |value: &Value| value.as_str().unwrap().trim_start_matches("tombolo-").to_owned();
    let names: BTreeSet<String> =
        list(&metadata["packages"]).iter().map(|package| short(&package["name"])).collect();
    let edges = |package: &Value| {
        list(&package["dependencies"])
            .iter()
            .filter(|edge| edge["path"].is_string())
            .map(|edge| (short(&edge["name"]), edge["kind"] == "dev"))
            .filter(|(name, _)| names.contains(name))
            .collect()
    };
    list(&metadata["packages"]).iter().map(|package| (short(&package["name"]), edges(package))).collect()
}

#[test]
fn the_map_names_exactly_the_crates_there_are() {
    let named: Vec<String> = map().into_keys().collect();
    let real: Vec<String> = packages().into_keys().collect();
    assert_eq!(named, real, "ARCHITECTURE.md (left) and the workspace (right) differ");
}

#[test]
fn no_crate_uses_one_that_the_map_does_not_allow() {
    let allowed = map();
    for (package, edges) in packages() {
        for (used, for_tests) in edges {
            let fine = allowed[&package].contains(&used) || (for_tests && FOR_TESTS.contains(&used.as_str()));
            assert!(fine, "{package} uses {used}, which ARCHITECTURE.md does not allow");
        }
    }
}

#[test]
fn the_readme_names_every_crate_and_the_commands_that_exist() {
    let readme = read("README.md");
    for package in packages().into_keys() {
        assert!(readme.contains(&format!("[`{package}`]")), "README.md does not mention {package}");
    }
    // What a newcomer is told to type; the transcript of the tour, in a block of its own kind, is another test's.
    let blocks = readme.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands: Vec<&str> =
        blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ ")).collect();
    assert_eq!(commands, ["cargo run --release -- demo", "cargo xtask test"]);
}

#[test]
fn every_source_file_begins_with_what_it_is() {
    let output = Command::new("git").args(["ls-files", "*.rs"]).current_dir(root()).output().unwrap();
    let files = String::from_utf8(output.stdout).unwrap();
    assert!(files.lines().count() > 10, "git lists no sources");
    for file in files.lines().filter(|file| root().join(file).exists()) {
        let text = read(file);
        assert!(text.starts_with("//!"), "{file} does not begin with a module comment");
    }
}
