//! What an installation can be told.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};

use crate::part::Part;
use crate::pod;

/// The settings of an installation. The defaults are those of the files in `deploy/`.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where everything runs.
    pub namespace: String,
    /// The container image. Nobody publishes one: `cargo xtask image` makes it.
    pub image: String,
    /// When the image is fetched: `IfNotPresent`, `Always`, `Never`.
    pub pull_policy: String,
    /// The Secrets with which it is fetched.
    pub pull_secrets: Vec<String>,
    /// How many of each part that is not on every node.
    pub replicas: i32,
    /// Which taints the pods of parts stand that are not on every node; the others stand all.
    pub tolerations: Vec<Toleration>,
    /// What pods ask for and may use, where that is not [as usual](Self::resources).
    pub resources: BTreeMap<Part, ResourceRequirements>,
    /// The address parts listen on: of IPv4, or of both families where the kernel has IPv6.
    pub listen: IpAddr,
    /// Whether Prometheus' operator shall look after it, and Grafana show it.
    pub monitoring: bool,
    /// On the ServiceMonitor, for a Prometheus that looks for it.
    pub monitor_labels: BTreeMap<String, String>,
    /// The address of the DNS Service; without it the cluster chooses one.
    pub dns_address: Option<String>,
    /// Where the proxy finds the API server: it cannot use a Service before it has made Services work.
    pub api_server: Option<ApiServer>,
    /// The class of load balancers to serve; without it those that have none.
    pub load_balancer_class: Option<String>,
}

/// An API server's own address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    pub host: String,
    pub port: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: "tombolo-system".to_owned(),
            image: format!("tombolo:{}", env!("CARGO_PKG_VERSION")),
            pull_policy: "IfNotPresent".to_owned(),
            pull_secrets: Vec::new(),
            replicas: 2,
            tolerations: Vec::new(),
            resources: BTreeMap::new(),
            listen: Ipv4Addr::UNSPECIFIED.into(),
            monitoring: false,
            monitor_labels: BTreeMap::new(),
            dns_address: None,
            api_server: None,
            load_balancer_class: None,
        }
    }
}

impl Settings {
    /// What the pods of a part ask for and may use.
    pub fn resources(&self, part: Part) -> ResourceRequirements {
        self.resources.get(&part).cloned().unwrap_or_else(|| pod::usual_resources(part))
    }

    /// `--flag` with where to listen.
    pub(crate) fn listening(&self, flag: &str, port: i32) -> String {
        match self.listen {
            IpAddr::V4(address) => format!("--{flag}={address}:{port}"),
            IpAddr::V6(address) => format!("--{flag}=[{address}]:{port}"),
        }
    }
}
