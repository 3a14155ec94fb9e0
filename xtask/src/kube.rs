//! `cargo xtask kube`: the servers of a real cluster, built from their published Go modules.
//!
//! `xtask/kube/go.mod` says which release; the programs are kept outside the checkout, a folder per release, and built only
//! if they are missing. etcd is built as well: the one of the release, because distributions have older ones that cannot
//! do all that the API server asks of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::priority::idle;
use crate::test::{cache, find};
use crate::{Outcome, root};

type Failure = Box<dyn std::error::Error>;

/// The programs and the packages they are built from, the quickest first.
const PROGRAMS: [(&str, &str); 4] = [
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only say where the programs are, or that they are missing
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let folder = if args.check { built()?.ok_or("the servers have not been built")? } else { provide()? };
    println!("{}", folder.display());
    Ok(())
}

/// Makes sure that the programs are there and gives their folder.
pub(crate) fn provide() -> Result<PathBuf, Failure> {
    provide_with(|| Command::new("go"))
}

/// The same, built while nobody else wants the processor.
pub(crate) fn provide_when_idle() -> Result<PathBuf, Failure> {
    provide_with(|| idle("go"))
}

fn provide_with(compiler: fn() -> Command) -> Result<PathBuf, Failure> {
    if let Some(folder) = built()? {
        return Ok(folder);
    }
    if find("go").is_none() {
        return Err(
            "the servers of a real cluster are built with Go 1.26 or newer, and there is no go on the PATH"
                .into(),
        );
    }
    let (version, folder) = (version()?, folder()?);
    fs::create_dir_all(&folder)?;
    println!("building the servers of Kubernetes {version}; this takes about ten minutes of two cores, once");
    fetch()?;
    for (place, (program, package)) in PROGRAMS.into_iter().enumerate() {
        if !folder.join(program).is_file() {
            println!("  {}/{} {program}", place + 1, PROGRAMS.len());
            build(compiler(), &version, program, package, &folder)?;
        }
    }
    Ok(folder)
}

/// Their folder, if all of them are there.
fn built() -> Result<Option<PathBuf>, Failure> {
    let folder = folder()?;
    Ok(PROGRAMS.iter().all(|(program, _)| folder.join(program).is_file()).then_some(folder))
}

fn folder() -> Result<PathBuf, Failure> {
    Ok(cache()?.join(format!("kube-{}", version()?)))
}

/// The release in `xtask/kube/go.mod`, such as 1.37.1.
pub(crate) fn version() -> Result<String, Failure> {
    let file = root().join("xtask/kube/go.mod");
    let text = fs::read_to_string(&file)?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
    let version = line.and_then(|rest| rest.split_whitespace().next());
    Ok(version.ok_or_else(|| format!("{} names no release of Kubernetes", file.display()))?.to_owned())
}

/// Fetches all modules, without waiting for the processor: who is slow to answer is hung up on.
fn fetch() -> Outcome {
    let packages = PROGRAMS.map(|(_, package)| package);
    let mut command = Command::new("go");
    command.args(["list", "-mod=readonly", "-deps"]).args(packages).stdout(Stdio::null());
    if !command.current_dir(root().join("xtask/kube")).status()?.success() {
        return Err("the modules of the servers could not be fetched".into());
    }
    Ok(())
}

/// A build that is interrupted leaves no program that looks finished.
fn build(mut compiler: Command, version: &str, program: &str, package: &str, folder: &Path) -> Outcome {
    let unfinished = folder.join(format!("{program}.unfinished"));
    let status = compiler
        .args(["build", "-mod=readonly", "-ldflags", &stamp(version), "-o"])
        .arg(&unfinished)
        .arg(package)
        .current_dir(root().join("xtask/kube"))
        .status()?;
    if !status.success() {
        return Err(format!("{program} could not be built").into());
    }
    Ok(fs::rename(&unfinished, folder.join(program))?)
}

/// What the programs say about themselves comes from the linker.
fn stamp(version: &str) -> String {
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let place = "k8s.io/component-base/version";
    format!(
        "-s -w -X {place}.gitMajor={major} -X {place}.gitMinor={minor} -X {place}.gitVersion=v{version} \
         -X {place}.gitTreeState=clean"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_staging_modules_are_those_of_the_release() {
        let version = version().expect("a release");
        let (_, rest) = version.split_once('.').expect("a major version");
        let text = fs::read_to_string(root().join("xtask/kube/go.mod")).expect("go.mod");
        let replaced: Vec<&str> = text.lines().filter(|line| line.contains(" => ")).collect();
        assert!(replaced.len() > 20, "{replaced:?}");
        for line in replaced {
            assert!(line.ends_with(&format!(" v0.{rest}")), "{line} does not fit {version}");
        }
    }

    /// Go compiles a module once for all programs that name the same version of it, and this one is large.
    #[test]
    fn what_else_is_built_with_go_has_the_client_of_the_release() {
        let version = version().expect("a release");
        let (_, rest) = version.split_once('.').expect("a major version");
        let client = format!("k8s.io/client-go v0.{rest}");
        for folder in ["xtask/helm", "xtask/kubectl"].into_iter().chain(crate::test::clients::FOLDERS) {
            let text = fs::read_to_string(root().join(folder).join("go.mod")).expect("go.mod");
            let has_it = text.lines().any(|line| line.trim().trim_end_matches(" // indirect") == client);
            assert!(has_it, "{folder} does not have {client}");
        }
    }
}
