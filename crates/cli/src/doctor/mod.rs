//! `tombolo doctor`: whether what Tombolo needs is there: versions, kinds, rights, clocks, ways, addresses.
//!
//! `examine` asks, `tried` sends packets where somebody can, `checks` judges. That is in a playground; elsewhere a pod would be
//! needed in each cluster (see docs/cli.md).

mod checks;
mod examine;
mod rights;
mod tried;

use std::process::ExitCode;

use clap::Args;

use self::checks::{Check, Mark, judge};
use crate::failure::{BROKEN, Failure};
use crate::paint::{Paint, Shade};
use crate::say::{say, say_all};
use crate::survey::{Reach, Scope, survey};
use crate::table::{Cell, Table};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    reach: Reach,
    /// Tell what is fine, too.
    #[arg(short, long)]
    all: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let places = arguments.reach.places().await?;
    let survey = survey(&places, &Scope::Everything).await;
    let examined = examine::examine(&places, &survey).await;
    let tried = tried::try_out(places.playground.as_ref()).await;
    let checks = judge(&survey, &examined, tried.as_ref());
    let paint = Paint::of_stdout();
    say_all(table(&checks, arguments.all, paint));
    let count = |mark: Mark| checks.iter().filter(|check| check.mark == mark).count();
    let (bad, doubtful) = (count(Mark::Bad), count(Mark::Doubtful));
    let (words, shade) = match (bad, doubtful) {
        (0, 0) => (format!("All {} checks passed.", checks.len()), Shade::Good),
        (0, _) => (format!("{doubtful} of {} checks are doubtful.", checks.len()), Shade::Doubtful),
        _ => (format!("{bad} of {} checks failed, {doubtful} are doubtful.", checks.len()), Shade::Bad),
    };
    say(paint.shade(&words, shade));
    Ok(if bad > 0 { ExitCode::from(BROKEN) } else { ExitCode::SUCCESS })
}

fn table(checks: &[Check], all: bool, paint: Paint) -> String {
    let mut table = Table::new(paint, &["", "CHECK", "CLUSTER", "WHAT"]);
    for check in checks.iter().filter(|check| all || check.mark != Mark::Good) {
        let (mark, shade) = match check.mark {
            Mark::Good => ("ok", Shade::Good),
            Mark::Doubtful => ("hm", Shade::Doubtful),
            Mark::Bad => ("BAD", Shade::Bad),
        };
        let cells = [
            Cell::shaded(mark, shade),
            check.about.into(),
            check.cluster.clone().into(),
            check.what.clone().into(),
        ];
        table.row(cells);
        if let Some(advice) = &check.advice {
            table.row([Cell::default(), Cell::default(), Cell::default(), format!("→ {advice}").into()]);
        }
    }
    if table.is_empty() { String::new() } else { table.to_string() }
}
