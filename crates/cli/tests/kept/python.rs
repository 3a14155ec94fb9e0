//! The official Python client.

use std::process::{Command, Stdio};

use tombolo_testkit::{Kubectl, not_run};

use crate::server::{Server, free_port};

/// A Python that has the client: `cargo xtask test` brings one.
fn python() -> Option<&'static str> {
    ["python-kubernetes", "python3"].into_iter().find(|program| {
        let mut command = Command::new(program);
        command.args(["-c", "import kubernetes"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

#[test]
fn the_official_python_client_finds_all_it_needs() {
    let Some(python) = python() else {
        return not_run(
            "kept::python::the_official_python_client_finds_all_it_needs",
            "Python has no module kubernetes",
        );
    };
    let kubectl = Kubectl::new();
    let _server = Server::start(kubectl.home(), free_port(), "");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kept/python/client.py");
    let output = Command::new(python).arg(script).arg(kubectl.home().join("kubeconfig")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.starts_with("all well"), "{said}\n{complaint}");
}
