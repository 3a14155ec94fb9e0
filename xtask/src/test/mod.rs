//! `cargo xtask test`: everything the tests need, then all of them, then the end-to-end tests once more on real API servers,
//! and the simulation with many seeds whenever those wait.
//!
//! On a machine where it may, it gets what is missing; elsewhere it names it and stops, because a test that is skipped in
//! silence is worse than one that fails.

mod again;
pub(crate) mod built;
pub(crate) mod clients;
pub(crate) mod debian;
mod dns;
mod end_to_end;
mod helm;
pub(crate) mod keeper;
mod kubectl;
mod lanes;
mod meanwhile;
mod outcome;
mod python;
mod real;
mod suite;
mod table;

use std::ffi::OsString;
use std::path::PathBuf;

use self::meanwhile::Meanwhile;
use self::outcome::{Outcomes, Verdict};
use self::suite::{Results, Suite};
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
    let tools = provide_tools()?;
    let wanted = |server| args.on == server || args.on == Server::All;
    // Whoever asks for certain tests means neither the many seeds nor real servers.
    if !args.rest.is_empty() {
        return run_some(&tools, &args.rest);
    }
    // The page compares, so whoever writes it runs them on both.
    let (embedded, real) = (wanted(Server::Embedded) || args.bless, wanted(Server::Kube));
    let meanwhile = Meanwhile::begin(real, wanted(Server::Embedded));
    let results = Suite { tools, embedded, real }.run(meanwhile)?;
    if embedded {
        report_embedded(&results.embedded);
    }
    if results.embedded.has_failures() {
        return Err("some tests failed on the embedded server".into());
    }
    match &results.no_servers {
        Some(why) => return Err(why.as_str().into()),
        None if real => report_real(&results, args)?,
        None => println!("\nNOT RUN on real API servers: cargo xtask test --on kube does it"),
    }
    if results.real.has_failures() {
        return Err("some tests failed on real API servers".into());
    }
    Ok(())
}

/// Makes sure that there is all that tests start. Returns the folders to search first. What has to be built and what has to be
/// fetched do not wait for each other.
fn provide_tools() -> Result<Vec<PathBuf>, Box<dyn std::error::Error>> {
    let build = || {
        let folders = [kubectl::provide()?, helm::provide()?];
        clients::provide().map(|()| folders)
    };
    let (built, fetched) = std::thread::scope(|scope| {
        let built = scope.spawn(|| build().map_err(|failure| failure.to_string()));
        let fetched = python::provide().and_then(|python| {
            dns::provide()?;
            debian::provide(&debian::OF_TESTS)?;
            Ok(python)
        });
        (built.join().expect("the thread ends"), fetched)
    });
    Ok(built?.into_iter().chain([fetched?]).flatten().collect())
}

/// The tests that Cargo is asked for, on the embedded server where they need one.
fn run_some(tools: &[PathBuf], rest: &[String]) -> Outcome {
    let mut command = cargo();
    command.args(["test", "--workspace", "--locked"]).args(rest);
    command.env("PATH", path_with(tools.iter().cloned())?);
    if command.status()?.success() { Ok(()) } else { Err("some tests failed".into()) }
}

/// With several lanes, what failed is far above.
fn report_embedded(outcomes: &Outcomes) {
    println!("\nleft out on the embedded server:");
    outcomes.left_out().iter().for_each(|line| println!("  {line}"));
    let relaxed = outcomes.relaxed();
    if !relaxed.is_empty() {
        println!("\npassed on the embedded server, but:");
        relaxed.iter().for_each(|line| println!("  {line}"));
    }
    let count = |is: &dyn Fn(&Verdict) -> bool| outcomes.count(is);
    println!("\non the embedded server:");
    println!(
        "{} passed, {} failed, {} skipped",
        count(&|verdict| matches!(verdict, Verdict::Passed | Verdict::PassedBut(_))),
        count(&|verdict| *verdict == Verdict::Failed),
        count(&|verdict| matches!(verdict, Verdict::LeftOut(_) | Verdict::Ignored)),
    );
    outcomes.failed().for_each(|(program, test)| println!("  failed: {program} {test}"));
}

/// Says what came of it, and compares with the page that is there.
fn report_real(results: &Results, args: &Args) -> Outcome {
    let title = end_to_end::title()?;
    report(&title, &results.real);
    if args.bless || args.on == Server::All {
        let columns = [
            Column { title: "embedded", outcomes: &results.embedded },
            Column { title: &title, outcomes: &results.real },
        ];
        publish(&table::page(&columns), args)?;
    }
    Ok(())
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

/// Writes the table, or says that it is old and leaves the new one where it can be fetched. Whether a test needed its second attempt
/// differs from run to run; which tests there are does not.
fn publish(page: &str, args: &Args) -> Outcome {
    let file = root().join("docs/compatibility.md");
    if args.bless {
        return Ok(std::fs::write(file, page)?);
    }
    let old = std::fs::read_to_string(file)?;
    if old == page {
        return Ok(());
    }
    let new = cache()?.join("compatibility.md");
    std::fs::write(&new, page)?;
    println!("docs/compatibility.md is old: that of this run is {}", new.display());
    match table::foreign_row(&old, page) {
        Some(row) => {
            Err(format!("docs/compatibility.md and this run do not have the same tests: {row}").into())
        }
        None => Ok(()),
    }
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
