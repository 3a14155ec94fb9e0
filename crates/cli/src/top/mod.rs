//! `tombolo top`: the supercluster on a screen, looked at again every second.
//!
//! Clusters, exports and imports as `status` tells them; and, for a playground, how busy its parts are, from their metrics.

mod rates;
mod screen;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::join_all;
use tombolo_playground::Directory;

use self::rates::{Busy, Sample, busy, read};
use self::screen::Screen;
use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::paint::Paint;
use crate::parts::metrics;
use crate::status::tables;
use crate::survey::{Reach, Scope, survey};
use crate::table::Table;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    reach: Reach,
    /// The directory of a playground, whose parts are shown, too.
    #[arg(long, default_value = ".tombolo")]
    dir: PathBuf,
    /// Look so many times, then end; without it until q or Ctrl-C.
    #[arg(long, value_name = "NUMBER")]
    count: Option<u32>,
}

const EVERY: Duration = Duration::from_secs(1);

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let places = arguments.reach.places().await?;
    let directory = Directory::new(&arguments.dir);
    let screen = Screen::open();
    let mut before = None;
    let mut left = arguments.count;
    let look = async {
        while left != Some(0) {
            let (seen, now) = tokio::join!(survey(&places, &Scope::Everything), sample(&directory));
            let busy = busy(before.as_ref(), &now);
            screen.show(&format!("{}\n{}", tables(&seen, Paint::of_stdout()), parts(&busy)));
            (before, left) = (Some(now), left.map(|left| left - 1));
            if left != Some(0) {
                tokio::time::sleep(EVERY).await;
            }
        }
    };
    tokio::select! {
        () = look => Ok(()),
        () = screen.quit() => Ok(()),
        asked = interrupted() => asked,
    }
}

fn parts(busy: &[Busy]) -> String {
    let heading = ["PART", "STATE", "DNS/s", "WRITES/s", "TO KERNEL/s"];
    let mut table = Table::new(Paint::of_stdout(), &heading);
    for one in busy {
        let number = |value: Option<f64>| value.map(|value| format!("{value:.0}")).unwrap_or_default();
        let state = if one.answers { "answers" } else { "silent" };
        table.row([
            one.name.clone().into(),
            state.into(),
            number(one.queries).into(),
            number(one.writes).into(),
            number(one.elements).into(),
        ]);
    }
    if table.is_empty() { String::new() } else { table.to_string() }
}

/// The metrics of all parts of a playground; none if there is none.
async fn sample(directory: &Directory) -> Sample {
    let Ok(endpoints) = directory.endpoints() else { return Sample::default() };
    let asked = endpoints.parts().into_iter().map(|part| async move {
        let page = metrics(&part).await;
        (part.name, page.map(|page| read(&page)))
    });
    Sample { at: Some(Instant::now()), parts: join_all(asked).await }
}
