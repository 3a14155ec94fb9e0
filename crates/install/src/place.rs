//! What a member has at the hub: a namespace to write in, an account, and bindings to what that may do.
//!
//! What members may do is the same for all of them and said once, in roles that the hub's installation keeps: so an update
//! of the hub reaches everybody who joined before. Members need them longer than the hub's own part is there, hence they
//! stay when that is taken out.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use tombolo_api::tombolo::{HUB_ACCOUNT, MANAGED_BY_LABEL, MEMBER_LABEL, POD_CIDRS_ANNOTATION};
use tombolo_model::{ClusterId, names, origin};

use crate::account::{Account, cluster_role};
use crate::manifest::Manifest;
use crate::part::{INSTALLER, NAME_LABEL, VERSION_LABEL};
use crate::rights::{self, Right, WORKS_ROLE};

const READER_ROLE: &str = "tombolo-member-reader";
const WRITER_ROLE: &str = "tombolo-member-writer";
/// In a member's namespace: lets it write there. (Not called as the role: bindings of that name may be there from before the
/// role was one for all, and the role of a binding cannot be changed.)
const WRITER_BINDING: &str = "tombolo-member";
/// Lets Helm leave an object where it is when it removes all others.
const HELM_POLICY: (&str, &str) = ("helm.sh/resource-policy", "keep");

/// On a member's namespace at the hub: what tells its cluster from every other, as in a Membership.
const IDENTITY_ANNOTATION: &str = "tombolo.dev/identity";

/// What whoever makes a place says about its member, which cannot change it. Others believe its endpoints only where this
/// says that they are, and until its agent runs this is all that the next one who joins can be compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// Not known where no cluster was asked.
    pub identity: Option<String>,
    pub pod_cidrs: Vec<String>,
}

impl Introduction {
    pub(crate) fn read(namespace: &Namespace) -> Self {
        let identity = namespace.annotations().get(IDENTITY_ANNOTATION).filter(|text| !text.is_empty());
        Self { identity: identity.cloned(), pod_cidrs: origin::pod_cidrs(namespace) }
    }

    fn write(&self, namespace: &mut Namespace) {
        let ranges = (!self.pod_cidrs.is_empty()).then(|| self.pod_cidrs.join(","));
        let known = [(IDENTITY_ANNOTATION, self.identity.clone()), (POD_CIDRS_ANNOTATION, ranges)];
        let known = known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        namespace.metadata.annotations = Some(known.collect()).filter(|all: &BTreeMap<_, _>| !all.is_empty());
    }
}

/// The place of a member at the hub. The roles that it binds are not in it ([`member_roles`]): files of a member must not
/// hold an old copy of what is everybody's.
pub fn place(member: &ClusterId, introduction: &Introduction) -> Vec<Manifest> {
    in_namespace(&names::hub_namespace(member), member.as_str(), introduction)
}

/// Whose place a namespace is: it says so, and is called as that member's has to be. One that holds an installation is
/// nobody's, whatever else it says.
pub(crate) fn resident(namespace: &Namespace) -> Option<ClusterId> {
    let member: ClusterId = namespace.labels().get(MEMBER_LABEL)?.parse().ok()?;
    let is_its = names::hub_namespace(&member) == namespace.name_any();
    (is_its && !namespace.labels().contains_key(NAME_LABEL)).then_some(member)
}

/// The same for a namespace whatever its name, such as that of a template.
pub(crate) fn in_namespace(namespace: &str, member: &str, introduction: &Introduction) -> Vec<Manifest> {
    let account = Account { namespace, name: HUB_ACCOUNT };
    let metadata = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([(MANAGED_BY_LABEL.to_owned(), INSTALLER.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let within = |name: &str| ObjectMeta { namespace: Some(namespace.to_owned()), ..metadata(name) };
    let mut own = Namespace { metadata: metadata(namespace), ..Namespace::default() };
    own.labels_mut().insert(MEMBER_LABEL.to_owned(), member.to_owned());
    introduction.write(&mut own);
    vec![
        Manifest::of(&own),
        account.manifest(within(HUB_ACCOUNT)),
        account.bound_everywhere(&metadata(&binding(namespace)), READER_ROLE),
        account.bound_within(&within(WRITER_BINDING), WRITER_ROLE),
    ]
}

/// What a place held before all members had the same role: a copy of its own, from the day they joined. It has no rules here,
/// since it is there to be removed.
pub fn former_rights(member: &ClusterId) -> Vec<Manifest> {
    let namespace = names::hub_namespace(member);
    let metadata = ObjectMeta {
        name: Some(WRITER_ROLE.to_owned()),
        namespace: Some(namespace.clone()),
        ..ObjectMeta::default()
    };
    Account { namespace: &namespace, name: HUB_ACCOUNT }.within(&metadata, &[]).into()
}

/// The binding that lets a member read what others say; the only thing of a place outside its namespace.
pub(crate) fn binding(namespace: &str) -> String {
    format!("{namespace}-reader")
}

/// What all members may read, and what each may do in its own namespace.
pub fn member_roles() -> Vec<Manifest> {
    vec![role(READER_ROLE, rights::MEMBER_READER), role(WRITER_ROLE, rights::MEMBER_WRITER)]
}

/// The same, and what each may do in its execution namespace, to which the hub's own part binds it.
pub(crate) fn all_member_roles() -> Vec<Manifest> {
    let mut all = member_roles();
    all.push(role(WORKS_ROLE, rights::MEMBER_WORKS));
    all
}

/// Whether members at a hub need this object, too: then it stays as long as there are any.
pub fn is_for_members(manifest: &Manifest) -> bool {
    manifest.kind() == "ClusterRole" && [READER_ROLE, WRITER_ROLE, WORKS_ROLE].contains(&manifest.name())
}

/// It says which version made it: members of later versions may need more of a role, and an earlier one leaves it alone then.
fn role(name: &str, rights: &[Right]) -> Manifest {
    let labels = [(MANAGED_BY_LABEL, INSTALLER), (VERSION_LABEL, env!("CARGO_PKG_VERSION"))];
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels.map(owned).into()),
        annotations: Some([owned(HELM_POLICY)].into()),
        ..ObjectMeta::default()
    };
    cluster_role(&metadata, rights)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str, labels: &[(&str, &str)]) -> Namespace {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let metadata =
            ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
        Namespace { metadata, ..Namespace::default() }
    }

    #[test]
    fn a_namespace_is_a_place_only_of_the_member_that_it_names_and_is_called_after() {
        let whose = |name: &str, labels: &[(&str, &str)]| {
            resident(&namespace(name, labels)).map(|member| member.to_string())
        };
        assert_eq!(whose("tombolo-a", &[(MEMBER_LABEL, "a")]).as_deref(), Some("a"));
        assert_eq!(whose("tombolo-a", &[]), None);
        assert_eq!(whose("tombolo-a", &[(MEMBER_LABEL, "b")]), None);
        assert_eq!(whose("tombolo-a", &[(MEMBER_LABEL, "no id")]), None);
        let installation = [(MEMBER_LABEL, "a"), (NAME_LABEL, "tombolo")];
        assert_eq!(whose("tombolo-a", &installation), None, "what was installed there is no member's");
    }

    #[test]
    fn a_place_holds_no_copy_of_what_is_said_once_for_all_members() {
        let made = place(&"a".parse().unwrap(), &Introduction::default());
        let kinds: Vec<&str> = made.iter().map(Manifest::kind).collect();
        assert_eq!(kinds, ["Namespace", "ServiceAccount", "ClusterRoleBinding", "RoleBinding"]);
        let roles: Vec<Manifest> = all_member_roles();
        assert!(roles.iter().all(is_for_members));
        for binding in &made[2..] {
            let role = &binding.value()["roleRef"];
            assert_eq!(role["kind"], "ClusterRole");
            assert!(roles.iter().any(|one| role["name"] == one.name()), "{role}");
        }
    }

    #[test]
    fn what_is_taken_from_a_former_place_is_nothing_that_it_needs_today() {
        let member: ClusterId = "a".parse().unwrap();
        let named =
            |one: &Manifest| format!("{} {} {}", one.kind(), one.namespace().unwrap_or_default(), one.name());
        let today: Vec<String> = place(&member, &Introduction::default()).iter().map(named).collect();
        let former: Vec<String> = former_rights(&member).iter().map(named).collect();
        assert_eq!(
            former,
            ["Role tombolo-a tombolo-member-writer", "RoleBinding tombolo-a tombolo-member-writer"]
        );
        assert!(former.iter().all(|one| !today.contains(one)), "{today:?}");
    }

    #[test]
    fn a_place_is_that_of_its_member_and_says_what_is_known_of_it() {
        let member: ClusterId = "a.b".parse().unwrap();
        let known = Introduction {
            identity: Some("uid-a".to_owned()),
            pod_cidrs: vec!["10.1.0.0/16".to_owned(), "fd00:1::/48".to_owned()],
        };
        for introduction in [Introduction::default(), known] {
            let made = place(&member, &introduction);
            let own: Namespace = serde_json::from_value(made[0].value().clone()).unwrap();
            assert_eq!(resident(&own), Some(member.clone()));
            assert_eq!(Introduction::read(&own), introduction);
        }
    }
}
