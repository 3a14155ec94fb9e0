//! Asks the hub and all members at once, each for as long as it may take.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::ListParams;
use kube::{Api, Client, Error, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tombolo_api::about::{CLUSTER_ID_PROPERTY, ClusterProperty};
use tombolo_api::karmada::networking::NAMESPACE_LABEL;
use tombolo_api::karmada::work::Work;
use tombolo_api::tombolo::{MEMBER_LABEL, OFFER_LABEL};
use tombolo_runtime::is_not_found;

use super::{HubFacts, HubSeen, MemberFacts, MemberSeen, Place, Places, Scope, Seen, Survey};

/// The name of a member's heartbeat in its namespace at the hub, and of the leases of sources in a member.
const HEARTBEAT: &str = "metadata.name=heartbeat";
const SOURCE_LEASE_PREFIX: &str = "tombolo-source.";

/// Looks everywhere at once.
pub(crate) async fn survey(places: &Places, scope: &Scope) -> Survey {
    let hub = look(&places.hub, places.timeout, |client| hub(client, scope));
    let members = places.others.iter().map(|place| async move {
        (place.context.clone(), look(place, places.timeout, |client| member(client, scope)).await)
    });
    let (hub, members) = tokio::join!(hub, join_all(members));
    assemble(HubSeen { context: places.hub.context.clone(), facts: hub }, members, places.named)
}

/// A cluster with an id of its own, if it states one.
type Found = (Option<String>, MemberFacts);

/// Puts together what the hub tells of members and what they tell themselves.
fn assemble(hub: HubSeen, found: Vec<(String, Seen<Found>)>, named: bool) -> Survey {
    let known: Vec<String> = match &hub.facts {
        Ok(facts) => facts.memberships.iter().map(|membership| membership.spec.cluster.clone()).collect(),
        Err(_) => Vec::new(),
    };
    let (mut members, mut others, mut silent) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (context, found) in found {
        let (id, facts) = match found {
            Ok((Some(id), facts)) if named || hub.facts.is_err() || known.contains(&id) => (id, Ok(facts)),
            Ok((Some(id), _)) => {
                others.push((context, format!("its cluster {id} has not joined the hub")));
                continue;
            }
            Ok((None, _)) if !named => {
                others.push((context, "its cluster states no id".to_owned()));
                continue;
            }
            Ok((None, facts)) => (context.clone(), Ok(facts)),
            // Usually contexts are called like their clusters.
            Err(why) if named || known.contains(&context) => (context.clone(), Err(why)),
            Err(why) => {
                silent.push(format!("{context}: {why}"));
                others.push((context, why));
                continue;
            }
        };
        members.insert(id.clone(), MemberSeen { id, context: Some(context), facts });
    }
    // A context that does not answer may be anybody's.
    let no_way = match silent.as_slice() {
        [] => "the kubeconfig has no context for it".to_owned(),
        silent => format!("no context that answers is its; {}", silent.join("; ")),
    };
    for id in known {
        let facts = Err(no_way.clone());
        members.entry(id.clone()).or_insert(MemberSeen { id, context: None, facts });
    }
    Survey { now: Timestamp::now(), hub, members: members.into_values().collect(), others }
}

async fn look<'a, T, F>(place: &'a Place, timeout: Duration, ask: impl FnOnce(&'a Client) -> F) -> Seen<T>
where
    F: Future<Output = Result<T, Error>> + 'a,
{
    let client = place.client.as_ref().map_err(Clone::clone)?;
    match tokio::time::timeout(timeout, ask(client)).await {
        Ok(answer) => answer.map_err(|error| tell(&error)),
        Err(_) => Err(format!("it did not answer within {} s", timeout.as_secs_f32())),
    }
}

/// What went wrong, as far as a person can do something about it.
fn tell(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

async fn hub(client: &Client, scope: &Scope) -> Result<HubFacts, Error> {
    let heartbeats = Api::<Lease>::all(client.clone());
    let offered = ListParams::default().labels(OFFER_LABEL);
    let slices = Api::<EndpointSlice>::all(client.clone());
    let namespaces = Api::<Namespace>::all(client.clone());
    let (memberships, places, beats, offers, slices, clusters, shared) = tokio::try_join!(
        list(Api::all(client.clone())),
        async { namespaces.list(&ListParams::default().labels(MEMBER_LABEL)).await },
        async { heartbeats.list(&ListParams::default().fields(HEARTBEAT)).await },
        list(Api::all(client.clone())),
        async { slices.list(&offered).await },
        list(Api::all(client.clone())),
        list(within(client, scope)),
    )?;
    let (services, works) = shared_in(client, scope).await?;
    let by_namespace = |lease: Lease| (lease.namespace().unwrap_or_default(), lease);
    Ok(HubFacts {
        memberships,
        places: places.items,
        heartbeats: beats.items.into_iter().map(by_namespace).collect(),
        offers,
        slices: slices.items,
        clusters,
        multi_cluster_services: shared,
        services,
        works,
    })
}

/// What MultiClusterServices of one namespace share, with the Works that carry it.
async fn shared_in(client: &Client, scope: &Scope) -> Result<(Vec<Service>, Vec<Work>), Error> {
    let Scope::Namespace(namespace) = scope else { return Ok(Default::default()) };
    let works = Api::<Work>::all(client.clone());
    let carrying = ListParams::default().labels(&format!("{NAMESPACE_LABEL}={namespace}"));
    tokio::try_join!(list(within(client, scope)), async {
        unless_unknown(works.list(&carrying).await.map(Some)).map(|found| found.map(|list| list.items))
    })
    .map(|(services, works)| (services, works.unwrap_or_default()))
}

async fn member(client: &Client, scope: &Scope) -> Result<Found, Error> {
    let properties = Api::<ClusterProperty>::all(client.clone());
    let (property, namespaces, nodes, services, slices) = tokio::try_join!(
        async { unless_unknown(properties.get_opt(CLUSTER_ID_PROPERTY).await) },
        list(cluster_wide(client)),
        list(cluster_wide(client)),
        list(within(client, scope)),
        list(within(client, scope)),
    )?;
    let (kep_exports, mcs_exports, kep_imports, mcs_imports, leases) = tokio::try_join!(
        list(within(client, scope)),
        list(within(client, scope)),
        list(within(client, scope)),
        list(within(client, scope)),
        list(Api::<Lease>::all(client.clone())),
    )?;
    let is_source = |lease: &Lease| lease.name_any().starts_with(SOURCE_LEASE_PREFIX);
    let source_leases = leases.into_iter().filter(is_source).collect();
    let facts = MemberFacts {
        namespaces,
        nodes,
        services,
        slices,
        kep_exports,
        mcs_exports,
        kep_imports,
        mcs_imports,
        source_leases,
    };
    Ok((property.map(|property| property.spec.value), facts))
}

fn within<K>(client: &Client, scope: &Scope) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match scope {
        Scope::Everything => Api::all(client.clone()),
        Scope::Namespace(name) => Api::namespaced(client.clone(), name),
    }
}

fn cluster_wide<K: Resource<DynamicType = (), Scope = ClusterResourceScope>>(client: &Client) -> Api<K> {
    Api::all(client.clone())
}

/// All objects of a kind; none where the kind itself is not known.
async fn list<K: Clone + Debug + DeserializeOwned>(api: Api<K>) -> Result<Vec<K>, Error> {
    match api.list(&ListParams::default()).await {
        Err(error) if is_not_found(&error) => Ok(Vec::new()),
        found => found.map(|list| list.items),
    }
}

fn unless_unknown<K>(found: Result<Option<K>, Error>) -> Result<Option<K>, Error> {
    match found {
        Err(error) if is_not_found(&error) => Ok(None),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use tombolo_api::tombolo::{Membership, MembershipSpec};

    use super::*;

    fn hub(members: &[&str]) -> HubSeen {
        let membership = |id: &&str| {
            Membership::new("member", MembershipSpec { cluster: (*id).to_owned(), ..Default::default() })
        };
        let memberships = members.iter().map(membership).collect();
        HubSeen { context: "hub".into(), facts: Ok(HubFacts { memberships, ..HubFacts::default() }) }
    }

    fn found(id: Option<&str>) -> Seen<Found> {
        Ok((id.map(str::to_owned), MemberFacts::default()))
    }

    fn seen(survey: &Survey) -> Vec<(&str, Option<&str>, bool)> {
        let member = |member: &MemberSeen| {
            let member = (member.id.clone(), member.context.clone(), member.facts.is_ok());
            (member.0.leak() as &str, member.1.map(|name| name.leak() as &str), member.2)
        };
        survey.members.iter().map(member).collect()
    }

    #[test]
    fn members_are_whom_the_hub_knows_and_strangers_are_left_out_with_a_reason() {
        let contexts = vec![
            ("hub".to_owned(), found(None)),
            ("east".to_owned(), found(Some("one"))),
            ("work".to_owned(), found(Some("elsewhere"))),
            ("two".to_owned(), Err("refused".to_owned())),
            ("dead".to_owned(), Err("refused".to_owned())),
        ];
        let survey = assemble(hub(&["one", "two", "three"]), contexts, false);
        let expected = [("one", Some("east"), true), ("three", None, false), ("two", Some("two"), false)];
        assert_eq!(seen(&survey), expected);
        let others: Vec<&str> = survey.others.iter().map(|(context, _)| context.as_str()).collect();
        assert_eq!(others, ["hub", "work", "dead"]);
    }

    #[test]
    fn a_member_without_a_context_may_be_behind_one_that_does_not_answer() {
        let why = |contexts| {
            let survey = assemble(hub(&["east"]), contexts, false);
            survey.members.into_iter().find_map(|member| member.facts.err()).unwrap()
        };
        assert_eq!(why(vec![("hub".to_owned(), found(None))]), "the kubeconfig has no context for it");
        let down = vec![("hub".to_owned(), found(None)), ("kind-east".to_owned(), Err("refused".to_owned()))];
        assert_eq!(why(down), "no context that answers is its; kind-east: refused");
    }

    #[test]
    fn who_was_named_is_never_left_out() {
        let contexts = vec![
            ("a".to_owned(), found(None)),
            ("b".to_owned(), found(Some("stranger"))),
            ("c".to_owned(), Err("refused".to_owned())),
        ];
        let survey = assemble(hub(&[]), contexts, true);
        let expected = [("a", Some("a"), true), ("c", Some("c"), false), ("stranger", Some("b"), true)];
        assert_eq!(seen(&survey), expected);
        assert!(survey.others.is_empty());
    }
}
