//! Label selectors as workloads and policies carry them: `matchLabels` and `matchExpressions`.
//!
//! Judged, matched against labels and written as text. The selectors of list and watch requests have a syntax of
//! their own and live with the requests.

use serde_json::Value;

use super::{field, metadata, names};
use crate::invalid::FieldError;

/// What is wrong with the selector at `path` of `object`.
pub(crate) fn validate(object: &Value, path: &str) -> Vec<FieldError> {
    let mut wrong = metadata::labels(object, &format!("{path}.matchLabels"));
    let expressions = format!("{path}.matchExpressions");
    for (index, expression) in field::list(object, &expressions).iter().enumerate() {
        wrong.extend(requirement(expression, &format!("{expressions}[{index}]")));
    }
    wrong
}

/// Whether `selector` asks for nothing and so selects everything.
pub(crate) fn is_empty(selector: &Value) -> bool {
    field::members(selector, "matchLabels").next().is_none()
        && field::list(selector, "matchExpressions").is_empty()
}

/// Whether `labels`, a map of strings, fulfil `selector`.
pub(crate) fn matches(selector: &Value, labels: Option<&Value>) -> bool {
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    field::members(selector, "matchLabels").all(|(key, value)| label(key) == value.as_str())
        && field::list(selector, "matchExpressions").iter().all(|expression| fulfils(expression, &label))
}

/// The selector as text, sorted by key: `app=web,tier in (a,b)`; empty when it selects everything or is absent.
pub(crate) fn text(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return String::new() };
    let mut parts: Vec<(&str, String)> = field::members(selector, "matchLabels")
        .map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    parts.extend(field::list(selector, "matchExpressions").iter().map(expression_text));
    parts.sort_by_key(|(key, _)| *key);
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

fn requirement(expression: &Value, path: &str) -> Vec<FieldError> {
    let values = field::texts(expression, "values");
    let mut wrong = Vec::new();
    match field::text(expression, "operator") {
        "In" | "NotIn" if values.is_empty() => wrong.push(FieldError::required(
            format!("{path}.values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !values.is_empty() => wrong.push(FieldError::forbidden(
            format!("{path}.values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            wrong.push(FieldError::invalid(
                format!("{path}.operator"),
                other,
                "not a valid selector operator",
            ));
        }
    }
    let key = field::text(expression, "key");
    wrong.extend(metadata::complaints(&format!("{path}.key"), key, names::label_key(key)));
    for (index, value) in values.iter().enumerate() {
        let path = format!("{path}.values[{index}]");
        wrong.extend(metadata::complaints(&path, value, names::label_value(value)));
    }
    wrong
}

fn fulfils<'a>(expression: &Value, label: &impl Fn(&str) -> Option<&'a str>) -> bool {
    let values = field::texts(expression, "values");
    let found = label(field::text(expression, "key"));
    match field::text(expression, "operator") {
        "In" => found.is_some_and(|value| values.contains(&value)),
        "NotIn" => found.is_none_or(|value| !values.contains(&value)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        _ => false,
    }
}

fn expression_text(expression: &Value) -> (&str, String) {
    let key = field::text(expression, "key");
    let mut values = field::texts(expression, "values");
    values.sort_unstable();
    let text = match field::text(expression, "operator") {
        "In" => format!("{key} in ({})", values.join(",")),
        "NotIn" => format!("{key} notin ({})", values.join(",")),
        "DoesNotExist" => format!("!{key}"),
        _ => key.to_owned(),
    };
    (key, text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_matches_what_it_asks_for() {
        let labels = json!({"app": "web", "tier": "front"});
        let cases = [
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}]}),
                true,
            ),
            (json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}), true),
            (json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}), false),
        ];
        for (selector, expected) in cases {
            assert_eq!(matches(&selector, Some(&labels)), expected, "{selector}");
        }
    }

    #[test]
    fn a_selector_reads_as_kubectl_shows_it() {
        let selector = json!({
            "matchLabels": {"b": "2"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["y", "x"]},
                {"key": "c", "operator": "Exists"},
                {"key": "d", "operator": "DoesNotExist"},
                {"key": "e", "operator": "NotIn", "values": ["z"]},
            ],
        });
        assert_eq!(text(Some(&selector)), "a in (x,y),b=2,c,!d,e notin (z)");
        assert_eq!(text(None), "");
    }

    #[test]
    fn operators_and_values_have_to_fit() {
        let object = json!({"spec": {"selector": {"matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "a", "operator": "Like", "values": ["x"]},
        ]}}});
        let wrong: Vec<_> = validate(&object, "spec.selector").iter().map(ToString::to_string).collect();
        assert_eq!(
            wrong,
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' \
                 or 'NotIn'",
                "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is \
                 'Exists' or 'DoesNotExist'",
                "spec.selector.matchExpressions[2].operator: Invalid value: \"Like\": not a valid selector operator",
            ]
        );
    }
}
