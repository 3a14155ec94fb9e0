//! The tour holds, its lines are what a person can type, and the README shows it as it is.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::world::{Playground, tombolo};

/// The transcript in the README: what the tour said, once.
fn kept() -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let block = text.split("```text\n").nth(1).expect("a transcript");
    block.split("```").next().unwrap().to_owned()
}

/// Without what differs from one time to the next: numbers, addresses, the end of names.
fn normal(text: &str) -> Vec<String> {
    let counted = |line: &&str| {
        !line.trim_start().starts_with(|first: char| first.is_ascii_digit()) || line.contains(". ")
    };
    text.lines().filter(counted).map(|line| words(line.trim_end())).collect()
}

fn words(line: &str) -> String {
    if line.starts_with('$') {
        return line.to_owned();
    }
    // Who answered differs; that somebody did, and with what, does not.
    if let Ok(Value::Object(told)) = serde_json::from_str(line) {
        return told.keys().cloned().collect::<Vec<_>>().join(" ");
    }
    let mut out = String::new();
    for word in line.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.') {
        let plain = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let varies = plain.chars().any(|c| c.is_ascii_digit()) && !plain.starts_with("v1");
        out += if varies { "#" } else { word };
    }
    out
}

#[test]
fn the_tour_holds_and_the_readme_shows_it() {
    let dir = tombolo_testkit::Kubectl::new();
    let demo = tombolo(&["demo", "--fast", "--dir"]).arg(dir.home().join("tour")).output().unwrap();
    let said = String::from_utf8(demo.stdout).unwrap();
    assert!(demo.status.success(), "{said}\n{}", String::from_utf8_lossy(&demo.stderr));
    assert!(said.contains("All of it held"), "{said}");
    assert_eq!(normal(&said), normal(&kept()), "README.md is not what the tour says:\n{said}");
}

#[test]
fn every_line_of_the_tour_can_be_typed() {
    let up = tombolo(&["up", "--fast", "--balancer-capabilities", "member2=TCP-ONLY"]);
    let playground = Playground::start_with(up, 3, 2);
    let bin = Path::new(env!("CARGO_BIN_EXE_tombolo")).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let lines = kept();
    let lines: Vec<&str> = lines.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(lines.len() > 30, "{lines:?}");
    for line in lines {
        let line = ["fault", "outside"].iter().fold(line.to_owned(), |line, command| {
            let here = format!("tombolo {command} --dir {}", playground.dir().display());
            line.replace(&format!("tombolo {command}"), &here)
        });
        // The tour itself waits for the first answer; a person would just try again.
        let patient =
            format!("set -o pipefail; for i in $(seq 30); do {line} && exit; sleep 0.3; done; exit 1");
        let output = Command::new("bash")
            .args(["-c", if line.contains("-- curl") { &patient } else { &line }])
            .env("KUBECONFIG", playground.dir().join("kubeconfig"))
            .env("PATH", &path)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{line}\n{}{}", text(&output.stdout), text(&output.stderr));
        if line.contains("seq 100") {
            assert!(!text(&output.stdout).contains("failed"), "{}", text(&output.stdout));
        }
    }
}
