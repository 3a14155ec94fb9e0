//! What whoever joins asks for, and what a member keeps that joins once more. Pure.
//!
//! Joining again is the answer to much: a token that ran out, another authority of the hub. Whoever does it names the cluster and
//! the hub, and thinks of neither addresses nor families. What is not said this time therefore stays as it was, and that it stays is
//! told; taking something away has to be said.

use std::collections::BTreeMap;

use kube::config::Kubeconfig;
use tombolo_model::ClusterId;

use crate::inspect::{ClusterSeen, HubSeen};
use crate::membership::{
    FAMILIES_KEY, HubAddress, ID_KEY, KUBECONFIG_KEY, Membership, POD_CIDRS_KEY, REGION_KEY,
};

/// What is asked for. What is `None` was not said.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Where the agent runs.
    pub namespace: String,
    pub cluster: ClusterId,
    /// An empty list takes it away.
    pub pod_cidrs: Option<Vec<String>>,
    /// An empty one takes it away.
    pub region: Option<String>,
    pub ip_families: Option<Vec<String>>,
    pub cluster_set: String,
    /// The hub as whoever joins reaches it.
    pub hub: HubAddress,
    /// Where pods reach it.
    pub hub_server: Option<String>,
}

/// What holds from when the cluster joined before.
#[derive(Debug, Default)]
struct Before {
    pod_cidrs: Vec<String>,
    region: Option<String>,
    ip_families: Vec<String>,
    hub_server: Option<String>,
}

impl Wish {
    /// The membership where nobody was asked whether there is one already.
    pub fn alone(&self) -> Membership {
        self.after(Before::default())
    }

    /// The membership with what stays, and what that is, in the words of the command line.
    pub fn again(&self, hub: &HubSeen, cluster: &ClusterSeen) -> (Membership, Vec<String>) {
        let membership = self.after(Before::of(self.cluster.as_str(), hub, cluster));
        let mut kept = Vec::new();
        let mut tell = |was_said: bool, flag: &str, value: &str| {
            if !was_said && !value.is_empty() {
                kept.push(format!("as before: --{flag} {value}"));
            }
        };
        tell(self.pod_cidrs.is_some(), "pod-cidr", &membership.pod_cidrs.join(","));
        tell(self.region.is_some(), "region", membership.region.as_deref().unwrap_or_default());
        tell(self.ip_families.is_some(), "ip-family", &membership.ip_families.join(","));
        let (here, there) = (&self.hub.server, &membership.hub.server);
        if self.hub_server.is_none() && here != there {
            kept.push(format!("as before: --hub-server {there}; the kubeconfig has {here}"));
        }
        (membership, kept)
    }

    fn after(&self, before: Before) -> Membership {
        let mut hub = self.hub.clone();
        if let Some(server) = self.hub_server.clone().or(before.hub_server) {
            hub.server = server;
        }
        Membership {
            namespace: self.namespace.clone(),
            cluster: self.cluster.clone(),
            pod_cidrs: self.pod_cidrs.clone().unwrap_or(before.pod_cidrs),
            region: self.region.clone().or(before.region).filter(|region| !region.is_empty()),
            ip_families: self.ip_families.clone().unwrap_or(before.ip_families),
            cluster_set: self.cluster_set.clone(),
            hub,
        }
    }
}

impl Before {
    fn of(name: &str, hub: &HubSeen, cluster: &ClusterSeen) -> Self {
        let place = hub.members.iter().find(|member| member.cluster == name);
        let introduced = place.map(|member| member.introduced.pod_cidrs.clone()).unwrap_or_default();
        let facts = &cluster.facts;
        if facts.get(ID_KEY).is_none_or(|id| id != name) {
            return Self { pod_cidrs: introduced, ..Self::default() };
        }
        // What an administrator wrote at the hub counts more than what the cluster has of it.
        let pod_cidrs = if introduced.is_empty() { list(facts, POD_CIDRS_KEY) } else { introduced };
        let is_same_hub = cluster.hub.as_ref().is_none_or(|known| *known == hub.server.identity);
        Self {
            pod_cidrs,
            region: facts.get(REGION_KEY).cloned(),
            ip_families: list(facts, FAMILIES_KEY),
            hub_server: server(facts).filter(|_| is_same_hub),
        }
    }
}

fn list(facts: &BTreeMap<String, String>, key: &str) -> Vec<String> {
    let items = facts.get(key).into_iter().flat_map(|text| text.split(','));
    items.map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// Where the cluster's pods reach the hub.
fn server(facts: &BTreeMap<String, String>) -> Option<String> {
    let config = Kubeconfig::from_yaml(facts.get(KUBECONFIG_KEY)?).ok()?;
    config.clusters.into_iter().next()?.cluster?.server
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::{MemberAtHub, Server};
    use crate::place::Introduction;

    fn hub(server: &str) -> HubAddress {
        HubAddress { server: server.into(), authority: Some("bmV3".into()), server_name: None }
    }

    fn silent() -> Wish {
        Wish {
            namespace: "tombolo-system".into(),
            cluster: "a".parse().unwrap(),
            pod_cidrs: None,
            region: None,
            ip_families: None,
            cluster_set: "test".into(),
            hub: hub("https://here"),
            hub_server: None,
        }
    }

    fn talkative() -> Wish {
        Wish {
            pod_cidrs: Some(vec!["10.1.0.0/16".into(), "fd00:1::/48".into()]),
            region: Some("north".into()),
            ip_families: Some(vec!["IPv4".into(), "IPv6".into()]),
            hub_server: Some("https://there".into()),
            ..silent()
        }
    }

    fn at(identity: &str, introduced: &[&str]) -> HubSeen {
        let pod_cidrs = introduced.iter().map(|text| (*text).to_owned()).collect();
        let member = MemberAtHub {
            cluster: "a".into(),
            introduced: Introduction { identity: None, pod_cidrs },
            ..MemberAtHub::default()
        };
        let server = Server { identity: identity.into(), ..Server::default() };
        HubSeen { server, members: vec![member], ..HubSeen::default() }
    }

    /// A cluster that joined the hub `uid-hub` with that.
    fn joined(wish: &Wish) -> ClusterSeen {
        ClusterSeen { facts: wish.alone().facts(), hub: Some("uid-hub".into()), ..ClusterSeen::default() }
    }

    #[test]
    fn who_never_joined_gets_what_is_said_and_nothing_else() {
        for wish in [silent(), talkative()] {
            let (membership, kept) = wish.again(&HubSeen::default(), &ClusterSeen::default());
            assert_eq!((&membership, kept), (&wish.alone(), vec![]));
        }
    }

    #[test]
    fn what_is_not_said_again_stays_and_is_told() {
        let (membership, kept) = silent().again(&at("uid-hub", &[]), &joined(&talkative()));
        assert_eq!(membership, talkative().alone());
        assert_eq!(
            kept,
            [
                "as before: --pod-cidr 10.1.0.0/16,fd00:1::/48",
                "as before: --region north",
                "as before: --ip-family IPv4,IPv6",
                "as before: --hub-server https://there; the kubeconfig has https://here",
            ]
        );
    }

    #[test]
    fn what_is_said_again_replaces_what_was_there_and_what_is_empty_takes_it_away() {
        let other = Wish {
            pod_cidrs: Some(vec!["10.9.0.0/16".into()]),
            region: Some("south".into()),
            ip_families: Some(vec!["IPv6".into()]),
            hub_server: Some("https://elsewhere".into()),
            ..silent()
        };
        let (membership, kept) = other.again(&at("uid-hub", &["10.1.0.0/16"]), &joined(&talkative()));
        assert_eq!((membership, kept), (other.alone(), vec![]));
        let less = Wish { pod_cidrs: Some(vec![]), region: Some(String::new()), ..talkative() };
        let (membership, _) = less.again(&at("uid-hub", &["10.1.0.0/16"]), &joined(&talkative()));
        assert_eq!((membership.pod_cidrs, membership.region), (vec![], None));
    }

    #[test]
    fn where_pods_are_is_what_the_place_at_the_hub_says_also_where_the_cluster_has_forgotten_it() {
        for cluster in [joined(&talkative()), ClusterSeen::default()] {
            let (membership, _) = silent().again(&at("uid-hub", &["10.3.0.0/16"]), &cluster);
            assert_eq!(membership.pod_cidrs, ["10.3.0.0/16"]);
        }
    }

    #[test]
    fn the_way_to_another_hub_and_what_another_member_was_told_do_not_stay() {
        let (membership, _) = silent().again(&at("uid-other", &[]), &joined(&talkative()));
        assert_eq!(membership.hub.server, "https://here");
        assert_eq!(membership.region.as_deref(), Some("north"), "that is no matter of the hub");
        let renamed = Wish { cluster: "b".parse().unwrap(), ..silent() };
        let (membership, kept) = renamed.again(&at("uid-hub", &["10.3.0.0/16"]), &joined(&talkative()));
        assert_eq!((membership, kept), (renamed.alone(), vec![]));
    }
}
