//! `tombolo status`: which clusters there are, what they export and import, and who disagrees.

mod print;
mod report;

use std::time::Duration;

use clap::{Args, ValueEnum};

use self::report::{Report, report};
use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::paint::Paint;
use crate::say::say_all;
use crate::survey::{Places, Reach, Scope, Survey, survey};

/// How often `--watch` looks.
const EVERY: Duration = Duration::from_secs(2);
/// Puts the cursor at the top and clears what is below it.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    reach: Reach,
    /// Only services of this namespace.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// How to tell it.
    #[arg(short, long, value_enum, value_name = "FORM")]
    output: Option<Output>,
    /// Go on, every two seconds.
    #[arg(short, long)]
    watch: bool,
}

/// How it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Tables with more columns.
    Wide,
    Json,
    Yaml,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let places = arguments.reach.places().await?;
    let scope = arguments.namespace.clone().map_or(Scope::Everything, Scope::Namespace);
    if !arguments.watch {
        return look(&places, &scope, arguments.output, "").await;
    }
    // A program that reads gets one document after the other; a person sees one screen.
    let clear = if arguments.output.is_none_or(|output| output == Output::Wide) { CLEAR } else { "" };
    let watch = async {
        loop {
            look(&places, &scope, arguments.output, clear).await?;
            tokio::time::sleep(EVERY).await;
        }
    };
    tokio::select! {
        ended = watch => ended,
        asked = interrupted() => asked,
    }
}

/// What was seen, as tables.
pub(crate) fn tables(survey: &Survey, paint: Paint) -> String {
    print::tables(&report(survey), paint, false)
}

async fn look(places: &Places, scope: &Scope, output: Option<Output>, before: &str) -> Result<(), Failure> {
    let report = report(&survey(places, scope).await);
    let text = match output {
        None => print::tables(&report, Paint::of_stdout(), false),
        Some(Output::Wide) => print::tables(&report, Paint::of_stdout(), true),
        Some(Output::Json) => json(&report)?,
        Some(Output::Yaml) => yaml(&report)?,
    };
    say_all(format_args!("{before}{text}"));
    Ok(())
}

fn json(report: &Report) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(report);
    text.map(|text| text + "\n")
        .map_err(|cause| Failure::new("this cannot be written as JSON").because(cause))
}

fn yaml(report: &Report) -> Result<String, Failure> {
    let text = serde_saphyr::to_string(report);
    text.map(|text| format!("---\n{text}"))
        .map_err(|cause| Failure::new("this cannot be written as YAML").because(cause))
}
