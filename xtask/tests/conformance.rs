//! docs/conformance.md names, for every requirement, the tests that show it: they exist, and no row is without an answer.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::path::{Path, PathBuf};

/// How a row begins that has no test here, with the reason after it.
const ANSWERS: [&str; 2] = ["not applicable: ", "not yet: "];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The rows of all tables: requirement and answer.
fn rows() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("docs/conformance.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| requirement "));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 2, "a row has a requirement and an answer: {row}");
        (cells[0].to_owned(), cells[1].to_owned())
    })
    .collect()
}

/// The tests a row names: everything in backticks that is a path.
fn tests(answer: &str) -> impl Iterator<Item = &str> {
    answer.split('`').skip(1).step_by(2).filter(|word| word.contains("::"))
}

/// Where the test of this path would be: `model::merge::tests::name`, `agent::services::leases::name`.
fn places(path: &str) -> Vec<PathBuf> {
    let mut parts: Vec<&str> = path.split("::").collect();
    let home = root().join(if parts[0] == "xtask" { "xtask" } else { "crates" });
    let home = if parts[0] == "xtask" { home } else { home.join(parts[0]) };
    parts.pop();
    let whole = parts[1..].join("/");
    let beside = whole.strip_suffix("/tests").unwrap_or(&whole);
    let files = [
        format!("src/{whole}.rs"),
        format!("src/{beside}.rs"),
        format!("src/{beside}/mod.rs"),
        format!("tests/{whole}.rs"),
        format!("tests/{whole}/main.rs"),
    ];
    files.iter().map(|file| home.join(file)).filter(|file| file.exists()).collect()
}

/// Whether a file has a test of this name: the function, under an attribute that makes it one.
fn has_test(file: &Path, name: &str) -> bool {
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_it = |line: &str| line.trim_start_matches("async ").starts_with(&format!("fn {name}("));
    let is_test = |line: &str| line == "#[test]" || line.starts_with("#[tokio::test");
    lines.windows(2).any(|pair| is_test(pair[0]) && is_it(pair[1]))
}

#[test]
fn every_test_that_the_table_names_exists() {
    let mut missing = Vec::new();
    for (requirement, answer) in rows() {
        for path in tests(&answer) {
            let name = path.rsplit("::").next().unwrap();
            if !places(path).iter().any(|file| has_test(file, name)) {
                missing.push(format!("{path} ({requirement})"));
            }
        }
    }
    assert!(missing.is_empty(), "docs/conformance.md names tests that do not exist:\n{}", missing.join("\n"));
}

#[test]
fn every_requirement_has_tests_or_says_why_not() {
    let rows = rows();
    assert!(rows.len() > 100, "only {} rows were found", rows.len());
    for (requirement, answer) in rows {
        let says_why =
            ANSWERS.iter().any(|words| answer.strip_prefix(words).is_some_and(|why| !why.is_empty()));
        assert!(says_why || tests(&answer).next().is_some(), "no answer to: {requirement}");
    }
}
