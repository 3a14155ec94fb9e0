//! Accounts and what they may do.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject};
use kube::core::ObjectMeta;

use crate::manifest::Manifest;
use crate::rights::Right;

const RBAC: &str = "rbac.authorization.k8s.io";

/// An account by its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Account<'_> {
    pub(crate) fn manifest(&self, metadata: ObjectMeta) -> Manifest {
        Manifest::of(&ServiceAccount { metadata: self.placed(metadata), ..ServiceAccount::default() })
    }

    fn placed(&self, metadata: ObjectMeta) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name.to_owned()),
            namespace: Some(self.namespace.to_owned()),
            ..metadata
        }
    }

    fn subject(&self) -> Subject {
        Subject {
            kind: "ServiceAccount".to_owned(),
            name: self.name.to_owned(),
            namespace: Some(self.namespace.to_owned()),
            api_group: None,
        }
    }

    /// Lets the account do this in the whole cluster: a role and a binding of the name in `metadata`.
    pub(crate) fn everywhere(&self, metadata: &ObjectMeta, rights: &[Right]) -> [Manifest; 2] {
        let name = metadata.name.clone().unwrap_or_default();
        [cluster_role(metadata, rights), self.bound_everywhere(metadata, &name)]
    }

    pub(crate) fn bound_everywhere(&self, metadata: &ObjectMeta, role: &str) -> Manifest {
        Manifest::of(&ClusterRoleBinding {
            metadata: metadata.clone(),
            role_ref: reference("ClusterRole", role),
            subjects: Some(vec![self.subject()]),
        })
    }

    /// Lets the account do this in one namespace, that of `metadata`.
    pub(crate) fn within(&self, metadata: &ObjectMeta, rights: &[Right]) -> [Manifest; 2] {
        let rules = Some(rights.iter().map(Right::rule).collect());
        let role = Manifest::of(&Role { metadata: metadata.clone(), rules });
        let name = metadata.name.as_deref().unwrap_or_default();
        [role.because(reasons(rights)), self.bound(metadata, reference("Role", name))]
    }

    /// Lets the account do in the namespace of `metadata` what a role of the whole cluster says.
    pub(crate) fn bound_within(&self, metadata: &ObjectMeta, role: &str) -> Manifest {
        self.bound(metadata, reference("ClusterRole", role))
    }

    fn bound(&self, metadata: &ObjectMeta, role_ref: RoleRef) -> Manifest {
        Manifest::of(&RoleBinding {
            metadata: metadata.clone(),
            role_ref,
            subjects: Some(vec![self.subject()]),
        })
    }
}

pub(crate) fn cluster_role(metadata: &ObjectMeta, rights: &[Right]) -> Manifest {
    let rules = Some(rights.iter().map(Right::rule).collect());
    let role = ClusterRole { metadata: metadata.clone(), rules, ..ClusterRole::default() };
    Manifest::of(&role).because(reasons(rights))
}

pub(crate) fn namespace(metadata: ObjectMeta) -> Manifest {
    Manifest::of(&Namespace { metadata, ..Namespace::default() })
}

fn reference(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: Some(RBAC.to_owned()), kind: kind.to_owned(), name: name.to_owned() }
}

fn reasons(rights: &[Right]) -> Vec<&'static str> {
    rights.iter().map(|right| right.why).collect()
}
