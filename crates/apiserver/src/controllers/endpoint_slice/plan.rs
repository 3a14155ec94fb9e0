//! What has to be written so that a Service's slices are right.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::super::{ownership, pod_state};
use super::endpoint::{self, Family};
use super::packing::{self, Packed};

pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Create(Box<EndpointSlice>),
    /// Carries the resource version that was seen.
    Update(Box<EndpointSlice>),
    Delete {
        name: String,
        uid: String,
    },
}

/// Endpoints with the same resolved ports share slices.
#[derive(Debug)]
struct Group {
    ports: Vec<EndpointPort>,
    endpoints: Vec<Endpoint>,
}

/// The service a slice of this controller belongs to.
pub(super) fn service_of(slice: &EndpointSlice) -> Option<&str> {
    let labels = slice.labels();
    if labels.get(MANAGED_BY).map(String::as_str) != Some(MANAGER) {
        return None;
    }
    labels.get(SERVICE_NAME).map(String::as_str)
}

/// Whether the service wants slices made for it, and of this pod.
pub(super) fn selects(service: &Service, pod: &Pod) -> bool {
    selector(service)
        .is_some_and(|wanted| wanted.iter().all(|(name, value)| pod.labels().get(name) == Some(value)))
}

fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref().filter(|spec| spec.type_.as_deref() != Some("ExternalName"))?;
    spec.selector.as_ref().filter(|selector| !selector.is_empty())
}

/// The changes that bring the slices of `service` up to date. `slices` may be all of the namespace.
pub(super) fn plan<P: Borrow<Pod>, S: Borrow<EndpointSlice>>(
    service: &Service,
    pods: &[P],
    node: impl Fn(&str) -> Option<Arc<Node>>,
    slices: &[S],
) -> Vec<Action> {
    if selector(service).is_none() || service.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let name = service.name_any();
    let uid = service.metadata.uid.as_deref().unwrap_or_default();
    let own: Vec<&EndpointSlice> = slices
        .iter()
        .map(Borrow::borrow)
        .filter(|slice| service_of(slice) == Some(&name) && slice.metadata.deletion_timestamp.is_none())
        .collect();
    // Slices of an earlier service of the same name are left to the garbage collector.
    let own: Vec<&EndpointSlice> = own
        .into_iter()
        .filter(|slice| ownership::is_controlled_by(*slice, uid) || slice.owner_references().is_empty())
        .collect();
    let selected: Vec<&Pod> = pods.iter().map(Borrow::borrow).filter(|pod| selects(service, pod)).collect();
    let families = Family::of(service);
    let mut actions = Vec::new();
    for family in &families {
        let present: Vec<&EndpointSlice> =
            own.iter().copied().filter(|slice| slice.address_type == family.name()).collect();
        let groups = groups(service, &selected, &node, *family);
        let trigger = trigger(service, &selected);
        actions.extend(of_family(service, *family, &present, groups, trigger.as_deref()));
    }
    let stray =
        own.into_iter().filter(|slice| !families.iter().any(|family| family.name() == slice.address_type));
    actions.extend(stray.map(delete));
    actions
}

fn groups(
    service: &Service,
    pods: &[&Pod],
    node: impl Fn(&str) -> Option<Arc<Node>>,
    family: Family,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for pod in pods {
        let node = pod_state::node(pod).and_then(&node);
        let Some(endpoint) = endpoint::endpoint(service, pod, node.as_deref(), family) else { continue };
        let ports = endpoint::ports(service, pod);
        match groups.iter_mut().find(|group| group.ports == ports) {
            Some(group) => group.endpoints.push(endpoint),
            None => groups.push(Group { ports, endpoints: vec![endpoint] }),
        }
    }
    groups
}

/// The changes to the slices of one family.
fn of_family(
    service: &Service,
    family: Family,
    present: &[&EndpointSlice],
    groups: Vec<Group>,
    trigger: Option<&str>,
) -> Vec<Action> {
    let mut updates = Vec::new();
    let mut fresh = VecDeque::new();
    let mut spare: Vec<&EndpointSlice> = present.to_vec();
    for Group { ports, endpoints } in groups {
        let fitting: Vec<&EndpointSlice> =
            present.iter().copied().filter(|slice| holds_ports(slice, &ports)).collect();
        let Packed { kept, new } = packing::pack(&fitting, endpoints);
        for (slice, (endpoints, changed)) in fitting.into_iter().zip(kept) {
            if endpoints.is_empty() {
                continue;
            }
            spare.retain(|other| !std::ptr::eq(*other, slice));
            let next = build(service, family, Some(ports.clone()), Some(endpoints));
            updates.extend(update(slice, next, changed, trigger));
        }
        fresh.extend(new.into_iter().map(|endpoints| (Some(ports.clone()), Some(endpoints))));
    }
    // Without any endpoint one empty slice says that this is on purpose.
    if fresh.is_empty() && spare.len() == present.len() {
        fresh.push_back((None, None));
    }
    settle(service, family, fresh, spare, updates, trigger)
}

/// What is new goes into slices that are not needed any more, before others are made.
fn settle(
    service: &Service,
    family: Family,
    mut fresh: VecDeque<(Option<Vec<EndpointPort>>, Option<Vec<Endpoint>>)>,
    spare: Vec<&EndpointSlice>,
    mut actions: Vec<Action>,
    trigger: Option<&str>,
) -> Vec<Action> {
    for slice in spare {
        match fresh.pop_front() {
            Some((ports, endpoints)) => {
                let next = build(service, family, ports, endpoints);
                let changed = !is_same_content(slice, &next);
                actions.extend(update(slice, next, changed, trigger));
            }
            None => actions.push(delete(slice)),
        }
    }
    for (ports, endpoints) in fresh {
        let mut slice = build(service, family, ports, endpoints);
        note_trigger(&mut slice, trigger);
        actions.push(Action::Create(Box::new(slice)));
    }
    actions
}

/// Empty and absent lists are the same thing on the wire.
fn is_same_content(a: &EndpointSlice, b: &EndpointSlice) -> bool {
    a.ports.as_deref().unwrap_or_default() == b.ports.as_deref().unwrap_or_default()
        && a.endpoints.as_deref().unwrap_or_default() == b.endpoints.as_deref().unwrap_or_default()
}

fn holds_ports(slice: &EndpointSlice, ports: &[EndpointPort]) -> bool {
    let mut found = slice.ports.clone().unwrap_or_default();
    found.sort_by(|a, b| (&a.name, a.port, &a.protocol).cmp(&(&b.name, b.port, &b.protocol)));
    found == ports
}

fn update(old: &EndpointSlice, next: EndpointSlice, changed: bool, trigger: Option<&str>) -> Option<Action> {
    let owned = old.metadata.owner_references == next.metadata.owner_references;
    if !changed && owned && old.labels() == next.labels() {
        return None;
    }
    let metadata = ObjectMeta {
        labels: next.metadata.labels,
        owner_references: next.metadata.owner_references,
        ..old.metadata.clone()
    };
    let mut slice = EndpointSlice { metadata, ..next };
    note_trigger(&mut slice, trigger);
    Some(Action::Update(Box::new(slice)))
}

fn delete(slice: &EndpointSlice) -> Action {
    Action::Delete { name: slice.name_any(), uid: slice.uid().unwrap_or_default() }
}

fn build(
    service: &Service,
    family: Family,
    ports: Option<Vec<EndpointPort>>,
    endpoints: Option<Vec<Endpoint>>,
) -> EndpointSlice {
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", service.name_any())),
        namespace: service.namespace(),
        labels: Some(labels(service)),
        owner_references: ownership::reference(service).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    EndpointSlice { metadata, address_type: family.name().to_owned(), endpoints, ports }
}

/// The service's own labels and the three that belong to slices.
fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.labels().clone();
    labels.remove(HEADLESS);
    if service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None") {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), service.name_any());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

/// The latest change that can be read off the objects themselves. It is noted with other changes only: by itself it is
/// no reason to write.
fn trigger(service: &Service, pods: &[&Pod]) -> Option<String> {
    let made = service.metadata.creation_timestamp.as_ref();
    let turned = pods.iter().filter_map(|pod| {
        let ready = pod_state::condition(pod, "Ready").and_then(|ready| ready.last_transition_time.as_ref());
        pod.metadata.deletion_timestamp.as_ref().or(ready)
    });
    made.into_iter().chain(turned).max().map(|time| time.0.to_string())
}

fn note_trigger(slice: &mut EndpointSlice, trigger: Option<&str>) {
    if let Some(trigger) = trigger {
        slice.annotations_mut().insert(TRIGGER.to_owned(), trigger.to_owned());
    }
}

#[cfg(test)]
mod tests;
