//! What a pod has to say, and the little that may change about it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::invalid::{FieldError, Problem};
use crate::rules::{field, metadata, names};

const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// What an update may change, as the refusal lists it.
const CHANGEABLE: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Everything that is wrong with a pod. Metadata is judged elsewhere.
pub(crate) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let nothing = Value::Null;
    let mut wrong = validate_spec(new.get("spec").unwrap_or(&nothing), "spec");
    if let Some(old) = old {
        wrong.extend(changes(new, old));
    }
    wrong
}

/// Everything that is wrong with the spec of a pod, which stands at `path` of the object.
pub(crate) fn validate_spec(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    if field::list(spec, "containers").is_empty() {
        wrong.push(FieldError::required(format!("{path}.containers"), ""));
    }
    for key in ["containers", "initContainers"] {
        for (index, container) in field::list(spec, key).iter().enumerate() {
            wrong.extend(self::container(container, &format!("{path}.{key}[{index}]"), &mut seen));
        }
    }
    // Neither list is sorted by the server.
    wrong.extend(one_of(spec, "restartPolicy", path, &RESTART_POLICIES));
    wrong.extend(node_name(spec, path));
    wrong
}

fn container<'a>(container: &'a Value, path: &str, seen: &mut BTreeSet<&'a str>) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let name_path = format!("{path}.name");
    match field::text(container, "name") {
        "" => wrong.push(FieldError::required(name_path, "")),
        name => {
            wrong.extend(metadata::complaints(&name_path, name, names::dns_label(name)));
            if !seen.insert(name) {
                wrong.push(FieldError::duplicate(name_path, name));
            }
        }
    }
    if field::text(container, "image").is_empty() {
        wrong.push(FieldError::required(format!("{path}.image"), ""));
    }
    wrong.extend(ports(container, path));
    wrong.extend(one_of(container, "imagePullPolicy", path, &PULL_POLICIES));
    wrong
}

fn ports(container: &Value, path: &str) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, port) in field::list(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = field::text(port, "name");
        if !name.is_empty() {
            wrong.extend(metadata::complaints(&format!("{path}.name"), name, names::port_name(name)));
            if !seen.insert(name) {
                wrong.push(FieldError::duplicate(format!("{path}.name"), name));
            }
        }
        match field::number(port, "containerPort") {
            0 => wrong.push(FieldError::required(format!("{path}.containerPort"), "")),
            number => wrong.extend(port_number(&format!("{path}.containerPort"), number)),
        }
        match field::number(port, "hostPort") {
            0 => {}
            number => wrong.extend(port_number(&format!("{path}.hostPort"), number)),
        }
        wrong.extend(one_of(port, "protocol", &path, &PROTOCOLS));
    }
    wrong
}

fn port_number(path: &str, number: i64) -> Option<FieldError> {
    let detail = "must be between 1 and 65535, inclusive";
    (!(1..=65535).contains(&number)).then(|| FieldError::invalid(path, number, detail))
}

fn node_name(spec: &Value, path: &str) -> Vec<FieldError> {
    match field::text(spec, "nodeName") {
        "" => Vec::new(),
        name => metadata::complaints(&format!("{path}.nodeName"), name, names::dns_subdomain(name)).collect(),
    }
}

fn one_of(object: &Value, key: &str, path: &str, known: &[&str]) -> Option<FieldError> {
    let path = format!("{path}.{key}");
    match field::text(object, key) {
        "" => Some(FieldError::required(path, "")),
        value if !known.contains(&value) => {
            let names: Vec<_> = known.iter().map(|name| format!("{name:?}")).collect();
            let detail = format!("supported values: {}", names.join(", "));
            Some(FieldError::new(path, Problem::NotSupported(value.into()), detail))
        }
        _ => None,
    }
}

fn changes(new: &Value, old: &Value) -> Vec<FieldError> {
    for path in ["spec.containers", "spec.initContainers"] {
        if field::list(new, path).len() != field::list(old, path).len() {
            return vec![FieldError::forbidden(path, "pod updates may not add or remove containers")];
        }
    }
    let mut wrong: Vec<FieldError> = deadline(new, old).into_iter().collect();
    wrong.extend(tolerations(new, old));
    wrong.extend(gates(new, old));
    let mut rest = new.clone();
    forget_changeable(&mut rest, old);
    if !field::is_alike(field::at(&rest, "spec"), field::at(old, "spec")) {
        wrong.push(FieldError::forbidden("spec", CHANGEABLE));
    }
    wrong
}

/// Makes everything that may change what it was, so that whatever still differs may not.
fn forget_changeable(pod: &mut Value, old: &Value) {
    for path in ["spec.containers", "spec.initContainers"] {
        for (container, before) in field::list_mut(pod, path).iter_mut().zip(field::list(old, path)) {
            field::carry(before, container, "image");
        }
    }
    for path in ["spec.activeDeadlineSeconds", "spec.tolerations", "spec.schedulingGates"] {
        field::carry(old, pod, path);
    }
    let grace = "spec.terminationGracePeriodSeconds";
    if field::number(old, grace) < 0 && field::number(pod, grace) == 1 {
        field::carry(old, pod, grace);
    }
    // Ephemeral containers have a subresource of their own; leaving them out means nothing.
    if field::list(pod, "spec.ephemeralContainers").is_empty() {
        field::carry(old, pod, "spec.ephemeralContainers");
    }
}

fn deadline(new: &Value, old: &Value) -> Option<FieldError> {
    let path = "spec.activeDeadlineSeconds";
    let (before, after) = (field::at(old, path), field::at(new, path));
    let Some(after) = after else {
        let detail = "must not update from a positive integer to nil value";
        return before.map(|_| FieldError::invalid(path, Value::Null, detail));
    };
    let seconds = after.as_i64().unwrap_or(-1);
    if !(0..=i64::from(i32::MAX)).contains(&seconds) {
        let detail = "must be between 0 and 2147483647, inclusive";
        return Some(FieldError::invalid(path, after.clone(), detail));
    }
    let grows = before.and_then(Value::as_i64).is_some_and(|before| before < seconds);
    grows.then(|| FieldError::invalid(path, seconds, "must be less than or equal to previous value"))
}

fn tolerations(new: &Value, old: &Value) -> Option<FieldError> {
    let path = "spec.tolerations";
    let bare = |toleration: &Value| {
        let mut toleration = toleration.clone();
        field::remove(&mut toleration, "tolerationSeconds");
        toleration
    };
    let after: Vec<Value> = field::list(new, path).iter().map(bare).collect();
    let is_kept = |toleration: &Value| after.contains(&bare(toleration));
    (!field::list(old, path).iter().all(is_kept)).then(|| {
        FieldError::forbidden(path, "existing toleration can not be modified except its tolerationSeconds")
    })
}

fn gates(new: &Value, old: &Value) -> Vec<FieldError> {
    let path = "spec.schedulingGates";
    let before: Vec<_> = field::list(old, path).iter().map(|gate| field::text(gate, "name")).collect();
    let added = field::list(new, path).iter().filter(|gate| !before.contains(&field::text(gate, "name")));
    let detail = "only deletion is allowed, but found new scheduling gate";
    added
        .map(|gate| FieldError::forbidden(path, format!("{detail} '{}'", field::text(gate, "name"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::pod::default;

    fn pod(spec: Value) -> Value {
        let mut pod = json!({ "spec": spec });
        default(&mut pod);
        pod
    }

    fn check(new: &Value, old: Option<&Value>) -> Vec<String> {
        validate(new, old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_mistake_is_named_where_it_is() {
        let one = json!({"name": "a", "image": "b"});
        let cases = [
            (json!({"containers": [one]}), vec![]),
            (json!({}), vec!["spec.containers: Required value"]),
            (json!({"containers": [{"name": "a"}]}), vec!["spec.containers[0].image: Required value"]),
            (json!({"containers": [one, one]}), vec!["spec.containers[1].name: Duplicate value: \"a\""]),
            (
                json!({"containers": [one], "restartPolicy": "Sometimes"}),
                vec![
                    "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \
                     \"OnFailure\", \"Never\"",
                ],
            ),
            (
                json!({"containers": [{"name": "a", "image": "b", "ports": [{"containerPort": 70000, "name": "web"},
                    {"containerPort": 1, "name": "web"}]}]}),
                vec![
                    "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, \
                     inclusive",
                    "spec.containers[0].ports[1].name: Duplicate value: \"web\"",
                ],
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(check(&pod(spec), None), expected);
        }
    }

    #[test]
    fn only_a_few_fields_change() {
        let old = pod(json!({"containers": [{"name": "a", "image": "b:1"}], "tolerations": [{"key": "k"}]}));
        let changed = |path: &str, value: Value| {
            let mut new = old.clone();
            field::set(&mut new, path, value);
            check(&new, Some(&old))
        };
        let mut image = old.clone();
        image["spec"]["containers"][0]["image"] = "b:2".into();
        assert_eq!(check(&image, Some(&old)), Vec::<String>::new());
        let longer = json!([{"key": "new"}, {"key": "k", "tolerationSeconds": 5}]);
        assert_eq!(changed("spec.tolerations", longer), Vec::<String>::new());
        assert_eq!(changed("spec.activeDeadlineSeconds", json!(5)), Vec::<String>::new());
        assert_eq!(
            changed("spec.tolerations", json!([])),
            [
                "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
            ]
        );
        assert_eq!(
            changed("spec.containers", json!([])),
            [
                "spec.containers: Required value",
                "spec.containers: Forbidden: pod updates may not add or remove containers",
            ]
        );
        let node = changed("spec.nodeName", json!("node-1"));
        assert_eq!(node.len(), 1);
        assert!(
            node[0].starts_with("spec: Forbidden: pod updates may not change fields other than `spec.con")
        );
    }
}
