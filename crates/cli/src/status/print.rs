//! A report as tables for people.

use std::fmt::Write as _;

use super::report::{ClusterRow, ConflictRow, ExportRow, ImportRow, Report, SharedRow, State};
use crate::paint::{Paint, Shade};
use crate::span;
use crate::table::{Cell, Table};

/// All tables that have rows; with `wide` more columns.
pub(super) fn tables(report: &Report, paint: Paint, wide: bool) -> String {
    let mut out = String::new();
    let hub = match &report.hub.problem {
        None => format!("hub      {}", report.hub.context),
        Some(why) => {
            paint.shade(&format!("hub      {} does not answer: {why}", report.hub.context), Shade::Bad)
        }
    };
    let _ = writeln!(out, "{hub}\n");
    if report.clusters.is_empty() && report.hub.problem.is_none() {
        let _ = writeln!(out, "No cluster has joined. `tombolo join` lets one in.");
    }
    let all = [
        clusters(&report.clusters, paint, wide),
        exports(&report.exports, paint, wide),
        imports(&report.imports, paint, wide),
        conflicts(&report.conflicts, paint),
        shared(&report.multi_cluster_services, paint),
    ];
    let filled: Vec<String> = all.iter().filter(|table| !table.is_empty()).map(Table::to_string).collect();
    out += &filled.join("\n");
    for other in report.others.iter().filter(|_| wide) {
        let _ = writeln!(
            out,
            "\n{}",
            paint.shade(&format!("left out: context {}: {}", other.context, other.reason), Shade::Faint)
        );
    }
    out
}

fn clusters(rows: &[ClusterRow], paint: Paint, wide: bool) -> Table {
    let mut heading = vec!["CLUSTER", "STATE", "HEARTBEAT", "REGION"];
    heading.extend(wide.then_some(["READY", "AGENT", "WATERMARK", "POD-CIDRS"]).into_iter().flatten());
    heading.push("NOTE");
    let mut table = Table::new(paint, &heading);
    for row in rows {
        let (word, shade) = match row.state {
            State::Live => ("live", Shade::Good),
            State::Silent => ("silent", Shade::Bad),
            State::Unknown => ("unknown", Shade::Doubtful),
        };
        let age = row.heartbeat_age.map(|seconds| format!("{} ago", span::tell(seconds))).unwrap_or_default();
        let text = |value: &Option<String>| Cell::from(value.clone().unwrap_or_default());
        let mut cells: Vec<Cell> =
            vec![row.name.clone().into(), Cell::shaded(word, shade), age.into(), text(&row.region)];
        if wide {
            let cidrs = row.pod_cidrs.join(",").into();
            cells.extend([text(&row.ready), text(&row.agent_version), text(&row.watermark), cidrs]);
        }
        cells.push(Cell::shaded(note(row), Shade::Bad));
        table.row(cells);
    }
    table
}

fn note(row: &ClusterRow) -> String {
    let failures = match row.failures {
        0 => None,
        1 => Some("1 service could not be imported".to_owned()),
        many => Some(format!("{many} services could not be imported")),
    };
    let notes: Vec<String> = row.problem.clone().into_iter().chain(failures).collect();
    notes.join("; ")
}

fn exports(rows: &[ExportRow], paint: Paint, wide: bool) -> Table {
    let mut heading = vec!["EXPORT", "EDITION", "CLUSTER", "READY", "CONFLICT"];
    heading.extend(wide.then_some("SINCE"));
    heading.push("NOTE");
    let mut table = Table::new(paint, &heading);
    for row in rows {
        let mut cells: Vec<Cell> = vec![
            format!("{}/{}", row.namespace, row.name).into(),
            row.edition.as_str().into(),
            row.cluster.clone().into(),
            Cell::shaded(&row.ready, if row.ready == "True" { Shade::Good } else { Shade::Doubtful }),
            Cell::shaded(&row.conflict, if row.conflict == "True" { Shade::Bad } else { Shade::Plain }),
        ];
        cells.extend(wide.then(|| row.since.map(|time| format!("{time:.0}")).unwrap_or_default().into()));
        cells.push(row.message.clone().into());
        table.row(cells);
    }
    table
}

fn imports(rows: &[ImportRow], paint: Paint, wide: bool) -> Table {
    let mut heading = vec!["IMPORT", "EDITION", "CLUSTER", "ADDRESS", "ENDPOINTS", "FROM"];
    heading.extend(wide.then_some("TYPE"));
    let mut table = Table::new(paint, &heading);
    for row in rows {
        let shade = if row.ready_endpoints == 0 { Shade::Bad } else { Shade::Plain };
        let mut cells: Vec<Cell> = vec![
            format!("{}/{}", row.namespace, row.name).into(),
            row.edition.as_str().into(),
            row.cluster.clone().into(),
            row.ips.join(",").into(),
            Cell::shaded(format!("{}/{}", row.ready_endpoints, row.endpoints), shade),
            row.sources.join(",").into(),
        ];
        cells.extend(wide.then(|| row.type_.clone().into()));
        table.row(cells);
    }
    table
}

fn conflicts(rows: &[ConflictRow], paint: Paint) -> Table {
    let mut table = Table::new(paint, &["CONFLICT", "EDITION", "CLUSTER", "REASON", "MESSAGE"]);
    for row in rows {
        table.row([
            format!("{}/{}", row.namespace, row.name).into(),
            row.edition.as_str().into(),
            row.cluster.clone().into(),
            Cell::shaded(&row.reason, Shade::Bad),
            row.message.clone().into(),
        ]);
    }
    table
}

fn shared(rows: &[SharedRow], paint: Paint) -> Table {
    let mut table = Table::new(paint, &["MULTICLUSTERSERVICE", "TYPES", "STATE"]);
    for row in rows {
        let state = match row.pending.first() {
            None => Cell::shaded("applied", Shade::Good),
            Some(first) => Cell::shaded(first, Shade::Doubtful),
        };
        table.row([format!("{}/{}", row.namespace, row.name).into(), row.types.join(",").into(), state]);
    }
    table
}

#[cfg(test)]
mod tests {
    use tombolo_api::tombolo::Dialect;

    use super::super::report::HubRow;
    use super::*;

    #[test]
    fn tables_without_rows_are_left_out_and_a_hub_that_is_away_is_said_first() {
        let mut report = Report {
            hub: HubRow { context: "hub".into(), problem: Some("refused".into()) },
            clusters: Vec::new(),
            exports: Vec::new(),
            imports: vec![ImportRow {
                namespace: "demo".into(),
                name: "echo".into(),
                edition: Dialect::Mcs,
                cluster: "member3".into(),
                type_: "ClusterSetIP".into(),
                ips: vec!["10.96.0.9".into()],
                sources: vec!["member1".into()],
                ready_endpoints: 2,
                endpoints: 3,
            }],
            conflicts: Vec::new(),
            multi_cluster_services: Vec::new(),
            others: Vec::new(),
        };
        let text = tables(&report, Paint::plain(), false);
        assert!(text.starts_with("hub      hub does not answer: refused\n"), "{text}");
        assert!(text.contains("IMPORT      EDITION   CLUSTER   ADDRESS     ENDPOINTS   FROM\n"), "{text}");
        assert!(text.contains("demo/echo   mcs       member3   10.96.0.9   2/3         member1\n"), "{text}");
        assert!(!text.contains("EXPORT  "), "{text}");
        assert!(!text.contains("joined"), "who knows: {text}");
        report.hub.problem = None;
        let text = tables(&report, Paint::plain(), false);
        assert!(text.contains("No cluster has joined. `tombolo join` lets one in.\n"), "{text}");
    }
}
