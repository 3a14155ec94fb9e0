//! `cargo xtask test`: everything the tests need, then all of them, then the end-to-end tests once more on real API servers,
//! and the simulation with many seeds whenever those wait.
//!
//! On a machine where it may, it gets what is missing; elsewhere it names it and stops, because a test that is skipped in
//! silence is worse than one that fails.

pub(crate) mod built;
pub(crate) mod debian;
mod dns;
mod embedded;
mod end_to_end;
mod helm;
pub(crate) mod keeper;
mod kubectl;
mod meanwhile;
mod outcome;
mod python;
mod table;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use self::meanwhile::Meanwhile;
use self::outcome::{Outcomes, Verdict};
use self::table::Column;
use crate::cargo::cargo;
use crate::{Outcome, root};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// On which servers: all tests on the embedded one, the end-to-end tests on real ones, or both
    #[arg(long, default_value = "embedded")]
    on: Server,
    /// Write what came of the end-to-end tests to docs/compatibility.md; with `--on kube` they run on the embedded server, too
    #[arg(long)]
    bless: bool,
    /// Begin no program on real servers when so many minutes have passed; what was not run is listed at the end
    #[arg(long, value_name = "MINUTES")]
    within: Option<u64>,
    /// Passed on to `cargo test`, which then runs on the embedded server only
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Server {
    Embedded,
    Kube,
    All,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let deadline = args.within.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let tools: Vec<PathBuf> =
        [kubectl::provide()?, helm::provide()?, python::provide()?].into_iter().flatten().collect();
    dns::provide()?;
    debian::provide(&debian::OF_TESTS)?;
    let wanted = |server| args.on == server || args.on == Server::All;
    // Whoever asks for certain tests means neither the many seeds nor real servers.
    if !args.rest.is_empty() {
        return run_some(&tools, &args.rest);
    }
    let meanwhile = Meanwhile::begin(wanted(Server::Kube), wanted(Server::Embedded));
    let mut embedded = None;
    if wanted(Server::Embedded) {
        let outcomes = embedded::run(&tools)?;
        if outcomes.has_failures() {
            return Err("some tests failed".into());
        }
        println!("\nleft out on the embedded server:");
        outcomes.left_out().iter().for_each(|line| println!("  {line}"));
        embedded = Some(outcomes);
    }
    if wanted(Server::Kube) {
        return run_real(&tools, embedded, meanwhile, args, deadline);
    }
    meanwhile.finish()?;
    println!("\nNOT RUN on real API servers: cargo xtask test --on kube does it");
    Ok(())
}

/// The tests that Cargo is asked for, on the embedded server where they need one.
fn run_some(tools: &[PathBuf], rest: &[String]) -> Outcome {
    let mut command = cargo();
    command.args(["test", "--workspace", "--locked"]).args(rest);
    command.env("PATH", path_with(tools.iter().cloned())?);
    if command.status()?.success() { Ok(()) } else { Err("some tests failed".into()) }
}

/// The end-to-end tests on real servers. A machine that cannot build them is told so, at the end, where it is read.
fn run_real(
    tools: &[PathBuf],
    embedded: Option<Outcomes>,
    meanwhile: Meanwhile,
    args: &Args,
    deadline: Option<Instant>,
) -> Outcome {
    let folder = match meanwhile.servers() {
        Ok(folder) => folder,
        Err(error) if args.on == Server::All && find("go").is_none() => {
            meanwhile.finish()?;
            println!("\nNOT RUN on real API servers: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let title = end_to_end::title()?;
    println!("\nend-to-end tests on {title}");
    let (real, not_begun) = end_to_end::run_real(tools, &folder, meanwhile, deadline)?;
    report(&title, &real);
    if !not_begun.is_empty() {
        println!("\nNOT RUN on {title}, because no time was left: {}", not_begun.join(", "));
    }
    // The page compares, so whoever runs only these runs them here, too.
    let embedded = match embedded {
        Some(outcomes) => Some(outcomes),
        None if args.bless => Some(embedded::run(tools)?),
        None => None,
    };
    if !not_begun.is_empty() {
        println!("docs/compatibility.md stays as it is: a page with holes would say less");
    } else if let Some(embedded) = &embedded {
        let columns =
            [Column { title: "embedded", outcomes: embedded }, Column { title: &title, outcomes: &real }];
        publish(&table::page(&columns), args)?;
    }
    match (real.has_failures(), embedded.is_some_and(|outcomes| outcomes.has_failures())) {
        (true, _) => Err("some tests failed on real API servers".into()),
        (false, true) => Err("some tests failed on the embedded server".into()),
        (false, false) => Ok(()),
    }
}

/// Says what was left out, so that nobody takes it for done.
fn report(title: &str, outcomes: &Outcomes) {
    println!("\nleft out on {title}, because of what real servers or these tests cannot do:");
    for program in &end_to_end::PROGRAMS {
        for (module, why) in program.embedded {
            println!("  {}: all of {module} ({why})", program.target);
        }
    }
    outcomes.left_out().iter().for_each(|line| println!("  {line}"));
    let relaxed = outcomes.relaxed();
    println!("\npassed on {title}, but checked less than on the embedded server:");
    relaxed.iter().for_each(|line| println!("  {line}"));
    let count = |is: &dyn Fn(&Verdict) -> bool| outcomes.count(is);
    println!("\non {title}:");
    println!(
        "{} passed ({} of them checked less), {} failed, {} skipped",
        count(&|verdict| *verdict == Verdict::Passed) + relaxed.len(),
        relaxed.len(),
        count(&|verdict| *verdict == Verdict::Failed),
        count(&|verdict| matches!(verdict, Verdict::LeftOut(_))),
    );
    outcomes.failed().for_each(|(program, test)| println!("  failed: {program} {test}"));
}

/// Writes the table, or says that it is old.
fn publish(page: &str, args: &Args) -> Outcome {
    let file = root().join("docs/compatibility.md");
    if args.bless {
        return Ok(std::fs::write(file, page)?);
    }
    if std::fs::read_to_string(file).is_ok_and(|old| old != page) {
        println!("docs/compatibility.md is old: cargo xtask test --on kube --bless writes it");
    }
    Ok(())
}

/// Where things are kept between runs, outside the checkout.
pub(crate) fn cache() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    Ok(base.or_else(home).ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join("tombolo"))
}

/// The search path, with the folders in `first` before all others.
pub(crate) fn path_with(
    first: impl IntoIterator<Item = PathBuf>,
) -> Result<OsString, std::env::JoinPathsError> {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(first.into_iter().chain(std::env::split_paths(&usual)))
}

/// The file of a program on the search path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
