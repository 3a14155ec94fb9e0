//! What a member has at the hub: a namespace to write in, an account, and what that may do.

use k8s_openapi::api::core::v1::Namespace;
use kube::core::ObjectMeta;
use tombolo_api::tombolo::{HUB_ACCOUNT, MANAGED_BY_LABEL};
use tombolo_model::{ClusterId, names};

use crate::account::{Account, cluster_role};
use crate::manifest::Manifest;
use crate::part::INSTALLER;
use crate::rights;

const READER_ROLE: &str = "tombolo-member-reader";
const WRITER_ROLE: &str = "tombolo-member-writer";
/// On a member's namespace at the hub: the member.
pub(crate) const MEMBER_LABEL: &str = "tombolo.dev/member";

/// The place of a member at the hub.
pub fn place(member: &ClusterId) -> Vec<Manifest> {
    in_namespace(&names::hub_namespace(member), Some(member.as_str()))
}

/// The same for a namespace whatever its name, such as that of a template.
pub(crate) fn in_namespace(namespace: &str, member: Option<&str>) -> Vec<Manifest> {
    let account = Account { namespace, name: HUB_ACCOUNT };
    let metadata = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([(MANAGED_BY_LABEL.to_owned(), INSTALLER.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let within = |name: &str| ObjectMeta { namespace: Some(namespace.to_owned()), ..metadata(name) };
    let mut own = Namespace { metadata: metadata(namespace), ..Namespace::default() };
    if let (Some(labels), Some(member)) = (&mut own.metadata.labels, member) {
        labels.insert(MEMBER_LABEL.to_owned(), member.to_owned());
    }
    let mut all = vec![Manifest::of(&own), account.manifest(within(HUB_ACCOUNT)), reader()];
    all.push(account.bound_everywhere(&metadata(&binding(namespace)), READER_ROLE));
    all.extend(account.within(&within(WRITER_ROLE), rights::MEMBER_WRITER));
    all
}

/// The binding that lets a member read what others say; the only thing of a place outside its namespace.
pub(crate) fn binding(namespace: &str) -> String {
    format!("{namespace}-reader")
}

/// What all members may read.
pub(crate) fn reader() -> Manifest {
    let metadata = ObjectMeta {
        name: Some(READER_ROLE.to_owned()),
        labels: Some([(MANAGED_BY_LABEL.to_owned(), INSTALLER.to_owned())].into()),
        ..ObjectMeta::default()
    };
    cluster_role(&metadata, rights::MEMBER_READER)
}
