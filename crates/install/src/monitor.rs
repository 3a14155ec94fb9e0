//! For Prometheus' operator: where to look.

use std::collections::BTreeMap;

use serde_json::json;
use tombolo_api::tombolo::MANAGED_BY_LABEL;

use crate::manifest::Manifest;
use crate::part::{INSTALLER, Part};
use crate::pod::ADMIN;
use crate::settings::Settings;

/// All parts have the same door. (Not a kind of Kubernetes' own, hence untyped.)
pub(crate) fn service_monitor(settings: &Settings) -> Manifest {
    let components: Vec<&str> = Part::ALL.iter().map(|part| part.command()).collect();
    let own = [("app.kubernetes.io/name", "tombolo"), (MANAGED_BY_LABEL, INSTALLER)];
    let mut labels: BTreeMap<&str, &str> =
        settings.monitor_labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    labels.extend(own);
    Manifest::from_value(json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {
            "name": "tombolo",
            "namespace": settings.namespace,
            "labels": labels,
        },
        "spec": {
            "selector": {
                "matchLabels": {"app.kubernetes.io/name": "tombolo"},
                "matchExpressions": [
                    {"key": "app.kubernetes.io/component", "operator": "In", "values": components},
                ],
            },
            "targetLabels": ["app.kubernetes.io/component"],
            // What a metric says of a namespace or a Service is about that, not about the pod that was asked.
            "endpoints": [{"port": ADMIN, "path": "/metrics", "interval": "15s", "honorLabels": true}],
        },
    }))
}
