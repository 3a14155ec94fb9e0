//! `cargo xtask test`: everything the tests need, then all of them.
//!
//! On a machine where packages may be installed it installs what is missing; elsewhere it names it and stops, because a
//! test that is skipped in silence is worse than one that fails.

use std::path::PathBuf;
use std::process::Command;

use crate::{Outcome, root};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed on to `cargo test`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// A program the tests run, and the Debian package that has it.
struct Need {
    program: &'static str,
    package: &'static str,
}

const NEEDS: &[Need] = &[Need { program: "kubectl", package: "kubernetes-client" }];

pub(crate) fn run(args: &Args) -> Outcome {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| find(need.program).is_none()).collect();
    if !missing.is_empty() {
        install(&missing)?;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["test", "--workspace", "--locked"])
        .args(&args.rest)
        .current_dir(root())
        .status()?;
    if status.success() { Ok(()) } else { Err("some tests failed".into()) }
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

fn install(missing: &[&Need]) -> Outcome {
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let programs: Vec<&str> = missing.iter().map(|need| need.program).collect();
    let by_hand = format!(
        "the tests need {}: install the Debian package {} or put the program on the PATH",
        programs.join(", "),
        packages.join(", "),
    );
    if find("apt-get").is_none() || !is_root()? {
        return Err(by_hand.into());
    }
    println!("installing {}", packages.join(", "));
    for arguments in [vec!["update", "--quiet"], [vec!["install", "--yes", "--quiet"], packages].concat()] {
        let status = Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status()?;
        if !status.success() {
            return Err(by_hand.into());
        }
    }
    Ok(())
}

fn is_root() -> Result<bool, std::io::Error> {
    let output = Command::new("id").arg("-u").output()?;
    Ok(output.stdout.trim_ascii() == b"0")
}
