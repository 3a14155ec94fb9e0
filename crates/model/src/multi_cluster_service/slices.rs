//! Slices on their way: reported by the member they are in, sent on by the hub to the members that consume them.
//!
//! One slice in, one Work out at each step. The hub takes over no metadata from what a member reports: names, labels and
//! annotations are made anew, and addresses that the member did not declare are left out.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use tombolo_api::karmada::MANAGED_LABEL;
use tombolo_api::karmada::networking::{
    PROVISION_CLUSTER_ANNOTATION, SLICE_DISPATCHER, SLICE_MANAGED_BY_LABEL, SLICE_SERVICE_NAME_LABEL,
    SLICE_SERVICE_NAMESPACE_LABEL, WORK_PROVISION_CLUSTER_ANNOTATION,
};
use tombolo_api::karmada::work::{NAME_ANNOTATION, NAMESPACE_ANNOTATION, Work, WorkSpec, Workload};
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::service::{MANAGED_BY_LABEL, SERVICE_NAME_LABEL};
use tombolo_api::tombolo::ServiceRef;

use super::service::Exposed;
use super::{Place, Plan, Roles, Version, View, labels, place, work};
use crate::address::{Declared, DropCount, Dropped};
use crate::cluster::ClusterId;
use crate::slices::{family, is_source, selection};
use crate::{names, origin};

/// Value of the label that says on whose behalf a slice was collected (Karmada as built).
const COLLECTED_FOR: &str = "MultiClusterService";

/// What a member knows when it reports slices of one Service.
#[derive(Clone, Debug)]
pub struct Collection<'a> {
    pub cluster: &'a ClusterId,
    pub service: &'a ServiceRef,
    pub declared: &'a Declared,
}

/// Whether a slice holds endpoints of this Service itself, and not ones from elsewhere. The label that it is managed says
/// nothing: the cluster's own controller copies it from the Service.
pub fn is_collectable(slice: &EndpointSlice, service: &ServiceRef) -> bool {
    let labels = slice.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    is_source(slice, service) && family(slice).is_some() && label(MANAGED_BY_LABEL) != Some(SLICE_DISPATCHER)
}

/// The Work in which the member reports a slice, stored at the hub and never applied, and what is left out of it.
pub fn collect(collection: &Collection<'_>, source: &EndpointSlice) -> Option<(Work, DropCount)> {
    let Collection { cluster, service, declared } = *collection;
    let family = family(source)?;
    let name = source.metadata.name.as_deref().unwrap_or_default();
    let mut annotations = Version::of(source).annotations();
    annotations.insert(PROVISION_CLUSTER_ANNOTATION.to_owned(), cluster.to_string());
    let (endpoints, left_out) = selection::endpoints(source, family, declared, false);
    let slice = EndpointSlice {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(service.namespace.clone()),
            labels: Some(text(&[(SERVICE_NAME_LABEL, &service.name)])),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        address_type: family.to_string(),
        endpoints: Some(endpoints),
        ports: Some(selection::ports(source)),
    };
    let mut work = Work::new(
        &names::collected_work(service, name),
        WorkSpec {
            workload: Some(Workload { manifests: vec![manifest(&slice)] }),
            suspend_dispatching: Some(true),
            ..WorkSpec::default()
        },
    );
    work.metadata.namespace = names::execution_namespace(cluster);
    work.metadata.labels = Some(slice_labels(service));
    work.metadata.labels.get_or_insert_default().insert(SLICE_MANAGED_BY_LABEL.into(), COLLECTED_FOR.into());
    Some((work, left_out))
}

/// Whether a Work is the report of a slice.
pub fn is_collected(work: &Work) -> bool {
    let labels = work.metadata.labels.as_ref();
    work.spec.suspend_dispatching == Some(true)
        && labels.is_some_and(|labels| labels.contains_key(SLICE_MANAGED_BY_LABEL))
}

fn slice_labels(service: &ServiceRef) -> BTreeMap<String, String> {
    let mut all = labels(service);
    all.extend(text(&[
        (SLICE_SERVICE_NAME_LABEL, &service.name),
        (SLICE_SERVICE_NAMESPACE_LABEL, &service.namespace),
    ]));
    all
}

fn text(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn manifest(slice: &EndpointSlice) -> Value {
    let metadata = json!({
        "name": slice.metadata.name,
        "namespace": slice.metadata.namespace,
        "labels": slice.metadata.labels,
        "annotations": slice.metadata.annotations,
    });
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": slice.address_type,
        "endpoints": slice.endpoints,
        "ports": slice.ports,
    })
}

/// Puts into the plan what becomes of reported slices: they stay while their cluster provides, and go to every consumer
/// but their own cluster while it is alive.
pub(super) fn dispatch(view: &View<'_>, roles: &Roles<'_>, exposed: &Exposed, plan: &mut Plan) {
    let held: BTreeMap<Place, &Work> = view.works.iter().map(|work| (place(work), *work)).collect();
    for (source, member) in &roles.provision {
        let (Some((source, _)), Some(member)) = (view.members.get_key_value(*source), member) else {
            continue;
        };
        let Some(namespace) = names::execution_namespace(source) else { continue };
        let reported = view.works.iter().filter(|work| is_report_from(work, &namespace));
        let reported: Vec<(&Work, EndpointSlice)> =
            reported.filter_map(|work| Some((*work, read(work, &view.service())?))).collect();
        plan.keep.extend(reported.iter().map(|(work, _)| place(work)));
        if !member.ready {
            let consumes = |work: &&&Work| {
                let namespace = work.metadata.namespace.as_deref();
                let consumers = roles.consumption.keys().filter_map(|name| view.members.get_key_value(*name));
                consumers.into_iter().any(|(id, _)| names::execution_namespace(id).as_deref() == namespace)
            };
            let sent = view.works.iter().filter(|work| self::source(work) == Some(source.as_str()));
            sent.filter(consumes).for_each(|work| keep_for_now(view, work, plan));
            continue;
        }
        let (admitted, surplus) = origin::admit_slices(reported.iter().map(|(_, slice)| slice), view.limits);
        let mut left_out: BTreeSet<Dropped> = (surplus > 0).then_some(Dropped::TooMany).into_iter().collect();
        for slice in admitted {
            let family = family(slice).unwrap_or_default();
            let (endpoints, dropped) = selection::endpoints(slice, family, &member.declared, false);
            left_out.extend(dropped.into_keys());
            let ports = shown(exposed, slice);
            // Endpoints without any of the exposed ports get no traffic.
            if ports.is_none() && !endpoints.is_empty() {
                left_out.insert(Dropped::NotExposed);
            }
            let endpoints = if ports.is_some() { endpoints } else { Vec::new() };
            let seen = EndpointSlice {
                endpoints: Some(endpoints),
                ports: Some(ports.unwrap_or_default()),
                ..slice.clone()
            };
            for consumer in roles.consumption.keys().filter(|consumer| **consumer != source.as_str()) {
                let Some((consumer, _)) = view.members.get_key_value(*consumer) else { continue };
                let Some(namespace) = names::execution_namespace(consumer) else { continue };
                let (place, work) = sent(view, source, &seen, namespace);
                if held.get(&place).is_some_and(|held| is_newer(held, slice)) {
                    plan.keep.insert(place);
                } else {
                    plan.works.insert(place, work);
                }
            }
        }
        if !left_out.is_empty() {
            plan.left_out.insert(source.clone(), left_out);
        }
    }
}

/// The cluster that the slice in a dispatched Work comes from.
pub(super) fn source(work: &Work) -> Option<&str> {
    let annotations = work.metadata.annotations.as_ref()?;
    annotations.get(WORK_PROVISION_CLUSTER_ANNOTATION).map(String::as_str)
}

/// Keeps what a cluster sent that is silent, if whoever has it is silent, too, or has only just returned. When many lose their
/// way to the hub together, none is to lose the others, and not for the time between their returns either.
pub(super) fn keep_for_now(view: &View<'_>, work: &Work, plan: &mut Plan) {
    let Some(holder) = view.holder(work).filter(|holder| !holder.settled) else { return };
    plan.keep.insert(place(work));
    plan.settling |= holder.ready;
}

fn is_report_from(work: &Work, namespace: &str) -> bool {
    is_collected(work) && work.metadata.namespace.as_deref() == Some(namespace)
}

/// The slice in a report, if it is one of this service.
fn read(work: &Work, service: &ServiceRef) -> Option<EndpointSlice> {
    let manifest = work.spec.workload.as_ref()?.manifests.first()?;
    let mut slice: EndpointSlice = serde_json::from_value(manifest.clone()).ok()?;
    // As old as its report: what is said of the original's age nobody can check.
    slice.metadata.creation_timestamp.clone_from(&work.metadata.creation_timestamp);
    is_source(&slice, service).then_some(slice)
}

/// Whether the Work that is there has a newer state than the one that was reported.
fn is_newer(held: &Work, reported: &EndpointSlice) -> bool {
    let manifest = held.spec.workload.as_ref().and_then(|workload| workload.manifests.first());
    let metadata = manifest.and_then(|manifest| serde_json::from_value(manifest["metadata"].clone()).ok());
    metadata.is_some_and(|metadata: ObjectMeta| {
        !Version::of_copy(&reported.metadata).may_replace(&Version::of_copy(&metadata))
    })
}

/// The ports of a slice that others see; nothing if it has some, but none of those.
fn shown(exposed: &Exposed, slice: &EndpointSlice) -> Option<Vec<EndpointPort>> {
    let given = selection::ports(slice);
    let had_any = !given.is_empty();
    let seen: Vec<EndpointPort> =
        given.into_iter().filter(|port| exposed.shows(port.name.as_deref())).collect();
    (!seen.is_empty() || !had_any).then_some(seen)
}

/// The Work that brings what is seen of a slice of `source` to the member whose namespace it is.
fn sent(view: &View<'_>, source: &ClusterId, seen: &EndpointSlice, namespace: String) -> (Place, Work) {
    let service = view.service();
    let name = seen.metadata.name.as_deref().unwrap_or_default();
    let place = (namespace, names::dispatched_work(&service, source, name));
    let mut annotations = Version::of_copy(&seen.metadata).annotations();
    annotations.extend(text(&[
        (PROVISION_CLUSTER_ANNOTATION, source.as_str()),
        (NAMESPACE_ANNOTATION, &place.0),
        (NAME_ANNOTATION, &place.1),
    ]));
    let slice = EndpointSlice {
        metadata: ObjectMeta {
            name: Some(names::dispatched_slice(&service, source, name)),
            namespace: Some(service.namespace.clone()),
            labels: Some(text(&[
                (SERVICE_NAME_LABEL, &service.name),
                (MANAGED_BY_LABEL, SLICE_DISPATCHER),
                (SOURCE_CLUSTER_LABEL, source.as_str()),
                (MANAGED_LABEL, "true"),
            ])),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        address_type: family(seen).unwrap_or_default().to_string(),
        endpoints: seen.endpoints.clone(),
        ports: seen.ports.clone(),
    };
    let mut work = work(view, &place, manifest(&slice));
    work.metadata.labels = Some(slice_labels(&service));
    let annotations = work.metadata.annotations.get_or_insert_default();
    annotations.insert(WORK_PROVISION_CLUSTER_ANNOTATION.to_owned(), source.to_string());
    (place, work)
}
