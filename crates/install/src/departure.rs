//! Whether a cluster is the member that shall leave. Pure.
//!
//! Two things are named, a member and a cluster, and either can be mistyped. Leaving takes from both, so they have to be
//! the same one: as the cluster says, as the hub says, or, where both have forgotten it, because there is nothing left. The
//! hub can be mistyped, too: the cluster's credential says which one it is for.

use tombolo_model::{ClusterId, names};

use crate::inspect::{ClusterSeen, HubSeen};

/// Why the cluster cannot leave as `member`, and what to do; nothing if it can.
pub fn keeps_from_leaving(member: &ClusterId, at: &HubSeen, cluster: &ClusterSeen) -> Option<String> {
    let namespace = names::hub_namespace(member);
    let identity = &cluster.server.identity;
    if cluster.hub.as_ref().is_some_and(|hub| *hub != at.server.identity) {
        return Some(
            "the cluster is a member at another hub: choose that with --hub-context; if that hub is gone for good, \
             `--force` without a hub takes back what is in the cluster"
                .to_owned(),
        );
    }
    if let Some(why) = is_called_otherwise(member, cluster) {
        return Some(why);
    }
    let at_hub = at.members.iter().find(|one| one.namespace == namespace);
    match at_hub.map(|one| one.identity.as_str()) {
        Some(known) if known == identity => None,
        Some("") if cluster.id.is_some() => None,
        Some("") => Some(format!(
            "neither the cluster nor the hub says that it is {member}: if it is, `tombolo join` it again first; \
             `--force` only takes the place at the hub away"
        )),
        Some(_) => Some(format!(
            "{member} at this hub is another cluster: choose that one with --context; if it is gone for good, add --force"
        )),
        None => {
            let other = at.members.iter().find(|one| one.identity == *identity)?;
            let other = &other.cluster;
            Some(format!("the cluster is {other} at this hub, not {member}: leave with `--name {other}`"))
        }
    }
}

/// Why the cluster is not `member`, by what it says itself: all that can be known where the hub is gone.
pub fn is_called_otherwise(member: &ClusterId, cluster: &ClusterSeen) -> Option<String> {
    let id = cluster.id.as_deref().filter(|id| *id != member.as_str())?;
    Some(format!(
        "the cluster calls itself {id}, not {member}: leave with `--name {id}`, or choose the other cluster with --context"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::{MemberAtHub, Server};

    fn at_hub(name: &str, identity: &str) -> MemberAtHub {
        MemberAtHub {
            namespace: format!("tombolo-{name}"),
            cluster: name.to_owned(),
            identity: identity.to_owned(),
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
