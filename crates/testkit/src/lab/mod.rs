//! A network to try packets on: nodes with pods, and a client outside, all of them network namespaces.
//!
//! A test that needs one runs in a process of its own ([`isolated`]) with namespaces of its own, so that whatever happens,
//! a panic or a kill, nothing is left behind. It needs no root where user namespaces are allowed.

mod echo;
mod network;
mod relay;

pub use self::echo::{Answer, Echo, Protocol, ask, try_ask};
pub use self::network::{Lab, Namespace, Node};
pub use self::relay::Relay;

use std::process::Command;

/// Set in the process that runs a test for real.
const INSIDE: &str = "TOMBOLO_LAB";
/// Set to try without root what root would do.
const UNPRIVILEGED: &str = "TOMBOLO_LAB_USER";

/// Runs the calling test again, alone, in fresh namespaces of network, mounts and processes.
///
/// Panics with what to install or to allow when that cannot be done: a test that cannot run has failed.
pub fn isolated<F: FnOnce()>(body: F) {
    if is_inside() {
        body();
        return;
    }
    let test = test_name(std::any::type_name::<F>());
    let program = std::env::current_exe().expect("the test's own program");
    let mut command = Command::new("unshare");
    if !is_root() || std::env::var_os(UNPRIVILEGED).is_some() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]).arg(program);
    command.args(["--exact", &test, "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    // From inside, servers that others keep are out of reach.
    command.env_remove(crate::cluster::KEEPER_SOCKET);
    let output = command.output().unwrap_or_else(|error| {
        panic!("there is no `unshare` ({error}), and this test needs it: install util-linux")
    });
    let told =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let refused = told.contains("unshare failed") || told.contains("uid_map");
    assert!(!refused, "this test needs root, or user namespaces that are allowed: {told}");
    assert!(output.status.success(), "{told}");
    assert!(told.contains("1 passed"), "the test {test} was not found: {told}");
}

/// Whether this process runs one test, with namespaces of its own.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// `binary::module::test::{{closure}}` is how the compiler calls the body.
fn test_name(body: &str) -> String {
    let path = body.strip_suffix("::{{closure}}").unwrap_or(body);
    path.split_once("::").map_or(path, |(_, test)| test).to_owned()
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Runs a program and returns what it printed. Panics with what it said if it fails or is missing.
pub fn run(program: &str, arguments: &[&str]) -> String {
    // Administrators' programs are not on everybody's search path.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("PATH", path).output().unwrap_or_else(|error| {
        panic!(
            "there is no `{program}` ({error}), and this test needs it: install Debian's {}",
            package(program)
        )
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {said}", arguments.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn package(program: &str) -> &str {
    match program {
        "nft" => "nftables",
        "ip" => "iproute2",
        "mount" | "unshare" => "util-linux",
        "sysctl" => "procps",
        other => other,
    }
}
