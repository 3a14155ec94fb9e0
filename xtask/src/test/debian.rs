//! Programs from Debian's packages.

use std::process::Command;

use super::find;

type Failure = Box<dyn std::error::Error>;

/// What tests start, with the packages that have it.
pub(super) const OF_TESTS: [(&str, &str); 6] = [
    ("curl", "curl"),
    ("nft", "nftables"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
];

/// Makes sure that programs are there, given with the packages that have them.
pub(crate) fn provide(needed: &[(&str, &'static str)]) -> Result<(), Failure> {
    let missing = || -> Vec<&str> {
        needed.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect()
    };
    let packages = missing();
    if packages.is_empty() || (install(&packages) && missing().is_empty()) {
        return Ok(());
    }
    Err(format!("this needs Debian's packages {}", packages.join(", ")).into())
}

/// Administrators' programs are not on everybody's search path, though anybody may start them.
fn is_there(program: &str) -> bool {
    let elsewhere = ["/usr/sbin", "/sbin"].map(|folder| std::path::Path::new(folder).join(program));
    find(program).is_some() || elsewhere.iter().any(|file| file.is_file())
}

/// Installs Debian's packages, where that is possible and allowed.
pub(super) fn install(packages: &[&str]) -> bool {
    if find("apt-get").is_none() || !is_root() {
        return false;
    }
    println!("installing Debian packages: {}", packages.join(", "));
    let get = ["install", "--yes", "--quiet"].iter().chain(packages).copied().collect();
    [vec!["update", "--quiet"], get].into_iter().all(|arguments: Vec<&str>| {
        let status =
            Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
        status.is_ok_and(|status| status.success())
    })
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
