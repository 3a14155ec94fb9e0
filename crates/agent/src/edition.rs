//! The two editions of the API at the agent's edge: which kinds they have. Everything else is in the model's policy.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;
use serde_json::Value;
use tombolo_api::condition::{self, Stored};
use tombolo_api::{kep, mcs};
use tombolo_model::conditions::{ImportState, of_import};
use tombolo_model::offer::Export;
use tombolo_model::{Import, Policy};

pub(crate) use tombolo_runtime::Kind;

/// One edition of the Multi-Cluster Services API.
pub(crate) trait Edition: Send + Sync + 'static {
    const POLICY: &'static Policy;
    type Export: Kind;
    type Condition: Stored + Serialize + Send;
    type Import: Kind;
    /// The condition of an export that every live member has applied.
    const EVERYWHERE: &'static str;
    /// Whether users may write imports: one takes the place of ours, and `native` serves it under its own name.
    const USERS_IMPORT: bool;
    /// Whether an import can say itself how it does.
    const IMPORTS_SPEAK: bool;

    fn export(export: &Self::Export) -> Export;
    fn conditions(export: &Self::Export) -> Vec<Self::Condition>;
    fn import(import: &Import, vips: &[IpAddr]) -> Self::Import;
    /// The status that an import shall have, if it has another one; the condition's history is in `held`.
    fn import_status(
        desired: &Self::Import,
        held: &Self::Import,
        state: &ImportState,
        now: &Time,
    ) -> Option<Value>;
}

/// KEP-1645, first edition.
pub(crate) struct Kep;

impl Edition for Kep {
    const POLICY: &'static Policy = &Policy::KEP;
    type Export = kep::ServiceExport;
    type Condition = kep::ServiceExportCondition;
    type Import = kep::ImportedService;
    const EVERYWHERE: &'static str = kep::ExportCondition::Exported.as_str();
    const USERS_IMPORT: bool = false;
    const IMPORTS_SPEAK: bool = false;

    fn export(export: &Self::Export) -> Export {
        export.into()
    }

    fn conditions(export: &Self::Export) -> Vec<Self::Condition> {
        export.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default()
    }

    fn import(import: &Import, vips: &[IpAddr]) -> Self::Import {
        import.kep_import(vips)
    }

    fn import_status(_: &Self::Import, _: &Self::Import, _: &ImportState, _: &Time) -> Option<Value> {
        None
    }
}

/// Today's MCS API.
pub(crate) struct Mcs;

impl Edition for Mcs {
    const POLICY: &'static Policy = &Policy::MCS;
    type Export = mcs::ServiceExport;
    type Condition = Condition;
    type Import = mcs::ServiceImport;
    const EVERYWHERE: &'static str = mcs::ExportCondition::Ready.as_str();
    const USERS_IMPORT: bool = true;
    const IMPORTS_SPEAK: bool = true;

    fn export(export: &Self::Export) -> Export {
        export.into()
    }

    fn conditions(export: &Self::Export) -> Vec<Self::Condition> {
        export.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default()
    }

    fn import(import: &Import, vips: &[IpAddr]) -> Self::Import {
        import.mcs_import(vips)
    }

    fn import_status(
        desired: &Self::Import,
        held: &Self::Import,
        state: &ImportState,
        now: &Time,
    ) -> Option<Value> {
        let before = held.status.clone().unwrap_or_default();
        let mut status = desired.status.clone().unwrap_or_default();
        status.conditions = before.conditions.clone();
        for condition in of_import(state, held.metadata.generation) {
            condition::set(&mut status.conditions, condition, now.clone());
        }
        if status == before { None } else { serde_json::to_value(status).ok() }
    }
}
