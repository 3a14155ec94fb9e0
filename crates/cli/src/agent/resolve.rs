//! From flags to what they mean: clients, and the agent's configuration.

use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{Api, Client};
use tombolo_agent::Config;
use tombolo_api::about::{CLUSTER_ID_PROPERTY, ClusterProperty};
use tombolo_api::service::IpFamily;
use tombolo_model::ClusterId;
use tombolo_model::address::Declared;

use super::Arguments;
use crate::connect::{connect_part, make_namespace};
use crate::failure::Failure;
use crate::membership::{Facts, parse};

/// Of the member and of the hub.
pub(super) async fn clients(arguments: &Arguments, facts: &Facts) -> Result<(Client, Client), Failure> {
    let member = arguments.way.connect_part("member").await?;
    // The way that was joined is for those who name none.
    let joined = facts.kubeconfig().filter(|_| arguments.hub_context.is_none());
    let file =
        arguments.hub_kubeconfig.as_deref().or(joined.as_deref()).or(arguments.way.kubeconfig.as_deref());
    let flags = "--hub-kubeconfig and --hub-context";
    let hub = connect_part("hub", flags, file, arguments.hub_context.as_deref()).await?;
    Ok((member, hub))
}

pub(super) async fn config(arguments: &Arguments, facts: &Facts) -> Result<Config, Failure> {
    check_spans(arguments)?;
    let member = &arguments.way.connect("member").await?;
    let cluster = match (&arguments.cluster_id, &facts.cluster_id) {
        (Some(given), _) => given.clone(),
        (None, Some(joined)) => parse(joined, "cluster-id")?,
        (None, None) => cluster_id(member).await?,
    };
    let identity = identity(member).await?;
    let ip_families = match (arguments.ip_families.as_slice(), facts.ip_families.as_slice()) {
        ([], []) => ip_families(member).await?,
        ([], joined) => joined.iter().map(|family| parse(family, "ip-families")).collect::<Result<_, _>>()?,
        (given, _) => given.to_vec(),
    };
    let pod_cidrs = if arguments.pod_cidrs.is_empty() { &facts.pod_cidrs } else { &arguments.pod_cidrs };
    let wrong = Declared::read(pod_cidrs).1;
    if let Some(wrong) = wrong.first() {
        return Err(Failure::new("--pod-cidr cannot be used")
            .because(wrong.problem.clone())
            .hint("write 10.1.0.0/16"));
    }
    make_namespace(member, "in the member", &arguments.namespace).await?;
    Ok(Config {
        pod_cidrs: pod_cidrs.clone(),
        region: arguments.region.clone().or_else(|| facts.region.clone()),
        ip_families,
        namespace: arguments.namespace.clone(),
        heartbeat: arguments.heartbeat,
        dead_after: arguments.dead_after,
        hold: arguments.hold,
        create_namespaces: arguments.create_namespaces,
        token_secret: arguments.renew_token_in.clone(),
        ..Config::new(cluster, identity)
    })
}

fn check_spans(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.heartbeat.is_zero() || arguments.dead_after <= arguments.heartbeat {
        return Err(Failure::new("--heartbeat must be more than 0 and less than --dead-after")
            .hint("several heartbeats should fit into --dead-after, so that one lost is no death"));
    }
    Ok(())
}

/// The id that the cluster states about itself (KEP-2149).
async fn cluster_id(member: &Client) -> Result<ClusterId, Failure> {
    let what = format!("the cluster has no id: ClusterProperty {CLUSTER_ID_PROPERTY}");
    let hint = "create it, or give the id with --cluster-id";
    let api: Api<ClusterProperty> = Api::all(member.clone());
    let found = api.get_opt(CLUSTER_ID_PROPERTY).await;
    let found =
        found.map_err(|cause| Failure::new(format!("{what} cannot be read")).because(cause).hint(hint))?;
    let Some(property) = found else { return Err(Failure::new(format!("{what} is not there")).hint(hint)) };
    let id = property.spec.value.parse();
    id.map_err(|cause| Failure::new(format!("{what} is of no use")).because(cause).hint(hint))
}

/// What tells the cluster from every other: the UID of a namespace that is made once and never deleted.
async fn identity(member: &Client) -> Result<String, Failure> {
    let found = Api::<Namespace>::all(member.clone()).get("kube-system").await;
    let found = found.map_err(|cause| cannot_read("namespace kube-system").because(cause))?;
    found.metadata.uid.ok_or_else(|| cannot_read("the UID of namespace kube-system"))
}

async fn ip_families(member: &Client) -> Result<Vec<IpFamily>, Failure> {
    let found = Api::<Service>::namespaced(member.clone(), "default").get("kubernetes").await;
    let found = found.map_err(|cause| cannot_read("Service default/kubernetes").because(cause))?;
    let given = found.spec.and_then(|spec| spec.ip_families).unwrap_or_default();
    let families: Vec<IpFamily> = given.iter().filter_map(|family| family.parse().ok()).collect();
    Ok(if families.is_empty() { vec![IpFamily::V4] } else { families })
}

fn cannot_read(what: &str) -> Failure {
    Failure::new(format!("cannot read {what} of the member"))
        .hint("see --kubeconfig and --context, and deploy/member/agent-rbac.yaml for what the agent must be allowed")
}
