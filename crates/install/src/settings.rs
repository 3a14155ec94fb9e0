//! What an installation can be told.

use std::net::{IpAddr, Ipv4Addr};

/// The settings of an installation. The defaults are those of the files in `deploy/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where everything runs.
    pub namespace: String,
    /// The container image. Nobody publishes one: `cargo xtask image` makes it.
    pub image: String,
    /// When the image is fetched: `IfNotPresent`, `Always`, `Never`.
    pub pull_policy: String,
    /// How many of each part that is not on every node.
    pub replicas: i32,
    /// The address parts listen on: of IPv4, or of both families where the kernel has IPv6.
    pub listen: IpAddr,
    /// Whether Prometheus' operator shall look after it, and Grafana show it.
    pub monitoring: bool,
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
            replicas: 2,
            listen: Ipv4Addr::UNSPECIFIED.into(),
            monitoring: false,
            dns_address: None,
            api_server: None,
            load_balancer_class: None,
        }
    }
}

impl Settings {
    /// `--flag` with where to listen.
    pub(crate) fn listening(&self, flag: &str, port: i32) -> String {
        match self.listen {
            IpAddr::V4(address) => format!("--{flag}={address}:{port}"),
            IpAddr::V6(address) => format!("--{flag}=[{address}]:{port}"),
        }
    }
}
