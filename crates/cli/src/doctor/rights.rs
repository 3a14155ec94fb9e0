//! What the accounts of Tombolo's parts must be allowed, and whether they are.
//!
//! A few rights stand for all in the shipped rules: one of each kind of object that a part needs, with the strongest verb.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use tombolo_model::{ClusterId, names};

use crate::survey::{MemberSeen, Seen};

/// The namespace of the parts' accounts.
const SYSTEM: &str = "tombolo-system";

/// A part with an account of its own.
struct Account {
    part: &'static str,
    account: &'static str,
    /// The rules that grant what it needs.
    file: &'static str,
    rights: &'static [Right],
}

/// Something an account must be allowed: group, resource, verb.
struct Right(&'static str, &'static str, &'static str);

/// What an account may not do, or why nobody knows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Granted {
    pub(super) part: &'static str,
    pub(super) file: &'static str,
    pub(super) missing: Seen<Vec<String>>,
}

/// Every member has one.
const AGENT: Account = Account {
    part: "agent",
    account: "tombolo-agent",
    file: "deploy/member/agent-rbac.yaml",
    rights: &[
        Right("", "services", "create"),
        Right("discovery.k8s.io", "endpointslices", "patch"),
        Right("multicluster.x-k8s.io", "serviceexports", "watch"),
        Right("multicluster.x-k8s.io", "serviceimports", "create"),
        Right("multicluster.k8s.io", "importedservices", "create"),
        Right("about.k8s.io", "clusterproperties", "get"),
    ],
};

/// These are looked at where their account is.
const OTHERS: [Account; 3] = [
    Account {
        part: "dns",
        account: "tombolo-dns",
        file: "deploy/member/dns-rbac.yaml",
        rights: &[
            Right("", "namespaces", "watch"),
            Right("discovery.k8s.io", "endpointslices", "watch"),
            Right("multicluster.k8s.io", "importedservices", "watch"),
            Right("multicluster.x-k8s.io", "serviceimports", "watch"),
        ],
    },
    Account {
        part: "proxy",
        account: "tombolo-proxy",
        file: "deploy/member/proxy-rbac.yaml",
        rights: &[
            Right("", "services", "watch"),
            Right("", "nodes", "watch"),
            Right("discovery.k8s.io", "endpointslices", "watch"),
            Right("multicluster.k8s.io", "importedservices", "watch"),
            Right("multicluster.x-k8s.io", "serviceimports", "watch"),
        ],
    },
    Account {
        part: "balancer",
        account: "tombolo-balancer",
        file: "deploy/member/balancer-rbac.yaml",
        rights: &[
            Right("", "services", "watch"),
            Right("", "services/status", "patch"),
            Right("tombolo.dev", "addresspools", "watch"),
            Right("events.k8s.io", "events", "create"),
        ],
    },
];

/// Optional, too.
const HUB: Account = Account {
    part: "hub",
    account: "tombolo-hub",
    file: "deploy/hub/hub-rbac.yaml",
    rights: &[
        Right("cluster.karmada.io", "clusters", "create"),
        Right("networking.karmada.io", "multiclusterservices/status", "patch"),
        Right("work.karmada.io", "works", "create"),
        Right("", "namespaces", "create"),
        Right("coordination.k8s.io", "leases", "watch"),
    ],
};

/// What the agent of a member needs in its namespace at the hub.
const OF_MEMBER: [Right; 4] = [
    Right("tombolo.dev", "memberships", "patch"),
    Right("tombolo.dev", "serviceoffers", "create"),
    Right("discovery.k8s.io", "endpointslices", "patch"),
    Right("coordination.k8s.io", "leases", "patch"),
];

/// The accounts of a member.
pub(super) async fn in_member(client: &Client) -> Vec<Granted> {
    let mut all = vec![look(client, &AGENT).await];
    for account in &OTHERS {
        all.extend(look_if_there(client, account).await);
    }
    all
}

/// The accounts of the hub and of the members there.
pub(super) async fn at_hub(client: &Client, members: &[MemberSeen]) -> Vec<Granted> {
    let missing = of_members(client, members).await;
    let file = "deploy/hub/member-roles.yaml, and member-rbac.yaml for each member";
    let members = Granted { part: "agent", file, missing };
    [members].into_iter().chain(look_if_there(client, &HUB).await).collect()
}

async fn of_members(client: &Client, members: &[MemberSeen]) -> Seen<Vec<String>> {
    let mut missing = Vec::new();
    for member in members {
        let Ok(id) = member.id.parse::<ClusterId>() else { continue };
        let namespace = names::hub_namespace(&id);
        let account = format!("system:serviceaccount:{namespace}:agent");
        let found = forbidden(client, &account, Some(&namespace), &OF_MEMBER).await?;
        missing.extend(found.into_iter().map(|what| format!("{what} in {namespace}")));
    }
    Ok(missing)
}

/// A part that was not given an account does not run here, or with another.
async fn look_if_there(client: &Client, account: &Account) -> Option<Granted> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), SYSTEM);
    accounts.get_opt(account.account).await.ok().flatten()?;
    Some(look(client, account).await)
}

async fn look(client: &Client, account: &Account) -> Granted {
    let name = format!("system:serviceaccount:{SYSTEM}:{}", account.account);
    let missing = forbidden(client, &name, None, account.rights).await;
    Granted { part: account.part, file: account.file, missing }
}

async fn forbidden(
    client: &Client,
    account: &str,
    namespace: Option<&str>,
    rights: &[Right],
) -> Seen<Vec<String>> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let mut missing = Vec::new();
    for Right(group, resource, verb) in rights {
        let (resource_only, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = ResourceAttributes {
            group: Some((*group).to_owned()),
            resource: Some(resource_only.to_owned()),
            subresource: Some(subresource.to_owned()).filter(|word| !word.is_empty()),
            verb: Some((*verb).to_owned()),
            namespace: namespace.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(account.to_owned()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer =
            reviews.create(&PostParams::default(), &review).await.map_err(|error| error.to_string())?;
        if !answer.status.is_some_and(|status| status.allowed) {
            missing.push(format!("{verb} {resource}"));
        }
    }
    Ok(missing)
}
