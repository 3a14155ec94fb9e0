//! Words of the core Service and of EndpointSlices.
//!
//! Kinds of ours that describe a Service repeat its values; here they have a type. Labels that any service proxy or
//! controller reads on a slice are here, too.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::vocabulary::vocabulary;

vocabulary! {
    /// A family of IP addresses (core/v1 `IPFamily`).
    #[derive(Default)]
    IpFamily {
        #[default]
        V4 = "IPv4",
        V6 = "IPv6",
    }
}

vocabulary! {
    /// A transport protocol (core/v1 `Protocol`).
    #[derive(Default)]
    Protocol {
        #[default]
        Tcp = "TCP",
        Udp = "UDP",
        Sctp = "SCTP",
    }
}

vocabulary! {
    /// Whether connections of one client stay together (core/v1 `ServiceAffinity`).
    #[derive(Default)]
    SessionAffinity {
        /// Every connection is balanced by itself.
        #[default]
        None = "None",
        /// Connections from one address go to one endpoint.
        ClientIp = "ClientIP",
    }
}

vocabulary! {
    /// Where traffic to a cluster IP may go (KEP-2086, `internalTrafficPolicy`).
    #[derive(Default)]
    InternalTrafficPolicy {
        /// To all endpoints.
        #[default]
        Cluster = "Cluster",
        /// To endpoints on the client's node only, and nowhere if there is none.
        Local = "Local",
    }
}

/// One port of a service as its consumers see it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// The port's name; may be left out of a service that has one port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub name: Option<String>,
    /// TCP, UDP or SCTP.
    #[serde(default)]
    pub protocol: Protocol,
    /// The application protocol, as on the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub app_protocol: Option<String>,
    /// The number under which the port is reached at the service's address.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// Label of a Service: another proxy than that of the node routes it (well-known label of Kubernetes).
pub const SERVICE_PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";

/// Label of a slice: the Service it belongs to (`discovery.k8s.io/v1`, `LabelServiceName`).
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// Label of a slice: who writes it, so that the stock controller leaves it alone (`discovery.k8s.io/v1`,
/// `LabelManagedBy`; KEP-1645 first edition, EndpointSlice, "marked as managed by the supercluster service controller").
pub const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";

/// Value of [`MANAGED_BY_LABEL`] on slices of kube-controller-manager's endpointslice controller.
pub const STOCK_SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";

/// Annotation of a slice: the time of the change that led to its present content (`discovery.k8s.io/v1`; written by the
/// stock controller, read to measure how long a change travels).
pub const LAST_CHANGE_TRIGGER_TIME_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Label of a node: its name for topology, as a rule its own (well-known label of Kubernetes).
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// Label of a node: the zone it is in (well-known label of Kubernetes).
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// Label of a node: the region it is in (well-known label of Kubernetes).
pub const REGION_LABEL: &str = "topology.kubernetes.io/region";

/// Annotation of an object that was written with `kubectl apply`, which keeps there what was applied last.
pub const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// `clusterIP` of a Service that has none (core/v1 `ClusterIPNone`).
pub const HEADLESS: &str = "None";

/// Default of `sessionAffinityConfig.clientIP.timeoutSeconds` (core/v1 `DefaultClientIPServiceAffinitySeconds`).
pub const DEFAULT_AFFINITY_SECONDS: i32 = 10800;
