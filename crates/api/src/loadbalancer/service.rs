//! A Service with the field of KEP-4631, which the published types do not have.
//!
//! Servers that know the field keep it, the others drop it; then it is absent here and the annotation counts.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Serialize};

/// A core/v1 Service that may list required load balancer features.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Service {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Spec,
    #[serde(default)]
    pub status: v1::ServiceStatus,
}

/// The spec of a Service and the field of KEP-4631.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Spec {
    #[serde(flatten)]
    pub core: v1::ServiceSpec,
    /// KEP-4631, `Service.Spec.RequiredLoadBalancerFeatures`.
    #[serde(default, rename = "requiredLoadBalancerFeatures", skip_serializing_if = "Vec::is_empty")]
    pub required_features: Vec<String>,
}

impl Service {
    pub fn conditions(&self) -> &[Condition] {
        self.status.conditions.as_deref().unwrap_or_default()
    }

    /// The entries of `status.loadBalancer.ingress`.
    pub fn ingress(&self) -> &[v1::LoadBalancerIngress] {
        let status = self.status.load_balancer.as_ref();
        status.and_then(|status| status.ingress.as_deref()).unwrap_or_default()
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

impl Resource for Service {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        v1::Service::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        v1::Service::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        v1::Service::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        v1::Service::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_field_is_read_beside_those_that_everybody_knows() {
        let text = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"type": "LoadBalancer", "requiredLoadBalancerFeatures": ["Ports"],
                "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}], "unheardOf": 1},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}},
        });
        let service: Service = serde_json::from_value(text).unwrap();
        assert_eq!(service.spec.required_features, ["Ports"]);
        assert_eq!(service.spec.core.allocate_load_balancer_node_ports, Some(false));
        assert_eq!(service.spec.core.ports.as_ref().unwrap()[0].port, 80);
        assert_eq!(service.ingress()[0].ip.as_deref(), Some("192.0.2.1"));
        let again: Service = serde_json::from_value(serde_json::to_value(&service).unwrap()).unwrap();
        assert_eq!(again, service);
        let bare: Service = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
        assert!(bare.spec.required_features.is_empty() && bare.ingress().is_empty());
    }
}
