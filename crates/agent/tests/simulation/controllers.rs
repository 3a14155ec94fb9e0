//! What kube-controller-manager does in a member: slices for Services with a selector, and an end for namespaces.
//!
//! It acts on what it sees, once a second, and may be stopped for a while. Pods are what a user says they are.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::ListParams;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tombolo_api::tombolo::SET_ASIDE_SELECTOR_KEY;
use tombolo_api::{kep, mcs};
use tombolo_runtime::Key;

use crate::schedule::Run;
use crate::world::Member;

/// The label of the pods of a service; its value is the service's name.
pub(crate) const APP: &str = "app";

/// The controllers of one member.
pub(crate) struct Controllers {
    pub(crate) are_running: bool,
    /// By the key of the slice in which they are.
    pub(crate) pods: BTreeMap<Key, Arc<Pods>>,
}

/// Pods of a service.
pub(crate) struct Pods {
    service: String,
    /// The slice with all of them, as it is applied.
    slice: Value,
    /// The same, as it is compared.
    endpoints: Vec<Endpoint>,
}

impl Pods {
    pub(crate) fn new(service: String, slice: Value) -> Arc<Self> {
        let endpoints = serde_json::from_value(slice["endpoints"].clone()).unwrap();
        Arc::new(Self { service, slice, endpoints })
    }
}

impl Default for Controllers {
    fn default() -> Self {
        Self { are_running: true, pods: BTreeMap::new() }
    }
}

/// What a Service's selector makes of its pods.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Selection {
    /// There is no Service of which the pods are, or none with a selector.
    None,
    Nothing,
    Pods,
}

impl Run {
    /// The controllers of all members do what there is to do.
    pub(crate) async fn control(&mut self) {
        for place in 0..self.world.members.len() {
            self.world.members[place].sweep().await;
            self.keep_slices(place).await;
        }
    }

    /// They stop, or begin again.
    pub(crate) fn toggle_controllers(&mut self, place: usize) {
        let controllers = &mut self.world.members[place].controllers;
        controllers.are_running = !controllers.are_running;
        let running = controllers.are_running;
        self.note(place, &format!("kube-controller-manager runs: {running}"));
    }

    /// Slices are what the selectors make of the pods.
    pub(crate) async fn keep_slices(&mut self, place: usize) {
        let member = &self.world.members[place];
        if !member.controllers.are_running {
            return;
        }
        for (slice, pods) in member.controllers.pods.clone() {
            let service = Key::new(slice.namespace.clone(), pods.service.clone());
            if self.world.members[place].keep_slice(&slice, &service, &pods).await {
                self.guard.touch(place, &service);
            }
        }
    }
}

impl Member {
    /// Whether there was anything to do.
    async fn keep_slice(&self, key: &Key, service: &Key, pods: &Pods) -> bool {
        if !self.has_namespace(&key.namespace) {
            return false;
        }
        let held = self.sight.slices.get(key);
        let wanted = match self.selection(service) {
            // The garbage collector does this.
            Selection::None if held.is_some() => {
                self.delete::<EndpointSlice>(key).await;
                return true;
            }
            Selection::None => return false,
            Selection::Nothing => &[],
            Selection::Pods => &*pods.endpoints,
        };
        let as_wanted = held.is_some_and(|held| held.endpoints.as_deref().unwrap_or_default() == wanted);
        if !as_wanted {
            let mut slice = pods.slice.clone();
            slice["endpoints"] = json!(wanted);
            self.apply::<EndpointSlice>(key, &slice).await;
        }
        !as_wanted
    }

    fn selection(&self, service: &Key) -> Selection {
        let Some(service) = self.sight.services.get(service) else { return Selection::None };
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let Some(selector) = selector.filter(|selector| !selector.is_empty()) else { return Selection::None };
        if selector.contains_key(SET_ASIDE_SELECTOR_KEY) || selector.get(APP) != Some(&service.name_any()) {
            Selection::Nothing
        } else {
            Selection::Pods
        }
    }

    /// Empties namespaces that are on their way out, and lets them go once nothing is left.
    pub(crate) async fn sweep(&self) {
        for namespace in self.sight.namespaces.all() {
            if namespace.metadata.deletion_timestamp.is_none() {
                continue;
            }
            let name = namespace.name_any();
            let left = self.empty::<Service>(&name).await
                + self.empty::<EndpointSlice>(&name).await
                + self.empty::<kep::ServiceExport>(&name).await
                + self.empty::<mcs::ServiceExport>(&name).await
                + self.empty::<kep::ImportedService>(&name).await
                + self.empty::<mcs::ServiceImport>(&name).await;
            if left == 0 {
                self.finalize(&namespace).await;
            }
        }
    }

    /// Deletes everything of a kind and returns how much still waits for somebody.
    async fn empty<K>(&self, namespace: &str) -> usize
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>(namespace);
        for object in api.list(&ListParams::default()).await.unwrap() {
            self.delete::<K>(&Key::of(&object)).await;
        }
        api.list(&ListParams::default()).await.unwrap().items.len()
    }

    async fn finalize(&self, namespace: &Namespace) {
        let mut value = json!(namespace);
        value["spec"] = json!({"finalizers": []});
        value["metadata"]["managedFields"].take();
        let request = http::Request::put(format!("/api/v1/namespaces/{}/finalize", namespace.name_any()));
        let request = request.header("content-type", "application/json").body(value.to_string().into_bytes());
        let _: Value = self.cluster.client().request(request.unwrap()).await.unwrap();
    }
}
