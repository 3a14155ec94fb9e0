//! Exports and imports free of the edition of the API they were written in, and what belongs to them.

use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use tombolo_api::condition::Stored;
use tombolo_api::tombolo::Dialect;
use tombolo_api::{kep, mcs};
use tombolo_model::Policy;

use super::MemberFacts;

/// A condition of either edition, as far as it is told.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) type_: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) since: Option<Timestamp>,
}

fn told<C: Stored>(condition: &C, message: &str) -> Told {
    Told {
        type_: condition.type_().to_owned(),
        status: condition.status().to_owned(),
        reason: condition.reason().to_owned(),
        message: message.to_owned(),
        since: condition.since().map(|time| time.0),
    }
}

/// An export of either edition.
pub(crate) struct ExportSeen {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) edition: Dialect,
    pub(crate) created: Option<Timestamp>,
    pub(crate) conditions: Vec<Told>,
}

impl ExportSeen {
    pub(crate) fn condition(&self, type_: &str) -> Option<&Told> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the export is understood, under the name its edition has for it.
    pub(crate) fn valid(&self) -> Option<&Told> {
        match self.edition {
            Dialect::Kep => self.condition(kep::ExportCondition::Initialized.as_str()),
            Dialect::Mcs => self.condition(mcs::ExportCondition::Valid.as_str()),
        }
    }

    /// Whether all live members have it.
    pub(crate) fn ready(&self) -> Option<&Told> {
        match self.edition {
            Dialect::Kep => self.condition(kep::ExportCondition::Exported.as_str()),
            Dialect::Mcs => self.condition(mcs::ExportCondition::Ready.as_str()),
        }
    }

    pub(crate) fn conflict(&self) -> Option<&Told> {
        self.condition("Conflict")
    }
}

/// The exports of a member, of both editions.
pub(crate) fn exports(facts: &MemberFacts) -> Vec<ExportSeen> {
    let kep = facts.kep_exports.iter().map(|export| {
        let conditions = export.status.iter().flat_map(|status| &status.conditions);
        let conditions =
            conditions.map(|one| told(one, one.message.as_deref().unwrap_or_default())).collect();
        seen(export, Dialect::Kep, conditions)
    });
    let mcs = facts.mcs_exports.iter().map(|export| {
        let conditions = export.status.iter().flat_map(|status| &status.conditions);
        seen(export, Dialect::Mcs, conditions.map(|one| told(one, &one.message)).collect())
    });
    kep.chain(mcs).collect()
}

fn seen<K: kube::Resource>(export: &K, edition: Dialect, conditions: Vec<Told>) -> ExportSeen {
    ExportSeen {
        namespace: export.namespace().unwrap_or_default(),
        name: export.name_any(),
        edition,
        created: export.creation_timestamp().map(|time| time.0),
        conditions,
    }
}

/// An import of either edition.
#[derive(Clone, Debug)]
pub(crate) struct ImportSeen {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) edition: Dialect,
    pub(crate) headless: bool,
    pub(crate) ips: Vec<String>,
    pub(crate) sources: Vec<String>,
    pub(crate) ready: Option<Told>,
    /// When it was written first.
    pub(crate) written: Option<Timestamp>,
}

/// The imports of a member, of both editions.
pub(crate) fn imports(facts: &MemberFacts) -> Vec<ImportSeen> {
    let kep = facts.kep_imports.iter().map(|import| ImportSeen {
        namespace: import.namespace().unwrap_or_default(),
        name: import.name_any(),
        edition: Dialect::Kep,
        headless: import.spec.ip.as_deref().unwrap_or_default().is_empty(),
        ips: import.spec.ip.iter().filter(|ip| !ip.is_empty()).cloned().collect(),
        sources: import.spec.clusters.iter().map(|part| part.cluster.clone()).collect(),
        ready: None,
        written: import.creation_timestamp().map(|time| time.0),
    });
    let mcs = facts.mcs_imports.iter().map(|import| {
        let status = import.status.clone().unwrap_or_default();
        let ready = status.conditions.iter().find(|one| one.type_ == mcs::ImportCondition::Ready.as_str());
        ImportSeen {
            namespace: import.namespace().unwrap_or_default(),
            name: import.name_any(),
            edition: Dialect::Mcs,
            headless: import.spec.type_ == mcs::ServiceImportType::Headless,
            ips: import.spec.ips.clone(),
            sources: status.clusters.iter().map(|part| part.cluster.clone()).collect(),
            ready: ready.map(|one| told(one, &one.message)),
            written: import.creation_timestamp().map(|time| time.0),
        }
    });
    kep.chain(mcs).collect()
}

/// The slices of an import, from all sources.
pub(crate) fn imported_slices<'a>(
    facts: &'a MemberFacts,
    import: &ImportSeen,
) -> impl Iterator<Item = &'a EndpointSlice> + use<'a> {
    let label = Policy::of(import.edition).import_label;
    let (namespace, name) = (import.namespace.clone(), import.name.clone());
    facts.slices.iter().filter(move |slice| {
        slice.namespace().as_deref() == Some(&namespace) && slice.labels().get(label) == Some(&name)
    })
}

/// How many endpoints are ready, and how many there are.
pub(crate) fn count<'a>(slices: impl Iterator<Item = &'a EndpointSlice>) -> (usize, usize) {
    let endpoints: Vec<bool> = slices
        .flat_map(|slice| slice.endpoints.iter().flatten())
        .map(|endpoint| endpoint.conditions.as_ref().and_then(|one| one.ready).unwrap_or(true))
        .collect();
    (endpoints.iter().filter(|ready| **ready).count(), endpoints.len())
}
