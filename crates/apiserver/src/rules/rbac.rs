//! Roles and their bindings: a rule grants something, a binding is to one role for life.

use serde_json::Value;

use super::{field, metadata, names, unchanged};
use crate::invalid::FieldError;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Fills the API groups that follow from the kinds in a binding; roles have no defaults.
pub(crate) fn default(object: &mut Value) {
    if field::at(object, "roleRef").is_some() {
        field::fill(object, "roleRef.apiGroup", GROUP);
    }
    for subject in field::list_mut(object, "subjects") {
        if matches!(field::text(subject, "kind"), "User" | "Group") {
            field::fill(subject, "apiGroup", GROUP);
        }
    }
}

/// Everything that is wrong with an object of one of the four kinds. Metadata is judged elsewhere.
pub(crate) fn validate(kind: &str, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match kind {
        "Role" => rules(new, true),
        "ClusterRole" => cluster_role(new),
        "RoleBinding" => binding(new, old, &["Role", "ClusterRole"]),
        "ClusterRoleBinding" => binding(new, old, &["ClusterRole"]),
        _ => Vec::new(),
    }
}

fn rules(role: &Value, is_namespaced: bool) -> Vec<FieldError> {
    let rules = field::list(role, "rules").iter().enumerate();
    rules.flat_map(|(index, rule)| self::rule(rule, is_namespaced, &format!("rules[{index}]"))).collect()
}

fn cluster_role(role: &Value) -> Vec<FieldError> {
    let mut wrong = rules(role, false);
    let path = "aggregationRule.clusterRoleSelectors";
    if field::at(role, "aggregationRule").is_some() && field::list(role, path).is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        wrong.push(FieldError::required(path, detail));
    }
    wrong
}

fn rule(rule: &Value, is_namespaced: bool, path: &str) -> Vec<FieldError> {
    let has = |key: &str| !field::list(rule, key).is_empty();
    let mut wrong = Vec::new();
    if !has("verbs") {
        wrong.push(FieldError::required(format!("{path}.verbs"), "verbs must contain at least one value"));
    }
    if has("nonResourceURLs") {
        let refuse = |detail| {
            let urls = field::list(rule, "nonResourceURLs").to_vec();
            FieldError::invalid(format!("{path}.nonResourceURLs"), urls, detail)
        };
        if is_namespaced {
            wrong.push(refuse("namespaced rules cannot apply to non-resource URLs"));
        }
        if has("apiGroups") || has("resources") || has("resourceNames") {
            wrong.push(refuse("rules cannot apply to both regular resources and non-resource URLs"));
        }
        return wrong;
    }
    for (key, detail) in [
        ("apiGroups", "resource rules must supply at least one api group"),
        ("resources", "resource rules must supply at least one resource"),
    ] {
        if !has(key) {
            wrong.push(FieldError::required(format!("{path}.{key}"), detail));
        }
    }
    wrong
}

fn binding(new: &Value, old: Option<&Value>, kinds: &[&str]) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let group = field::text(new, "roleRef.apiGroup");
    if group != GROUP {
        wrong.push(FieldError::not_supported("roleRef.apiGroup", group, &[GROUP]));
    }
    let kind = field::text(new, "roleRef.kind");
    if !kinds.contains(&kind) {
        wrong.push(FieldError::not_supported("roleRef.kind", kind, kinds));
    }
    match field::text(new, "roleRef.name") {
        "" => wrong.push(FieldError::required("roleRef.name", "")),
        name => wrong.extend(metadata::complaints("roleRef.name", name, names::path_segment(name))),
    }
    let is_namespaced = kinds.len() > 1;
    for (index, subject) in field::list(new, "subjects").iter().enumerate() {
        wrong.extend(self::subject(subject, is_namespaced, &format!("subjects[{index}]")));
    }
    wrong.extend(old.and_then(|old| unchanged(new, old, "roleRef")));
    wrong
}

fn subject(subject: &Value, is_namespaced: bool, path: &str) -> Vec<FieldError> {
    let [kind, name, group] = ["kind", "name", "apiGroup"].map(|key| field::text(subject, key));
    let mut wrong = Vec::new();
    if name.is_empty() {
        wrong.push(FieldError::required(format!("{path}.name"), ""));
    }
    let expected = match kind {
        "ServiceAccount" => "",
        "User" | "Group" => GROUP,
        _ => {
            let path = format!("{path}.kind");
            wrong.push(FieldError::not_supported(path, kind, &["ServiceAccount", "User", "Group"]));
            return wrong;
        }
    };
    if group != expected {
        wrong.push(FieldError::not_supported(format!("{path}.apiGroup"), group, &[expected]));
    }
    if kind == "ServiceAccount" {
        if !name.is_empty() {
            wrong.extend(metadata::complaints(&format!("{path}.name"), name, names::dns_subdomain(name)));
        }
        if !is_namespaced && field::text(subject, "namespace").is_empty() {
            wrong.push(FieldError::required(format!("{path}.namespace"), ""));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_binding_is_completed_and_then_passes() {
        let mut binding = json!({
            "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "name": "ann"}, {"kind": "ServiceAccount", "name": "sa", "namespace": "a"}],
        });
        default(&mut binding);
        assert_eq!(binding["roleRef"]["apiGroup"], GROUP);
        assert_eq!(binding["subjects"][0]["apiGroup"], GROUP);
        assert_eq!(binding["subjects"][1].get("apiGroup"), None);
        for kind in ["RoleBinding", "ClusterRoleBinding"] {
            assert_eq!(validate(kind, &binding, Some(&binding)), []);
        }
    }

    #[test]
    fn each_mistake_is_named_where_it_is() {
        let to = |name: &str| json!({"roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}});
        let rule = |rule: Value| json!({ "rules": [rule] });
        let cases = [
            ("Role", rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})), None, vec![]),
            (
                "Role",
                rule(json!({})),
                None,
                vec![
                    "rules[0].verbs: Required value: verbs must contain at least one value",
                    "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                    "rules[0].resources: Required value: resource rules must supply at least one resource",
                ],
            ),
            (
                "Role",
                rule(json!({"verbs": ["get"], "nonResourceURLs": ["/x"]})),
                None,
                vec![
                    "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to \
                     non-resource URLs",
                ],
            ),
            (
                "RoleBinding",
                to("b"),
                Some(to("a")),
                vec![
                    "roleRef: Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"ClusterRole\",\
                     \"name\":\"b\"}: field is immutable",
                ],
            ),
            (
                "ClusterRoleBinding",
                json!({"roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "a"}, "subjects": [
                    {"kind": "ServiceAccount", "name": "x"}]}),
                None,
                vec![
                    "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                    "subjects[0].namespace: Required value",
                ],
            ),
        ];
        for (kind, new, old, expected) in cases {
            let wrong: Vec<_> = validate(kind, &new, old.as_ref()).iter().map(ToString::to_string).collect();
            assert_eq!(wrong, expected);
        }
    }
}
