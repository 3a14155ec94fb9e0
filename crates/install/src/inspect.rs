//! What has to be known about a hub and a cluster before one joins the other.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, Error, ResourceExt as _};
use tombolo_api::about::{CLUSTER_ID_PROPERTY, CLUSTER_SET_PROPERTY, ClusterProperty};
use tombolo_api::tombolo::{HUB_NAMESPACE_PREFIX, Membership, STATEMENT};
use tombolo_model::origin;
use tombolo_runtime::is_absent;

use crate::apply::is_established;
use crate::installed::{Installed, installed};
use crate::membership::{CONFIG_MAP, HUB_ANNOTATION, HUB_SECRET, ID_KEY};
use crate::place::{self, Introduction};

/// An API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Server {
    pub version: String,
    /// How far its clock is ahead of this computer's, in seconds; it tells only whole ones.
    pub ahead: Option<f64>,
    /// The definitions that can be used, with the versions they serve.
    pub kinds: BTreeMap<String, BTreeSet<String>>,
    /// The parts that run there, whoever installed them.
    pub parts: Vec<Installed>,
    /// What tells the cluster from every other: the UID of its kube-system namespace.
    pub identity: String,
}

/// A hub, as far as somebody who joins is concerned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HubSeen {
    pub server: Server,
    pub members: Vec<MemberAtHub>,
    /// Namespaces that are called as a member's would be, and are none's place.
    pub strangers: BTreeSet<String>,
}

/// A member at the hub.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberAtHub {
    pub namespace: String,
    pub cluster: String,
    /// What its place says about it, which it cannot change.
    pub introduced: Introduction,
    /// The same as it says itself, true or not.
    pub stated: Introduction,
    /// What its agent says that it is.
    pub agent_version: Option<String>,
}

impl MemberAtHub {
    /// What tells its cluster from every other. Where its place was made from files and its agent has not run yet, nobody knows.
    pub fn identity(&self) -> Option<&str> {
        self.introduced.identity.as_deref().or(self.stated.identity.as_deref())
    }
}

/// A cluster that wants to join.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterSeen {
    pub server: Server,
    /// The id that it has already, as its property or, without one, what its agent reads says.
    pub id: Option<String>,
    /// What its agent reads about it, from when it joined.
    pub facts: BTreeMap<String, String>,
    /// The set that it is a member of.
    pub set: Option<String>,
    /// Whether it has a credential for a hub.
    pub is_member: bool,
    /// The hub that it is for, where that is known: whoever makes a credential by hand does not say it.
    pub hub: Option<String>,
    /// Where its nodes have their pods, as far as they say.
    pub node_cidrs: Vec<String>,
}

pub async fn inspect_hub(client: &Client) -> Result<HubSeen, Error> {
    let server = inspect(client).await?;
    let found = none_if_absent(Api::<Membership>::all(client.clone()).list(&ListParams::default()).await)?;
    let namespaces = Api::<Namespace>::all(client.clone()).list(&ListParams::default()).await?.items;
    let is_stranger =
        |one: &&Namespace| one.name_any().starts_with(HUB_NAMESPACE_PREFIX) && place::resident(one).is_none();
    let strangers = namespaces.iter().filter(is_stranger).map(|one| one.name_any()).collect();
    Ok(HubSeen { server, members: members(found.into_iter().flatten(), &namespaces), strangers })
}

/// Everybody who has a place or said something. A statement counts for no other cluster than that whose namespace it is in.
fn members(statements: impl Iterator<Item = Membership>, namespaces: &[Namespace]) -> Vec<MemberAtHub> {
    let is_own = |one: &Membership| one.name_any() == STATEMENT && origin::check_membership(one).is_ok();
    let stated = statements.filter(is_own).map(|one| MemberAtHub {
        namespace: one.namespace().unwrap_or_default(),
        cluster: one.spec.cluster,
        introduced: Introduction::default(),
        stated: Introduction {
            identity: Some(one.spec.identity).filter(|identity| !identity.is_empty()),
            pod_cidrs: one.spec.pod_cidrs,
        },
        agent_version: one.status.and_then(|status| status.agent_version),
    });
    let mut members: BTreeMap<String, MemberAtHub> = stated.map(|one| (one.namespace.clone(), one)).collect();
    for namespace in namespaces {
        let Some(resident) = place::resident(namespace) else { continue };
        let name = namespace.name_any();
        let member = members.entry(name.clone()).or_default();
        (member.namespace, member.cluster) = (name, resident.to_string());
        member.introduced = Introduction::read(namespace);
    }
    members.into_values().collect()
}

/// Looks at a cluster whose agents run, or will run, in `namespace`.
pub async fn inspect_cluster(client: &Client, namespace: &str) -> Result<ClusterSeen, Error> {
    let server = inspect(client).await?;
    let credential = Api::<Secret>::namespaced(client.clone(), namespace).get_opt(HUB_SECRET).await?;
    let is_member = credential.is_some();
    let hub = credential.and_then(|found| found.metadata.annotations?.remove(HUB_ANNOTATION));
    let facts = Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(CONFIG_MAP).await?;
    let facts = facts.and_then(|facts| facts.data).unwrap_or_default();
    let id = property(client, CLUSTER_ID_PROPERTY).await?.or_else(|| facts.get(ID_KEY).cloned());
    let set = property(client, CLUSTER_SET_PROPERTY).await?;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items;
    let ranges = nodes.into_iter().filter_map(|node| node.spec?.pod_cidrs).flatten();
    Ok(ClusterSeen { server, id, facts, set, is_member, hub, node_cidrs: ranges.collect() })
}

/// What the cluster says about itself under a name.
async fn property(client: &Client, name: &str) -> Result<Option<String>, Error> {
    let found = none_if_absent(Api::<ClusterProperty>::all(client.clone()).get(name).await)?;
    Ok(found.map(|property| property.spec.value))
}

async fn inspect(client: &Client) -> Result<Server, Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let kinds = definitions.list(&ListParams::default()).await?.items;
    let kinds = kinds.iter().filter(|one| is_established(one)).map(|one| {
        let served = one.spec.versions.iter().filter(|version| version.served);
        (one.name_any(), served.map(|version| version.name.clone()).collect())
    });
    let system = Api::<Namespace>::all(client.clone()).get("kube-system").await?;
    Ok(Server {
        version: client.apiserver_version().await?.git_version,
        ahead: clock(client).await?,
        kinds: kinds.collect(),
        parts: installed(client).await?,
        identity: system.uid().unwrap_or_default(),
    })
}

/// Seconds by which the server's clock is ahead, from the date of an answer.
async fn clock(client: &Client) -> Result<Option<f64>, Error> {
    let request =
        http::Request::get("/version").body(kube::client::Body::empty()).map_err(Error::HttpError)?;
    let before = Timestamp::now();
    let answer = client.send(request).await?;
    let middle = before + Timestamp::now().duration_since(before) / 2;
    let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|text| jiff::fmt::rfc2822::parse(text).ok());
    Ok(date.map(|date| date.timestamp().duration_since(middle).as_secs_f64() + 0.5))
}

/// Nothing where there is none, or not even the kind.
fn none_if_absent<T>(outcome: Result<T, Error>) -> Result<Option<T>, Error> {
    match outcome {
        Err(error) if is_absent(&error) => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn statement(namespace: &str, cluster: &str, identity: &str, range: &str) -> Membership {
        let value = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Membership",
            "metadata": {"name": STATEMENT, "namespace": namespace},
            "spec": {"cluster": cluster, "identity": identity, "podCIDRs": [range]},
        });
        serde_json::from_value(value).unwrap()
    }

    fn namespace(name: &str, annotations: Value) -> Namespace {
        let member = name.trim_start_matches("tombolo-");
        let metadata =
            json!({"name": name, "labels": {"tombolo.dev/member": member}, "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    /// The only member: who it is, what its place says of it, and what it says itself.
    fn seen(statements: Vec<Membership>, annotations: Value) -> [String; 3] {
        let namespaces = [namespace("tombolo-a", annotations)];
        let mut members = members(statements.into_iter(), &namespaces);
        let one = members.pop().unwrap();
        assert!(members.is_empty(), "{members:?}");
        let words = |said: &Introduction| {
            format!("{} {}", said.identity.as_deref().unwrap_or("-"), said.pod_cidrs.join(","))
        };
        [one.cluster.clone(), words(&one.introduced), words(&one.stated)]
    }

    #[test]
    fn what_an_administrator_wrote_on_a_place_is_told_from_what_its_member_says() {
        let said = || vec![statement("tombolo-a", "a", "uid-b", "10.2.0.0/16")];
        let introduced = json!({"tombolo.dev/identity": "uid-a", "tombolo.dev/pod-cidrs": "10.1.0.0/16"});
        assert_eq!(seen(said(), introduced), ["a", "uid-a 10.1.0.0/16", "uid-b 10.2.0.0/16"]);
        let from_files = json!({"tombolo.dev/pod-cidrs": "10.1.0.0/16"});
        assert_eq!(seen(said(), from_files), ["a", "- 10.1.0.0/16", "uid-b 10.2.0.0/16"]);
        assert_eq!(seen(vec![], json!({})), ["a", "- ", "- "], "before its agent runs");
    }

    #[test]
    fn nobody_speaks_for_another_cluster() {
        let forged = statement("tombolo-a", "b", "uid-a", "10.2.0.0/16");
        assert_eq!(seen(vec![forged], json!({})), ["a", "- ", "- "]);
    }
}
