//! What is odd about a Service that is accepted all the same.

use serde_json::Value;

use crate::object;

/// Sentences for the writer of a Service.
pub(crate) fn warnings(service: &Value) -> Vec<String> {
    let text = |field: &str| object::text(service, &["spec", field]).unwrap_or_default();
    let has_external = object::at(service, &["spec", "externalIPs"])
        .and_then(Value::as_array)
        .is_some_and(|ips| !ips.is_empty());
    let (is_named, is_headless) = (text("type") == "ExternalName", text("clusterIP") == "None");
    let cases = [
        (
            is_headless && !text("loadBalancerIP").is_empty(),
            "spec.loadBalancerIP is ignored for headless services",
        ),
        (is_headless && has_external, "spec.externalIPs is ignored for headless services"),
        (
            is_headless && text("sessionAffinity") != "None",
            "spec.SessionAffinity is ignored for headless services",
        ),
        (
            has_external && !is_headless && !is_named,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (is_named && has_external, "spec.externalIPs is ignored when spec.type is \"ExternalName\""),
        (
            !is_named && !text("externalName").is_empty(),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            text("trafficDistribution") == "PreferClose",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ),
    ];
    cases.into_iter().filter(|(applies, _)| *applies).map(|(_, sentence)| sentence.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_writes_a_service_hears_what_is_odd_about_it() {
        let cases = [
            (json!({"clusterIP": "10.0.0.1", "sessionAffinity": "None"}), ""),
            (json!({"clusterIP": "None", "sessionAffinity": "ClientIP"}), "SessionAffinity is ignored"),
            (json!({"trafficDistribution": "PreferClose"}), "PreferSameZone"),
            (json!({"externalName": "a.example"}), "externalName is ignored"),
        ];
        for (spec, expected) in cases {
            let found = warnings(&json!({"spec": spec})).join(" ");
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{spec}: {found}");
        }
    }
}
