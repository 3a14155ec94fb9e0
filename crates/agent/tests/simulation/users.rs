//! What users do in a run: services, exports, namespaces, and mischief with what is not theirs.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tokio::time::sleep;
use tombolo_api::service::{IpFamily, MANAGED_BY_LABEL, STOCK_SLICE_CONTROLLER};
use tombolo_api::tombolo::{AUTO_EXPORT_LABEL, Dialect};
use tombolo_api::{kep, mcs};
use tombolo_model::names;
use tombolo_runtime::Key;

use crate::controllers::{APP, Pods};
use crate::invariants::Foreign;
use crate::schedule::{Run, SERVICES, key, ms};
use crate::truth::{lean, origin, service};

/// What users put on imports by way of their exports.
pub(crate) const TEAM: &str = "team";

impl Run {
    /// A member and a service whose namespace it has.
    pub(crate) fn draw_service(&mut self) -> (usize, usize) {
        loop {
            let place = self.dice.usize(0..self.world.members.len());
            let which = self.dice.usize(0..SERVICES.len());
            if self.world.members[place].has_namespace(SERVICES[which].0) || SERVICES[which].0 == "demo" {
                return (place, which);
            }
        }
    }

    /// Takes note that a service changes.
    pub(crate) fn touch(&mut self, place: usize, which: usize, what: &str) -> Key {
        let key = key(which);
        self.note(place, &format!("{key}: {what}"));
        self.guard.touch(place, &key);
        key
    }

    pub(crate) async fn serve(&mut self, place: usize, which: usize) {
        let port = if self.dice.u32(0..10) == 0 { 8080 } else { 80 };
        let key = self.touch(place, which, &format!("Service with port {port}"));
        let mut value = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": key.name},
            "spec": {
                "ipFamilyPolicy": "PreferDualStack",
                "ports": [{"name": "http", "port": port, "targetPort": 8080}],
                "selector": {APP: key.name},
            },
        });
        if SERVICES[which].2 {
            value["spec"]["clusterIP"] = json!("None");
        }
        let manners = self.draw_manners();
        if let (Value::Object(spec), Value::Object(manners)) = (&mut value["spec"], manners) {
            spec.extend(manners);
        }
        let member = &self.world.members[place];
        match member.sight.services.get(&key) {
            // As `kubectl apply` and `kubectl edit` do it: a selector is changed key by key.
            Some(_) => member.edit::<Service>(&key, &json!({"spec": value["spec"]})).await,
            None => member.apply::<Service>(&key, &lean(value)).await,
        }
    }

    /// How a Service treats its clients. Most are as they come; `null` takes back what it had.
    fn draw_manners(&mut self) -> Value {
        let (sticky, local, close) =
            (self.dice.u32(0..5) == 0, self.dice.u32(0..8) == 0, self.dice.u32(0..8) == 0);
        let timeout = sticky.then(|| json!({"clientIP": {"timeoutSeconds": 60 * self.dice.i32(1..3)}}));
        json!({
            "sessionAffinity": if sticky { "ClientIP" } else { "None" },
            "sessionAffinityConfig": timeout,
            "internalTrafficPolicy": if local { "Local" } else { "Cluster" },
            "trafficDistribution": close.then_some("PreferClose"),
            "publishNotReadyAddresses": self.dice.u32(0..6) == 0,
        })
    }

    /// A label that asks for an export, overrules its namespace, or goes.
    pub(crate) async fn label(&mut self, place: usize, which: usize) {
        let words = [Some("true"), Some("kep"), Some("mcs"), Some("false"), None];
        let word = words[self.dice.usize(0..words.len())];
        let key = self.touch(place, which, &format!("auto-export {word:?}"));
        let patch = json!({"metadata": {"labels": {AUTO_EXPORT_LABEL: word}}});
        self.world.members[place].edit::<Service>(&key, &patch).await;
    }

    pub(crate) async fn delete_service(&mut self, place: usize, which: usize) {
        let key = self.touch(place, which, "delete the Service");
        self.guard.open(&self.world.members[place], &key);
        self.world.members[place].delete::<Service>(&key).await;
    }

    /// Changes the pods in one of the two slices of a service. A cluster with two families has one for each.
    pub(crate) async fn set_endpoints(&mut self, place: usize, which: usize) {
        let slice = self.dice.usize(0..2);
        let families = &self.world.members[place].config.ip_families;
        let family = families[slice % families.len()];
        let hosts: Vec<usize> = (1..5).filter(|_| self.dice.u32(0..3) > 0).collect();
        let address = |host: &usize| match family {
            IpFamily::V4 => format!("10.{}.{which}.{}", place + 1, slice * 10 + host),
            IpFamily::V6 => format!("fd00:{}::{}:{}", place + 1, which + 1, slice * 10 + host),
        };
        let mut addresses: Vec<String> = hosts.iter().map(address).collect();
        let key = self.touch(place, which, &format!("slice {slice} has {addresses:?}"));
        let name = format!("{}-{slice}", key.name);
        let member = &mut self.world.members[place];
        if addresses.is_empty() {
            let slice = Key::new(key.namespace, name);
            member.controllers.pods.remove(&slice);
            return member.delete::<EndpointSlice>(&slice).await;
        }
        addresses.iter().for_each(|address| self.guard.allow(member.name(), &key, address));
        if self.dice.u32(0..8) == 0 {
            // Not where this cluster says that its pods are.
            addresses.push(if family == IpFamily::V4 { "10.99.0.1" } else { "fd00:99::1" }.to_owned());
        }
        let ready = self.dice.u32(0..6) > 0;
        let mut value = slice_of(&name, &key.name, family, &addresses, ready);
        value["metadata"]["labels"][MANAGED_BY_LABEL] = json!(STOCK_SLICE_CONTROLLER);
        let pods = &mut self.world.members[place].controllers.pods;
        pods.insert(Key::new(key.namespace, name), Pods::new(key.name, value));
        self.keep_slices(place).await;
    }

    pub(crate) async fn export(&mut self, place: usize, which: usize) {
        let kep = self.dice.bool();
        let key = self.touch(place, which, if kep { "export (kep)" } else { "export (mcs)" });
        let version = if kep { "multicluster.k8s.io/v1alpha1" } else { "multicluster.x-k8s.io/v1beta1" };
        let mut value =
            json!({"apiVersion": version, "kind": "ServiceExport", "metadata": {"name": key.name}});
        if !kep && self.dice.u32(0..3) == 0 {
            let team = ["red", "blue"][self.dice.usize(0..2)];
            value["spec"] = json!({"exportedLabels": {TEAM: team}, "exportedAnnotations": {TEAM: team}});
        }
        let member = &self.world.members[place];
        match kep {
            true => member.apply::<kep::ServiceExport>(&key, &value).await,
            false => member.apply::<mcs::ServiceExport>(&key, &value).await,
        }
    }

    pub(crate) async fn unexport(&mut self, place: usize, which: usize) {
        let kep = self.dice.bool();
        let key = self.touch(place, which, if kep { "unexport (kep)" } else { "unexport (mcs)" });
        let member = &self.world.members[place];
        match kep {
            true => member.delete::<kep::ServiceExport>(&key).await,
            false => member.delete::<mcs::ServiceExport>(&key).await,
        }
    }

    pub(crate) async fn make_namespace(&mut self, place: usize) {
        if self.world.members[place].is_namespace_free("late") {
            for which in (0..SERVICES.len()).filter(|which| SERVICES[*which].0 == "late") {
                self.touch(place, which, "its namespace appears");
            }
            self.world.members[place].make_namespace("late").await;
            sleep(ms(1)).await;
        }
    }

    /// A namespace goes, with everything in it.
    pub(crate) async fn delete_namespace(&mut self, place: usize) {
        if !self.world.members[place].has_namespace("late") {
            return;
        }
        for which in (0..SERVICES.len()).filter(|which| SERVICES[*which].0 == "late") {
            let key = self.touch(place, which, "its namespace is deleted");
            self.guard.open(&self.world.members[place], &key);
        }
        self.world.members[place].controllers.pods.retain(|key, _| key.namespace != "late");
        self.world.members[place].delete_namespace("late").await;
        sleep(ms(1)).await;
    }

    /// A user deletes or changes what the agent made of a service.
    pub(crate) async fn tamper(&mut self, place: usize, which: usize) {
        let dialect = Dialect::ALL[self.dice.usize(0..Dialect::ALL.len())];
        let key = key(which);
        if self.exempt.contains(&(self.world.members[place].name().to_owned(), (dialect, key.clone()))) {
            return;
        }
        match self.dice.u32(0..7) {
            0 | 1 => self.tamper_with_import(place, which, dialect).await,
            2 | 3 => self.tamper_with_service(place, which, dialect).await,
            4 | 5 => self.tamper_with_slices(place, which, dialect).await,
            _ => self.delete_lease(place).await,
        }
    }

    async fn tamper_with_import(&mut self, place: usize, which: usize, dialect: Dialect) {
        let delete = self.dice.bool();
        let key =
            self.touch(place, which, &format!("a user tampers with the import ({dialect:?}, {delete})"));
        let member = &self.world.members[place];
        let patch = json!({"spec": {"ports": []}, "metadata": {"labels": {"user": "was-here"}}});
        match (dialect, delete) {
            (Dialect::Kep, true) => member.delete::<kep::ImportedService>(&key).await,
            (Dialect::Mcs, true) => member.delete::<mcs::ServiceImport>(&key).await,
            (Dialect::Kep, false) => member.edit::<kep::ImportedService>(&key, &patch).await,
            (Dialect::Mcs, false) => member.edit::<mcs::ServiceImport>(&key, &patch).await,
        }
    }

    async fn tamper_with_service(&mut self, place: usize, which: usize, dialect: Dialect) {
        let delete = self.dice.bool();
        let key =
            self.touch(place, which, &format!("a user tampers with the address ({dialect:?}, {delete})"));
        let derived = Key::new(key.namespace.clone(), names::derived_service(dialect, &service(&key)));
        let member = &self.world.members[place];
        let patch = json!({"spec": {"ports": [{"name": "user", "port": 9}]}});
        match delete {
            true => member.delete::<Service>(&derived).await,
            false => member.edit::<Service>(&derived, &patch).await,
        }
    }

    async fn tamper_with_slices(&mut self, place: usize, which: usize, dialect: Dialect) {
        let delete = self.dice.bool();
        let key = self.touch(place, which, &format!("a user tampers with slices ({dialect:?}, {delete})"));
        let member = &self.world.members[place];
        let name = (dialect, key);
        for slice in member.sight.slices.within(&name.1.namespace) {
            if origin(&slice).is_none_or(|from| from.name != name) {
                continue;
            }
            match delete {
                true => member.delete::<EndpointSlice>(&Key::of(&*slice)).await,
                false => member.edit::<EndpointSlice>(&Key::of(&*slice), &json!({"endpoints": []})).await,
            }
        }
    }

    /// The lease of a source goes; that is no reason for anything else to go.
    async fn delete_lease(&mut self, place: usize) {
        let source = self.dice.usize(0..self.world.members.len());
        let member = &self.world.members[place];
        let name = names::source_lease(&self.world.members[source].config.cluster);
        self.note(place, &format!("a user deletes the lease {name}"));
        member.delete::<Lease>(&Key::new(member.config.namespace.clone(), name)).await;
    }

    /// Objects of users that stand where the agents would like to put theirs.
    pub(crate) async fn add_foreign_objects(&mut self) {
        let size = self.world.members.len();
        let (web, echo) = (Key::new("demo", "web"), Key::new("demo", "echo"));
        let place = self.dice.usize(0..size);
        let name = names::derived_service(Dialect::Mcs, &service(&web));
        let value = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"name": "user", "port": 1}]},
        });
        self.world.members[place].apply::<Service>(&Key::new("demo", name.clone()), &value).await;
        self.protect(place, Foreign::Service, Key::new("demo", name), Some((Dialect::Mcs, web.clone())))
            .await;

        let place = self.dice.usize(0..size);
        // Without ports no Service of the name is made for it, so the user's own never meets one.
        let value = json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": {"name": "echo"},
            "spec": {"type": "ClusterSetIP", "ports": []},
        });
        self.world.members[place].apply::<mcs::ServiceImport>(&echo, &value).await;
        self.protect(place, Foreign::Import, echo, Some((Dialect::Mcs, Key::new("demo", "echo")))).await;

        let place = self.dice.usize(0..size);
        let published = names::hub_slice(Dialect::Kep, &service(&web), "web-0");
        let source = self.world.members[0].config.cluster.clone();
        let ours = names::imported_slice(&service(&web), &source, &published);
        for (name, blocks) in [(ours, Some((Dialect::Kep, web))), ("web-user".to_owned(), None)] {
            let value = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": name, "labels": {
                    "multicluster.kubernetes.io/source-cluster": "b", "multicluster.kubernetes.io/service-name": "web",
                }},
                "addressType": "IPv4", "endpoints": [{"addresses": ["10.77.0.1"]}], "ports": [],
            });
            let key = Key::new("demo", name);
            self.world.members[place].apply::<EndpointSlice>(&key, &value).await;
            self.protect(place, Foreign::Slice, key, blocks).await;
        }
    }

    async fn protect(&mut self, place: usize, kind: Foreign, key: Key, blocks: Option<(Dialect, Key)>) {
        self.note(place, &format!("{kind:?} {key} belongs to a user"));
        let member = self.world.members[place].name().to_owned();
        self.exempt.extend(blocks.map(|name| (member, name)));
        self.guard.protect(&self.world, place, kind, key).await;
    }
}

/// A slice as a cluster's own controller makes it.
pub(crate) fn slice_of(
    name: &str,
    service: &str,
    family: IpFamily,
    addresses: &[String],
    ready: bool,
) -> Value {
    let endpoint = |ip: &String| json!({"addresses": [ip], "conditions": {"ready": ready}, "nodeName": "n"});
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": if family == IpFamily::V4 { "IPv4" } else { "IPv6" },
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}
