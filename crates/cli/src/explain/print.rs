//! An explanation for people, and for programs.

use std::fmt::Write as _;

use jiff::Timestamp;
use tombolo_api::tombolo::{Dialect, ServiceRef};

use super::finding::{Finding, Hop, State};
use super::{Explanation, Output, Way};
use crate::failure::Failure;
use crate::paint::{Paint, Shade};
use crate::survey::Survey;
use crate::table::{Cell, Table};

pub(super) fn data(explained: &[Explanation], output: Output) -> Result<String, Failure> {
    let cannot = "this cannot be written";
    match output {
        Output::Json => serde_json::to_string_pretty(explained)
            .map(|text| text + "\n")
            .map_err(|cause| Failure::new(cannot).because(cause)),
        Output::Yaml => {
            serde_saphyr::to_string(&explained).map_err(|cause| Failure::new(cannot).because(cause))
        }
    }
}

pub(super) fn text(survey: &Survey, service: &ServiceRef, explained: &[Explanation], paint: Paint) -> String {
    let mut out = String::new();
    let name = format!("{}/{}", service.namespace, service.name);
    if explained.is_empty() {
        let _ =
            writeln!(out, "{}", paint.shade(&format!("No cluster exports or imports {name}."), Shade::Bad));
        let clusters: Vec<&str> =
            survey.members.iter().filter_map(|member| member.context.as_deref()).collect();
        let _ = writeln!(
            out,
            "  → `tombolo export {name} --context CONTEXT`, with one of {}",
            if clusters.is_empty() { "no contexts".to_owned() } else { clusters.join(", ") }
        );
    }
    for explanation in explained {
        edition(&mut out, &name, explanation, survey.now, paint);
    }
    out
}

fn edition(out: &mut String, name: &str, explanation: &Explanation, now: Timestamp, paint: Paint) {
    let kind = match explanation.edition {
        Way::Exported(Dialect::Kep) => "first edition, supercluster.local",
        Way::Exported(Dialect::Mcs) => "today's edition, clusterset.local",
        Way::Shared => "MultiClusterService, under its own name",
    };
    let _ = writeln!(out, "{}", paint.shade(&format!("{name} ({kind})"), Shade::Strong));
    let mut table = Table::new(paint, &["", "HOP", "CLUSTER", "WHAT"]);
    for finding in &explanation.findings {
        table.row(row(finding, now));
    }
    let _ = writeln!(out, "{table}");
    let _ = writeln!(out, "{}", compared(explanation, paint));
    conclude(out, explanation, paint);
}

fn row(finding: &Finding, now: Timestamp) -> [Cell; 4] {
    let (mark, shade) = match finding.state {
        State::Fine => ("ok", Shade::Good),
        State::Doubtful => ("hm", Shade::Doubtful),
        State::Unknown => ("?", Shade::Doubtful),
        State::Broken => ("BROKEN", Shade::Bad),
    };
    let bad = finding.state != State::Fine;
    let since =
        finding.since.filter(|_| bad).map(|since| format!(" (since {since:.0}, {} ago)", age(since, now)));
    let what = format!("{}{}", finding.what, since.unwrap_or_default());
    [
        Cell::shaded(mark, shade),
        finding.hop.name().into(),
        finding.cluster.clone().into(),
        Cell::shaded(what, if bad { shade } else { Shade::Plain }),
    ]
}

fn age(since: Timestamp, now: Timestamp) -> String {
    crate::span::tell(now.duration_since(since).as_secs().max(0))
}

fn compared(explanation: &Explanation, paint: Paint) -> Table {
    let heading = match explanation.edition {
        Way::Exported(_) => {
            ["CLUSTER", "SERVICE", "EXPORTS", "OFFERS", "IMPORTED AS", "ENDPOINTS FROM", "DNS"]
        }
        Way::Shared => ["CLUSTER", "SERVICE", "PROVIDES", "REPORTS", "CONSUMED AS", "ENDPOINTS FROM", "DNS"],
    };
    let mut table = Table::new(paint, &heading);
    let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    for one in &explanation.clusters {
        let from: Vec<String> =
            one.endpoints.iter().map(|(source, ready, all)| format!("{source} {ready}/{all}")).collect();
        table.row([
            one.cluster.clone().into(),
            dash(one.service.clone().unwrap_or_default()).into(),
            if one.exports { "yes" } else { "-" }.into(),
            dash(one.offers.map(|(ready, all)| format!("{ready}/{all}")).unwrap_or_default()).into(),
            dash(one.imports.clone().unwrap_or_default().join(",")).into(),
            dash(from.join(", ")).into(),
            dash(one.dns.join(",")).into(),
        ]);
    }
    table
}

/// Which hop is broken, and what to do; the first one counts, since the others follow from it.
fn conclude(out: &mut String, explanation: &Explanation, paint: Paint) {
    let Some(hop) = explanation.broken_at() else {
        let doubtful: Vec<&Finding> =
            explanation.findings.iter().filter(|one| one.state != State::Fine).collect();
        if doubtful.is_empty() {
            let _ = writeln!(out, "{}\n", paint.shade("Every hop is as it should be.", Shade::Good));
        }
        doubtful.iter().for_each(|finding| advise(out, finding));
        return;
    };
    let _ = writeln!(out, "{}", paint.shade(&headline(hop), Shade::Bad));
    let first = explanation.findings.iter().filter(|one| one.hop == hop && one.state == State::Broken);
    first.for_each(|finding| advise(out, finding));
    out.push('\n');
}

fn headline(hop: Hop) -> String {
    format!("Broken at: {}. What comes after it follows from it.", hop.name())
}

fn advise(out: &mut String, finding: &Finding) {
    let _ = writeln!(out, "  {}: {}", finding.cluster, finding.what);
    if let Some(advice) = &finding.advice {
        let _ = writeln!(out, "  → {advice}");
    }
}
