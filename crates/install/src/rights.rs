//! What each account may do, and why: exactly the verbs its part uses.
//!
//! A test runs every part with nothing else and counts what it used, so a verb that is missing and one that nobody needs
//! are both noticed.

use k8s_openapi::api::rbac::v1::PolicyRule;
use tombolo_api::tombolo::{HEARTBEAT, HUB_ACCOUNT};

use crate::membership::HUB_SECRET;

/// A rule with its reason.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Right {
    pub(crate) why: &'static str,
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    /// Only objects of these names; empty: all.
    names: &'static [&'static str],
    verbs: &'static [&'static str],
}

const fn may(
    why: &'static str,
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Right {
    Right { why, groups, resources, names: &[], verbs }
}

impl Right {
    const fn only(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    pub(crate) fn rule(&self) -> PolicyRule {
        let owned = |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
        PolicyRule {
            api_groups: Some(owned(self.groups)),
            resources: Some(owned(self.resources)),
            resource_names: (!self.names.is_empty()).then(|| owned(self.names)),
            verbs: owned(self.verbs),
            non_resource_urls: None,
        }
    }
}

/// The role that the hub gives to agents in their execution namespaces.
pub(crate) const WORKS_ROLE: &str = "tombolo-member-works";

const CORE: &[&str] = &[""];
const LEASES: &[&str] = &["coordination.k8s.io"];
const SLICES: &[&str] = &["discovery.k8s.io"];
const EVENTS: &[&str] = &["events.k8s.io"];
const KEP: &[&str] = &["multicluster.k8s.io"];
const MCS: &[&str] = &["multicluster.x-k8s.io"];
const BOTH: &[&str] = &["multicluster.k8s.io", "multicluster.x-k8s.io"];
const OWN: &[&str] = &["tombolo.dev"];
const WORK: &[&str] = &["work.karmada.io"];
const READ: &[&str] = &["list", "watch"];
const KEEP: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
/// The same for who never asks for a single one.
const TEND: &[&str] = &["list", "watch", "create", "patch", "delete"];

/// The agent in its own cluster.
pub(crate) const AGENT: &[Right] = &[
    may(
        "Where services are imported to; the one that tells clusters apart.",
        CORE,
        &["namespaces"],
        &["get", "list", "watch"],
    ),
    may(
        "Services that hold the addresses of imports, Services under native names, selectors that RemoteOnly puts aside.",
        CORE,
        &["services"],
        KEEP,
    ),
    may(
        "Imported slices; those of the stock controller that RemoteOnly has to remove.",
        SLICES,
        &["endpointslices"],
        KEEP,
    ),
    may(
        "Exports get a finalizer and conditions; those that a label asks for are made and removed.",
        BOTH,
        &["serviceexports"],
        &["list", "watch", "create", "patch", "delete"],
    ),
    may("What became of an export.", BOTH, &["serviceexports/status"], &["patch"]),
    may("Imports of the first edition.", KEP, &["importedservices"], KEEP),
    may(
        "Imports; those of users get a finalizer while something has to be undone.",
        MCS,
        &["serviceimports"],
        KEEP,
    ),
    may("What became of an import.", MCS, &["serviceimports/status"], &["patch"]),
    may("What happened, beside the objects it happened to.", EVENTS, &["events"], &["create"]),
    may("The cluster's id.", &["about.k8s.io"], &["clusterproperties"], &["get"]),
];

/// The agent in its own namespace.
pub(crate) const AGENT_AT_HOME: &[Right] = &[
    may(
        "The leases of sources, which go when those are members no more, and the one that agents compete for.",
        LEASES,
        &["leases"],
        &["get", "list", "watch", "create", "update", "patch", "delete"],
    ),
    may("The credential for the hub, which the agent renews.", CORE, &["secrets"], &["get", "patch"])
        .only(&[HUB_SECRET]),
];

/// What members may read at the hub.
pub(crate) const MEMBER_READER: &[Right] = &[
    may("What others offer, and who they are.", OWN, &["serviceoffers", "memberships"], READ),
    may("Where others have their pods, by what whoever let them join wrote.", CORE, &["namespaces"], READ),
    may("Endpoints of what others offer.", SLICES, &["endpointslices"], READ),
    may("Heartbeats.", LEASES, &["leases"], READ),
];

/// What a member may do in its own namespace at the hub.
pub(crate) const MEMBER_WRITER: &[Right] = &[
    may(
        "Offers come and go with exports. Server-side apply needs patch, and create for what is new.",
        OWN,
        &["serviceoffers"],
        &["create", "patch", "delete"],
    ),
    may("Slices come and go with endpoints.", SLICES, &["endpointslices"], &["create", "patch", "delete"]),
    may(
        "The member's statement is made once and then only changed.",
        OWN,
        &["memberships"],
        &["create", "patch"],
    ),
    may("How far it has come.", OWN, &["memberships/status"], &["patch"]),
    may(
        "The heartbeat; a beat that met a conflict is looked up.",
        LEASES,
        &["leases"],
        &["get", "create", "patch"],
    ),
    may("The member renews its own token.", CORE, &["serviceaccounts/token"], &["create"])
        .only(&[HUB_ACCOUNT]),
];

/// What an agent may do in its member's execution namespace. The hub binds it there.
pub(crate) const MEMBER_WORKS: &[Right] = &[
    may("Works are applied, and slices reported as Works.", WORK, &["works"], TEND),
    may("What became of a Work.", WORK, &["works/status"], &["patch"]),
];

/// The hub's own part.
pub(crate) const HUB: &[Right] = &[
    may(
        "Clusters are made when members introduce themselves, and go when they leave.",
        &["cluster.karmada.io"],
        &["clusters"],
        TEND,
    ),
    may("How clusters are.", &["cluster.karmada.io"], &["clusters/status"], &["patch"]),
    may(
        "What is shared; it gets a finalizer.",
        &["networking.karmada.io"],
        &["multiclusterservices"],
        &["list", "watch", "patch"],
    ),
    may("What became of it.", &["networking.karmada.io"], &["multiclusterservices/status"], &["patch"]),
    may("Works of all members.", WORK, &["works"], TEND),
    may(
        "For members without an agent the hub says what became of Works.",
        WORK,
        &["works/status"],
        &["patch"],
    ),
    may("The Services that are shared; they are only read.", CORE, &["services"], READ),
    may(
        "Execution namespaces come and go with clusters; one that is there already gets a label.",
        CORE,
        &["namespaces"],
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    may(
        "Agents may use their execution namespaces.",
        &["rbac.authorization.k8s.io"],
        &["rolebindings"],
        &["create"],
    ),
    may(
        "Without being allowed everything itself that the role says.",
        &["rbac.authorization.k8s.io"],
        &["clusterroles"],
        &["bind"],
    )
    .only(&[WORKS_ROLE]),
    may(
        "What members state about themselves goes when they leave.",
        OWN,
        &["memberships"],
        &["list", "watch", "delete"],
    ),
    may("Heartbeats of members.", LEASES, &["leases"], READ),
    may(
        "The hub writes its own and those of members without an agent, and removes those of members that left.",
        LEASES,
        &["leases"],
        &["create", "patch", "delete"],
    )
    .only(&[HEARTBEAT]),
    may("What happened.", EVENTS, &["events"], &["create"]),
];

/// The hub's own part in its own namespace.
pub(crate) const HUB_AT_HOME: &[Right] = &[may(
    "The lease that hubs compete for, and the mark by which a restored API server is noticed.",
    LEASES,
    &["leases"],
    &["get", "create", "update", "patch"],
)];

/// The DNS server reads, and nothing else.
pub(crate) const DNS: &[Right] = &[
    may("A name resolves in namespaces that exist.", CORE, &["namespaces"], READ),
    may("Endpoints of headless services.", SLICES, &["endpointslices"], READ),
    may("Imports of the first edition.", KEP, &["importedservices"], READ),
    may("Imports.", MCS, &["serviceimports"], READ),
    may("Only with --cluster-zone.", CORE, &["services"], READ),
];

/// The proxy reads, and writes to the kernel.
pub(crate) const PROXY: &[Right] = &[
    may("Addresses and policies.", CORE, &["services"], READ),
    may("Its own Node: labels, addresses, the ranges of its pods.", CORE, &["nodes"], READ),
    may("Endpoints.", SLICES, &["endpointslices"], READ),
    may(
        "Where Services have their addresses; without it unused ones are not dropped.",
        &["networking.k8s.io"],
        &["servicecidrs"],
        READ,
    ),
    may("What each source cluster of an import wants, first edition.", KEP, &["importedservices"], READ),
    may("What each source cluster of an import wants.", MCS, &["serviceimports"], READ),
];

/// The balancer.
pub(crate) const BALANCER: &[Right] = &[
    may(
        "Services, labels of namespaces, nodes that may announce.",
        CORE,
        &["services", "namespaces", "nodes"],
        READ,
    ),
    may("Endpoints on nodes.", SLICES, &["endpointslices"], READ),
    may("Where addresses come from.", OWN, &["addresspools"], READ),
    may(
        "Addresses, conditions, the finalizer and the record, all through the status.",
        CORE,
        &["services/status"],
        &["patch"],
    ),
    may("How much of a pool is in use.", OWN, &["addresspools/status"], &["patch"]),
    may("What happened.", EVENTS, &["events"], &["create"]),
];

/// The balancer in its own namespace.
pub(crate) const BALANCER_AT_HOME: &[Right] = &[may(
    "Heartbeats of nodes, and who of them is the provider.",
    LEASES,
    &["leases"],
    &["get", "list", "watch", "create", "update", "patch"],
)];
