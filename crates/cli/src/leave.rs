//! `tombolo leave`: a cluster is a member no more.
//!
//! First the name and the cluster are compared: they have to be of one member. Then its agents end, its place at the hub
//! goes, so that others stop sending it anything, and what agents made in it is taken back. Where one of the two is gone for
//! good, it is done at the other one, and nobody waits for who is gone: `--force` for a cluster, `--hub-gone` for a hub. Which one
//! that is has to be said: a hub that was merely not named is no hub that is gone.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kube::Client;
use tombolo_agent::retire;
use tombolo_api::tombolo::MEMBER_LABEL;
use tombolo_install::{
    Place, forget, inspect_cluster, inspect_hub, keeps_from_leaving, keeps_from_leaving_without_hub,
    stop_agents, take_place,
};
use tombolo_model::{ClusterId, names};

use crate::connect::{Way, connect};
use crate::failure::Failure;
use crate::say::say;
use crate::span;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What the cluster is called.
    #[arg(long, value_name = "ID")]
    name: ClusterId,
    #[command(flatten)]
    way: Way,
    /// The kubeconfig of an administrator of the hub; without it that of the cluster, with --hub-context.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["hub_context", "hub_gone"])]
    hub_kubeconfig: Option<PathBuf>,
    /// The context of the hub in its kubeconfig.
    #[arg(long, value_name = "NAME")]
    hub_context: Option<String>,
    /// Where the agent runs in the cluster.
    #[arg(long, default_value = "tombolo-system")]
    namespace: String,
    /// The cluster is gone for good: only take its place at the hub away.
    #[arg(long)]
    force: bool,
    /// The hub is gone for good: only take back what is in the cluster, with or without --force.
    #[arg(long, conflicts_with_all = ["hub_kubeconfig", "hub_context"])]
    hub_gone: bool,
    /// How long what a hub has to remove may take.
    #[arg(long, value_name = "SPAN", default_value = "2m", value_parser = span::parse)]
    timeout: Duration,
}

impl Arguments {
    async fn connect_hub(&self) -> Result<Client, Failure> {
        let file = self.hub_kubeconfig.as_deref().or(self.way.kubeconfig.as_deref());
        connect("hub", "--hub-kubeconfig and --hub-context", file, self.hub_context.as_deref()).await
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    if arguments.hub_gone {
        return without_hub(&arguments).await;
    }
    if arguments.force {
        return without_cluster(&arguments).await;
    }
    let hub = arguments.connect_hub().await?;
    let member = arguments.way.connect("cluster").await?;
    look(&arguments, &hub, &member).await?;
    stop(&arguments, &member).await?;
    take(&arguments, &hub).await?;
    clean_up(&arguments, &member).await?;
    say(format_args!("{} is no member any more", arguments.name));
    Ok(())
}

/// The cluster is gone for good: its place at the hub goes.
async fn without_cluster(arguments: &Arguments) -> Result<(), Failure> {
    if !take(arguments, &arguments.connect_hub().await?).await? {
        return Err(Failure::new(format!("there is no {} at this hub", arguments.name))
            .hint("`kubectl get memberships -A` there shows who is; nothing was changed"));
    }
    say(format_args!("{} is no member any more; nobody asked the cluster itself", arguments.name));
    Ok(())
}

/// The hub is gone for good: everything in the cluster goes.
async fn without_hub(arguments: &Arguments) -> Result<(), Failure> {
    let member = arguments.way.connect("cluster").await?;
    let seen = inspect_cluster(&member, &arguments.namespace).await;
    let seen = seen.map_err(|cause| Failure::new("the cluster cannot be looked at").because(cause))?;
    let name = &arguments.name;
    if let Some(why) = keeps_from_leaving_without_hub(name, &seen) {
        return Err(Failure::new(format!("{name} cannot leave, nothing was changed: {why}")));
    }
    stop(arguments, &member).await?;
    clean_up(arguments, &member).await?;
    say(format_args!(
        "{name} is no member any more; nobody told the hub, which has a place for it if it still is"
    ));
    Ok(())
}

/// Takes back all that agents and `tombolo join` left in the cluster.
async fn clean_up(arguments: &Arguments, member: &Client) -> Result<(), Failure> {
    let retired = retire(member, &arguments.name, &arguments.namespace).await.map_err(in_cluster)?;
    for (what, count) in retired.iter().filter(|(_, count)| *count > 0) {
        say(format_args!("{count} {what}"));
    }
    forget(member, &arguments.namespace).await.map_err(in_cluster)
}

/// Goes no further if the name and the cluster are not of one member.
async fn look(arguments: &Arguments, hub: &Client, member: &Client) -> Result<(), Failure> {
    let (hub, member) = tokio::join!(inspect_hub(hub), inspect_cluster(member, &arguments.namespace));
    let hub = hub.map_err(|cause| {
        Failure::new("the hub cannot be looked at")
            .because(cause)
            .hint("if it is gone for good, use --hub-gone instead of --hub-kubeconfig and --hub-context")
    })?;
    let member = member.map_err(|cause| {
        Failure::new("the cluster cannot be looked at")
            .because(cause)
            .hint("of a cluster that is gone for good, take the place at the hub away with --force")
    })?;
    let (name, namespace) = (&arguments.name, names::hub_namespace(&arguments.name));
    if let Some(why) = keeps_from_leaving(name, &hub, &member) {
        return Err(Failure::new(format!("{name} cannot leave, nothing was changed: {why}")));
    }
    match hub.strangers.contains(&namespace) {
        true => Err(not_its_place(name, &namespace)),
        false => Ok(()),
    }
}

async fn stop(arguments: &Arguments, member: &Client) -> Result<(), Failure> {
    let Some(who) = stop_agents(member, &arguments.namespace).await.map_err(in_cluster)? else {
        say("no agent is at work any more");
        return Ok(());
    };
    Err(Failure::new(format!("an agent of the cluster is still at work: {who}")).hint(
        "one that `tombolo install` did not start has to be ended where it runs, and a pod on a node that is dead for good \
         with `kubectl delete pod --force`; then run this again",
    ))
}

/// Takes the place at the hub away; returns whether there was one.
async fn take(arguments: &Arguments, hub: &Client) -> Result<bool, Failure> {
    let (name, namespace) = (&arguments.name, names::hub_namespace(&arguments.name));
    let place = take_place(hub, name, arguments.timeout).await;
    let place = place.map_err(|cause| {
        Failure::new("its place at the hub cannot be taken away")
            .because(cause)
            .hint("an administrator of the hub has the rights; run this again afterwards")
    })?;
    match place {
        Place::Taken => {
            say(format_args!("namespace/{namespace} at the hub is gone, and all that {name} said there"))
        }
        Place::NotThere => {}
        Place::Foreign => return Err(not_its_place(name, &namespace)),
        Place::Lingers => {
            return Err(Failure::new(format!("namespace {namespace} at the hub does not go")).hint(
                "`kubectl describe namespace` there says what it waits for; run this again afterwards",
            ));
        }
    }
    Ok(place == Place::Taken)
}

fn not_its_place(name: &ClusterId, namespace: &str) -> Failure {
    Failure::new(format!("namespace {namespace} at the hub is not the place of {name}, and was left alone"))
        .hint(format!(
            "look who it belongs to; if it was made for this member, `kubectl label namespace {namespace} \
             {MEMBER_LABEL}={name}` there and run this again"
        ))
}

fn in_cluster(cause: kube::Error) -> Failure {
    Failure::new("the cluster cannot be cleaned up")
        .because(cause)
        .hint("run this again; of a cluster that is gone for good, take the place with --force")
}
