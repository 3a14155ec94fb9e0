//! What keeps the pods of a part running, and how they are found.

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, Deployment, DeploymentSpec, RollingUpdateDaemonSet,
};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::manifest::Manifest;
use crate::part::Part;
use crate::pod::{self, ADMIN};
use crate::settings::Settings;

pub(crate) fn workload(part: Part, settings: &Settings) -> Manifest {
    match part.is_on_nodes() {
        true => Manifest::of(&daemon_set(part, settings)),
        false => Manifest::of(&deployment(part, settings)),
    }
}

/// Of agents and hubs one leads and one stands by; DNS servers all answer.
fn deployment(part: Part, settings: &Settings) -> Deployment {
    let spec = DeploymentSpec {
        replicas: Some(settings.replicas),
        selector: selector(part),
        template: pod::template(part, settings),
        ..DeploymentSpec::default()
    };
    Deployment { metadata: part.metadata(settings), spec, ..Deployment::default() }
}

fn daemon_set(part: Part, settings: &Settings) -> DaemonSet {
    let some = Some(IntOrString::String("10%".to_owned()));
    let rolling = RollingUpdateDaemonSet { max_unavailable: some, ..RollingUpdateDaemonSet::default() };
    let spec = DaemonSetSpec {
        selector: selector(part),
        template: pod::template(part, settings),
        update_strategy: Some(DaemonSetUpdateStrategy {
            rolling_update: Some(rolling),
            type_: Some("RollingUpdate".to_owned()),
        }),
        ..DaemonSetSpec::default()
    };
    DaemonSet { metadata: part.metadata(settings), spec, ..DaemonSet::default() }
}

fn selector(part: Part) -> LabelSelector {
    LabelSelector { match_labels: Some(part.selector()), ..LabelSelector::default() }
}

/// For Prometheus to find the pods; for DNS also the address that others ask.
pub(crate) fn service(part: Part, settings: &Settings) -> Manifest {
    let port = |name: &str, protocol: &str, port: i32| ServicePort {
        name: Some(name.to_owned()),
        protocol: Some(protocol.to_owned()),
        port,
        target_port: Some(IntOrString::String(name.to_owned())),
        ..ServicePort::default()
    };
    let mut ports = vec![port(ADMIN, "TCP", part.admin_port())];
    let address = match part {
        Part::Dns => {
            ports.extend([port("dns", "UDP", 53), port("dns-tcp", "TCP", 53)]);
            settings.dns_address.clone()
        }
        _ => Some("None".to_owned()),
    };
    let spec = ServiceSpec {
        selector: Some(part.selector()),
        ports: Some(ports),
        cluster_ip: address,
        ..ServiceSpec::default()
    };
    Manifest::of(&Service { metadata: part.metadata(settings), spec: Some(spec), ..Service::default() })
}
