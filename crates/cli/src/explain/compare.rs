//! What each cluster holds of a service, side by side.

use kube::ResourceExt as _;
use serde::Serialize;
use tombolo_api::kep::SOURCE_CLUSTER_LABEL;

use super::picture::Picture;
use crate::survey::{MemberFacts, MemberSeen, count, imported_slices};

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Held {
    pub(crate) cluster: String,
    /// The cluster's own Service.
    pub(crate) service: Option<String>,
    pub(crate) exports: bool,
    /// Ready and all endpoints that it offers at the hub.
    pub(crate) offers: Option<(usize, usize)>,
    /// The addresses under which it imports the service.
    pub(crate) imports: Option<Vec<String>>,
    /// Ready and all endpoints that it has from each source.
    pub(crate) endpoints: Vec<(String, usize, usize)>,
    pub(crate) dns: Vec<String>,
}

pub(super) fn compare(picture: &Picture<'_>) -> Vec<Held> {
    picture.survey.members.iter().map(|member| held(picture, member)).collect()
}

fn held(picture: &Picture<'_>, member: &MemberSeen) -> Held {
    let offers = picture.offer(&member.id).map(|_| count(picture.offered_slices(&member.id).into_iter()));
    let dns =
        picture.answers.names.get(&member.id).and_then(|answer| answer.clone().ok()).unwrap_or_default();
    let held = Held { cluster: member.id.clone(), offers, dns, ..Held::default() };
    match &member.facts {
        Ok(facts) => with_facts(picture, facts, held),
        Err(_) => held,
    }
}

fn with_facts(picture: &Picture<'_>, facts: &MemberFacts, held: Held) -> Held {
    let own = picture.own_service(facts).and_then(|service| service.spec.as_ref()?.cluster_ip.clone());
    let import = picture.import(facts);
    let mut endpoints = Vec::new();
    if let Some(import) = &import {
        let mut sources: Vec<String> = imported_slices(facts, import)
            .filter_map(|slice| slice.labels().get(SOURCE_CLUSTER_LABEL).cloned())
            .collect();
        sources.sort();
        sources.dedup();
        for source in sources {
            let from = imported_slices(facts, import)
                .filter(|slice| slice.labels().get(SOURCE_CLUSTER_LABEL) == Some(&source));
            let (ready, all) = count(from);
            endpoints.push((source, ready, all));
        }
    }
    Held {
        service: own,
        exports: picture.export(facts).is_some(),
        imports: import.map(|import| import.ips),
        endpoints,
        ..held
    }
}
