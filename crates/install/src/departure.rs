//! Whether a cluster is the member that shall leave. Pure.
//!
//! Two things are named, a member and a cluster, and either can be mistyped. Leaving takes from both, so they have to be
//! the same one: as the cluster says, as the hub says, or, where both have forgotten it, because there is nothing left. The
//! hub can be mistyped, too: the cluster's credential says which one it is for. Where the hub is gone for good, only the
//! cluster itself can say that it is the one.

use tombolo_model::{ClusterId, names};

use crate::inspect::{ClusterSeen, HubSeen, MemberAtHub};
use crate::membership::{CONFIG_MAP, ID_KEY};

/// Why the cluster cannot leave as `member`, and what to do; nothing if it can.
pub fn keeps_from_leaving(member: &ClusterId, at: &HubSeen, cluster: &ClusterSeen) -> Option<String> {
    let namespace = names::hub_namespace(member);
    let identity = cluster.server.identity.as_str();
    if cluster.hub.as_ref().is_some_and(|hub| *hub != at.server.identity) {
        return Some(
            "the cluster is a member at another hub: choose that with --hub-context; if that hub is gone for good, \
             --hub-gone takes back what is in the cluster"
                .to_owned(),
        );
    }
    if let Some(why) = is_called_otherwise(member, cluster) {
        return Some(why);
    }
    let at_hub = at.members.iter().find(|one| one.namespace == namespace);
    match at_hub.map(MemberAtHub::identity) {
        Some(Some(known)) if known == identity => None,
        Some(None) if cluster.id.is_some() => None,
        Some(None) => Some(format!(
            "neither the cluster nor the hub says that it is {member}: if it is, `tombolo join` it again first; \
             `--force` only takes the place at the hub away"
        )),
        Some(Some(_)) => Some(format!(
            "{member} at this hub is another cluster: choose that one with --context; if it is gone for good, add --force"
        )),
        None => {
            let other = at.members.iter().find(|one| one.identity() == Some(identity))?;
            let other = &other.cluster;
            Some(format!("the cluster is {other} at this hub, not {member}: leave with `--name {other}`"))
        }
    }
}

/// The same where the hub is gone for good.
pub fn keeps_from_leaving_without_hub(member: &ClusterId, cluster: &ClusterSeen) -> Option<String> {
    match (&cluster.id, cluster.is_member) {
        (Some(_), _) => is_called_otherwise(member, cluster),
        (None, true) => Some(format!(
            "the cluster does not say that it is {member}: if it is, say so there with `kubectl create configmap \
             {CONFIG_MAP} --from-literal={ID_KEY}={member}` in the namespace of its agent"
        )),
        // Its credential and its name go last, so there is nothing left.
        (None, false) => Some("the cluster is nobody's member".to_owned()),
    }
}

/// Why the cluster is not `member`, by what it says itself.
fn is_called_otherwise(member: &ClusterId, cluster: &ClusterSeen) -> Option<String> {
    let id = cluster.id.as_deref().filter(|id| *id != member.as_str())?;
    Some(format!(
        "the cluster calls itself {id}, not {member}: leave with `--name {id}`, or choose the other cluster with --context"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::Server;
    use crate::place::Introduction;

    fn at_hub(name: &str, identity: &str) -> MemberAtHub {
        let identity = Some(identity.to_owned()).filter(|identity| !identity.is_empty());
        MemberAtHub {
            namespace: format!("tombolo-{name}"),
            cluster: name.to_owned(),
            introduced: Introduction { identity, ..Introduction::default() },
            ..MemberAtHub::default()
        }
    }

    /// What keeps a cluster with the identity `uid-a` from leaving as `a`.
    fn kept(id: Option<&str>, members: &[MemberAtHub]) -> Option<String> {
        let hub = HubSeen { members: members.to_vec(), ..HubSeen::default() };
        let server = Server { identity: "uid-a".to_owned(), ..Server::default() };
        let cluster = ClusterSeen { server, id: id.map(str::to_owned), ..ClusterSeen::default() };
        keeps_from_leaving(&"a".parse().unwrap(), &hub, &cluster)
    }

    #[test]
    fn the_member_itself_leaves_however_much_of_it_is_left() {
        let b = at_hub("b", "uid-b");
        assert_eq!(kept(Some("a"), &[at_hub("a", "uid-a"), b.clone()]), None);
        assert_eq!(kept(None, &[at_hub("a", "uid-a"), b.clone()]), None, "the hub knows");
        assert_eq!(kept(Some("a"), &[at_hub("a", ""), b.clone()]), None, "the cluster knows");
        assert_eq!(kept(Some("a"), std::slice::from_ref(&b)), None, "its place is gone already");
        assert_eq!(kept(None, &[b]), None, "all is gone already");
    }

    #[test]
    fn without_its_hub_a_cluster_leaves_only_under_the_name_that_it_says_itself() {
        let cases = [
            (Some("a"), true, None),
            (Some("a"), false, None), // its credential is gone already
            (Some("b"), true, Some("the cluster calls itself b, not a")),
            (None, true, Some("--from-literal=cluster-id=a")),
            (None, false, Some("nobody's member")),
        ];
        for (id, is_member, expected) in cases {
            let cluster = ClusterSeen { id: id.map(str::to_owned), is_member, ..ClusterSeen::default() };
            let said = keeps_from_leaving_without_hub(&"a".parse().unwrap(), &cluster);
            let is_expected = match (&said, expected) {
                (Some(said), Some(expected)) => said.contains(expected),
                (said, expected) => said.is_none() && expected.is_none(),
            };
            assert!(is_expected, "{id:?} {is_member}: {said:?}");
        }
    }

    #[test]
    fn a_member_of_another_hub_does_not_leave_this_one() {
        let seen = |hub: Option<&str>| {
            let server = Server { identity: "uid-hub".to_owned(), ..Server::default() };
            let at = HubSeen { server, ..HubSeen::default() };
            let cluster = ClusterSeen { hub: hub.map(str::to_owned), ..ClusterSeen::default() };
            keeps_from_leaving(&"a".parse().unwrap(), &at, &cluster)
        };
        assert_eq!(seen(Some("uid-hub")), None);
        assert_eq!(seen(None), None, "nobody knows");
        assert!(seen(Some("uid-other")).is_some_and(|said| said.contains("--hub-context")));
    }

    #[test]
    fn a_name_that_is_another_clusters_is_refused_with_what_to_do() {
        let cases: [(Option<&str>, &[MemberAtHub], &str); 6] = [
            (Some("b"), &[at_hub("b", "uid-a")], "`--name b`"),
            (Some("b"), &[at_hub("a", "uid-b")], "`--name b`"),
            (Some("a"), &[at_hub("a", "uid-b")], "another cluster"),
            (None, &[at_hub("a", "uid-b")], "another cluster"),
            (None, &[at_hub("b", "uid-a")], "the cluster is b at this hub"),
            (None, &[at_hub("a", "")], "`tombolo join` it again"),
        ];
        for (id, members, expected) in cases {
            let said = kept(id, members);
            assert!(said.as_ref().is_some_and(|said| said.contains(expected)), "{expected}: {said:?}");
        }
    }
}
