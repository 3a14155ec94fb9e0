//! `tombolo up`: a hub and some clusters with nodes and pods, until Ctrl-C.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal as _, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;
use tombolo_api::loadbalancer::Profile;
use tombolo_model::balancer::Capabilities;
use tombolo_playground::{Config, Directory, Network, Pace, Playground, plan};

use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::say::say;
use crate::servers::ServerArguments;

/// What a playground that runs in the background says.
const LOG: &str = "log";
/// The last line to whoever started it: from then on it goes on alone.
const READY: &str = "ready";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many clusters to run, besides the hub.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=i64::from(plan::MOST_CLUSTERS)))]
    clusters: u8,
    /// How many nodes each cluster has.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=i64::from(plan::MOST_NODES)))]
    nodes: u8,
    /// Where to write the kubeconfig and what else others need.
    #[arg(long, default_value = ".tombolo")]
    dir: PathBuf,
    /// Notice silent clusters after seconds, not half a minute.
    #[arg(long)]
    fast: bool,
    /// Let the balancers of a member do only as much as a provider of this profile could: member2=TCP-ONLY. See `tombolo
    /// balancer --help`; may be given several times.
    #[arg(long, value_name = "MEMBER=PROFILE", value_parser = member_profile)]
    balancer_capabilities: Vec<(String, Profile)>,
    #[command(flatten)]
    servers: ServerArguments,
    /// Only pretend nodes and pods, as happens where networks cannot be made.
    #[arg(long)]
    pretend: bool,
    /// Go on in the background; `tombolo down` ends it.
    #[arg(long)]
    detach: bool,
    /// This is the process in the background.
    #[arg(long, hide = true)]
    detached: bool,
}

impl Arguments {
    /// What kind of network there can be. Must be called before any other thread exists.
    pub(crate) fn network(&self) -> Network {
        match self.pretend {
            true => Network::Pretended("--pretend was given".to_owned()),
            false => tombolo_playground::acquire(),
        }
    }

    fn pace(&self) -> Pace {
        if self.fast { Pace::fast() } else { Pace::default() }
    }

    fn capabilities(&self) -> Result<BTreeMap<String, Capabilities>, Failure> {
        let members: BTreeSet<String> = (1..=self.clusters).map(|number| format!("member{number}")).collect();
        if let Some((stranger, _)) =
            self.balancer_capabilities.iter().find(|(name, _)| !members.contains(name))
        {
            return Err(Failure::new(format!("there is no cluster {stranger}"))
                .hint("--balancer-capabilities takes member1=PROFILE and so on"));
        }
        let all = self.balancer_capabilities.iter();
        Ok(all.map(|(member, profile)| (member.clone(), (*profile).into())).collect())
    }

    pub(crate) fn wants_background(&self) -> bool {
        self.detach
    }
}

fn member_profile(text: &str) -> Result<(String, Profile), String> {
    let (member, profile) = text.split_once('=').ok_or("it is not of the form MEMBER=PROFILE")?;
    Ok((member.to_owned(), profile.parse().map_err(|error| format!("{error}"))?))
}

pub(crate) async fn run(arguments: Arguments, network: Network) -> Result<(), Failure> {
    let begun = Instant::now();
    if let Network::Pretended(why) = &network {
        say(format_args!("There are no networks: {why}. Nodes and pods are only pretended."));
    }
    let directory = Directory::new(absolute(&arguments.dir)?);
    let config = Config {
        clusters: arguments.clusters,
        nodes: arguments.nodes,
        directory: directory.clone(),
        network,
        servers: arguments.servers.find()?,
        pace: arguments.pace(),
        capabilities: arguments.capabilities()?,
    };
    let networked = config.network == Network::Namespaces;
    let playground = start(config, |step| progress(begun, step)).await?;
    welcome(&directory, &playground, networked, begun);
    if arguments.detached {
        leave_terminal()?;
    }
    let stop = async {
        if let Err(failure) = interrupted().await {
            failure.report(false);
        }
    };
    playground.run(stop).await;
    Ok(())
}

/// Starts a playground, unless Ctrl-C comes first: real API servers take a while.
pub(crate) async fn start(config: Config, tell: impl Fn(&str) + Send + Sync) -> Result<Playground, Failure> {
    tokio::select! {
        started = Playground::start(config, tell) => started.map_err(failed),
        asked = interrupted() => asked.and(Err(Failure::new("it was interrupted before it was ready"))),
    }
}

fn failed(cause: tombolo_playground::Error) -> Failure {
    Failure::new("the playground did not start")
        .because(cause)
        .hint("see `tombolo down` and --dir, and -v for more")
}

fn absolute(path: &std::path::Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|cause| Failure::new("there is no such directory").because(cause))
}

/// Starts the same command in the background and passes on what it says until it is ready.
pub(crate) fn start_in_background(arguments: &Arguments, verbose: bool) -> Result<(), Failure> {
    let cannot = |cause: std::io::Error| Failure::new("cannot go on in the background").because(cause);
    arguments.servers.find()?;
    std::fs::create_dir_all(&arguments.dir).map_err(cannot)?;
    let log = arguments.dir.join(LOG);
    // Another playground may run there and write into it.
    let mut complaints = File::options().create(true).append(true).read(true).open(&log).map_err(cannot)?;
    let said_before = complaints.seek(SeekFrom::End(0)).map_err(cannot)?;
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command
        .args(verbose.then_some("--verbose"))
        .args(["up", "--detached"])
        .args(arguments.pretend.then_some("--pretend"))
        .args(arguments.fast.then_some("--fast"))
        .args(arguments.servers.words())
        .arg("--dir")
        .arg(&arguments.dir);
    for (member, profile) in &arguments.balancer_capabilities {
        command.args(["--balancer-capabilities", &format!("{member}={profile}")]);
    }
    command.args(["--clusters", &arguments.clusters.to_string(), "--nodes", &arguments.nodes.to_string()]);
    let errors = complaints.try_clone().map_err(cannot)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    let mut child = command.spawn().map_err(cannot)?;
    if child.stdout.take().is_some_and(|output| pass_on(BufReader::new(output), say)) {
        return Ok(());
    }
    // Nobody hears it any more, so it shall not go on.
    let _ = child.kill();
    child.wait().map_err(cannot)?;
    let mut said = String::new();
    complaints.seek(SeekFrom::Start(said_before)).map_err(cannot)?;
    let _ = complaints.read_to_string(&mut said);
    Err(Failure::new(format!("the playground ended: {}", said.trim())))
}

/// Passes on what a playground says until it is ready; returns whether it became that. The end of its output alone says
/// nothing: that of a process that ends comes before its end.
fn pass_on(output: impl BufRead, tell: impl Fn(String)) -> bool {
    let lines = output.lines().map_while(Result::ok);
    for line in lines {
        if line == READY {
            return true;
        }
        tell(line);
    }
    false
}

/// From here on whoever started this process has nothing to do with it.
fn leave_terminal() -> Result<(), Failure> {
    let cannot = |cause: std::io::Error| Failure::new("cannot leave the terminal").because(cause);
    // Closing the terminal must not end it; a process that leads its group has left already.
    let _ = rustix::process::setsid();
    let nothing = File::options().write(true).open("/dev/null").map_err(cannot)?;
    say(READY);
    rustix::stdio::dup2_stdout(nothing).map_err(|cause| cannot(cause.into()))
}

/// Standard error, so that standard output has only what is worth keeping.
#[expect(clippy::print_stderr, reason = "a person waits and wants to know for what")]
fn progress(begun: Instant, step: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("{:5.2} s  {step}", begun.elapsed().as_secs_f32());
    }
}

fn welcome(directory: &Directory, playground: &Playground, networked: bool, begun: Instant) {
    let contexts = playground.contexts();
    let seconds = begun.elapsed().as_secs_f32();
    say(format_args!("A hub and {} clusters are ready after {seconds:.2} s:", contexts.len() - 1));
    for context in &contexts {
        say(format_args!("  {:<10} {}", context.name, context.server));
    }
    let image = if networked { "tombolo/echo" } else { "example" };
    say("\nTry, in another terminal:");
    say(format_args!("  export KUBECONFIG={}", directory.kubeconfig().display()));
    say(format_args!(
        "  kubectl --context member1 -n demo create deployment echo --image={image} --replicas=2"
    ));
    say("  kubectl --context member1 -n demo expose deployment echo --port=80 --target-port=8080");
    say("  tombolo export demo/echo --context member1");
    if networked && contexts.len() > 2 {
        say("  kubectl --context member2 -n demo run client --image=tombolo/client");
        say(
            "  kubectl --context member2 -n demo exec client -- curl -s http://echo.demo.svc.clusterset.local/",
        );
    }
    say("  tombolo status");
    say("  tombolo explain demo/echo");
    say(format_args!(
        "\nEverything is gone after Ctrl-C or `tombolo down --dir {}`.",
        directory.path().display()
    ));
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_playground_that_ends_before_it_is_ready_has_not_started() {
        let cases = [("A hub\nready\n", true), ("A hub\n", false), ("", false), ("all are ready\n", false)];
        for (output, ready) in cases {
            let told = RefCell::new(Vec::new());
            assert_eq!(pass_on(output.as_bytes(), |line| told.borrow_mut().push(line)), ready, "{output:?}");
            assert!(!told.borrow().iter().any(|line| line == READY), "that is for us");
        }
    }
}
