//! `tombolo demo`: the tour. Three clusters, and what they do together, told as it happens and checked as it is told.
//!
//! Every step prints the line a person would type and what came back, and fails if that is not what should have come. The
//! tour needs nothing but this program: what kubectl would do is done through the same API. A test runs the very lines with
//! the real kubectl.

mod callers;
mod calls;
mod chapters;
mod stage;
mod waiting;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use tokio::sync::oneshot;
use tombolo_api::loadbalancer::Profile;
use tombolo_playground::{Config, Directory, Network, Pace};

use self::chapters::{CHAPTERS, LESSER};
use self::stage::Stage;
use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::paint::{Paint, Shade};
use crate::say::say;
use crate::servers::ServerArguments;

const CLUSTERS: u8 = 3;
const NODES: u8 = 2;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Shorten the clocks, so that a lost cluster is noticed in seconds.
    #[arg(long)]
    fast: bool,
    /// Leave everything running afterwards, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Where the kubeconfig and what else others need is written.
    #[arg(long, default_value = ".tombolo")]
    dir: PathBuf,
    #[command(flatten)]
    servers: ServerArguments,
}

pub(crate) async fn run(arguments: Arguments, network: Network) -> Result<(), Failure> {
    if let Network::Pretended(why) = &network {
        return Err(Failure::new("the tour needs networks for pods").because(why.clone()).hint(
            "run it as root, or allow user namespaces (/proc/sys/user/max_user_namespaces, kernel.unprivileged_userns_clone, \
             kernel.apparmor_restrict_unprivileged_userns)",
        ));
    }
    let begun = Instant::now();
    let directory = Directory::new(absolute(&arguments)?);
    let pace = if arguments.fast { Pace::fast() } else { Pace::default() };
    let config = Config {
        clusters: CLUSTERS,
        nodes: NODES,
        directory: directory.clone(),
        network,
        servers: arguments.servers.find()?,
        pace,
        capabilities: BTreeMap::from([(LESSER.to_owned(), Profile::TcpOnly.into())]),
    };
    let playground = crate::up::start(config, |_| {}).await?;
    let paint = Paint::of_stdout();
    let seconds = begun.elapsed().as_secs_f32();
    say(format_args!(
        "A hub and {CLUSTERS} clusters with {NODES} nodes each are up after {seconds:.1} s, on this computer alone."
    ));
    let stage = Stage::new(&playground, &directory, paint);
    let (stop, stopped) = oneshot::channel::<()>();
    let running = playground.run(async { drop(stopped.await) });
    tokio::pin!(running);
    let told = tokio::select! {
        told = tell(&stage) => told,
        asked = interrupted() => asked.and(Err(Failure::new("the tour was interrupted"))),
        () = &mut running => return Err(Failure::new("somebody stopped the playground")),
    };
    conclude(&told, begun, paint);
    if arguments.keep && told.is_ok() {
        say(format_args!(
            "It goes on until Ctrl-C:\n  export KUBECONFIG={}",
            directory.kubeconfig().display()
        ));
        tokio::select! {
            asked = interrupted() => asked?,
            () = &mut running => return told,
        }
    }
    drop(stop);
    running.await;
    told
}

fn conclude(told: &Result<(), Failure>, begun: Instant, paint: Paint) {
    let (words, shade) = match told {
        Ok(()) => (format!("All of it held, after {:.0} s.", begun.elapsed().as_secs_f32()), Shade::Good),
        Err(_) => ("This did not hold.".to_owned(), Shade::Bad),
    };
    say(format_args!("\n{}", paint.shade(&words, shade)));
}

fn absolute(arguments: &Arguments) -> Result<PathBuf, Failure> {
    std::path::absolute(&arguments.dir)
        .map_err(|cause| Failure::new("there is no such directory").because(cause).hint("see --dir"))
}

/// All chapters, one after the other.
async fn tell(stage: &Stage) -> Result<(), Failure> {
    for (number, chapter) in CHAPTERS.iter().enumerate() {
        stage.title(number + 1, chapter.title);
        (chapter.play)(stage).await.map_err(|failure| failure.during(chapter.title))?;
    }
    Ok(())
}
