//! `tombolo leave`: a cluster is a member no more.
//!
//! Its agents end, its place at the hub goes, so that others stop sending it anything, and what agents made in it is taken
//! back. Of a cluster that is gone for good only the place at the hub can go: `--force` asks for that.

use std::time::Duration;

use clap::Args;
use kube::Client;
use tombolo_agent::retire;
use tombolo_install::{forget, stop_agents, take_place};
use tombolo_model::{ClusterId, names};

use crate::connect::Way;
use crate::failure::Failure;
use crate::join::Hub;
use crate::say::say;
use crate::span;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What the cluster is called.
    #[arg(long, value_name = "ID")]
    name: ClusterId,
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    hub: Hub,
    /// Where the agent runs in the cluster.
    #[arg(long, default_value = "tombolo-system")]
    namespace: String,
    /// The cluster is gone for good: only take its place at the hub away.
    #[arg(long)]
    force: bool,
    /// How long what a hub has to remove may take.
    #[arg(long, value_name = "SPAN", default_value = "2m", value_parser = span::parse)]
    timeout: Duration,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let hub = arguments.hub.connect(arguments.way.kubeconfig.as_deref()).await?;
    if arguments.force {
        take(&arguments, &hub).await?;
        say(format_args!("{} is no member any more; nobody asked the cluster itself", arguments.name));
        return Ok(());
    }
    let member = arguments.way.connect("cluster").await?;
    stop(&arguments, &member).await?;
    take(&arguments, &hub).await?;
    let retired = retire(&member, &arguments.name, &arguments.namespace).await.map_err(in_cluster)?;
    for (what, count) in retired.iter().filter(|(_, count)| *count > 0) {
        say(format_args!("{count} {what}"));
    }
    forget(&member, &arguments.namespace).await.map_err(in_cluster)?;
    say(format_args!("{} is no member any more", arguments.name));
    Ok(())
}

async fn stop(arguments: &Arguments, member: &Client) -> Result<(), Failure> {
    if stop_agents(member, &arguments.namespace).await.map_err(in_cluster)? {
        say("no agent is at work any more");
        return Ok(());
    }
    Err(Failure::new("an agent of the cluster is still at work")
        .hint("`tombolo install` did not start it: end it, then run this again"))
}

async fn take(arguments: &Arguments, hub: &Client) -> Result<(), Failure> {
    let namespace = names::hub_namespace(&arguments.name);
    let gone = take_place(hub, &arguments.name, arguments.timeout).await;
    let gone = gone.map_err(|cause| {
        Failure::new("its place at the hub cannot be taken away")
            .because(cause)
            .hint("an administrator of the hub has the rights; run this again afterwards")
    })?;
    if !gone {
        return Err(Failure::new(format!("namespace {namespace} at the hub does not go"))
            .hint("`kubectl describe namespace` there says what it waits for; run this again afterwards"));
    }
    say(format_args!("namespace/{namespace} at the hub is gone, and all that {} said there", arguments.name));
    Ok(())
}

fn in_cluster(cause: kube::Error) -> Failure {
    Failure::new("the cluster cannot be cleaned up")
        .because(cause)
        .hint("run this again; of a cluster that is gone for good, take the place with --force")
}
