//! The way of a Service that a MultiClusterService shares under its own name: from the hub to every cluster that has it, and
//! of its endpoints from those who provide to those who consume.
//!
//! The hub's part says in conditions how far it has come; the Works of each cluster say where it stopped. Both are told, and
//! what the clusters really hold besides.

mod holdings;

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use tombolo_api::condition;
use tombolo_api::karmada::networking::{
    COLLECTED_CONDITION, Clusters, MultiClusterService, MultiClusterServiceCondition as Progress,
    SpellingsDiffer,
};
use tombolo_api::karmada::work::{Work, WorkCondition};
use tombolo_api::tombolo::ServiceRef;

use self::holdings::{address, find_service};
use super::compare::Held;
use super::finding::{Finding, Hop, State, last_written};
use super::{Explanation, Way};
use crate::survey::{HubFacts, MemberSeen, Survey, count};

/// What the hub's findings are told of.
const HUB: &str = "hub";

/// A MultiClusterService, with what was seen of it everywhere.
struct Sharing<'a> {
    survey: &'a Survey,
    hub: &'a HubFacts,
    service: &'a ServiceRef,
    object: &'a MultiClusterService,
    providers: BTreeSet<&'a str>,
    consumers: BTreeSet<&'a str>,
}

/// Judges every hop of a MultiClusterService of this name; nothing where there is none. Pure.
pub(super) fn explain(survey: &Survey, service: &ServiceRef) -> Option<Explanation> {
    let hub = survey.hub.facts.as_ref().ok()?;
    let is_it = |one: &&MultiClusterService| {
        one.name_any() == service.name && one.namespace().as_deref() == Some(service.namespace.as_str())
    };
    let object = hub.multi_cluster_services.iter().find(is_it)?;
    let sharing = match (object.spec.provision(), object.spec.consumption()) {
        (Ok(providers), Ok(consumers)) => Sharing {
            survey,
            hub,
            service,
            object,
            providers: listed(survey, providers),
            consumers: listed(survey, consumers),
        },
        (Err(error), _) | (_, Err(error)) => return Some(refused(object, error)),
    };
    let mut findings = sharing.judge();
    findings
        .sort_by(|a, b| (a.hop, a.cluster != HUB, &a.cluster).cmp(&(b.hop, b.cluster != HUB, &b.cluster)));
    let clusters = survey.members.iter().map(|member| sharing.held(member)).collect();
    Some(Explanation { edition: Way::Shared, findings, clusters })
}

fn refused(object: &MultiClusterService, error: SpellingsDiffer) -> Explanation {
    let finding = Finding::broken(Hop::Sharing, HUB, error.to_string())
        .since(last_written(object))
        .advice("name the clusters in one of the two lists only");
    Explanation { edition: Way::Shared, findings: vec![finding], clusters: Vec::new() }
}

fn listed<'a>(survey: &'a Survey, clusters: Clusters<'a>) -> BTreeSet<&'a str> {
    match clusters {
        Clusters::All => survey.members.iter().map(|member| member.id.as_str()).collect(),
        Clusters::Named(names) => names,
    }
}

impl<'a> Sharing<'a> {
    fn judge(&self) -> Vec<Finding> {
        let mut found = vec![self.template(), self.shared()];
        let hops = [
            (Hop::Delivery, Progress::ServiceApplied),
            (Hop::Report, Progress::EndpointSliceCollected),
            (Hop::Slices, Progress::EndpointSliceApplied),
        ];
        found.extend(hops.map(|(hop, progress)| self.told(hop, progress)));
        let member = |id: &&str| self.survey.members.iter().find(|member| member.id == **id);
        let all: BTreeSet<&str> = self.providers.union(&self.consumers).copied().collect();
        found.extend(all.iter().filter_map(member).map(|member| self.delivered(member)));
        found.extend(self.providers.iter().filter_map(member).map(|member| self.reported(member)));
        for consumer in self.consumers.iter().filter_map(member) {
            let others = self.providers.iter().filter(|source| **source != consumer.id);
            found.extend(others.map(|source| self.arrived(consumer, source)));
            found.push(self.endpoints(consumer));
        }
        found
    }

    fn name(&self) -> String {
        format!("{}/{}", self.service.namespace, self.service.name)
    }

    fn template(&self) -> Finding {
        let context = &self.survey.hub.context;
        match find_service(&self.hub.services, self.service) {
            Some(_) => Finding::fine(Hop::Service, HUB, "the Service that is shared is at the hub"),
            None => Finding::broken(Hop::Service, HUB, "there is no Service of this name at the hub")
                .since(last_written(self.object))
                .advice(format!("create {} there: `kubectl --context {context} apply`", self.name())),
        }
    }

    fn shared(&self) -> Finding {
        let listed = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
        let is_stranger = |id: &&&str| !self.survey.members.iter().any(|member| member.id == ***id);
        let strangers: Vec<&str> =
            self.providers.union(&self.consumers).filter(is_stranger).copied().collect();
        if !strangers.is_empty() {
            let what = format!("{} are named, and no members", strangers.join(", "));
            return Finding::broken(Hop::Sharing, HUB, what)
                .since(last_written(self.object))
                .advice("`tombolo join` them, or take them from the lists of the MultiClusterService");
        }
        let what = format!("{} provide, {} consume", listed(&self.providers), listed(&self.consumers));
        Finding::fine(Hop::Sharing, HUB, what)
    }

    /// What the hub's part says about a hop.
    fn told(&self, hop: Hop, progress: Progress) -> Finding {
        let conditions = self.object.status.as_ref().map(|status| status.conditions.as_slice());
        let Some(said) = condition::find(conditions.unwrap_or_default(), progress) else {
            let what = format!("the hub's part has said nothing of {}", progress.as_str());
            return Finding::broken(hop, HUB, what)
                .since(last_written(self.object))
                .advice("does `tombolo hub` run at the hub? Its log and its metrics say more");
        };
        match said.status.as_str() {
            "True" => Finding::fine(hop, HUB, format!("{}: {}", said.type_, said.message)).since(since(said)),
            _ => Finding::broken(hop, HUB, format!("{}: {}", said.reason, said.message))
                .since(since(said))
                .advice("mend what is named, or look at the clusters below"),
        }
    }

    /// Whether a cluster has the Service.
    fn delivered(&self, member: &MemberSeen) -> Finding {
        let id = &member.id;
        let Some(work) = self.service_work(id) else {
            return Finding::broken(Hop::Delivery, id, "no Work brings the Service to this cluster")
                .since(last_written(self.object))
                .advice("look at the log of `tombolo hub`; a cluster that leaves gets none");
        };
        if let Some(trouble) = not_applied(work) {
            return Finding { hop: Hop::Delivery, cluster: id.clone(), ..trouble };
        }
        let facts = match &member.facts {
            Ok(facts) => facts,
            Err(why) => {
                let what = format!("the Work is applied; the cluster itself cannot be asked: {why}");
                let unknown = Finding::new(Hop::Delivery, id, State::Unknown, what);
                return unknown.advice("see --kubeconfig and --contexts");
            }
        };
        match find_service(&facts.services, self.service) {
            Some(service) => Finding::fine(Hop::Delivery, id, format!("Service {}", address(service))),
            None => Finding::broken(Hop::Delivery, id, "the Work is applied, and there is no Service")
                .since(last_written(work))
                .advice("who deleted it? The agent brings it back when it looks again; see its log"),
        }
    }

    /// Whether the hub knows the endpoints of a provider.
    fn reported(&self, member: &MemberSeen) -> Finding {
        let id = &member.id;
        if let Some(beat) = self.hub.heartbeat(id).filter(|beat| beat.is_silent(self.survey.now)) {
            let what =
                format!("silent for {} s: its endpoints are withdrawn elsewhere", beat.age(self.survey.now));
            return Finding::broken(Hop::Report, id, what)
                .since(Some(beat.at))
                .advice("is its agent running, and does it reach the hub?");
        }
        let collects = self.service_work(id).and_then(|work| work_condition(work, COLLECTED_CONDITION));
        if let Some(said) = collects.filter(|said| said.status != "True") {
            return Finding::broken(Hop::Report, id, format!("{}: {}", said.reason, said.message))
                .since(since(said))
                .advice("mend what is named; else see the log of the cluster's agent");
        }
        let reported = count(self.reports(id).iter());
        let what = format!("{} of {} endpoints ready", reported.0, reported.1);
        if let Some(held) = member.facts.as_ref().ok().map(|facts| count(self.own(facts).into_iter()))
            && held != reported
        {
            let what = format!("the hub has {what}, the cluster {} of {}", held.0, held.1);
            return Finding::new(Hop::Report, id, State::Doubtful, what)
                .advice("wait a second and look again; endpoints outside of --pod-cidr are not reported");
        }
        if reported.0 == 0 {
            return Finding::new(Hop::Report, id, State::Doubtful, what)
                .advice(format!("look at its pods: `{} get pods -o wide`", self.kubectl(member)));
        }
        Finding::fine(Hop::Report, id, what)
    }

    /// Whether a consumer has the endpoints of a provider.
    fn arrived(&self, member: &MemberSeen, source: &str) -> Finding {
        let id = &member.id;
        let (works, reports) = (self.dispatched(id, source), self.reports(source));
        let reported = count(reports.iter());
        if works.is_empty() && reported.1 > 0 {
            let what = format!("{} endpoints of {source} are not sent to this cluster", reported.1);
            return Finding::broken(Hop::Slices, id, what)
                .since(reports.iter().filter_map(last_written).max().or(last_written(self.object)))
                .advice("look at the log of `tombolo hub`; what silent clusters reported is not sent");
        }
        if let Some(trouble) = works.iter().find_map(|work| not_applied(work)) {
            return Finding { hop: Hop::Slices, cluster: id.clone(), ..trouble };
        }
        let Ok(facts) = &member.facts else {
            return Finding::new(
                Hop::Slices,
                id,
                State::Unknown,
                format!("from {source}: it cannot be asked"),
            )
            .advice("see --kubeconfig and --contexts");
        };
        let held = count(self.slices_from(facts, source).into_iter());
        let what = format!("from {source}: {} of {} endpoints ready", held.0, held.1);
        if held == reported {
            return Finding::fine(Hop::Slices, id, what);
        }
        if works.iter().filter_map(|work| applied(work)).any(|said| said.message.contains("held back")) {
            let what = format!("from {source}: held back while enough endpoints of its own are ready");
            return Finding::fine(Hop::Slices, id, what);
        }
        let what = format!("{what}, the hub has {} of {}", reported.0, reported.1);
        Finding::new(Hop::Slices, id, State::Doubtful, what).advice("wait a second and look again")
    }

    fn endpoints(&self, member: &MemberSeen) -> Finding {
        let Ok(facts) = &member.facts else {
            return Finding::new(Hop::Endpoints, &member.id, State::Unknown, "it cannot be asked")
                .advice("see --kubeconfig and --contexts");
        };
        let slices = self.slices(facts);
        let (ready, all) = count(slices.iter().copied());
        if ready > 0 {
            return Finding::fine(Hop::Endpoints, &member.id, format!("{ready} of {all} are ready"));
        }
        let provider = self.survey.members.iter().find(|one| self.providers.contains(one.id.as_str()));
        let kubectl = self.kubectl(provider.unwrap_or(member));
        Finding::broken(Hop::Endpoints, &member.id, format!("none of {all} is ready"))
            .since(slices.into_iter().filter_map(last_written).max().or(last_written(self.object)))
            .advice(format!("look at the pods behind it: `{kubectl} get pods -o wide`"))
    }

    fn held(&self, member: &MemberSeen) -> Held {
        let id = member.id.as_str();
        let provides = self.providers.contains(id);
        let held = Held {
            cluster: member.id.clone(),
            exports: provides,
            offers: provides.then(|| count(self.reports(id).iter())),
            ..Held::default()
        };
        let Ok(facts) = &member.facts else { return held };
        let service = find_service(&facts.services, self.service).map(address);
        let own = (id, count(self.own(facts).into_iter()));
        let others = self.providers.iter().filter(|source| **source != id);
        let others = others.map(|source| (*source, count(self.slices_from(facts, source).into_iter())));
        let endpoints = std::iter::once(own).chain(others).filter(|(_, (_, all))| *all > 0);
        Held {
            imports: service.clone().filter(|_| self.consumers.contains(id)).map(|address| vec![address]),
            service,
            endpoints: endpoints.map(|(source, (ready, all))| (source.to_owned(), ready, all)).collect(),
            ..held
        }
    }

    fn kubectl(&self, member: &MemberSeen) -> String {
        let context = member.context.as_deref().unwrap_or(&member.id);
        format!("kubectl --context {context} -n {}", self.service.namespace)
    }
}

/// What is wrong with a Work that its cluster has not applied.
fn not_applied(work: &Work) -> Option<Finding> {
    let broken = |what: String| Finding::broken(Hop::Delivery, "", what);
    let Some(said) = applied(work) else {
        let what = format!("nobody has said what became of Work {}", work.name_any());
        let advice = "is the agent of this cluster running? `tombolo status` tells its heartbeat";
        return Some(broken(what).since(last_written(work)).advice(advice));
    };
    (said.status != "True").then(|| {
        let what = format!("{}: {}", said.reason, said.message);
        broken(what).since(since(said)).advice("mend what is named; what is not ours is left alone")
    })
}

fn applied(work: &Work) -> Option<&Condition> {
    work_condition(work, WorkCondition::Applied.as_str())
}

fn work_condition<'a>(work: &'a Work, type_: &str) -> Option<&'a Condition> {
    condition::find(work.status.as_ref().map(|status| status.conditions.as_slice())?, type_)
}

fn since(said: &Condition) -> Option<jiff::Timestamp> {
    Some(said.last_transition_time.0)
}

#[cfg(test)]
mod tests;
