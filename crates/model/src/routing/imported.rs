//! What a proxy has to know of an import besides its derived Service: the properties that each source cluster kept.
//!
//! In the first edition of the API topology keys and affinity belong to the source, not to the service; today's edition has
//! merged them. `publishNotReadyAddresses` needs nothing here: the source's own controller calls such endpoints ready, and
//! the conditions travel unchanged. It is for DNS, which the KEP charges with it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tombolo_api::service::SessionAffinity;
use tombolo_api::tombolo::{Dialect, MANAGED_BY_LABEL, MANAGER, PREFER_ANNOTATION, ServiceRef, Tier};
use tombolo_api::{kep, mcs};

use super::gathered::Gathered;
use super::wanted::stickiness;
use crate::cluster::ClusterId;
use crate::complaint::Complaint;
use crate::names;
use crate::policy::Policy;
use crate::prefer;

/// An import, free of dialect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    sources: BTreeMap<ClusterId, Source>,
    prefer: Option<Vec<Tier>>,
    complaints: Vec<Complaint>,
}

/// What holds for the endpoints of one source cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Source {
    pub(super) topology_keys: Vec<String>,
    pub(super) sticky: Option<Duration>,
}

impl Imported {
    /// First edition: every source has its own.
    pub fn kep(import: &kep::ImportedService) -> Imported {
        let mut gathered = Gathered::default();
        let mut sources = BTreeMap::new();
        for part in &import.spec.clusters {
            let Some(id) = cluster(&part.cluster, &mut gathered) else { continue };
            let config = part.session_affinity_config.as_ref();
            let sticky = stickiness(part.session_affinity, config, &mut gathered);
            let source = Source { topology_keys: part.topology_keys.clone(), sticky };
            if sources.insert(id, source).is_some() {
                gathered.note("spec.clusters", "named twice; the last one counts", part.cluster.clone());
            }
        }
        Imported::new(&import.metadata, sources, gathered)
    }

    /// Today's edition: what the import says holds for every source.
    pub fn mcs(import: &mcs::ServiceImport) -> Imported {
        let mut gathered = Gathered::default();
        let spec = &import.spec;
        let word = spec.session_affinity.as_deref().filter(|word| !word.is_empty());
        let affinity: SessionAffinity =
            word.map_or(Ok(SessionAffinity::None), str::parse).unwrap_or_else(|error| {
                gathered.note("spec.sessionAffinity", "not understood; taken for None", error.to_string());
                SessionAffinity::None
            });
        let sticky = stickiness(affinity, spec.session_affinity_config.as_ref(), &mut gathered);
        let parts = import.status.iter().flat_map(|status| &status.clusters);
        let sources = parts
            .filter_map(|part| cluster(&part.cluster, &mut gathered))
            .map(|id| (id, Source { topology_keys: Vec::new(), sticky }))
            .collect();
        Imported::new(&import.metadata, sources, gathered)
    }

    fn new(metadata: &ObjectMeta, sources: BTreeMap<ClusterId, Source>, gathered: Gathered) -> Imported {
        let (prefer, complaint) = preference(metadata);
        Imported { sources, prefer, complaints: gathered.complaints().chain(complaint).collect() }
    }

    pub(super) fn source(&self, cluster: &ClusterId) -> Option<&Source> {
        self.sources.get(cluster)
    }

    pub(super) fn prefer(&self) -> Option<&[Tier]> {
        self.prefer.as_deref()
    }

    pub(super) fn complaints(&self) -> &[Complaint] {
        &self.complaints
    }
}

fn cluster(id: &str, gathered: &mut Gathered) -> Option<ClusterId> {
    let unreadable =
        |_| gathered.note("spec.clusters", "no cluster id; its properties are ignored", format!("{id:?}"));
    id.parse().map_err(unreadable).ok()
}

/// The annotation, `None` where there is none or it is wrong.
pub(super) fn preference(metadata: &ObjectMeta) -> (Option<Vec<Tier>>, Option<Complaint>) {
    let annotation = metadata.annotations.as_ref().and_then(|annotations| annotations.get(PREFER_ANNOTATION));
    match annotation.map(|text| prefer::read(text)) {
        None => (None, None),
        Some(Ok(tiers)) => (Some(tiers), None),
        Some(Err(complaint)) => (None, Some(complaint)),
    }
}

/// The import whose address this Service holds, if it is a derived Service.
pub fn import_of(service: &Service) -> Option<(Dialect, ServiceRef)> {
    let labels = service.metadata.labels.as_ref()?;
    if labels.get(MANAGED_BY_LABEL).is_none_or(|manager| manager != MANAGER) {
        return None;
    }
    let read = |dialect: Dialect| {
        let name = labels.get(Policy::of(dialect).import_label)?.clone();
        let import = ServiceRef { namespace: service.metadata.namespace.clone()?, name };
        let derived = names::derived_service(dialect, &import);
        (service.metadata.name.as_deref() == Some(&derived)).then_some((dialect, import))
    };
    Dialect::ALL.iter().find_map(|dialect| read(*dialect))
}
