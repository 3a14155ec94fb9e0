//! `tombolo join`: a cluster becomes a member.
//!
//! First everything is looked at, on both sides; what cannot work is said, and then nothing is changed. What follows can be
//! repeated, and what is not said again stays as it was ([`Wish`]). Of several at one hub, one after the other looks and makes
//! its place there: two that do so at the same time would not see each other. With `--dry-run` nobody is asked anything: what
//! can be known without that is looked at, and the same objects are printed, for a repository to hold.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kube::Client;
use tombolo_api::service::IpFamily;
use tombolo_api::tombolo::HUB_ACCOUNT;
use tombolo_install::{
    ClusterSeen, Findings, HUB_SECRET, HubSeen, Introduction, Membership, Removed, Settings, Turn, TurnError,
    Wish, examine, examine_alone, former_rights, held_token, inspect_cluster, inspect_hub, is_its_token,
    member_roles, name_hub, place, put_token, remove, restart, system_namespace,
};
use tombolo_model::{ClusterId, names};
use tombolo_runtime::request_token;

use crate::connect::{Way, connect};
use crate::failure::Failure;
use crate::hub_address;
use crate::install::{Form, print, put};
use crate::say::say;
use crate::span;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What the cluster is called, unique in the supercluster.
    #[arg(long, value_name = "ID")]
    name: ClusterId,
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    hub: Hub,
    /// The hub's address as the cluster's pods see it; without it that of the last join, or else as the kubeconfig has it.
    #[arg(long, value_name = "URL")]
    hub_server: Option<String>,
    #[command(flatten)]
    statement: Statement,
    /// How long a token for the hub lives. The agent replaces it when a third of that is over.
    #[arg(long, value_name = "SPAN", default_value = "168h", value_parser = span::parse)]
    token_lifetime: Duration,
    /// By how much the clocks of hub and cluster may differ.
    #[arg(long, value_name = "SPAN", default_value = "1m", value_parser = span::parse)]
    clock_skew: Duration,
    /// Where the agent runs in the cluster.
    #[arg(long, default_value = "tombolo-system")]
    namespace: String,
    /// Change nothing and ask nobody; print the objects, but for the token.
    #[arg(long)]
    dry_run: bool,
    /// How to print them.
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t = Form::Yaml, requires = "dry_run")]
    output: Form,
    /// Whose objects to print.
    #[arg(long, value_enum, default_value_t = Side::Both, requires = "dry_run")]
    side: Side,
}

/// An administrator's way to the hub.
#[derive(Debug, Args)]
struct Hub {
    /// The kubeconfig of an administrator of the hub; without it that of the cluster, with --hub-context.
    #[arg(long, value_name = "FILE", required_unless_present = "hub_context")]
    hub_kubeconfig: Option<PathBuf>,
    /// The context of the hub in its kubeconfig.
    #[arg(long, value_name = "NAME")]
    hub_context: Option<String>,
}

/// What the cluster says about itself. What is left out stays as it was when the cluster joined before.
#[derive(Debug, Args)]
struct Statement {
    /// Where the cluster's pods have their addresses; may be given several times. Endpoints outside are not offered. '' takes it
    /// away.
    #[arg(long = "pod-cidr", value_name = "CIDR", value_delimiter = ',')]
    pod_cidrs: Option<Vec<String>>,
    /// The region the cluster is in. '' takes it away.
    #[arg(long)]
    region: Option<String>,
    /// The IP families of the cluster's Services; without it those of Service default/kubernetes.
    #[arg(long = "ip-family", value_name = "FAMILY", value_delimiter = ',')]
    ip_families: Option<Vec<IpFamily>>,
    /// The name of the supercluster, for ClusterProperty clusterset.k8s.io.
    #[arg(long, value_name = "NAME", default_value = "tombolo")]
    cluster_set: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Hub,
    Member,
    Both,
}

impl Hub {
    async fn connect(&self, cluster: Option<&std::path::Path>) -> Result<Client, Failure> {
        let file = self.hub_kubeconfig.as_deref().or(cluster);
        connect("hub", "--hub-kubeconfig and --hub-context", file, self.hub_context.as_deref()).await
    }
}

impl Arguments {
    fn wish(&self) -> Result<Wish, Failure> {
        let file = self.hub.hub_kubeconfig.as_deref().or(self.way.kubeconfig.as_deref());
        let Statement { pod_cidrs, region, ip_families, cluster_set } = &self.statement;
        let said = |range: &&String| !range.is_empty();
        Ok(Wish {
            namespace: self.namespace.clone(),
            cluster: self.name.clone(),
            pod_cidrs: pod_cidrs.as_ref().map(|ranges| ranges.iter().filter(said).cloned().collect()),
            region: region.clone(),
            ip_families: ip_families.as_ref().map(|all| all.iter().map(ToString::to_string).collect()),
            cluster_set: cluster_set.clone(),
            hub: hub_address::read(file, self.hub.hub_context.as_deref())?,
            hub_server: self.hub_server.clone(),
        })
    }
}

/// What others can be compared with before the agent has said anything.
fn introduction(membership: &Membership, identity: Option<String>) -> Introduction {
    Introduction { identity, pod_cidrs: membership.pod_cidrs.clone() }
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let wish = arguments.wish()?;
    if arguments.dry_run {
        return print_side(&arguments, &wish.alone());
    }
    let hub = arguments.hub.connect(arguments.way.kubeconfig.as_deref()).await?;
    let member = arguments.way.connect("cluster").await?;
    let (membership, hub_seen) = admit_in_turn(&arguments, &wish, &hub, &member).await?;
    say(format_args!("# in the cluster, who it is and the way to {}", membership.hub.server));
    let settings = Settings { namespace: arguments.namespace.clone(), ..Settings::default() };
    let mut manifests = vec![system_namespace(&settings, &[])];
    manifests.extend(membership.manifests());
    put(&member, &manifests).await?;
    let new_credential = give_token(&arguments, &membership, &hub, &hub_seen, &member).await?;
    if restart(&member, &membership, new_credential.as_deref()).await.map_err(in_cluster)? {
        say(format_args!("agents begin anew"));
    }
    say(format_args!("{} is a member", arguments.name));
    Ok(())
}

fn print_side(arguments: &Arguments, membership: &Membership) -> Result<(), Failure> {
    let found = examine_alone(membership);
    expect_no_problems(arguments, &found)?;
    for doubt in &found.doubts {
        match arguments.output {
            Form::Yaml => say(format_args!("# {doubt}")),
            // What is printed has no place for it.
            Form::Json => tracing::warn!("{doubt}"),
        }
    }
    let mut manifests = Vec::new();
    if arguments.side != Side::Member {
        manifests.extend(place(&arguments.name, &introduction(membership, None)));
    }
    if arguments.side != Side::Hub {
        manifests.extend(membership.manifests());
    }
    print(&manifests, arguments.output)
}

/// Admits the cluster while no other join looks or writes at the hub.
async fn admit_in_turn(
    arguments: &Arguments,
    wish: &Wish,
    hub: &Client,
    member: &Client,
) -> Result<(Membership, HubSeen), Failure> {
    let tell = |holder: &str, at_most: Duration| {
        let seconds = at_most.as_secs();
        say(format_args!("# {holder} is joining at this hub: waiting for it, {seconds} s if it is dead"));
    };
    let mut turn = Turn::take(hub, &arguments.name, tell).await.map_err(no_turn)?;
    let admitted = admit(arguments, wish, hub, member, &mut turn).await;
    // Whatever came of it, others wait; if they are not told, they wait a little longer.
    if turn.end().await.is_err() {
        say("# the hub did not hear that this is done: the next cluster may have to wait for half a minute");
    }
    admitted
}

/// Makes a place at the hub for a cluster that can have one. Returns what it becomes, and the hub as it was before.
async fn admit(
    arguments: &Arguments,
    wish: &Wish,
    hub: &Client,
    member: &Client,
    turn: &mut Turn,
) -> Result<(Membership, HubSeen), Failure> {
    let (membership, hub_seen, cluster) = look(arguments, wish, hub, member).await?;
    say(format_args!("# at the hub, a place for {}", arguments.name));
    // The roles of all members, too: a hub may have its kinds and nothing else.
    let mut manifests = member_roles();
    manifests.extend(place(&arguments.name, &introduction(&membership, Some(cluster.server.identity))));
    let make = async {
        put(hub, &manifests).await?;
        take_former_rights(arguments, hub).await
    };
    turn.write(make).await.map_err(no_turn)??;
    Ok((membership, hub_seen))
}

/// Members of earlier versions had rights of their own, which no update of the hub reached.
async fn take_former_rights(arguments: &Arguments, hub: &Client) -> Result<(), Failure> {
    let former = former_rights(&arguments.name);
    let told = remove(hub, &former, |one, removed| {
        if removed == Removed::Gone {
            let (kind, name) = (one.kind().to_lowercase(), one.name());
            let place = one.namespace().unwrap_or_default();
            say(format_args!("{kind}/{name} in {place} deleted: the role of all members counts now"));
        }
    });
    told.await.map_err(|cause| {
        Failure::new("rights that members had before are still there")
            .because(cause)
            .hint("an administrator of the hub has the rights; run this again afterwards")
    })
}

fn no_turn(cause: TurnError) -> Failure {
    let what = "the cluster cannot have its turn to join";
    match cause {
        TurnError::Refused(cause) => Failure::new(format!("{what}, which a lease at the hub says"))
            .because(cause)
            .hint("an administrator of the hub has the rights"),
        TurnError::Slow => {
            Failure::new(what).because(cause).hint("some of its place may be there; run this again")
        }
        cause => Failure::new(what).because(cause).hint("nothing was changed; run this again"),
    }
}

/// Looks at both sides, and goes no further if something cannot work.
async fn look(
    arguments: &Arguments,
    wish: &Wish,
    hub: &Client,
    member: &Client,
) -> Result<(Membership, HubSeen, ClusterSeen), Failure> {
    let (hub, member) = tokio::join!(inspect_hub(hub), inspect_cluster(member, &arguments.namespace));
    let hub = hub.map_err(|cause| Failure::new("the hub cannot be looked at").because(cause))?;
    let member = member.map_err(|cause| Failure::new("the cluster cannot be looked at").because(cause))?;
    let (membership, kept) = wish.again(&hub, &member);
    let found = examine(&membership, &hub, &member, arguments.clock_skew);
    for line in kept.iter().chain(&found.doubts) {
        say(format_args!("# {line}"));
    }
    expect_no_problems(arguments, &found).map(|()| (membership, hub, member))
}

fn expect_no_problems(arguments: &Arguments, found: &Findings) -> Result<(), Failure> {
    let (name, problems) = (&arguments.name, found.problems.join("; "));
    match found.problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!("{name} cannot join, nothing was changed: {problems}"))),
    }
}

/// A token that works stays; otherwise there is a new one. Returns the version of a new credential.
async fn give_token(
    arguments: &Arguments,
    membership: &Membership,
    hub: &Client,
    hub_seen: &HubSeen,
    member: &Client,
) -> Result<Option<String>, Failure> {
    let object = format!("secret/{HUB_SECRET} in {}", membership.namespace);
    let held = held_token(member, membership).await.map_err(in_cluster)?;
    if let Some(token) = &held
        && is_its_token(hub, membership, token).await
    {
        name_hub(member, membership, &hub_seen.server).await.map_err(in_cluster)?;
        say(format_args!("{object} unchanged: its token is good"));
        return Ok(None);
    }
    let namespace = names::hub_namespace(&arguments.name);
    let seconds = i64::try_from(arguments.token_lifetime.as_secs()).unwrap_or(i64::MAX);
    let token = request_token(hub, &namespace, HUB_ACCOUNT, seconds).await.map_err(|cause| {
        Failure::new("the hub gave no token")
            .because(cause)
            .hint("tokens live for ten minutes at least: see --token-lifetime")
    })?;
    let version = put_token(member, membership, &token, &hub_seen.server).await.map_err(in_cluster)?;
    say(format_args!(
        "{object} {}: a token for the hub",
        if held.is_some() { "configured" } else { "created" }
    ));
    Ok(Some(version))
}

fn in_cluster(cause: kube::Error) -> Failure {
    Failure::new("the cluster does not take it")
        .because(cause)
        .hint("an administrator of the cluster has the rights; run this again afterwards")
}
