//! The quality-of-service class of a pod, which follows from what its containers ask for.

use serde_json::Value;

use crate::rules::field;

/// `Guaranteed`, `Burstable` or `BestEffort`.
///
/// Quantities are compared as they are written: requests that are left out have been copied from the limits before.
pub(super) fn class(pod: &Value) -> &'static str {
    let containers = || {
        let regular = field::list(pod, "spec.containers");
        regular.iter().chain(field::list(pod, "spec.initContainers"))
    };
    if !containers().any(asks) {
        return "BestEffort";
    }
    if containers().all(is_fixed) { "Guaranteed" } else { "Burstable" }
}

fn asks(container: &Value) -> bool {
    ["requests", "limits"]
        .iter()
        .any(|kind| ["cpu", "memory"].iter().any(|of| quantity(container, kind, of).is_some()))
}

fn is_fixed(container: &Value) -> bool {
    ["cpu", "memory"].iter().all(|of| {
        let limit = quantity(container, "limits", of);
        limit.is_some() && limit == quantity(container, "requests", of)
    })
}

fn quantity<'a>(container: &'a Value, kind: &str, of: &str) -> Option<&'a Value> {
    let found = field::at(container, &format!("resources.{kind}.{of}"))?;
    (found != "0" && found.as_i64() != Some(0)).then_some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_class_follows_from_requests_and_limits() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let cases = [
            (json!({}), "BestEffort"),
            (json!({"requests": {"cpu": "0"}}), "BestEffort"),
            (json!({"requests": {"example.com/gpu": "1"}}), "BestEffort"),
            (json!({"requests": {"cpu": "1"}}), "Burstable"),
            (json!({"requests": both, "limits": {"cpu": "1", "memory": "2Gi"}}), "Burstable"),
            (json!({"requests": both, "limits": both}), "Guaranteed"),
        ];
        for (resources, expected) in cases {
            let pod = json!({"spec": {"containers": [{"resources": resources}]}});
            assert_eq!(class(&pod), expected, "{resources}");
        }
    }
}
