//! `cargo xtask image`: the container image that `deploy/` and `tombolo install` run.
//!
//! The binary is linked with all it needs, so that the image holds nothing else but the certificates of public authorities.
//! It is built here, by Cargo, and not inside a container; then docker, podman or buildah makes the image after the
//! `Dockerfile`. `--try` starts it in the empty file system it will have, as the user it will be.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tombolo_upstream::{Folder, Process};

use crate::cargo::{cargo, executable};
use crate::test::{cache, debian, find};
use crate::{Outcome, root};

type Failure = Box<dyn std::error::Error>;

/// Those that can make an image of a `Dockerfile`.
const BUILDERS: [&str; 3] = ["docker", "podman", "buildah"];
/// Where distributions keep the certificates of public authorities.
const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];
/// With the C library inside, and without what only debuggers read.
const FLAGS: &str = "-C target-feature=+crt-static -C strip=symbols";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What the image is called
    #[arg(long, default_value_t = format!("tombolo:{}", env!("CARGO_PKG_VERSION")))]
    tag: String,
    /// docker, podman or buildah; the first that is there, unless told
    #[arg(long)]
    builder: Option<String>,
    /// Make it with buildah, start it, and let it ask an API server
    #[arg(long = "try", conflicts_with = "builder")]
    try_it: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let builder = builder(args)?;
    let binary = link()?;
    finish(Command::new(builder).args(["build", "--tag", &args.tag]).arg(gather(&binary)?))?;
    println!("{}: made, {:.1} MB", args.tag, fs::metadata(&binary)?.len() as f64 / 1e6);
    if args.try_it { Trial::of(&args.tag)?.run(&binary) } else { Ok(()) }
}

fn builder(args: &Args) -> Result<&str, Failure> {
    if args.try_it {
        debian::provide(&[("buildah", "buildah")])?;
        return Ok("buildah");
    }
    let first = || BUILDERS.into_iter().find(|name| find(name).is_some());
    let chosen = args.builder.as_deref().or_else(first);
    Ok(chosen.ok_or_else(|| format!("an image is made by one of {}; none is there", BUILDERS.join(", ")))?)
}

/// Builds the program so that it needs no library of the system.
fn link() -> Result<PathBuf, Failure> {
    let mut command = cargo();
    // With a target, the flags are not for what runs while compiling.
    command.args(["build", "--release", "--locked", "--package", "tombolo-cli", "--target", &platform()?]);
    command.env("RUSTFLAGS", FLAGS);
    executable(command)
}

/// What is compiled for.
fn platform() -> Result<String, Failure> {
    let about = String::from_utf8(Command::new("rustc").arg("-vV").output()?.stdout)?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not say what it compiles for")?.to_owned())
}

/// Puts what the image is made of into a folder.
fn gather(binary: &Path) -> Result<PathBuf, Failure> {
    let found = AUTHORITIES.into_iter().find(|file| Path::new(file).is_file());
    let authorities =
        found.ok_or("certificates of public authorities are missing: install ca-certificates")?;
    let folder = cache()?.join("image");
    fs::create_dir_all(&folder)?;
    fs::copy(root().join("Dockerfile"), folder.join("Dockerfile"))?;
    fs::copy(authorities, folder.join("ca-certificates.crt"))?;
    fs::copy(binary, folder.join("tombolo"))?;
    Ok(folder)
}

fn finish(command: &mut Command) -> Outcome {
    if command.status()?.success() { Ok(()) } else { Err(format!("{command:?} failed").into()) }
}

/// A container of the image, removed in the end. No runtime is needed for it: buildah changes root, user and capabilities
/// itself, which works in containers and small virtual machines, too.
struct Trial(String);

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = Command::new("buildah").args(["rm", &self.0]).stdout(Stdio::null()).status();
    }
}

impl Trial {
    fn of(tag: &str) -> Result<Self, Failure> {
        let output = Command::new("buildah").args(["from", tag]).output()?;
        let name = String::from_utf8(output.stdout)?.trim().to_owned();
        if name.is_empty() { Err(format!("buildah cannot use {tag}").into()) } else { Ok(Self(name)) }
    }

    /// Lets the image's program read from an API server, over TLS, by a name that it has to look up.
    fn run(&self, binary: &Path) -> Outcome {
        let folder = Folder::new("image")?;
        let (place, file) = (folder.path().join("servers"), folder.path().join("servers/kubeconfig"));
        let arguments = ["apiserver".as_ref(), "--dir".as_ref(), place.as_os_str()];
        let mut server = Process::start(binary, arguments, folder.path())?;
        let deadline = Instant::now() + Duration::from_secs(30);
        while !file.exists() {
            server.check()?;
            if Instant::now() > deadline {
                return Err("the API server is not ready after 30 s".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let named = fs::read_to_string(&file)?.replace("127.0.0.1", "localhost");
        let readable = folder.path().join("kubeconfig");
        fs::write(&readable, named)?;
        let mounted = format!("{}:/kubeconfig:ro", readable.display());
        let mut command = Command::new("buildah");
        command.args([
            "run",
            "--isolation",
            "chroot",
            "--cap-drop",
            "all",
            "--volume",
            &mounted,
            &self.0,
            "--",
        ]);
        finish(command.args(["/usr/local/bin/tombolo", "install", "--hub", "--kubeconfig", "/kubeconfig"]))?;
        println!("it was started as it is and installed the hub in an API server");
        Ok(())
    }
}
