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
    let own = own(service, slices);
    let selected: Vec<&Pod> = pods.iter().map(Borrow::borrow).filter(|pod| selects(service, pod)).collect();
    let trigger = trigger(service, &selected);
    let families = Family::of(service);
    let mut actions = Vec::new();
    for family in families.iter().copied() {
        let present: Vec<&EndpointSlice> =
            own.iter().copied().filter(|slice| slice.address_type == family.name()).collect();
        let groups = groups(service, &selected, &node, family);
        actions.extend(Draft { service, family, trigger: trigger.as_deref() }.actions(&present, groups));
    }
    let stray =
        own.into_iter().filter(|slice| !families.iter().any(|family| family.name() == slice.address_type));
    actions.extend(stray.map(delete));
    actions
}

/// The slices this controller made for `service`. Those of an earlier service of the same name are left to the garbage
/// collector.
fn own<'a, S: Borrow<EndpointSlice>>(service: &Service, slices: &'a [S]) -> Vec<&'a EndpointSlice> {
    let name = service.name_any();
    let uid = service.metadata.uid.as_deref().unwrap_or_default();
    let is_own = |slice: &&EndpointSlice| {
        service_of(slice) == Some(name.as_str())
            && slice.metadata.deletion_timestamp.is_none()
            && (slice.owner_references().is_empty() || ownership::is_controlled_by(*slice, uid))
    };
    slices.iter().map(Borrow::borrow).filter(is_own).collect()
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

/// What a slice holds; nothing at all in one that only shows that there is nothing.
#[derive(Debug, Default)]
struct Content {
    ports: Option<Vec<EndpointPort>>,
    endpoints: Option<Vec<Endpoint>>,
}

impl Content {
    fn new(ports: &[EndpointPort], endpoints: Vec<Endpoint>) -> Self {
        Self { ports: Some(ports.to_vec()), endpoints: Some(endpoints) }
    }
}

/// What all slices of a service have in common within one family.
struct Draft<'a> {
    service: &'a Service,
    family: Family,
    trigger: Option<&'a str>,
}

impl Draft<'_> {
    /// The changes to the slices of this family.
    fn actions(&self, present: &[&EndpointSlice], groups: Vec<Group>) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut fresh = VecDeque::new();
        let mut spare: Vec<&EndpointSlice> = present.to_vec();
        for Group { ports, endpoints } in groups {
            let fitting: Vec<&EndpointSlice> =
                present.iter().copied().filter(|slice| holds_ports(slice, &ports)).collect();
            let Packed { kept, new } = packing::pack(&fitting, endpoints);
            let kept = fitting.into_iter().zip(kept).filter(|(_, (endpoints, _))| !endpoints.is_empty());
            for (slice, (endpoints, changed)) in kept {
                spare.retain(|other| !std::ptr::eq(*other, slice));
                actions.extend(self.update(slice, Content::new(&ports, endpoints), changed));
            }
            fresh.extend(new.into_iter().map(|endpoints| Content::new(&ports, endpoints)));
        }
        // Without any endpoint one empty slice says that this is on purpose.
        if fresh.is_empty() && spare.len() == present.len() {
            fresh.push_back(Content::default());
        }
        actions.extend(self.settle(fresh, spare));
        actions
    }

    /// What is new goes into slices that are not needed any more, before others are made.
    fn settle(&self, mut fresh: VecDeque<Content>, spare: Vec<&EndpointSlice>) -> Vec<Action> {
        let mut actions = Vec::new();
        for slice in spare {
            actions.extend(match fresh.pop_front() {
                Some(content) => {
                    let changed = !is_same_content(slice, &content);
                    self.update(slice, content, changed)
                }
                None => Some(delete(slice)),
            });
        }
        for content in fresh {
            let mut slice = self.build(content);
            self.note_trigger(&mut slice);
            actions.push(Action::Create(Box::new(slice)));
        }
        actions
    }

    fn update(&self, old: &EndpointSlice, content: Content, changed: bool) -> Option<Action> {
        let next = self.build(content);
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
        self.note_trigger(&mut slice);
        Some(Action::Update(Box::new(slice)))
    }

    fn build(&self, Content { ports, endpoints }: Content) -> EndpointSlice {
        let metadata = ObjectMeta {
            generate_name: Some(format!("{}-", self.service.name_any())),
            namespace: self.service.namespace(),
            labels: Some(labels(self.service)),
            owner_references: ownership::reference(self.service).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        EndpointSlice { metadata, address_type: self.family.name().to_owned(), endpoints, ports }
    }

    fn note_trigger(&self, slice: &mut EndpointSlice) {
        if let Some(trigger) = self.trigger {
            slice.annotations_mut().insert(TRIGGER.to_owned(), trigger.to_owned());
        }
    }
}

/// Empty and absent lists are the same thing on the wire.
fn is_same_content(slice: &EndpointSlice, content: &Content) -> bool {
    slice.ports.as_deref().unwrap_or_default() == content.ports.as_deref().unwrap_or_default()
        && slice.endpoints.as_deref().unwrap_or_default() == content.endpoints.as_deref().unwrap_or_default()
}

fn holds_ports(slice: &EndpointSlice, ports: &[EndpointPort]) -> bool {
    let mut found = slice.ports.clone().unwrap_or_default();
    found.sort_by(|a, b| (&a.name, a.port, &a.protocol).cmp(&(&b.name, b.port, &b.protocol)));
    found == ports
}

fn delete(slice: &EndpointSlice) -> Action {
    Action::Delete { name: slice.name_any(), uid: slice.uid().unwrap_or_default() }
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

#[cfg(test)]
mod tests;
