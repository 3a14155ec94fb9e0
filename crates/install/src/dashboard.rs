//! A dashboard for Grafana: what the parts measure, in the order in which one asks.
//!
//! Grafana's sidecar finds it by its label. A test looks up every metric in the sources, so a panel cannot show what nobody
//! measures.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use tombolo_api::tombolo::MANAGED_BY_LABEL;

use crate::manifest::Manifest;
use crate::part::INSTALLER;
use crate::settings::Settings;

/// Rows of panels: a title, the unit, and an expression with its legend.
type Panel = (&'static str, &'static str, &'static str, &'static str);

const ROWS: &[(&str, &[Panel])] = &[
    (
        "Is everything where it should be?",
        &[
            (
                "Sources by state",
                "short",
                "max by (source, state) (tombolo_agent_source_state == 1)",
                "{{source}} {{state}}",
            ),
            ("Imports", "short", "sum by (cluster, dialect) (tombolo_agent_imports)", "{{dialect}}"),
            ("Conflicting exports", "short", "sum by (dialect) (tombolo_agent_conflicts)", "{{dialect}}"),
            (
                "Services that refuse all traffic",
                "short",
                "max by (namespace, service, reason) (tombolo_proxy_black_hole)",
                "{{namespace}}/{{service}} {{reason}}",
            ),
            (
                "Clusters that are not ready",
                "short",
                "1 - max by (cluster) (tombolo_hub_cluster_ready)",
                "{{cluster}}",
            ),
            ("Load balancers by phase", "short", "max by (phase) (tombolo_balancer_services)", "{{phase}}"),
        ],
    ),
    (
        "How quick is it?",
        &[
            (
                "Endpoint change to imported slice, 99th percentile",
                "s",
                "histogram_quantile(0.99, sum by (le, source) (rate(tombolo_agent_propagation_seconds_bucket[5m])))",
                "{{source}}",
            ),
            (
                "Watch event to kernel, 99th percentile",
                "s",
                "histogram_quantile(0.99, sum by (le) (rate(tombolo_proxy_event_to_commit_seconds_bucket[5m])))",
                "proxy",
            ),
            (
                "Watch event to DNS answer, 99th percentile",
                "s",
                "histogram_quantile(0.99, sum by (le) (rate(tombolo_dns_update_seconds_bucket[5m])))",
                "dns",
            ),
            (
                "DNS answers, 99th percentile",
                "s",
                "histogram_quantile(0.99, sum by (le) (rate(coredns_dns_request_duration_seconds_bucket{app_kubernetes_io_component=\"dns\"}[5m])))",
                "dns",
            ),
        ],
    ),
    (
        "How much is going on?",
        &[
            (
                "DNS queries",
                "reqps",
                "sum by (zone) (rate(coredns_dns_requests_total{app_kubernetes_io_component=\"dns\"}[5m]))",
                "{{zone}}",
            ),
            (
                "Writes to API servers",
                "reqps",
                "sum by (side, resource, result) (rate(tombolo_agent_writes_total[5m]))",
                "{{side}} {{resource}} {{result}}",
            ),
            (
                "Elements written to kernels",
                "ops",
                "sum(rate(tombolo_proxy_elements_written_total[5m]))",
                "elements",
            ),
            (
                "Works written",
                "ops",
                "sum by (operation) (rate(tombolo_hub_work_writes_total[5m]))",
                "{{operation}}",
            ),
        ],
    ),
    (
        "What goes wrong?",
        &[
            (
                "Endpoints left out",
                "short",
                "sum by (direction, source, reason) (tombolo_agent_dropped_endpoints)",
                "{{direction}} {{source}} {{reason}}",
            ),
            (
                "Objects ignored at the hub",
                "short",
                "sum by (kind, reason) (tombolo_agent_refused_objects)",
                "{{kind}} {{reason}}",
            ),
            (
                "Attempts repeated",
                "ops",
                "sum by (controller) (rate(tombolo_agent_reconcile_errors_total[5m]))",
                "{{controller}}",
            ),
            (
                "Packets refused",
                "pps",
                "sum by (namespace, service, why) (rate(tombolo_proxy_refused_packets_total[5m]))",
                "{{namespace}}/{{service}} {{why}}",
            ),
            (
                "DNS forwarding that failed",
                "ops",
                "sum(rate(tombolo_dns_forward_failures_total[5m]))",
                "failures",
            ),
            ("Rivals for addresses", "ops", "sum(rate(tombolo_balancer_rivals_total[5m]))", "rivals"),
        ],
    ),
];

const COLUMNS: usize = 3;
const WIDTH: usize = 8;
const HEIGHT: usize = 8;

pub(crate) fn config_map(settings: &Settings) -> Manifest {
    let labels =
        [("grafana_dashboard", "1"), ("app.kubernetes.io/name", "tombolo"), (MANAGED_BY_LABEL, INSTALLER)];
    let text = serde_json::to_string_pretty(&tombolo_api::crd::plain(dashboard())).expect("JSON has a text");
    Manifest::of(&ConfigMap {
        metadata: ObjectMeta {
            name: Some("tombolo-dashboard".to_owned()),
            namespace: Some(settings.namespace.clone()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        data: Some([("tombolo.json".to_owned(), text)].into()),
        ..ConfigMap::default()
    })
}

fn dashboard() -> Value {
    let source = json!({
        "name": "datasource",
        "type": "datasource",
        "query": "prometheus",
        "label": "Data source",
    });
    json!({
        "uid": "tombolo",
        "title": "Tombolo",
        "tags": ["tombolo"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels(),
    })
}

fn panels() -> Vec<Value> {
    let (mut all, mut top) = (Vec::new(), 0);
    for (title, panels) in ROWS {
        let place = json!({"x": 0, "y": top, "w": COLUMNS * WIDTH, "h": 1});
        all.push(json!({"id": all.len() + 1, "type": "row", "title": title, "gridPos": place, "panels": []}));
        top += 1;
        for (number, panel) in panels.iter().enumerate() {
            let (column, line) = (number % COLUMNS, number / COLUMNS);
            let place = json!({"x": column * WIDTH, "y": top + line * HEIGHT, "w": WIDTH, "h": HEIGHT});
            all.push(graph(all.len() + 1, *panel, place));
        }
        top += panels.len().div_ceil(COLUMNS) * HEIGHT;
    }
    all
}

fn graph(id: usize, (title, unit, expression, legend): Panel, place: Value) -> Value {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    json!({
        "id": id,
        "type": "timeseries",
        "title": title,
        "gridPos": place,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": expression, "legendFormat": legend}],
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    /// The text of the parts' sources.
    fn code() -> String {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut files = Vec::new();
        for part in ["agent", "hub", "dns", "proxy", "balancer"] {
            sources(&crates.join(part).join("src"), &mut files);
        }
        files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
    }

    #[test]
    fn every_metric_that_is_shown_is_measured() {
        let code = code();
        for (_, _, expression, _) in ROWS.iter().flat_map(|(_, panels)| *panels) {
            let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let metrics: Vec<&str> =
                words.filter(|word| word.starts_with("tombolo_") || word.starts_with("coredns_")).collect();
            assert_eq!(metrics.len(), 1, "{expression}");
            let name = metrics[0].trim_end_matches("_bucket").trim_end_matches("_total");
            let known =
                ["tombolo_agent_", "tombolo_hub_", "tombolo_dns_", "tombolo_proxy_", "tombolo_balancer_"];
            let own = known.iter().find_map(|prefix| name.strip_prefix(prefix));
            // Some are registered without their unit.
            let bare = name.trim_end_matches("_seconds");
            let quoted = |name: &str| code.contains(&format!("\"{name}\""));
            let measured = quoted(name) || quoted(bare) || own.is_some_and(quoted);
            assert!(measured, "nobody measures {name}");
        }
    }

    #[test]
    fn panels_do_not_lie_on_each_other() {
        let mut taken = std::collections::BTreeSet::new();
        for panel in panels() {
            let of = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            for (x, y) in
                (of("x")..of("x") + of("w")).flat_map(|x| (of("y")..of("y") + of("h")).map(move |y| (x, y)))
            {
                assert!(taken.insert((x, y)), "{}", panel["title"]);
            }
        }
    }
}
