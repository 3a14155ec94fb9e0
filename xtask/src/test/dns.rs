//! Clients that people ask DNS with: dig, and dnspython.

use std::process::Command;

use super::{debian, find};

type Failure = Box<dyn std::error::Error>;

/// Makes sure that both are there.
pub(super) fn provide() -> Result<(), Failure> {
    if has_all() {
        return Ok(());
    }
    if debian::install(&["bind9-dnsutils", "python3-dnspython"]) && has_all() {
        return Ok(());
    }
    if !has_dnspython() {
        println!("installing dnspython from PyPI");
        let arguments = ["-m", "pip", "install", "--quiet", "--break-system-packages", "dnspython"];
        let _ = Command::new("python3").args(arguments).status();
    }
    if has_all() {
        return Ok(());
    }
    Err("the tests need dig (Debian's package bind9-dnsutils) and dnspython for python3 (python3-dnspython, or from PyPI)".into())
}

fn has_all() -> bool {
    find("dig").is_some() && has_dnspython()
}

fn has_dnspython() -> bool {
    let output = Command::new("python3").args(["-c", "import dns.query"]).output();
    output.is_ok_and(|output| output.status.success())
}
