//! `tombolo explain NAMESPACE/NAME`: walks the way of a service from hop to hop and says where it is broken.
//!
//! Objects are read once from all clusters; what DNS and proxies do with them is worked out with the code they run. Where
//! these can be asked, in a playground, they are: what they say and do is compared with what they should. Where a
//! MultiClusterService shares it, its hops are walked, too (`sharing`). Judging is pure and asks nobody.

mod ask;
mod compare;
mod exporting;
mod finding;
mod importing;
mod picture;
mod print;
mod reaching;
mod sharing;

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;
use tombolo_api::tombolo::{Dialect, ServiceRef};
use tombolo_api::{kep, mcs};
use tombolo_runtime::Key;

use self::compare::Held;
use self::finding::{Finding, Hop, State};
use self::picture::{Answers, Picture};
use crate::failure::{BROKEN, Failure};
use crate::paint::Paint;
use crate::say::say_all;
use crate::survey::{Reach, Scope, Survey, exports, imports, survey};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The service.
    #[arg(value_name = "NAMESPACE/NAME", value_parser = crate::service_name::parse)]
    service: Key,
    #[command(flatten)]
    reach: Reach,
    /// How to tell it.
    #[arg(short, long, value_enum, value_name = "FORM")]
    output: Option<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Json,
    Yaml,
}

/// By which means a service is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub(crate) enum Way {
    /// By exports and imports.
    Exported(Dialect),
    /// By a MultiClusterService, under its own name.
    Shared,
}

impl From<Way> for &'static str {
    fn from(way: Way) -> Self {
        match way {
            Way::Exported(edition) => edition.as_str(),
            Way::Shared => "multi-cluster-service",
        }
    }
}

/// What is known about a service that is shared by one means.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    pub(crate) edition: Way,
    pub(crate) findings: Vec<Finding>,
    /// What each cluster holds, side by side.
    pub(crate) clusters: Vec<Held>,
}

impl Explanation {
    /// The first hop at which it is broken, with all that is wrong there.
    pub(crate) fn broken_at(&self) -> Option<Hop> {
        self.findings.iter().filter(|one| one.state == State::Broken).map(|one| one.hop).min()
    }
}

/// The name under which a service is asked for.
pub(crate) fn domain_name(service: &ServiceRef, edition: Dialect) -> String {
    let zone = match edition {
        Dialect::Kep => kep::ZONE,
        Dialect::Mcs => mcs::ZONE,
    };
    format!("{}.{}.svc.{zone}", service.name, service.namespace)
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let Key { namespace, name } = arguments.service.clone();
    let service = ServiceRef { namespace: namespace.clone(), name };
    let places = arguments.reach.places().await?;
    let survey = survey(&places, &Scope::Namespace(namespace)).await;
    let mut explained = Vec::new();
    for edition in editions(&survey, &service) {
        let answers = ask::ask(&places, &survey, &service, edition).await;
        explained.push(explain(&survey, &service, edition, &answers));
    }
    explained.extend(sharing::explain(&survey, &service));
    let silent = silent(&survey);
    if explained.is_empty() && !silent.is_empty() {
        let what = format!("nobody who answers knows {}/{}", service.namespace, service.name);
        let hint = "`tombolo doctor` says more; see --kubeconfig, --hub-context, --contexts and --timeout";
        return Err(Failure::new(what).because(silent.join("; ")).hint(hint));
    }
    let broken = explained.iter().any(|one| one.broken_at().is_some()) || explained.is_empty();
    match arguments.output {
        None => say_all(print::text(&survey, &service, &explained, Paint::of_stdout())),
        Some(output) => say_all(print::data(&explained, output)?),
    }
    Ok(if broken { ExitCode::from(BROKEN) } else { ExitCode::SUCCESS })
}

/// Who may know of a service and does not answer, each with the reason. Without the hub nobody knows which contexts are members.
fn silent(survey: &Survey) -> Vec<String> {
    let told = |who: &str, why: &str| format!("{who}: {why}");
    let hub = &survey.hub;
    let mut silent: Vec<String> =
        hub.facts.as_ref().err().map(|why| told(&hub.context, why)).into_iter().collect();
    let others = survey.others.iter().filter(|(context, _)| hub.facts.is_err() && *context != hub.context);
    silent.extend(others.map(|(context, why)| told(context, why)));
    let members = survey.members.iter();
    silent.extend(members.filter_map(|member| Some(told(&member.id, member.facts.as_ref().err()?))));
    silent
}

/// The editions in which somebody exports or imports the service.
fn editions(survey: &Survey, service: &ServiceRef) -> Vec<Dialect> {
    let uses = |edition: Dialect| {
        let is_it = |namespace: &str, name: &str| namespace == service.namespace && name == service.name;
        let members = survey.members.iter().filter_map(|member| member.facts.as_ref().ok()).any(|facts| {
            let exported =
                exports(facts).iter().any(|one| one.edition == edition && is_it(&one.namespace, &one.name));
            exported
                || imports(facts).iter().any(|one| one.edition == edition && is_it(&one.namespace, &one.name))
        });
        let hub = survey.hub.facts.as_ref().is_ok_and(|hub| {
            hub.offers.iter().any(|offer| offer.spec.dialect == edition && offer.spec.service == *service)
        });
        members || hub
    };
    Dialect::ALL.iter().copied().rev().filter(|edition| uses(*edition)).collect()
}

/// Judges every hop of a service. Pure.
pub(crate) fn explain(
    survey: &Survey,
    service: &ServiceRef,
    edition: Dialect,
    answers: &Answers,
) -> Explanation {
    let picture = Picture { survey, service, edition, answers };
    let exporters = picture.exporters();
    let mut findings = Vec::new();
    if exporters.is_empty() {
        let context = survey.members.first().and_then(|member| member.context.as_deref()).unwrap_or("MEMBER");
        let advice = format!("`tombolo export {}/{} --context {context}`", service.namespace, service.name);
        findings.push(Finding::broken(Hop::Export, "all", "no cluster exports it").advice(advice));
    }
    findings.extend(exporters.iter().flat_map(|member| exporting::judge(&picture, member)));
    findings.extend(survey.members.iter().flat_map(|member| importing::judge(&picture, member)));
    findings.sort_by(|a, b| (a.hop, &a.cluster).cmp(&(b.hop, &b.cluster)));
    Explanation { edition: Way::Exported(edition), findings, clusters: compare::compare(&picture) }
}

#[cfg(test)]
mod tests;
