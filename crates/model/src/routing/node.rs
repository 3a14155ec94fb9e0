//! The node whose traffic is routed, as far as it matters for that.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1;
use tombolo_api::service::{REGION_LABEL, ZONE_LABEL};

use crate::cluster::ClusterId;

/// Where traffic begins. One that is not known yet has only a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub addresses: Vec<IpAddr>,
    /// The id of its cluster; `None`: of no supercluster.
    pub cluster: Option<ClusterId>,
    /// The region the cluster declares to the others. It goes before the node's label, because it is what they declare,
    /// too: only words of one origin can be compared.
    pub region: Option<String>,
}

impl Node {
    pub fn read(node: &v1::Node, cluster: Option<ClusterId>, region: Option<String>) -> Node {
        let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        Node {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            addresses: addresses.filter_map(|address| address.address.parse().ok()).collect(),
            cluster,
            region,
        }
    }

    pub(super) fn zone(&self) -> Option<&str> {
        self.label(ZONE_LABEL)
    }

    pub(super) fn region(&self) -> Option<&str> {
        self.region.as_deref().or_else(|| self.label(REGION_LABEL))
    }

    /// The node's value of a topology key.
    pub(super) fn topology(&self, key: &str) -> Option<&str> {
        if key == REGION_LABEL { self.region() } else { self.label(key) }
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}
