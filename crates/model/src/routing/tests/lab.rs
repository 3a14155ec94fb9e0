//! A Service, its endpoints and a node, in as few words as a row of a table has.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Map, Value, json};

use crate::complaint::Complaint;
use crate::routing::{
    Action, Balance, Frontend, FrontendKind, Imported, Input, Node, Reason, Route, Routes, Tier, route,
};
use crate::testing::id;

/// The Service demo/web with cluster IP 10.96.0.1, port http:80, and `spec` on top; then slices, and the node `n1` in
/// zone `z1` of region `r1` of cluster `here`.
#[derive(Clone, Debug)]
pub(super) struct Lab {
    pub(super) service: Service,
    pub(super) slices: Vec<EndpointSlice>,
    pub(super) node: Node,
    pub(super) imported: Option<Imported>,
}

impl Lab {
    pub(super) fn new(spec: Value) -> Lab {
        Lab { service: service(spec), slices: Vec::new(), node: node(), imported: None }
    }

    /// Adds a slice with one endpoint per text, see [`endpoint`].
    pub(super) fn with(mut self, endpoints: &[&str]) -> Lab {
        let name = format!("web-{}", self.slices.len());
        self.slices.push(slice(&name, &[], endpoints));
        self
    }

    /// Adds a slice imported from a cluster.
    pub(super) fn from(mut self, cluster: &str, endpoints: &[&str]) -> Lab {
        let name = format!("web-{}", self.slices.len());
        self.slices.push(slice(&name, &[("multicluster.kubernetes.io/source-cluster", cluster)], endpoints));
        self
    }

    /// Says of the last slice that its source is in this region.
    pub(super) fn in_region(mut self, region: &str) -> Lab {
        let annotations = BTreeMap::from([("tombolo.dev/region".to_owned(), region.to_owned())]);
        self.slices.last_mut().unwrap().metadata.annotations = Some(annotations);
        self
    }

    pub(super) fn importing(mut self, imported: Imported) -> Lab {
        self.imported = Some(imported);
        self
    }

    pub(super) fn on(mut self, change: impl FnOnce(&mut Node)) -> Lab {
        change(&mut self.node);
        self
    }

    pub(super) fn input(&self) -> Input<'_> {
        Input {
            service: &self.service,
            slices: self.slices.iter().collect(),
            node: &self.node,
            imported: self.imported.as_ref(),
        }
    }

    pub(super) fn run(&self) -> (Routes, Vec<Complaint>) {
        route(&self.input())
    }

    /// The routes of input without faults.
    pub(super) fn routes(&self) -> Routes {
        let (routes, complaints) = self.run();
        assert_eq!(complaints, []);
        routes
    }

    pub(super) fn complaints(&self) -> Vec<String> {
        self.run().1.iter().map(Complaint::to_string).collect()
    }

    pub(super) fn route(&self, kind: FrontendKind) -> Route {
        let routes = self.run().0.routes;
        routes.into_iter().find(|route| route.frontend.kind == kind).expect("a frontend of this kind")
    }

    /// What becomes of connections to the cluster IP.
    pub(super) fn internal(&self) -> String {
        say(&self.route(FrontendKind::ClusterIp).action)
    }
}

pub(super) fn service(spec: Value) -> Service {
    let mut whole = json!({
        "type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ipFamilies": ["IPv4"],
        "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
    });
    merge(whole.as_object_mut().unwrap(), spec);
    let mut status = json!({});
    if let Some(ingress) = whole.as_object_mut().unwrap().remove("ingress") {
        status = json!({ "loadBalancer": { "ingress": ingress } });
    }
    let metadata = json!({ "name": "web", "namespace": "demo" });
    serde_json::from_value(json!({ "metadata": metadata, "spec": whole, "status": status })).unwrap()
}

fn merge(whole: &mut Map<String, Value>, over: Value) {
    whole.extend(over.as_object().unwrap().clone());
}

pub(super) fn node() -> Node {
    let labels = [
        ("kubernetes.io/hostname", "n1"),
        ("topology.kubernetes.io/zone", "z1"),
        ("topology.kubernetes.io/region", "r1"),
    ];
    Node {
        name: "n1".into(),
        labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        addresses: vec!["192.0.2.1".parse().unwrap()],
        cluster: Some(id("here")),
        region: None,
    }
}

pub(super) fn slice(name: &str, labels: &[(&str, &str)], endpoints: &[&str]) -> EndpointSlice {
    let mut all: BTreeMap<&str, &str> = labels.iter().copied().collect();
    all.insert("kubernetes.io/service-name", "web");
    let v6 = endpoints.iter().any(|text| text.contains("::"));
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "demo", "labels": all },
        "addressType": if v6 { "IPv6" } else { "IPv4" },
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": endpoints.iter().map(|text| endpoint(text)).collect::<Vec<_>>(),
    }))
    .unwrap()
}

/// `10.1.0.1 n1 z1 terminating`: an address, then in any order a node (`n…`), a zone (`z…`), states (`unready`,
/// `terminating`: serving; `gone`: terminating, not serving; `early`: ready, not serving), hints (`for:z1`, `for:n1`).
pub(super) fn endpoint(text: &str) -> Value {
    let mut words = text.split(' ');
    let mut endpoint = json!({ "addresses": [words.next().unwrap()] });
    for word in words {
        match word {
            "unready" => endpoint["conditions"] = conditions(false, false, false),
            "terminating" => endpoint["conditions"] = conditions(false, true, true),
            "gone" => endpoint["conditions"] = conditions(false, false, true),
            "early" => endpoint["conditions"] = conditions(true, false, false),
            _ if word.starts_with("for:n") => endpoint["hints"]["forNodes"] = json!([{ "name": &word[4..] }]),
            _ if word.starts_with("for:") => endpoint["hints"]["forZones"] = json!([{ "name": &word[4..] }]),
            _ if word.starts_with('n') => endpoint["nodeName"] = word.into(),
            _ => endpoint["zone"] = word.into(),
        }
    }
    endpoint
}

fn conditions(ready: bool, serving: bool, terminating: bool) -> Value {
    json!({ "ready": ready, "serving": serving, "terminating": terminating })
}

/// `All: 10.1.0.1 10.1.0.2`, `drop NoLocalInternal`, `reject NoEndpoints`.
pub(super) fn say(action: &Action) -> String {
    let reason = |reason: &Reason| format!("{reason:?}");
    match action {
        Action::Balance(Balance { backends, tier }) => {
            let tier = match tier {
                Tier::Near(nearness) => format!("{nearness:?}"),
                Tier::Topology(keys) => keys.iter().cloned().collect::<Vec<_>>().join("+"),
                other => format!("{other:?}"),
            };
            let addresses: Vec<String> = backends.iter().map(|backend| backend.address.to_string()).collect();
            format!("{tier}: {}", addresses.join(" "))
        }
        Action::Reject(why) => format!("reject {}", reason(why)),
        Action::Drop(why) => format!("drop {}", reason(why)),
    }
}

/// `ClusterIp 10.96.0.1:80`.
pub(super) fn name(frontend: &Frontend) -> String {
    let address = frontend.address.map_or(frontend.family.to_string(), |address| address.to_string());
    format!("{:?} {address} {}/{}", frontend.kind, frontend.port, frontend.protocol)
}
