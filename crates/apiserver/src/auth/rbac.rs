//! Role-based access control: what the roles bound to a user allow.
//!
//! Evaluated from the stored objects on every request: a revoked binding is revoked at once.

use std::sync::Arc;

use serde_json::Value;

use super::{Attributes, User};
use crate::core::Core;
use crate::object;
use crate::store::{Key, Stored};

const ROLES: &str = "rbac.authorization.k8s.io/roles";
const CLUSTER_ROLES: &str = "rbac.authorization.k8s.io/clusterroles";
const ROLE_BINDINGS: &str = "rbac.authorization.k8s.io/rolebindings";
const CLUSTER_ROLE_BINDINGS: &str = "rbac.authorization.k8s.io/clusterrolebindings";

pub(super) fn allows(core: &Core, user: &User, attributes: &Attributes) -> bool {
    rules_for(core, user, &attributes.namespace).iter().any(|rule| covers(rule, attributes))
}

/// Every rule that applies to the user in a namespace (empty: cluster-wide only).
pub(crate) fn rules_for(core: &Core, user: &User, namespace: &str) -> Vec<Value> {
    let everywhere = core.store.list(CLUSTER_ROLE_BINDINGS, None).1;
    let here = match namespace {
        "" => Vec::new(),
        namespace => core.store.list(ROLE_BINDINGS, Some(namespace)).1,
    };
    let bound = everywhere.iter().chain(&here).filter(|binding| names(&binding.value, user));
    bound.filter_map(|binding| role(core, &binding.value)).flat_map(|role| rules(&role)).collect()
}

fn rules(role: &Arc<Stored>) -> Vec<Value> {
    role.value.get("rules").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Whether a binding is for this user, one of its groups, or its service account.
fn names(binding: &Value, user: &User) -> bool {
    let subjects = binding.get("subjects").and_then(Value::as_array).into_iter().flatten();
    let text =
        |subject: &Value, field: &str| subject.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
    subjects.into_iter().any(|subject| match text(subject, "kind").as_str() {
        "User" => text(subject, "name") == user.name,
        "Group" => user.groups.contains(&text(subject, "name")),
        "ServiceAccount" => {
            let namespace = match text(subject, "namespace") {
                none if none.is_empty() => object::namespace(binding).to_owned(),
                named => named,
            };
            user.name == format!("system:serviceaccount:{namespace}:{}", text(subject, "name"))
        }
        _ => false,
    })
}

fn role(core: &Core, binding: &Value) -> Option<Arc<Stored>> {
    let name = object::text(binding, &["roleRef", "name"])?;
    match object::text(binding, &["roleRef", "kind"])? {
        "ClusterRole" => core.store.get(CLUSTER_ROLES, &Key::new("", name)),
        "Role" => core.store.get(ROLES, &Key::new(object::namespace(binding), name)),
        _ => None,
    }
}

fn covers(rule: &Value, asked: &Attributes) -> bool {
    let has = |field: &str, wanted: &str| list(rule, field).any(|found| found == "*" || found == wanted);
    if !has("verbs", &asked.verb) {
        return false;
    }
    if let Some(path) = &asked.path {
        return list(rule, "nonResourceURLs").any(|url| url_covers(url, path));
    }
    has("apiGroups", &asked.group) && covers_resource(rule, asked) && covers_name(rule, asked)
}

fn list<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    rule.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn url_covers(url: &str, path: &str) -> bool {
    url == path || url.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
}

/// `pods`, `pods/log`, `*/scale` or `*`.
fn covers_resource(rule: &Value, asked: &Attributes) -> bool {
    let wanted = match asked.subresource.as_str() {
        "" => asked.resource.clone(),
        subresource => format!("{}/{subresource}", asked.resource),
    };
    list(rule, "resources").any(|found| {
        let any_with_part = found.strip_prefix("*/").is_some_and(|part| part == asked.subresource);
        found == "*" || found == wanted || (any_with_part && !asked.subresource.is_empty())
    })
}

fn covers_name(rule: &Value, asked: &Attributes) -> bool {
    let mut limited = list(rule, "resourceNames").peekable();
    limited.peek().is_none() || limited.any(|name| name == asked.name && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(verb: &str, group: &str, resource: &str, subresource: &str, name: &str) -> Attributes {
        Attributes::resource(verb, group, resource, subresource, "here", name)
    }

    #[test]
    fn a_rule_covers_what_it_names_and_nothing_else() {
        let rule = |resources: &[&str], names: &[&str]| json!({"verbs": ["get", "update"], "apiGroups": ["", "apps"], "resources": resources, "resourceNames": names});
        let cases = [
            (rule(&["pods"], &[]), asked("get", "", "pods", "", "a"), true),
            (rule(&["pods"], &[]), asked("get", "apps", "pods", "", "a"), true),
            (rule(&["pods"], &[]), asked("get", "batch", "pods", "", "a"), false),
            (rule(&["pods"], &[]), asked("delete", "", "pods", "", "a"), false),
            (rule(&["pods"], &[]), asked("get", "", "pods", "log", "a"), false),
            (rule(&["pods/log"], &[]), asked("get", "", "pods", "log", "a"), true),
            (rule(&["*/status"], &[]), asked("update", "", "pods", "status", "a"), true),
            (rule(&["*/status"], &[]), asked("update", "", "pods", "", "a"), false),
            (rule(&["*"], &[]), asked("update", "", "pods", "status", "a"), true),
            (rule(&["pods"], &["a"]), asked("get", "", "pods", "", "a"), true),
            (rule(&["pods"], &["a"]), asked("get", "", "pods", "", "b"), false),
            (rule(&["pods"], &["a"]), asked("get", "", "pods", "", ""), false),
        ];
        for (rule, asked, expected) in cases {
            assert_eq!(covers(&rule, &asked), expected, "{rule} {asked:?}");
        }
    }

    #[test]
    fn paths_are_covered_by_prefix_only_with_a_star() {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/apis", "/apis/*"]});
        for (path, expected) in [("/apis", true), ("/apis/apps", true), ("/api", false), ("/apisx", false)] {
            assert_eq!(covers(&rule, &Attributes::path(&http::Method::GET, path)), expected, "{path}");
        }
    }
}
