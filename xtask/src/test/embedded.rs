//! All tests on the embedded server, in two lanes of programs: most of them wait most of the time.
//!
//! Those that send packets are one after the other in a lane of their own, where they disturb each other least.

use std::path::PathBuf;

use super::built::{Built, Name};
use super::outcome::{Outcomes, Verdict, follow};
use super::path_with;

type Failure = Box<dyn std::error::Error>;

/// The programs that send packets.
const WITH_TRAFFIC: [&str; 8] =
    ["balancer", "cluster", "kernel", "kube_proxy", "load_balancers", "packets", "playground", "proxy"];

/// Runs all.
pub(super) fn run(tools: &[PathBuf]) -> Result<Outcomes, Failure> {
    let (built, path) = (Built::all()?, path_with(tools.iter().cloned())?);
    let lane = |programs: Vec<&Name>| {
        let mut all = Outcomes::default();
        for program in programs {
            let mut command = built.tests_of(program).map_err(|failure| failure.to_string())?;
            command.env("PATH", &path);
            all.add(follow(command, &program.target).map_err(|failure| failure.to_string())?);
        }
        Ok::<_, String>(all)
    };
    let (traffic, others): (Vec<_>, Vec<_>) =
        built.names().partition(|program| WITH_TRAFFIC.contains(&program.target.as_str()));
    let (mut all, others) = std::thread::scope(|scope| {
        let traffic = scope.spawn(|| lane(traffic));
        let others = lane(others);
        traffic.join().expect("a lane ends").and_then(|traffic| Ok((traffic, others?)))
    })?;
    all.add(others);
    report(&all);
    Ok(all)
}

/// With two lanes, what failed is far above.
fn report(outcomes: &Outcomes) {
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
