//! What the model says, given what users have put into the members: no agent and no hub is asked.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::tombolo::{
    Dialect, MANAGED_BY_LABEL, MANAGER, NATIVE_IMPORT_LABEL, ServiceOffer, ServiceRef,
};
use tombolo_model::address::Declared;
use tombolo_model::offer::{Export, offer};
use tombolo_model::slices::{self, Consumption, Publication};
use tombolo_model::{ClusterId, Import, Merged, Policy, merge, names};
use tombolo_runtime::Key;

use crate::world::{Member, World};

/// A service in one edition of the API.
pub(crate) type Name = (Dialect, Key);

pub(crate) fn service(key: &Key) -> ServiceRef {
    ServiceRef { namespace: key.namespace.clone(), name: key.name.clone() }
}

/// What one member should have at the hub for one service.
pub(crate) struct Offered {
    pub(crate) offer: ServiceOffer,
    pub(crate) slices: Vec<EndpointSlice>,
}

/// Everything that is offered, by service and cluster.
pub(crate) struct Truth {
    pub(crate) offered: BTreeMap<Name, BTreeMap<ClusterId, Offered>>,
    pub(crate) declared: BTreeMap<ClusterId, Declared>,
}

/// The exports of a member that are not on their way out.
pub(crate) fn exports(member: &Member) -> Vec<Export> {
    let (kep, mcs) = (member.sight.kep_exports.all(), member.sight.mcs_exports.all());
    let kep = kep.iter().filter(|export| export.metadata.deletion_timestamp.is_none());
    let mcs = mcs.iter().filter(|export| export.metadata.deletion_timestamp.is_none());
    kep.map(|export| Export::from(&**export)).chain(mcs.map(|export| Export::from(&**export))).collect()
}

fn offered(member: &Member, export: &Export) -> Option<Offered> {
    let cluster = &member.config.cluster;
    let key = Key::new(export.service.namespace.clone(), export.service.name.clone());
    let found = member.sight.services.get(&key);
    let spec = offer(cluster, export, found.as_deref(), None).ok()?.spec;
    let mut offer = ServiceOffer::new(&names::offer(export.dialect, &export.service), spec);
    offer.metadata.namespace = Some(names::hub_namespace(cluster));
    let declared = Declared::read(&member.config.pod_cidrs).0;
    let publication = Publication {
        cluster,
        dialect: export.dialect,
        service: &export.service,
        declared: &declared,
        owner: None,
    };
    let sources = member.sight.slices.within(&key.namespace);
    let sources = sources.iter().filter(|slice| slices::is_source(slice, &export.service));
    Some(Offered { offer, slices: sources.filter_map(|s| slices::publish(&publication, s).slice).collect() })
}

impl Truth {
    pub(crate) fn of(world: &World) -> Self {
        let mut all: BTreeMap<Name, BTreeMap<ClusterId, Offered>> = BTreeMap::new();
        for member in world.joined() {
            for export in exports(member) {
                let key = Key::new(export.service.namespace.clone(), export.service.name.clone());
                if let Some(offered) = offered(member, &export) {
                    let clusters = all.entry((export.dialect, key)).or_default();
                    clusters.insert(member.config.cluster.clone(), offered);
                }
            }
        }
        let declared = world
            .members
            .iter()
            .map(|member| (member.config.cluster.clone(), Declared::read(&member.config.pod_cidrs).0));
        Self { offered: all, declared: declared.collect() }
    }

    pub(crate) fn merged(&self, name: &Name) -> Merged {
        let offers = self.offered.get(name).into_iter().flat_map(|clusters| clusters.values());
        merge(Policy::of(name.0), &service(&name.1), offers.map(|offered| &offered.offer))
    }

    /// The slices of an import in a consumer.
    pub(crate) fn slices(&self, name: &Name, import: &Import, consumer: &ClusterId) -> Vec<EndpointSlice> {
        let parts = self.offered.get(name).into_iter().flatten();
        let imported = parts.flat_map(|(source, offered)| {
            let declared = &self.declared[source];
            let consumption = Consumption { import, source, consumer, declared, region: None, owner: None };
            offered.slices.iter().filter_map(move |slice| slices::import(&consumption, slice).slice)
        });
        imported.collect()
    }
}

/// What of a slice has a meaning: who made it, its endpoints and ports.
pub(crate) fn meaning(slice: &EndpointSlice) -> Value {
    lean(json!({
        "labels": slice.metadata.labels, "addressType": slice.address_type,
        "endpoints": slice.endpoints, "ports": slice.ports,
    }))
}

/// As JSON without nulls, empty maps and empty lists.
pub(crate) fn lean(value: impl Serialize) -> Value {
    let mut value = json!(value);
    thin(&mut value);
    value
}

fn thin(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(thin);
            fields.retain(|_, value| !is_nothing(value));
        }
        Value::Array(items) => items.iter_mut().for_each(thin),
        _ => {}
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// What an imported slice is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) name: Name,
    pub(crate) source: String,
    /// It stands behind the Service of the own name, not behind the derived one.
    pub(crate) native: bool,
}

/// `None` if it is not one of the agent's.
pub(crate) fn origin(slice: &EndpointSlice) -> Option<Origin> {
    let label = |key: &str| slice.labels().get(key).cloned();
    let source = label(SOURCE_CLUSTER_LABEL)?;
    label(MANAGED_BY_LABEL).filter(|manager| manager == MANAGER)?;
    let native = label(NATIVE_IMPORT_LABEL).map(|name| (Dialect::Mcs, name));
    let derived = || {
        Dialect::ALL.iter().find_map(|dialect| Some((*dialect, label(Policy::of(*dialect).import_label)?)))
    };
    let is_native = native.is_some();
    let (dialect, name) = native.or_else(derived)?;
    Some(Origin { name: (dialect, Key::new(slice.namespace()?, name)), source, native: is_native })
}

pub(crate) fn addresses(slice: &EndpointSlice) -> BTreeSet<String> {
    let endpoints = slice.endpoints.iter().flatten();
    endpoints.flat_map(|endpoint| endpoint.addresses.iter().cloned()).collect()
}
