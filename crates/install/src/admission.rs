//! Whether a cluster can join: names, clocks, addresses, versions. Pure.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use kube::ResourceExt as _;
use tombolo_api::crd::OLDEST_KUBERNETES;
use tombolo_api::tombolo::MEMBER_LABEL;
use tombolo_model::names;

use crate::definitions::{definitions, served};
use crate::inspect::{ClusterSeen, HubSeen, MemberAtHub, Server};
use crate::membership::Membership;
use crate::part::Part;

/// Clocks that differ by more make times in conditions hard to read.
const NOTICEABLE: f64 = 5.0;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Why the cluster cannot join, each with what to do.
    pub problems: Vec<String>,
    /// What it should know.
    pub doubts: Vec<String>,
}

/// Looks at everything that `membership` says, and at both sides.
pub fn examine(
    membership: &Membership,
    hub: &HubSeen,
    cluster: &ClusterSeen,
    most_apart: Duration,
) -> Findings {
    let mut findings = Findings::default();
    findings.names(membership, hub, cluster);
    findings.clocks(&hub.server, &cluster.server, most_apart);
    findings.addresses(membership, hub, cluster);
    findings.versions(hub, cluster);
    findings
}

impl Findings {
    fn problem(&mut self, what: impl Into<String>) {
        self.problems.push(what.into());
    }

    fn doubt(&mut self, what: impl Into<String>) {
        self.doubts.push(what.into());
    }

    fn names(&mut self, membership: &Membership, hub: &HubSeen, cluster: &ClusterSeen) {
        let (name, namespace) = (membership.cluster.as_str(), names::hub_namespace(&membership.cluster));
        if namespace == membership.namespace || namespace == "tombolo-system" {
            self.problem(format!(
                "its namespace at the hub would be {namespace}, which is taken: choose another name"
            ));
        } else if hub.strangers.contains(&namespace) {
            self.problem(format!(
                "namespace {namespace} at the hub is taken, and not by {name}: choose another name, or, if it was made for \
                 this member, `kubectl label namespace {namespace} {MEMBER_LABEL}={name}` there"
            ));
        }
        if let Some(id) = cluster.id.as_deref().filter(|id| *id != name) {
            self.problem(format!("the cluster calls itself {id}: join as that, or `tombolo leave` first"));
        }
        if let Some(set) = cluster.set.as_deref().filter(|set| *set != membership.cluster_set) {
            self.problem(format!(
                "the cluster is a member of the set {set}: join with `--cluster-set {set}`, or `tombolo leave` first"
            ));
        }
        if cluster.hub.as_ref().is_some_and(|known| *known != hub.server.identity) {
            self.doubt("the cluster was a member at another hub, which still has a place for it");
        }
        let identity = &cluster.server.identity;
        for member in &hub.members {
            let same_name = member.cluster == name || member.namespace == namespace;
            if same_name && !member.identity.is_empty() && member.identity != *identity {
                self.problem(format!(
                    "another cluster is {name} at this hub: choose another name, or, if it is gone for good, \
                     `tombolo leave --force --name {name}`"
                ));
            }
            if !same_name && member.identity == *identity {
                let other = &member.cluster;
                self.problem(format!(
                    "the cluster is a member already, as {other}: `tombolo leave --name {other}` first"
                ));
            }
        }
    }

    fn clocks(&mut self, hub: &Server, cluster: &Server, most: Duration) {
        let (Some(hub), Some(cluster)) = (hub.ahead, cluster.ahead) else {
            return self.doubt("an API server does not tell the time, so the clocks were not compared");
        };
        let apart = (hub - cluster).abs();
        if apart > most.as_secs_f64() {
            self.problem(format!(
                "the clocks of hub and cluster are {apart:.0} s apart: run NTP, or allow it with --clock-skew"
            ));
        } else if apart > NOTICEABLE {
            self.doubt(format!("the clocks of hub and cluster are {apart:.0} s apart"));
        }
    }

    fn addresses(&mut self, membership: &Membership, hub: &HubSeen, cluster: &ClusterSeen) {
        let server = &membership.hub.server;
        if is_loopback(server) {
            self.doubt(format!(
                "{server} leads a pod to itself and not to the hub: say with --hub-server where pods reach it"
            ));
        }
        let mut own: Vec<IpNet> = Vec::new();
        for text in &membership.pod_cidrs {
            match text.parse() {
                Ok(range) => own.push(range),
                Err(_) => {
                    self.problem(format!("--pod-cidr {text} is no range of addresses: write 10.1.0.0/16"))
                }
            }
        }
        if membership.pod_cidrs.is_empty() {
            self.doubt("without --pod-cidr other clusters believe any address of its endpoints");
        }
        let (identity, namespace) = (&cluster.server.identity, names::hub_namespace(&membership.cluster));
        let is_self = |member: &MemberAtHub| {
            member.identity == *identity || member.identity.is_empty() && member.namespace == namespace
        };
        let others = hub.members.iter().filter(|member| !is_self(member));
        for (member, text) in
            others.flat_map(|member| member.pod_cidrs.iter().map(move |text| (member, text)))
        {
            let Ok(range) = text.parse::<IpNet>() else { continue };
            for mine in own.iter().filter(|mine| overlap(mine, &range)) {
                let other = &member.cluster;
                self.problem(format!(
                    "{mine} overlaps {range} of {other}: pods of both could not be told apart"
                ));
            }
        }
        let outside = |text: &&String| {
            text.parse::<IpNet>().is_ok_and(|node| !own.iter().any(|range| range.contains(&node)))
        };
        if let Some(node) = cluster.node_cidrs.iter().filter(|_| !own.is_empty()).find(outside) {
            self.doubt(format!(
                "a node has its pods in {node}, outside of --pod-cidr: their endpoints are not offered"
            ));
        }
    }

    fn versions(&mut self, hub: &HubSeen, cluster: &ClusterSeen) {
        for (whose, server) in [("hub", &hub.server), ("cluster", &cluster.server)] {
            let version = &server.version;
            if numbers(version).is_some_and(|numbers| numbers < OLDEST_KUBERNETES) {
                let (major, minor) = OLDEST_KUBERNETES;
                self.problem(format!(
                    "Kubernetes {version} of the {whose} is too old: {major}.{minor} or later is needed"
                ));
            }
        }
        let needed = [("hub", &hub.server, Part::Hub), ("cluster", &cluster.server, Part::Member)];
        for (whose, server, part) in needed {
            let missing = missing(server, part);
            if !missing.is_empty() {
                let flag = if part == Part::Hub { "hub" } else { "member" };
                let list = missing.join(", ");
                self.problem(format!("the {whose} lacks {list}: `tombolo install --{flag}` there first"));
            }
        }
        let own = env!("CARGO_PKG_VERSION");
        for member in &hub.members {
            let Some(version) = &member.agent_version else { continue };
            if !go_together(own, version) {
                let other = &member.cluster;
                self.problem(format!("the agent of {other} is version {version}, this program {own}: update the older one, one minor version at a time"));
            }
        }
    }
}

fn missing(server: &Server, part: Part) -> Vec<String> {
    let needed = definitions(&[part]).into_iter().filter(|one| match part {
        // Only MultiClusterServices need the rest.
        Part::Hub => one.spec.group == "tombolo.dev",
        _ => true,
    });
    let is_missing = |name: &str, versions| {
        server.kinds.get(name).is_none_or(|found| !std::collections::BTreeSet::is_subset(&versions, found))
    };
    needed.filter(|one| is_missing(&one.name_any(), served(one))).map(|one| one.name_any()).collect()
}

/// Whether an address means the computer of whoever uses it.
fn is_loopback(server: &str) -> bool {
    let Ok(address) = server.parse::<http::Uri>() else { return false };
    let host = address.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    host == "localhost" || host.ends_with(".localhost") || host.parse().is_ok_and(is_local)
}

fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(b) || b.contains(a)
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim_start_matches('v').split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Neighbouring minor versions work together; what cannot be read is not held against anybody.
fn go_together(a: &str, b: &str) -> bool {
    let (Some(a), Some(b)) = (numbers(a), numbers(b)) else { return true };
    a.0 == b.0 && a.1.abs_diff(b.1) <= 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::HubAddress;

    fn server(identity: &str, part: Part) -> Server {
        Server {
            version: "v1.34.1".into(),
            ahead: Some(0.4),
            kinds: definitions(&[part]).iter().map(|one| (one.name_any(), served(one))).collect(),
            identity: identity.into(),
        }
    }

    fn membership(name: &str, cidrs: &[&str]) -> Membership {
        Membership {
            namespace: "tombolo-system".into(),
            cluster: name.parse().unwrap(),
            pod_cidrs: cidrs.iter().map(|text| (*text).to_owned()).collect(),
            region: None,
            ip_families: Vec::new(),
            cluster_set: "test".into(),
            hub: HubAddress { server: "https://hub".into(), authority: None, server_name: None },
        }
    }

    struct Case {
        membership: Membership,
        hub: HubSeen,
        cluster: ClusterSeen,
    }

    fn usual() -> Case {
        let other = MemberAtHub {
            namespace: "tombolo-b".into(),
            cluster: "b".into(),
            identity: "uid-b".into(),
            pod_cidrs: vec!["10.2.0.0/16".into()],
            agent_version: Some(env!("CARGO_PKG_VERSION").into()),
        };
        Case {
            membership: membership("a", &["10.1.0.0/16"]),
            hub: HubSeen {
                server: server("uid-hub", Part::Hub),
                members: vec![other],
                strangers: ["tombolo-system".to_owned(), "tombolo-hub".to_owned()].into(),
            },
            cluster: ClusterSeen {
                server: server("uid-a", Part::Member),
                id: None,
                set: None,
                is_member: false,
                hub: None,
                node_cidrs: vec!["10.1.3.0/24".into()],
            },
        }
    }

    fn found(change: impl FnOnce(&mut Case)) -> Findings {
        let mut case = usual();
        change(&mut case);
        examine(&case.membership, &case.hub, &case.cluster, Duration::from_secs(60))
    }

    #[test]
    fn a_cluster_that_fits_has_nothing_to_answer_for() {
        assert_eq!(found(|_| {}), Findings::default());
        let again = found(|case| {
            (case.cluster.id, case.cluster.set) = (Some("a".into()), Some("test".into()));
            case.hub.members[0].cluster = "a".into();
            case.hub.members[0].namespace = "tombolo-a".into();
            case.hub.members[0].identity = "uid-a".into();
            case.hub.members[0].pod_cidrs = vec!["10.1.0.0/16".into()];
        });
        assert_eq!(again, Findings::default(), "who joined may join again");
        let prepared = found(|case| {
            case.hub.members[0] = MemberAtHub {
                namespace: "tombolo-a".into(),
                cluster: "a".into(),
                pod_cidrs: vec!["10.1.0.0/16".into()],
                ..MemberAtHub::default()
            };
        });
        assert_eq!(prepared, Findings::default(), "a place that was made for it waits");
    }

    #[test]
    fn each_thing_that_is_wrong_is_one_problem() {
        type Change = fn(&mut Case);
        let cases: [(&str, Change); 16] = [
            ("taken", |case| case.membership.cluster = "system".parse().unwrap()),
            ("taken, and not by hub", |case| case.membership.cluster = "hub".parse().unwrap()),
            ("calls itself z", |case| case.cluster.id = Some("z".into())),
            ("--cluster-set another", |case| case.cluster.set = Some("another".into())),
            ("another cluster is a", |case| {
                case.hub.members[0].cluster = "a".into();
                case.hub.members[0].namespace = "tombolo-a".into();
            }),
            ("already, as b", |case| case.hub.members[0].identity = "uid-a".into()),
            ("120 s apart", |case| case.hub.server.ahead = Some(120.4)),
            ("120 s apart", |case| case.cluster.server.ahead = Some(120.4)),
            ("no range", |case| case.membership.pod_cidrs.push("10.1.0.0".into())),
            ("overlaps 10.2.0.0/16 of b", |case| case.membership.pod_cidrs.push("10.0.0.0/8".into())),
            ("overlaps 10.2.0.0/16 of b", |case| case.membership.pod_cidrs.push("10.2.9.0/24".into())),
            ("too old: 1.31 or later", |case| case.cluster.server.version = "v1.30.9".into()),
            ("too old", |case| case.hub.server.version = "v1.30.9".into()),
            ("tombolo install --hub", |case| drop(case.hub.server.kinds.remove("memberships.tombolo.dev"))),
            ("tombolo install --member", |case| {
                case.cluster.server.kinds.insert("serviceimports.multicluster.x-k8s.io".into(), [].into());
            }),
            ("update the older", |case| case.hub.members[0].agent_version = Some("0.9.0".into())),
        ];
        for (expected, change) in cases {
            let found = found(change);
            assert_eq!(found.problems.len(), 1, "{expected}: {found:?}");
            assert!(found.problems[0].contains(expected), "{expected}: {found:?}");
        }
    }

    #[test]
    fn what_may_be_meant_so_is_only_said() {
        type Change = fn(&mut Case);
        let cases: [(&str, Change); 9] = [
            ("leads a pod to itself", |case| case.membership.hub.server = "https://127.0.0.1:6443".into()),
            ("leads a pod to itself", |case| case.membership.hub.server = "https://[::1]:6443".into()),
            ("leads a pod to itself", |case| case.membership.hub.server = "https://localhost:6443".into()),
            ("leads a pod to itself", |case| case.membership.hub.server = "https://0.0.0.0:6443".into()),
            ("at another hub", |case| case.cluster.hub = Some("uid-other".into())),
            ("without --pod-cidr", |case| case.membership.pod_cidrs.clear()),
            ("outside of --pod-cidr", |case| case.cluster.node_cidrs.push("10.9.0.0/24".into())),
            ("10 s apart", |case| case.hub.server.ahead = Some(10.4)),
            ("not compared", |case| case.hub.server.ahead = None),
        ];
        for (expected, change) in cases {
            let found = found(change);
            assert_eq!((found.problems.len(), found.doubts.len()), (0, 1), "{expected}: {found:?}");
            assert!(found.doubts[0].contains(expected), "{found:?}");
        }
    }

    #[test]
    fn neighbouring_versions_go_together() {
        let cases = [
            ("0.1.0", "0.2.3", true),
            ("0.1.0", "0.3.0", false),
            ("1.0.0", "2.0.0", false),
            ("0.1.0", "dev", true),
        ];
        for (a, b, expected) in cases {
            assert_eq!(go_together(a, b), expected, "{a} {b}");
            assert_eq!(go_together(b, a), expected, "{b} {a}");
        }
    }
}
