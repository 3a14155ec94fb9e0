//! The fields by which objects of each kind may be selected, and what is said about others.

use crate::registry::Resource;
use crate::selector::FieldTerm;
use crate::status::Status;

/// Fields beyond name and namespace.
fn selectable(resource: &Resource) -> &'static [&'static str] {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("", "namespaces") => &["status.phase"],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "secrets") => &["type"],
        ("", "replicationcontrollers") => &["status.replicas"],
        _ => &[],
    }
}

/// The field of the stored object that a term means, or the refusal.
pub(super) fn resolve(resource: &Resource, mut term: FieldTerm) -> Result<FieldTerm, Status> {
    if resource.is("events.k8s.io", "events") {
        let Some(stored) = modern_event_field(&term.path) else {
            return Err(unsupported(resource, &term.path));
        };
        term.path = stored;
        return Ok(term);
    }
    let path = term.path.as_str();
    // Kinds without a table of their own take the namespace even when they have none.
    let in_namespace = path == "metadata.namespace" && (resource.namespaced || !has_own_table(resource));
    let custom = resource
        .custom_version()
        .is_some_and(|version| version.selectable_fields.iter().any(|field| field.name == path));
    if path == "metadata.name" || in_namespace || custom || selectable(resource).contains(&path) {
        return Ok(term);
    }
    Err(unsupported(resource, path))
}

/// The names of `events.k8s.io`, as core events call them.
fn modern_event_field(path: &str) -> Option<String> {
    match path {
        "reason" | "type" | "metadata.name" | "metadata.namespace" => Some(path.to_owned()),
        "reportingController" => Some("reportingComponent".to_owned()),
        other => other.strip_prefix("regarding.").map(|part| format!("involvedObject.{part}")),
    }
}

fn has_own_table(resource: &Resource) -> bool {
    resource.is_custom() || resource.group == "events.k8s.io" || !selectable(resource).is_empty()
}

fn unsupported(resource: &Resource, path: &str) -> Status {
    Status::bad_request(if has_own_table(resource) {
        format!("field label not supported: {path}")
    } else {
        format!("{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    })
}
