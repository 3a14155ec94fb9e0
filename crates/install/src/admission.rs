//! Whether a cluster can join: names, clocks, addresses, versions. Pure.
//!
//! Only an administrator's word keeps a cluster out: what a place says, or what is installed. What another member says about
//! itself may be anything, and is passed on as a doubt; or else each member could keep all others out.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use kube::ResourceExt as _;
use tombolo_api::crd::OLDEST_KUBERNETES;
use tombolo_api::tombolo::MEMBER_LABEL;
use tombolo_model::names;

use crate::definitions::{definitions, served};
use crate::inspect::{ClusterSeen, HubSeen, MemberAtHub, Server};
use crate::installed::Installed;
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

/// Looks at what `membership` says by itself: no cluster has to be asked for that.
pub fn examine_alone(membership: &Membership) -> Findings {
    let mut findings = Findings::default();
    if is_reserved(membership) {
        let namespace = names::hub_namespace(&membership.cluster);
        findings.problem(format!(
            "its namespace at the hub would be {namespace}, which is taken: choose another name"
        ));
    }
    let server = &membership.hub.server;
    if is_loopback(server) {
        findings.doubt(format!(
            "{server} leads a pod to itself and not to the hub: say with --hub-server where pods reach it"
        ));
    }
    for text in membership.pod_cidrs.iter().filter(|text| text.parse::<IpNet>().is_err()) {
        findings.problem(format!("--pod-cidr {text} is no range of addresses: write 10.1.0.0/16"));
    }
    if membership.pod_cidrs.is_empty() {
        findings.doubt("without --pod-cidr other clusters believe any address of its endpoints");
    }
    findings
}

/// Looks at everything that `membership` says, and at both sides.
pub fn examine(
    membership: &Membership,
    hub: &HubSeen,
    cluster: &ClusterSeen,
    most_apart: Duration,
) -> Findings {
    let mut findings = examine_alone(membership);
    findings.names(membership, hub, cluster);
    findings.clocks(&hub.server, &cluster.server, most_apart);
    findings.addresses(membership, hub, cluster);
    findings.servers(hub, cluster);
    findings.parts(membership, hub, cluster);
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
        if hub.strangers.contains(&namespace) && !is_reserved(membership) {
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
        let identity = cluster.server.identity.as_str();
        for member in &hub.members {
            let other = &member.cluster;
            if member.cluster == name || member.namespace == namespace {
                // Whoever speaks in the very place that is asked for has it, even if nobody else says so.
                if member.identity().is_some_and(|known| known != identity) {
                    self.problem(format!(
                        "another cluster is {name} at this hub: choose another name, or, if it is gone for good, \
                         `tombolo leave --force --name {name}` with the --hub-context of this hub"
                    ));
                }
            } else if member.introduced.identity.as_deref() == Some(identity) {
                self.problem(format!(
                    "the cluster is a member already, as {other}: `tombolo leave --name {other}` first"
                ));
            } else if member.identity() == Some(identity) {
                self.doubt(format!(
                    "{other} says that it is this very cluster, which nobody else does: if it is, `tombolo leave \
                     --name {other}`"
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
        let own = ranges(&membership.pod_cidrs);
        let identity = Some(&cluster.server.identity);
        let namespace = names::hub_namespace(&membership.cluster);
        let is_self = |member: &&MemberAtHub| {
            member.namespace == namespace || member.introduced.identity.as_ref() == identity
        };
        for member in hub.members.iter().filter(|member| !is_self(member)) {
            let (other, introduced) = (&member.cluster, ranges(&member.introduced.pod_cidrs));
            if let Some((mine, theirs)) = first_overlap(&own, &introduced) {
                self.problem(format!(
                    "{mine} overlaps {theirs} of {other}: pods of both could not be told apart"
                ));
            }
            let stated = ranges(&member.stated.pod_cidrs);
            if introduced.is_empty()
                && let Some((mine, theirs)) = first_overlap(&own, &stated)
            {
                self.doubt(format!(
                    "{mine} overlaps {theirs}, where {other} says that it has its pods, which nobody else does: pods of \
                     both could not be told apart"
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

    fn servers(&mut self, hub: &HubSeen, cluster: &ClusterSeen) {
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
    }

    fn parts(&mut self, membership: &Membership, hub: &HubSeen, cluster: &ClusterSeen) {
        let own = env!("CARGO_PKG_VERSION");
        let is_here = |one: &&Installed| one.namespace == membership.namespace;
        let agents = || cluster.server.parts.iter().filter(|one| one.part == Part::Member);
        match agents().next() {
            None => self.doubt("no agent is installed in the cluster: `tombolo install --member`"),
            Some(elsewhere) if !agents().any(|one| is_here(&one)) => {
                let (there, here) = (&elsewhere.namespace, &membership.namespace);
                self.problem(format!(
                    "the agent of the cluster is in {there}, not in {here}: join with `--namespace {there}`"
                ));
            }
            Some(_) => {}
        }
        let at_hub = hub.server.parts.iter().filter(|one| one.part == Part::Hub).map(|one| ("hub", one));
        let in_cluster = agents().filter(is_here).map(|one| ("cluster", one));
        for (whose, part) in at_hub.chain(in_cluster) {
            if let Some(version) = part.version.as_ref().filter(|version| !go_together(own, version)) {
                self.problem(format!(
                    "{part} of the {whose} is of version {version}, this program of {own}: update the older one, one minor \
                     version at a time"
                ));
            }
        }
        for member in &hub.members {
            if let Some(version) = member.agent_version.as_ref().filter(|version| !go_together(own, version))
            {
                let other = &member.cluster;
                self.doubt(format!(
                    "the agent of {other} says that it is of version {version:?}, this program is of {own}: update the older \
                     one, one minor version at a time"
                ));
            }
        }
    }
}

/// Whether the place of the member would be where something is installed.
fn is_reserved(membership: &Membership) -> bool {
    let namespace = names::hub_namespace(&membership.cluster);
    namespace == membership.namespace || namespace == "tombolo-system"
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

/// Those that are ranges.
fn ranges(texts: &[String]) -> Vec<IpNet> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

fn first_overlap<'a>(some: &'a [IpNet], others: &'a [IpNet]) -> Option<(&'a IpNet, &'a IpNet)> {
    let mut pairs = some.iter().flat_map(|a| others.iter().map(move |b| (a, b)));
    pairs.find(|(a, b)| a.contains(*b) || b.contains(*a))
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
    use std::collections::BTreeMap;

    use super::*;
    use crate::membership::HubAddress;
    use crate::place::Introduction;

    fn installed(part: Part, version: &str) -> Installed {
        Installed { part, namespace: "tombolo-system".into(), version: Some(version.into()) }
    }

    fn introduction(identity: &str, range: &str) -> Introduction {
        Introduction { identity: Some(identity.into()), pod_cidrs: vec![range.into()] }
    }

    fn server(identity: &str, part: Part) -> Server {
        Server {
            version: "v1.34.1".into(),
            ahead: Some(0.4),
            kinds: definitions(&[part]).iter().map(|one| (one.name_any(), served(one))).collect(),
            parts: vec![installed(part, env!("CARGO_PKG_VERSION"))],
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
            introduced: introduction("uid-b", "10.2.0.0/16"),
            stated: introduction("uid-b", "10.2.0.0/16"),
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
                facts: BTreeMap::new(),
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
            case.hub.members[0].introduced = introduction("uid-a", "10.1.0.0/16");
        });
        assert_eq!(again, Findings::default(), "who joined may join again");
        let prepared = found(|case| {
            case.hub.members[0] = MemberAtHub {
                namespace: "tombolo-a".into(),
                cluster: "a".into(),
                introduced: Introduction { identity: None, pod_cidrs: vec!["10.1.0.0/16".into()] },
                ..MemberAtHub::default()
            };
        });
        assert_eq!(prepared, Findings::default(), "a place that was made for it waits");
    }

    #[test]
    fn each_thing_that_is_wrong_is_one_problem() {
        type Change = fn(&mut Case);
        let cases: [(&str, Change); 19] = [
            ("taken", |case| case.membership.cluster = "system".parse().unwrap()),
            ("taken, and not by hub", |case| case.membership.cluster = "hub".parse().unwrap()),
            ("calls itself z", |case| case.cluster.id = Some("z".into())),
            ("--cluster-set another", |case| case.cluster.set = Some("another".into())),
            ("`tombolo leave --force --name a` with the --hub-context of this hub", |case| {
                case.hub.members[0].cluster = "a".into();
                case.hub.members[0].namespace = "tombolo-a".into();
            }),
            ("another cluster is a", |case| {
                case.hub.members[0].cluster = "a".into();
                case.hub.members[0].namespace = "tombolo-a".into();
                case.hub.members[0].introduced = Introduction::default();
            }),
            ("already, as b", |case| {
                case.hub.members[0].introduced.identity = Some("uid-a".into());
            }),
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
            ("tombolo-hub in tombolo-system of the hub is of version 0.9.0", |case| {
                case.hub.server.parts.push(installed(Part::Hub, "0.9.0"));
            }),
            ("tombolo-agent in tombolo-system of the cluster is of version 0.9.0", |case| {
                case.cluster.server.parts.push(installed(Part::Member, "0.9.0"));
            }),
            ("join with `--namespace mesh`", |case| case.cluster.server.parts[0].namespace = "mesh".into()),
        ];
        for (expected, change) in cases {
            let found = found(change);
            assert_eq!(found.problems.len(), 1, "{expected}: {found:?}");
            assert!(found.problems[0].contains(expected), "{expected}: {found:?}");
        }
    }

    #[test]
    fn what_a_member_says_about_itself_keeps_nobody_out() {
        let cases = [
            (introduction("uid-a", "10.2.0.0/16"), None, "b says that it is this very cluster"),
            (introduction("uid-b", "0.0.0.0/0"), None, "10.1.0.0/16 overlaps 0.0.0.0/0, where b says"),
            (Introduction::default(), Some("9.9.9"), "the agent of b says that it is of version \"9.9.9\""),
        ];
        for (stated, version, expected) in cases {
            let silent = found(|case| {
                let member = &mut case.hub.members[0];
                (member.introduced, member.stated) = (Introduction::default(), stated.clone());
                member.agent_version = version.map(str::to_owned);
            });
            assert_eq!((silent.problems.len(), silent.doubts.len()), (0, 1), "{expected}: {silent:?}");
            assert!(silent.doubts[0].contains(expected), "{silent:?}");
            // Nobody needs to hear what an administrator knows better.
            let known = found(|case| case.hub.members[0].stated = stated);
            assert_eq!(known, Findings::default(), "{expected}");
        }
        let hidden = found(|case| {
            case.hub.members[0].introduced =
                Introduction { identity: None, ..introduction("", "10.1.0.0/16") };
            case.hub.members[0].stated = introduction("uid-a", "10.2.0.0/16");
        });
        assert!(
            hidden.problems[0].contains("overlaps"),
            "who says to be this cluster hides nothing: {hidden:?}"
        );
    }

    #[test]
    fn parts_that_have_nothing_to_do_with_the_membership_may_be_of_any_version() {
        let others = found(|case| {
            let elsewhere = Installed { namespace: "elsewhere".into(), ..installed(Part::Member, "0.9.0") };
            case.cluster.server.parts.extend([elsewhere, installed(Part::Hub, "0.9.0")]);
            case.hub.server.parts.push(installed(Part::Member, "0.9.0"));
            case.hub.server.parts.push(Installed { version: None, ..installed(Part::Hub, "") });
        });
        assert_eq!(others, Findings::default());
    }

    #[test]
    fn what_can_be_known_without_a_cluster_is_known_before_one_is_asked() {
        let alone = |change: fn(&mut Membership)| {
            let mut membership = membership("a", &["10.1.0.0/16"]);
            change(&mut membership);
            let found = examine_alone(&membership);
            (found.problems.join(";"), found.doubts.join(";"))
        };
        assert_eq!(alone(|_| {}), (String::new(), String::new()));
        type Case = (&'static str, fn(&mut Membership));
        let problems: [Case; 3] = [
            ("which is taken", |one| one.cluster = "system".parse().unwrap()),
            ("which is taken", |one| one.namespace = "tombolo-a".into()),
            ("--pod-cidr 10.1 is no range", |one| one.pod_cidrs.push("10.1".into())),
        ];
        for (expected, change) in problems {
            let (problems, doubts) = alone(change);
            assert!(problems.contains(expected) && doubts.is_empty(), "{expected}: {problems} {doubts}");
        }
        let (problems, doubts) = alone(|one| one.hub.server = "https://127.0.0.1:6443".into());
        assert!(problems.is_empty() && doubts.contains("leads a pod to itself"), "{problems} {doubts}");
        let (problems, doubts) = alone(|one| one.pod_cidrs.clear());
        assert!(problems.is_empty() && doubts.contains("without --pod-cidr"), "{problems} {doubts}");
    }

    #[test]
    fn what_may_be_meant_so_is_only_said() {
        type Change = fn(&mut Case);
        let cases: [(&str, Change); 10] = [
            ("leads a pod to itself", |case| case.membership.hub.server = "https://127.0.0.1:6443".into()),
            ("leads a pod to itself", |case| case.membership.hub.server = "https://[::1]:6443".into()),
            ("leads a pod to itself", |case| case.membership.hub.server = "https://localhost:6443".into()),
            ("leads a pod to itself", |case| case.membership.hub.server = "https://0.0.0.0:6443".into()),
            ("at another hub", |case| case.cluster.hub = Some("uid-other".into())),
            ("without --pod-cidr", |case| case.membership.pod_cidrs.clear()),
            ("outside of --pod-cidr", |case| case.cluster.node_cidrs.push("10.9.0.0/24".into())),
            ("10 s apart", |case| case.hub.server.ahead = Some(10.4)),
            ("not compared", |case| case.hub.server.ahead = None),
            ("no agent is installed", |case| case.cluster.server.parts.clear()),
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
