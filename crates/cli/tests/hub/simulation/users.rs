//! What users do in a run: in members with endpoints, at the hub with Services and MultiClusterServices.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tombolo_api::karmada::networking::MultiClusterService;
use tombolo_api::karmada::strategy::STRATEGY_ANNOTATION;
use tombolo_api::tombolo::LOCAL_FIRST_MIN_READY_ANNOTATION;
use tombolo_model::strategy::of_multi_cluster_service;

use super::schedule::Run;
use super::sight::{service_name, source};
use crate::fleet::{NAMESPACE, apply};

pub(crate) const SERVICES: [&str; 3] = ["foo", "bar", "baz"];
/// No cluster ever has this name.
const NOBODY: &str = "nobody";

fn service(name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"ports": [{"name": "http", "port": port, "targetPort": 8080}], "selector": {"app": name}},
    })
}

impl Run {
    fn draw_service(&mut self) -> usize {
        self.dice.usize(0..SERVICES.len())
    }

    /// Services of users in members: one has the name of a service that is shared.
    pub(crate) async fn add_foreign_objects(&mut self) {
        for name in [SERVICES[0], "own"] {
            let place = self.draw_member();
            self.note(place, &format!("a user has a Service {name}"));
            let member = &self.fleet.members[place];
            apply::<Service>(&member.cluster.client(), NAMESPACE, &service(name, 9)).await;
            let mine = member.api::<Service>().get(name).await.unwrap();
            self.guard.protect(place, mine);
        }
    }

    /// One service gets other endpoints in one member.
    pub(crate) async fn set_endpoints(&mut self) {
        let (place, which, count) = (self.draw_member(), self.draw_service(), self.dice.usize(0..4));
        let mut endpoints = Vec::new();
        for _ in 0..count {
            let address = format!("10.{}.{which}.{}", place + 1, self.dice.u8(1..=9));
            endpoints.push((address, self.dice.u32(0..4) > 0));
        }
        endpoints.sort();
        endpoints.dedup_by(|one, other| one.0 == other.0);
        self.put_endpoints(place, which, &endpoints).await;
    }

    pub(crate) async fn put_endpoints(&mut self, place: usize, which: usize, endpoints: &[(String, bool)]) {
        self.note(place, &format!("{} has {endpoints:?}", SERVICES[which]));
        self.guard.touch(SERVICES[which]);
        let member = &self.fleet.members[place];
        self.guard.publish(member.name(), endpoints.iter().map(|(address, _)| address));
        let endpoints = endpoints
            .iter()
            .map(|(address, ready)| json!({"addresses": [address], "conditions": {"ready": ready}}));
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("{}-abc", SERVICES[which]),
                "labels": {"kubernetes.io/service-name": SERVICES[which]}},
            "addressType": "IPv4", "endpoints": endpoints.collect::<Vec<_>>(),
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        apply::<EndpointSlice>(&member.cluster.client(), NAMESPACE, &slice).await;
    }

    pub(crate) async fn remove_endpoints(&mut self) {
        let (place, which) = (self.draw_member(), self.draw_service());
        self.note(place, &format!("{} has no slice any more", SERVICES[which]));
        self.guard.touch(SERVICES[which]);
        let slices = self.fleet.members[place].api::<EndpointSlice>();
        let _ = slices.delete(&format!("{}-abc", SERVICES[which]), &DeleteParams::default()).await;
    }

    /// Somebody changes or deletes what was imported.
    pub(crate) async fn tamper(&mut self) {
        let place = self.draw_member();
        let slices = self.sights[place].slices.all();
        let Some(slice) = slices.iter().find(|slice| source(slice).is_some()) else { return };
        let (deletes, name) = (self.dice.bool(), slice.name_any());
        self.note(place, &format!("{name} is tampered with (deleted: {deletes})"));
        self.guard.touch(service_name(slice));
        self.guard.note_tampering(self.fleet.members[place].name(), service_name(slice));
        let api = self.fleet.members[place].api::<EndpointSlice>();
        if deletes {
            let _ = api.delete(&name, &DeleteParams::default()).await;
        } else {
            let patch = json!({"endpoints": []});
            let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        }
    }
}

/// At the hub.
impl Run {
    pub(crate) async fn write_template(&mut self) {
        let (which, port) = (self.draw_service(), self.dice.u16(80..83));
        self.put_template(which, port).await;
    }

    pub(crate) async fn put_template(&mut self, which: usize, port: u16) {
        self.log.note(&format!("Service {} has port {port}", SERVICES[which]));
        self.guard.touch(SERVICES[which]);
        apply::<Service>(&self.fleet.hub.client(), NAMESPACE, &service(SERVICES[which], port)).await;
    }

    pub(crate) async fn delete_template(&mut self) {
        let which = self.draw_service();
        self.log.note(&format!("Service {} is deleted", SERVICES[which]));
        self.guard.touch(SERVICES[which]);
        let api: Api<Service> = Api::namespaced(self.fleet.hub.client(), NAMESPACE);
        let _ = api.delete(SERVICES[which], &DeleteParams::default()).await;
    }

    /// Some clusters, or none, which means all.
    fn draw_clusters(&mut self) -> Vec<String> {
        if self.dice.bool() {
            return Vec::new();
        }
        let mut names: Vec<String> =
            self.fleet.members.iter().map(|member| member.name().to_owned()).collect();
        names.retain(|_| self.dice.u32(0..3) > 0);
        if self.dice.u32(0..10) == 0 {
            names.push(NOBODY.to_owned());
        }
        names
    }

    fn draw_annotations(&mut self) -> Value {
        match self.dice.u32(0..12) {
            0..6 => json!({}),
            6 => json!({STRATEGY_ANNOTATION: "RemoteAndLocal"}),
            7 => json!({STRATEGY_ANNOTATION: "Sometimes"}),
            8..11 => json!({STRATEGY_ANNOTATION: "LocalFirst"}),
            _ => json!({STRATEGY_ANNOTATION: "LocalFirst", LOCAL_FIRST_MIN_READY_ANNOTATION: "2"}),
        }
    }

    pub(crate) async fn write_object(&mut self) {
        let which = self.draw_service();
        let annotations = self.draw_annotations();
        let (provision, consumption) = (self.draw_clusters(), self.draw_clusters());
        self.put_object(which, annotations, &provision, &consumption).await;
    }

    pub(crate) async fn put_object(
        &mut self,
        which: usize,
        annotations: Value,
        provision: &[String],
        consumption: &[String],
    ) {
        let name = SERVICES[which];
        self.log.note(&format!("{name} is shared: {provision:?} -> {consumption:?}, {annotations}"));
        self.guard.touch(name);
        let object = json!({
            "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"types": ["CrossCluster"], "serviceProvisionClusters": provision,
                "serviceConsumptionClusters": consumption},
        });
        apply::<MultiClusterService>(&self.fleet.hub.client(), NAMESPACE, &object).await;
    }

    pub(crate) async fn delete_object(&mut self) {
        let which = self.draw_service();
        self.log.note(&format!("{} is not shared any more", SERVICES[which]));
        self.guard.touch(SERVICES[which]);
        let api: Api<MultiClusterService> = Api::namespaced(self.fleet.hub.client(), NAMESPACE);
        let _ = api.delete(SERVICES[which], &DeleteParams::default()).await;
    }

    /// Users correct what was refused.
    pub(crate) async fn mend_objects(&mut self) {
        let api: Api<MultiClusterService> = Api::namespaced(self.fleet.hub.client(), NAMESPACE);
        for object in api.list(&Default::default()).await.unwrap() {
            if of_multi_cluster_service(object.annotations()).is_err() {
                let patch = json!({"metadata": {"annotations": {STRATEGY_ANNOTATION: null}}});
                let name = object.name_any();
                let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
            }
        }
    }
}
