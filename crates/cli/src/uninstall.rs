//! `tombolo uninstall`: takes parts out of a cluster.
//!
//! Kinds stay unless they are asked to go: with them go all exports, imports and pools that people wrote. Those that a part
//! needs which is not taken out stay even then. Members leave before that (`tombolo leave`): without the kinds everything that
//! they share would be gone at once. They do without the hub's own part, but not without the roles that they have at the hub:
//! those stay while there are members. Load balancers end with the balancer, and their Services stay.

use clap::Args;
use kube::Client;
use tombolo_balancer::retire;
use tombolo_install::{
    Installed, Part, Removed, Settings, inspect_cluster, inspect_hub, installed, is_for_members, manifests,
    remove, who_needs,
};

use crate::connect::Way;
use crate::coredns::CoreDns;
use crate::failure::Failure;
use crate::install::Parts;
use crate::say::say;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    parts: Parts,
    #[command(flatten)]
    way: Way,
    /// Where everything runs.
    #[arg(long, default_value = "tombolo-system")]
    namespace: String,
    #[command(flatten)]
    coredns: CoreDns,
    /// Remove the ServiceMonitor and the dashboard, too.
    #[arg(long)]
    monitoring: bool,
    /// Remove the kinds, too, and all objects of them.
    #[arg(long)]
    kinds: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.way.connect("cluster").await?;
    let members = if arguments.parts.hub { members(&client).await? } else { Vec::new() };
    if arguments.kinds {
        expect_nobody(&arguments, &client, &members).await?;
    }
    let stay = staying(&arguments, &client).await?;
    if arguments.parts.dns {
        arguments.coredns.restore(&client).await?;
    }
    let settings = Settings {
        namespace: arguments.namespace.clone(),
        monitoring: arguments.monitoring,
        ..Settings::default()
    };
    let mut manifests = manifests(&settings, &arguments.parts.chosen());
    // Other parts and what people put there share the namespace.
    manifests.retain(|one| one.kind() != "Namespace");
    let is_shared = stay.iter().any(|one| one.namespace == arguments.namespace);
    manifests.retain(|one| match (one.kind(), who_needs(one.name(), &stay)) {
        ("CustomResourceDefinition", _) if !arguments.kinds => false,
        ("CustomResourceDefinition", Some(who)) => {
            say(format_args!("customresourcedefinition/{} stays: {who} needs it", one.name()));
            false
        }
        // For pods of all parts there.
        ("ResourceQuota", _) => !is_shared,
        ("ClusterRole", _) if !members.is_empty() && is_for_members(one) => {
            say(format_args!("clusterrole/{} stays: members need it, {}", one.name(), members.join(", ")));
            false
        }
        _ => true,
    });
    let told = remove(&client, &manifests, |manifest, removed| {
        let object = format!("{}/{}", manifest.kind().to_lowercase(), manifest.name());
        match removed {
            Removed::Gone => say(format_args!("{object} deleted")),
            Removed::NotThere => {}
            Removed::Foreign => say(format_args!("{object} stays: it is somebody else's")),
        }
    });
    told.await.map_err(|cause| {
        Failure::new("not everything is gone")
            .because(cause)
            .hint("run this again as an administrator of the cluster")
    })?;
    if arguments.parts.balancer { take_back(&client, &stay).await } else { Ok(()) }
}

/// Takes load balancers off Services, which could not be deleted any more otherwise. Pods that have not ended yet do not make them again:
/// they have no rights any more.
async fn take_back(client: &Client, stay: &[Installed]) -> Result<(), Failure> {
    if let Some(other) = stay.iter().find(|one| one.part == Part::Balancer) {
        say(format_args!("load balancers stay: {other} may serve them"));
        return Ok(());
    }
    let count = retire(client).await.map_err(|cause| {
        Failure::new("Services still have load balancers, and cannot be deleted")
            .because(cause)
            .hint("run this again as an administrator of the cluster")
    })?;
    if count > 0 {
        say(format_args!("load balancers taken back: {count}"));
    }
    Ok(())
}

/// Goes no further while the cluster is a member, or has some as a hub.
async fn expect_nobody(arguments: &Arguments, client: &Client, members: &[String]) -> Result<(), Failure> {
    if !members.is_empty() {
        let names = members.join(", ");
        return Err(Failure::new(format!("nothing was changed: this hub has members, {names}")).hint(
            "`tombolo leave` each of them first, with --hub-context for this hub, and --force if it is gone for good; \
             without --kinds they stay",
        ));
    }
    if arguments.parts.member {
        let cluster = inspect_cluster(client, &arguments.namespace).await.map_err(unseen)?;
        if cluster.is_member {
            let id = cluster.id.unwrap_or_else(|| "ID".to_owned());
            return Err(Failure::new(format!("nothing was changed: the cluster is a member, {id}"))
                .hint(format!("`tombolo leave --name {id}` first; without --kinds it stays one")));
        }
    }
    Ok(())
}

/// Who is a member at this hub.
async fn members(client: &Client) -> Result<Vec<String>, Failure> {
    let seen = inspect_hub(client).await.map_err(unseen)?;
    Ok(seen.members.into_iter().map(|member| member.cluster).collect())
}

fn unseen(cause: kube::Error) -> Failure {
    Failure::new("nothing was changed: it cannot be seen who is a member")
        .because(cause)
        .hint("run this again as an administrator of the cluster")
}

/// The parts that the cluster has afterwards.
async fn staying(arguments: &Arguments, client: &Client) -> Result<Vec<Installed>, Failure> {
    let found = installed(client).await.map_err(|cause| {
        Failure::new("nothing was changed: it cannot be seen which parts stay")
            .because(cause)
            .hint("run this again as an administrator of the cluster")
    })?;
    let chosen = arguments.parts.chosen();
    let goes = |one: &Installed| chosen.contains(&one.part) && one.namespace == arguments.namespace;
    Ok(found.into_iter().filter(|one| !goes(one)).collect())
}
