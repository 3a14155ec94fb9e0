//! What a member holds about itself: who it is in the supercluster, and the way to the hub.
//!
//! All of it but the credential can be in a public repository. The credential is a token in a Secret of its own that the
//! agent renews, so that nobody else needs to write it more than once.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use tombolo_api::about::{CLUSTER_ID_PROPERTY, CLUSTER_SET_PROPERTY};
use tombolo_api::tombolo::{MANAGED_BY_LABEL, TOKEN_KEY};
use tombolo_model::ClusterId;

use crate::manifest::Manifest;
use crate::part::INSTALLER;

/// Who the cluster is.
pub(crate) const CONFIG_MAP: &str = "tombolo-member";
/// In it: what the cluster is called, where its pods are, and so on, as agents and proxies read it.
pub(crate) const ID_KEY: &str = "cluster-id";
pub(crate) const POD_CIDRS_KEY: &str = "pod-cidrs";
pub(crate) const REGION_KEY: &str = "region";
pub(crate) const FAMILIES_KEY: &str = "ip-families";
/// In it: the way to the hub.
pub(crate) const KUBECONFIG_KEY: &str = "kubeconfig";
/// The credential for the hub.
pub const HUB_SECRET: &str = "tombolo-hub";
/// On the credential: what tells its hub from every other, the UID of the hub's kube-system namespace.
pub(crate) const HUB_ANNOTATION: &str = "tombolo.dev/hub";

/// A member's statement about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Where the agent runs.
    pub namespace: String,
    pub cluster: ClusterId,
    pub pod_cidrs: Vec<String>,
    pub region: Option<String>,
    pub ip_families: Vec<String>,
    /// The set the cluster becomes a member of, by name.
    pub cluster_set: String,
    pub hub: HubAddress,
}

/// How the hub's API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubAddress {
    pub server: String,
    /// The certificates that sign the server's, in base64; without them those of the system.
    pub authority: Option<String>,
    /// Another name than the address' for which the server's certificate is good.
    pub server_name: Option<String>,
}

impl Membership {
    /// Everything but the credential.
    pub fn manifests(&self) -> Vec<Manifest> {
        let mut all = properties(&self.cluster, &self.cluster_set);
        all.push(self.config_map());
        all
    }

    fn config_map(&self) -> Manifest {
        Manifest::of(&ConfigMap {
            metadata: self.metadata(CONFIG_MAP),
            data: Some(self.facts()),
            ..ConfigMap::default()
        })
    }

    /// The files that agents and proxies find in their directory; see `--membership`.
    pub(crate) fn facts(&self) -> BTreeMap<String, String> {
        let facts = [
            (ID_KEY, self.cluster.to_string()),
            (POD_CIDRS_KEY, self.pod_cidrs.join(",")),
            (REGION_KEY, self.region.clone().unwrap_or_default()),
            (FAMILIES_KEY, self.ip_families.join(",")),
            (KUBECONFIG_KEY, self.kubeconfig()),
        ];
        let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
        known.map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// The way to the hub. The token stands in a file beside it, which is read anew when it changes.
    fn kubeconfig(&self) -> String {
        let mut cluster = json!({"server": self.hub.server});
        if let Some(authority) = &self.hub.authority {
            cluster["certificate-authority-data"] = json!(authority);
        }
        if let Some(name) = &self.hub.server_name {
            cluster["tls-server-name"] = json!(name);
        }
        let config: Value = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "hub", "cluster": cluster}],
            "users": [{"name": "member", "user": {"tokenFile": TOKEN_KEY}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "member"}}],
            "current-context": "hub",
        });
        serde_saphyr::to_string(&config).expect("JSON has a YAML form")
    }

    /// The credential, and which hub it is for. It is not among [`Self::manifests`]: it belongs into no repository.
    pub(crate) fn credential(&self, token: &str, hub: &str) -> Secret {
        let mut metadata = self.metadata(HUB_SECRET);
        metadata.annotations = Some([(HUB_ANNOTATION.to_owned(), hub.to_owned())].into());
        Secret {
            metadata,
            data: Some([(TOKEN_KEY.to_owned(), ByteString(token.as_bytes().to_vec()))].into()),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        }
    }

    fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            labels: Some([(MANAGED_BY_LABEL.to_owned(), INSTALLER.to_owned())].into()),
            ..ObjectMeta::default()
        }
    }
}

/// What a cluster is called, and of which set it is a member, for everybody in it to read (KEP-2149).
pub fn properties(cluster: &ClusterId, set: &str) -> Vec<Manifest> {
    vec![property(CLUSTER_ID_PROPERTY, cluster.as_str()), property(CLUSTER_SET_PROPERTY, set)]
}

/// A fact about the cluster.
fn property(name: &str, value: &str) -> Manifest {
    Manifest::from_value(json!({
        "apiVersion": "about.k8s.io/v1beta1",
        "kind": "ClusterProperty",
        "metadata": {"name": name, "labels": {MANAGED_BY_LABEL: INSTALLER}},
        "spec": {"value": value},
    }))
}
