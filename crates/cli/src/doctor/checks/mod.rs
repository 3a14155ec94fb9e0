//! What is to be thought of what was found. Pure.

mod between;

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use tombolo_api::crd::{self, OLDEST_KUBERNETES};

use self::between::{addresses, heard, neighbours, parts, ways};
use super::examine::{Examinations, Examined};
use super::rights::Granted;
use super::tried::Tried;
use crate::survey::{MemberSeen, Survey};

/// Clocks that differ by more make times in conditions hard to read. Liveness never compares clocks.
const MOST_SECONDS_APART: f64 = 5.0;
/// What the hub's API server needs beyond what a member does, or instead of it.
const AT_HUB: [&str; 2] = ["memberships.tombolo.dev", "serviceoffers.tombolo.dev"];
/// Only needed for `tombolo hub`.
const FOR_HUB_PART: [&str; 3] =
    ["clusters.cluster.karmada.io", "multiclusterservices.networking.karmada.io", "works.work.karmada.io"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Good,
    Doubtful,
    Bad,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Check {
    pub(super) about: &'static str,
    pub(super) cluster: String,
    pub(super) mark: Mark,
    pub(super) what: String,
    pub(super) advice: Option<String>,
}

impl Check {
    fn new(about: &'static str, cluster: &str, mark: Mark, what: impl Into<String>) -> Self {
        Self { about, cluster: cluster.to_owned(), mark, what: what.into(), advice: None }
    }

    fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

pub(super) fn judge(survey: &Survey, examined: &Examinations, tried: Option<&Tried>) -> Vec<Check> {
    let mut checks = hub(survey, examined);
    for member in &survey.members {
        checks.extend(one_member(survey, member, examined));
    }
    checks.extend(agents(survey));
    checks.extend(addresses(survey, examined));
    checks.extend(tried.into_iter().flat_map(|tried| ways(tried).chain(parts(tried))));
    checks
}

fn hub(survey: &Survey, examined: &Examinations) -> Vec<Check> {
    let context = &survey.hub.context;
    let found = match &examined.hub {
        Ok(found) => found,
        Err(why) => return vec![away(context, why)],
    };
    let mut checks = server(context, found);
    checks.push(kinds(context, found, &AT_HUB));
    let missing: Vec<&str> =
        FOR_HUB_PART.into_iter().filter(|kind| !found.kinds.contains_key(*kind)).collect();
    if !missing.is_empty() {
        let what = format!("not there: {}", missing.join(", "));
        checks.push(
            Check::new("kinds", context, Mark::Doubtful, what)
                .advice("MultiClusterServices need them; `kubectl apply -f deploy/crds` at the hub"),
        );
    }
    checks.extend(rights(context, found));
    checks
}

fn away(context: &str, why: &str) -> Check {
    Check::new("answers", context, Mark::Bad, why).advice("see --kubeconfig, --hub-context and --contexts")
}

fn one_member(survey: &Survey, member: &MemberSeen, examined: &Examinations) -> Vec<Check> {
    let mut checks = vec![heard(survey, member)];
    let context = match (&member.context, &member.facts) {
        (Some(context), Ok(_)) => context,
        (_, facts) => {
            let why = facts.as_ref().err().cloned().unwrap_or_default();
            checks.push(away(&member.id, &why));
            return checks;
        }
    };
    match examined.members.get(context) {
        Some(Ok(found)) => {
            checks.extend(server(&member.id, found));
            let all = crd::crds().iter().map(|one| one.name_any()).collect::<Vec<_>>();
            let needed: Vec<&str> = all
                .iter()
                .map(String::as_str)
                .filter(|kind| !AT_HUB.contains(kind) && !FOR_HUB_PART.contains(kind))
                .filter(|kind| !kind.starts_with("addresspools"))
                .collect();
            checks.push(kinds(&member.id, found, &needed));
            checks.extend(rights(&member.id, found));
        }
        Some(Err(why)) => checks.push(away(&member.id, why)),
        None => {}
    }
    checks.extend(neighbours(survey, member));
    checks
}

fn server(cluster: &str, found: &Examined) -> Vec<Check> {
    let version = match read_version(&found.version) {
        Some(version) if version < OLDEST_KUBERNETES => {
            let what = format!("Kubernetes {} is too old", found.version);
            let (major, minor) = OLDEST_KUBERNETES;
            Check::new("version", cluster, Mark::Bad, what)
                .advice(format!("{major}.{minor} or later is needed"))
        }
        _ => Check::new("version", cluster, Mark::Good, format!("Kubernetes {}", found.version)),
    };
    let clock = match found.ahead {
        Some(ahead) if ahead.abs() > MOST_SECONDS_APART => {
            let way = if ahead > 0.0 { "ahead of" } else { "behind" };
            let what = format!("{:.0} s {way} this computer's", ahead.abs());
            Check::new("clock", cluster, Mark::Doubtful, what)
                .advice("run NTP; liveness does not depend on clocks, but times in conditions mislead")
        }
        Some(_) => Check::new("clock", cluster, Mark::Good, "as this computer's"),
        None => Check::new("clock", cluster, Mark::Doubtful, "the server does not tell the time"),
    };
    vec![version, clock]
}

fn read_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim_start_matches('v').split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn kinds(cluster: &str, found: &Examined, needed: &[&str]) -> Check {
    let expected = crd::crds();
    let served = |name: &str| -> BTreeSet<String> {
        let definition = expected.iter().find(|one| one.name_any() == name);
        let versions = definition.iter().flat_map(|one| &one.spec.versions);
        versions.filter(|version| version.served).map(|version| version.name.clone()).collect()
    };
    let wrong: Vec<String> = needed
        .iter()
        .filter_map(|name| match found.kinds.get(*name) {
            None => Some(format!("{name} is missing")),
            Some(versions) if !served(name).is_subset(versions) => Some(format!("{name} is another version")),
            Some(_) => None,
        })
        .collect();
    if wrong.is_empty() {
        return Check::new("kinds", cluster, Mark::Good, format!("all {} are there", needed.len()));
    }
    Check::new("kinds", cluster, Mark::Bad, wrong.join(", ")).advice("`kubectl apply -f deploy/crds`")
}

fn rights<'a>(cluster: &'a str, found: &'a Examined) -> impl Iterator<Item = Check> + 'a {
    found.rights.iter().map(move |Granted { part, file, missing }| match missing {
        Ok(missing) if missing.is_empty() => {
            Check::new("rights", cluster, Mark::Good, format!("the {part} may do what it must"))
        }
        Ok(missing) => {
            let what = format!("the {part} may not: {}", missing.join(", "));
            Check::new("rights", cluster, Mark::Bad, what).advice(format!("`kubectl apply -f {file}`"))
        }
        Err(why) => {
            let what = format!("those of the {part} cannot be looked up: {why}");
            Check::new("rights", cluster, Mark::Doubtful, what)
                .advice("only administrators may ask what others may do")
        }
    })
}

/// Agents of one supercluster should be of one version.
fn agents(survey: &Survey) -> Vec<Check> {
    let Ok(hub) = &survey.hub.facts else { return Vec::new() };
    let versions: BTreeSet<&str> =
        hub.memberships.iter().filter_map(|one| one.status.as_ref()?.agent_version.as_deref()).collect();
    let told: Vec<&str> = versions.iter().copied().collect();
    match told.as_slice() {
        [] => Vec::new(),
        [one] if *one == env!("CARGO_PKG_VERSION") => {
            vec![Check::new("agents", "all", Mark::Good, format!("version {one}, as this program"))]
        }
        _ => vec![
            Check::new("agents", "all", Mark::Doubtful, format!("versions {}", told.join(", ")))
                .advice(format!("this program is {}; update what is older", env!("CARGO_PKG_VERSION"))),
        ],
    }
}

#[cfg(test)]
mod tests;
