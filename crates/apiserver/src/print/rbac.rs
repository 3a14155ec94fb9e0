//! Tables of role bindings. Roles themselves have the plain one: name and creation.

use jiff::Timestamp;
use serde_json::Value;

use super::plain::row;
use super::{Column, Printer};
use crate::rules::field;

const GROUP: &str = "rbac.authorization.k8s.io";

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Role", "The role that is granted."),
    Column::AGE,
    Column::text("Users", "The users it is granted to.").wide(),
    Column::text("Groups", "The groups it is granted to.").wide(),
    Column::text("ServiceAccounts", "The service accounts it is granted to.").wide(),
];

pub(super) const PRINTERS: &[Printer] = &[
    Printer { group: GROUP, kind: "RoleBinding", columns: COLUMNS, cells },
    Printer { group: GROUP, kind: "ClusterRoleBinding", columns: COLUMNS, cells },
];

fn cells(binding: &Value, now: Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", field::text(binding, "roleRef.kind"), field::text(binding, "roleRef.name"));
    let mut cells = row(binding, now, [role.into()]);
    cells.extend(["User", "Group", "ServiceAccount"].map(|kind| subjects(binding, kind).into()));
    cells
}

fn subjects(binding: &Value, kind: &str) -> String {
    let subjects = field::list(binding, "subjects").iter();
    let names: Vec<_> = subjects
        .filter(|subject| field::text(subject, "kind") == kind)
        .map(|subject| match kind {
            "ServiceAccount" => {
                format!("{}/{}", field::text(subject, "namespace"), field::text(subject, "name"))
            }
            _ => field::text(subject, "name").to_owned(),
        })
        .collect();
    names.join(", ")
}
