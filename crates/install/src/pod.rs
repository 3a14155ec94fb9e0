//! The pods of parts: what they are told, what they may, how it is noticed that they are well.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, ConfigMapProjection, Container, ContainerPort, EnvVar, EnvVarSource,
    HTTPGetAction, LocalObjectReference, ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity,
    PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ProjectedVolumeSource, ResourceRequirements,
    SeccompProfile, SecretProjection, SecurityContext, Toleration, Volume, VolumeMount, VolumeProjection,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::ObjectMeta;

use crate::membership::{CONFIG_MAP, HUB_SECRET};
use crate::part::Part;
use crate::settings::Settings;

/// Where pods find who their cluster is and the way to the hub.
const MEMBERSHIP: &str = "/etc/tombolo/membership";
const MEMBERSHIP_VOLUME: &str = "membership";
/// Nobody in particular; the image has no other user but root.
const NOBODY: i64 = 65532;
pub(crate) const ADMIN: &str = "admin";
/// A port of the pod, so that DNS needs no privilege; the Service has 53.
pub(crate) const DNS_PORT: i32 = 5353;
/// Where load balancers ask a node whether its proxy is well, as they ask kube-proxy.
const HEALTH_PORT: i32 = 10256;
/// What is so important that others make room for it.
pub(crate) const PRIORITY_CLASSES: [&str; 2] = ["system-node-critical", "system-cluster-critical"];
/// How long a start may take, in seconds: an agent whose hub does not answer waits before it goes on without.
const STARTING: i32 = 300;

pub(crate) fn template(part: Part, settings: &Settings) -> PodTemplateSpec {
    let metadata = ObjectMeta { labels: Some(part.labels()), ..ObjectMeta::default() };
    PodTemplateSpec { metadata: Some(metadata), spec: Some(spec(part, settings)) }
}

fn spec(part: Part, settings: &Settings) -> PodSpec {
    let on_nodes = part.is_on_nodes();
    let everywhere = Toleration { operator: Some("Exists".to_owned()), ..Toleration::default() };
    let [of_nodes, of_cluster] = PRIORITY_CLASSES;
    let tolerations = if on_nodes { vec![everywhere] } else { settings.tolerations.clone() };
    let secrets = settings.pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() });
    let secrets: Vec<LocalObjectReference> = secrets.collect();
    PodSpec {
        service_account_name: Some(part.object_name()),
        image_pull_secrets: (!secrets.is_empty()).then_some(secrets),
        priority_class_name: Some(if on_nodes { of_nodes } else { of_cluster }.to_owned()),
        node_selector: Some([("kubernetes.io/os".to_owned(), "linux".to_owned())].into()),
        host_network: on_nodes.then_some(true),
        // Those that make Services and names work ask the node's DNS: the cluster's may need them to be there first.
        dns_policy: (on_nodes || part == Part::Dns).then(|| "Default".to_owned()),
        tolerations: (!tolerations.is_empty()).then_some(tolerations),
        affinity: (!on_nodes).then(|| apart(part)),
        security_context: Some(PodSecurityContext {
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..Default::default()
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(part, settings)],
        volumes: membership_volume(part).map(|volume| vec![volume]),
        ..PodSpec::default()
    }
}

/// Two of a kind are of little use on one node.
fn apart(part: Part) -> Affinity {
    let term = PodAffinityTerm {
        label_selector: Some(LabelSelector {
            match_labels: Some(part.selector()),
            ..LabelSelector::default()
        }),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    };
    let preferred = vec![WeightedPodAffinityTerm { pod_affinity_term: term, weight: 100 }];
    let apart = PodAntiAffinity {
        preferred_during_scheduling_ignored_during_execution: Some(preferred),
        ..PodAntiAffinity::default()
    };
    Affinity { pod_anti_affinity: Some(apart), ..Affinity::default() }
}

fn container(part: Part, settings: &Settings) -> Container {
    Container {
        name: part.command().to_owned(),
        image: Some(settings.image.clone()),
        image_pull_policy: Some(settings.pull_policy.clone()),
        args: Some(arguments(part, settings)),
        env: environment(part, settings),
        ports: Some(ports(part)),
        startup_probe: Some(Probe { failure_threshold: Some(STARTING), ..probe("/livez", 1) }),
        liveness_probe: Some(probe("/livez", 10)),
        readiness_probe: Some(probe("/readyz", 2)),
        resources: Some(settings.resources(part)),
        security_context: Some(security(part)),
        volume_mounts: membership_volume(part).map(|_| {
            vec![VolumeMount {
                name: MEMBERSHIP_VOLUME.to_owned(),
                mount_path: MEMBERSHIP.to_owned(),
                read_only: Some(true),
                ..VolumeMount::default()
            }]
        }),
        ..Container::default()
    }
}

fn arguments(part: Part, settings: &Settings) -> Vec<String> {
    let namespace = format!("--namespace={}", settings.namespace);
    let membership = format!("--membership={MEMBERSHIP}");
    let node = "--node-name=$(NODE_NAME)".to_owned();
    let mut arguments = vec![part.command().to_owned()];
    match part {
        Part::Hub => arguments.push(namespace),
        Part::Member => arguments.extend([namespace, membership, format!("--renew-token-in={HUB_SECRET}")]),
        // Whoever asks is the cluster's own DNS, for everybody.
        Part::Dns => arguments.extend([settings.listening("listen", DNS_PORT), "--rate-limit=0".to_owned()]),
        Part::Proxy => {
            arguments.extend([node, membership, settings.listening("healthz-address", HEALTH_PORT)]);
        }
        Part::Balancer => {
            arguments.extend([node, namespace]);
            let class = settings.load_balancer_class.iter();
            arguments.extend(class.map(|class| format!("--load-balancer-class={class}")));
        }
    }
    arguments.push(settings.listening("admin-address", part.admin_port()));
    arguments
}

fn environment(part: Part, settings: &Settings) -> Option<Vec<EnvVar>> {
    let given = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..EnvVar::default()
    };
    let own = |name: &str, path: &str| {
        let field = ObjectFieldSelector { field_path: path.to_owned(), ..ObjectFieldSelector::default() };
        let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
        EnvVar { name: name.to_owned(), value_from: Some(source), ..EnvVar::default() }
    };
    let mut all = Vec::new();
    if part.is_on_nodes() {
        all.push(own("NODE_NAME", "spec.nodeName"));
    }
    if let Some(server) = settings.api_server.as_ref().filter(|_| part.is_on_nodes()) {
        all.push(given("KUBERNETES_SERVICE_HOST", &server.host));
        all.push(given("KUBERNETES_SERVICE_PORT", &server.port));
    }
    (!all.is_empty()).then_some(all)
}

fn ports(part: Part) -> Vec<ContainerPort> {
    let port = |name: &str, protocol: &str, number: i32| ContainerPort {
        name: Some(name.to_owned()),
        protocol: Some(protocol.to_owned()),
        container_port: number,
        ..ContainerPort::default()
    };
    let mut ports = vec![port(ADMIN, "TCP", part.admin_port())];
    if part == Part::Dns {
        ports.extend([port("dns", "UDP", DNS_PORT), port("dns-tcp", "TCP", DNS_PORT)]);
    }
    ports
}

fn probe(path: &str, seconds: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(ADMIN.to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(seconds),
        timeout_seconds: Some(5),
        ..Probe::default()
    }
}

/// Memory grows with what is watched: the limits are for some ten thousand Services, no promise.
pub(crate) fn usual_resources(part: Part) -> ResourceRequirements {
    let (request, limit) = match part {
        Part::Hub | Part::Member => ("64Mi", "1Gi"),
        Part::Dns | Part::Proxy => ("64Mi", "1Gi"),
        Part::Balancer => ("32Mi", "512Mi"),
    };
    let amounts = |amounts: &[(&str, &str)]| -> BTreeMap<String, Quantity> {
        amounts.iter().map(|(what, much)| ((*what).to_owned(), Quantity((*much).to_owned()))).collect()
    };
    ResourceRequirements {
        requests: Some(amounts(&[("cpu", "50m"), ("memory", request)])),
        limits: Some(amounts(&[("memory", limit)])),
        ..ResourceRequirements::default()
    }
}

/// Nobody is root but those who need a capability in the host's network: Kubernetes gives capabilities to root only, and
/// these processes keep exactly one.
fn security(part: Part) -> SecurityContext {
    let capability = match part {
        Part::Proxy => Some("NET_ADMIN"),
        Part::Balancer => Some("NET_RAW"),
        Part::Hub | Part::Member | Part::Dns => None,
    };
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(capability.is_none()),
        run_as_user: Some(if capability.is_none() { NOBODY } else { 0 }),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: capability.map(|name| vec![name.to_owned()]),
        }),
        ..SecurityContext::default()
    }
}

/// What `tombolo join` leaves in the cluster. An agent waits for it; a proxy does without.
fn membership_volume(part: Part) -> Option<Volume> {
    let statement = |optional| VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: CONFIG_MAP.to_owned(),
            optional,
            ..ConfigMapProjection::default()
        }),
        ..VolumeProjection::default()
    };
    let credential = VolumeProjection {
        secret: Some(SecretProjection { name: HUB_SECRET.to_owned(), ..SecretProjection::default() }),
        ..VolumeProjection::default()
    };
    let sources = match part {
        Part::Member => vec![statement(None), credential],
        Part::Proxy => vec![statement(Some(true))],
        Part::Hub | Part::Dns | Part::Balancer => return None,
    };
    let projected = ProjectedVolumeSource { sources: Some(sources), ..ProjectedVolumeSource::default() };
    Some(Volume { name: MEMBERSHIP_VOLUME.to_owned(), projected: Some(projected), ..Volume::default() })
}
