//! Members that lie, as far as the hub lets them: in their own namespace.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Error};
use serde_json::{Value, json};
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::tombolo::{Dialect, MANAGED_BY_LABEL, MANAGER, Membership, OFFER_LABEL, STATEMENT};
use tombolo_model::names;

use crate::convergence::FORGED;
use crate::schedule::{Run, key};
use crate::truth::service;

impl Run {
    pub(crate) async fn forge(&mut self, place: usize, which: usize) {
        let victim = self.dice.usize(0..self.world.members.len());
        let dialect = Dialect::ALL[self.dice.usize(0..Dialect::ALL.len())];
        let kind = self.dice.u32(0..5);
        if self.world.members[place].has_left {
            return;
        }
        self.note(place, &format!("a forgery of kind {kind} about {}", key(which)));
        match kind {
            0 => self.forge_offer(place, victim, which).await,
            1 => self.write_nonsense(place).await,
            2 => self.forge_slice(place, victim, which, dialect).await,
            3 => self.widen_statement(place).await,
            _ => self.forge_membership(place, victim).await,
        }
    }

    async fn write(&self, place: usize, group: &str, kind: &str, value: Value) {
        let (group, version) = (group.split_once('/').unwrap().0, group.split_once('/').unwrap().1);
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let namespace = names::hub_namespace(&self.world.members[place].config.cluster);
        let api: Api<DynamicObject> = Api::namespaced_with(self.world.hub.client(), &namespace, &resource);
        let name = value["metadata"]["name"].as_str().unwrap().to_owned();
        match api.patch(&name, &PatchParams::apply(FORGED).force(), &Patch::Apply(&value)).await {
            // Once written, a Membership stays whose it is.
            Err(Error::Api(status)) if kind == "Membership" && status.code == 422 => {}
            outcome => drop(outcome.unwrap()),
        }
    }

    /// An offer in another cluster's name.
    async fn forge_offer(&mut self, place: usize, victim: usize, which: usize) {
        let (victim, key) = (self.world.members[victim].name(), key(which));
        let value = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "ServiceOffer",
            "metadata": {"name": format!("{FORGED}-{}", key.name)},
            "spec": {
                "cluster": victim, "dialect": "mcs", "service": {"namespace": key.namespace, "name": key.name},
                "exportedAt": "2020-01-01T00:00:00Z", "type": "ClusterIP", "ipFamilies": ["IPv4"],
                "ports": [{"name": "evil", "port": 6666, "protocol": "TCP"}],
            },
        });
        self.write(place, "tombolo.dev/v1alpha1", "ServiceOffer", value).await;
    }

    /// An object that cannot be read at all.
    async fn write_nonsense(&mut self, place: usize) {
        let value = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "ServiceOffer",
            "metadata": {"name": format!("{FORGED}-nonsense")},
            "spec": {"cluster": 7, "ports": "many"},
        });
        self.write(place, "tombolo.dev/v1alpha1", "ServiceOffer", value).await;
    }

    /// Endpoints that are not the member's: of another cluster, of nobody, of whoever reads them.
    pub(crate) async fn forge_slice(&mut self, place: usize, victim: usize, which: usize, dialect: Dialect) {
        let names = [place, victim].map(|place| self.world.members[place].name().to_owned());
        let claimed = &names[self.dice.usize(0..2)];
        let key = key(which);
        let stolen = format!("10.{}.{which}.250", victim + 1);
        let stolen = if victim == place { "10.98.0.1".to_owned() } else { stolen };
        let addresses = [stolen.as_str(), "127.0.0.1", "169.254.169.254"];
        let endpoints: Vec<Value> = addresses.iter().map(|ip| json!({"addresses": [ip]})).collect();
        let value = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("{FORGED}-{}", key.name), "labels": {
                OFFER_LABEL: names::offer(dialect, &service(&key)),
                SOURCE_CLUSTER_LABEL: claimed, MANAGED_BY_LABEL: MANAGER,
            }},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        let namespace = names::hub_namespace(&self.world.members[place].config.cluster);
        let api: Api<EndpointSlice> = Api::namespaced(self.world.hub.client(), &namespace);
        let params = PatchParams::apply(FORGED).force();
        // The server itself refuses loopback and link-local addresses.
        if api.patch(&format!("{FORGED}-{}", key.name), &params, &Patch::Apply(&value)).await.is_err() {
            let mut value = value;
            value["endpoints"].as_array_mut().unwrap().truncate(1);
            api.patch(&format!("{FORGED}-{}", key.name), &params, &Patch::Apply(&value)).await.unwrap();
        }
    }

    /// A member that says its pods are everywhere.
    pub(crate) async fn widen_statement(&mut self, place: usize) {
        let namespace = names::hub_namespace(&self.world.members[place].config.cluster);
        let api: Api<Membership> = Api::namespaced(self.world.hub.client(), &namespace);
        let everywhere = json!({"spec": {"podCIDRs": ["0.0.0.0/0", "::/0"]}});
        let widened = api.patch(STATEMENT, &PatchParams::default(), &Patch::Merge(&everywhere)).await;
        assert!(widened.is_ok() || widened.as_ref().is_err_and(tombolo_runtime::is_not_found), "{widened:?}");
    }

    /// A member that says it is another one.
    async fn forge_membership(&mut self, place: usize, victim: usize) {
        let victim = if victim == place { "nobody" } else { self.world.members[victim].name() };
        let value = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "Membership", "metadata": {"name": FORGED},
            "spec": {"cluster": victim, "identity": "forged", "podCIDRs": ["0.0.0.0/0"]},
        });
        self.write(place, "tombolo.dev/v1alpha1", "Membership", value).await;
    }
}
