//! As somebody who is not root: with user namespaces everything works, and without them it is said what does not.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::world::tombolo;

/// Who owns nothing, on most systems.
const NOBODY: u32 = 65534;

/// A directory that belongs to an ordinary user, with the program in it.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let home = std::env::temp_dir().join(format!("tombolo-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_tombolo"), home.join("tombolo")).unwrap();
        if is_root() {
            chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Self(home)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// The program, as that user.
    fn tombolo(&self) -> Command {
        let mut command = Command::new(self.0.join("tombolo"));
        command.current_dir(&self.0).env("HOME", &self.0).env_remove("RUST_LOG").stdin(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_tour_holds_for_an_ordinary_user() {
    let home = Home::new("tour");
    let output = home.tombolo().args(["demo", "--fast", "--dir", "tour"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("All of it held"), "{}", said(&output));
    assert!(!home.path().join("tour/endpoints.json").exists(), "nothing is left that tells of it");
}

/// A `tombolo` without any right, where user namespaces are forbidden.
fn confined(words: &[&str]) -> Output {
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", forbid, "sh", env!("CARGO_BIN_EXE_tombolo")]);
    command.args(words).env_remove("RUST_LOG").stdin(Stdio::null()).output().unwrap()
}

#[test]
fn where_user_namespaces_are_forbidden_it_says_so_and_runs_without_networks() {
    let kubectl = tombolo_testkit::Kubectl::new();
    let dir = kubectl.home().display().to_string();
    let up = confined(&["up", "--detach", "--clusters", "1", "--nodes", "2", "--dir", &dir]);
    assert!(up.status.success(), "{}", said(&up));
    assert!(
        said(&up).contains("There are no networks: user namespaces cannot be used here"),
        "{}",
        said(&up)
    );
    let member = kubectl.with("--context=member1");
    member.run("get nodes -o name").prints("node/node1\nnode/node2");
    member.run("create deployment echo --image=tombolo/echo").succeeds();
    member.run("rollout status deployment/echo --timeout=50s").succeeds();
    assert!(tombolo(&["down", "--dir", &dir]).status().unwrap().success());

    let demo = confined(&["demo", "--fast", "--dir", &dir]);
    assert_eq!(demo.status.code(), Some(1));
    let why =
        "error: the tour needs networks for pods: user namespaces cannot be used here: none may be made";
    assert!(said(&demo).contains(why) && said(&demo).contains("\nhint: "), "{}", said(&demo));
}
