//! The parts, and the objects each of them is made of.

use std::collections::BTreeMap;

use kube::core::ObjectMeta;
use tombolo_api::tombolo::MANAGED_BY_LABEL;

use crate::account::{self, Account};
use crate::manifest::Manifest;
use crate::rights::{self, Right};
use crate::settings::Settings;
use crate::{dashboard, definitions, guard, monitor, place, workload};

/// Who made an installation's objects. Not [`tombolo_api::tombolo::MANAGER`]: that one marks what agents derive, and an
/// agent that leaves removes it.
pub(crate) const INSTALLER: &str = "tombolo-install";

pub(crate) const NAME_LABEL: &str = "app.kubernetes.io/name";
pub(crate) const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
pub(crate) const VERSION_LABEL: &str = "app.kubernetes.io/version";
/// On a namespace: which pods it admits (Pod Security Admission).
pub(crate) const ADMISSION_LABEL: &str = "pod-security.kubernetes.io/enforce";

/// Something that can be installed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Where members meet, and the hub's own part.
    Hub,
    /// The agent of a member.
    Member,
    /// The DNS server of a member.
    Dns,
    /// The service proxy on every node.
    Proxy,
    /// Load balancers on every node.
    Balancer,
}

impl Part {
    pub const ALL: [Self; 5] = [Self::Hub, Self::Member, Self::Dns, Self::Proxy, Self::Balancer];

    /// The subcommand that runs it.
    pub fn command(self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Member => "agent",
            Self::Dns => "dns",
            Self::Proxy => "proxy",
            Self::Balancer => "balancer",
        }
    }

    /// What it is called by those who install it: the flag of `tombolo install`, the value of the chart.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Member => "member",
            other => other.command(),
        }
    }

    /// What its account, workload and roles are called.
    pub fn object_name(self) -> String {
        format!("tombolo-{}", self.command())
    }

    /// Where its pods answer for `/metrics`, `/livez` and `/readyz`. Those on the host's network share its ports.
    pub(crate) fn admin_port(self) -> i32 {
        match self {
            Self::Member => 9470,
            Self::Dns => 9471,
            Self::Hub => 9472,
            Self::Proxy => 9473,
            Self::Balancer => 9474,
        }
    }

    /// Whether it runs once on every node, in the host's network.
    pub(crate) fn is_on_nodes(self) -> bool {
        matches!(self, Self::Proxy | Self::Balancer)
    }

    fn rights(self) -> &'static [Right] {
        match self {
            Self::Hub => rights::HUB,
            Self::Member => rights::AGENT,
            Self::Dns => rights::DNS,
            Self::Proxy => rights::PROXY,
            Self::Balancer => rights::BALANCER,
        }
    }

    fn rights_at_home(self) -> &'static [Right] {
        match self {
            Self::Hub => rights::HUB_AT_HOME,
            Self::Member => rights::AGENT_AT_HOME,
            Self::Balancer => rights::BALANCER_AT_HOME,
            Self::Dns | Self::Proxy => &[],
        }
    }

    /// What tells its pods from all others. It never changes: selectors of workloads cannot.
    pub(crate) fn selector(self) -> BTreeMap<String, String> {
        let labels = [(NAME_LABEL, "tombolo"), (COMPONENT_LABEL, self.command())];
        labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    pub(crate) fn labels(self) -> BTreeMap<String, String> {
        let mut labels = self.selector();
        labels.insert(VERSION_LABEL.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        labels.insert(MANAGED_BY_LABEL.to_owned(), INSTALLER.to_owned());
        labels
    }

    /// Of an object in the installation's namespace.
    pub(crate) fn metadata(self, settings: &Settings) -> ObjectMeta {
        ObjectMeta { namespace: Some(settings.namespace.clone()), ..self.cluster_metadata() }
    }

    /// Of an object without a namespace.
    fn cluster_metadata(self) -> ObjectMeta {
        ObjectMeta { name: Some(self.object_name()), labels: Some(self.labels()), ..ObjectMeta::default() }
    }
}

/// Everything that `parts` need in a cluster, in the order in which it can be applied.
pub fn manifests(settings: &Settings, parts: &[Part]) -> Vec<Manifest> {
    let mut all = definitions::kinds(parts);
    all.extend([namespace(settings, parts), guard::quota(settings)]);
    for part in parts {
        all.extend(access(*part, settings));
        all.extend(running(*part, settings));
    }
    if settings.monitoring {
        all.extend(monitoring(settings));
    }
    all
}

/// The namespace of the installation. Pods of proxies and balancers use the host's network, which only one level admits; the
/// others ask for no more than the strictest level would give them.
pub fn namespace(settings: &Settings, parts: &[Part]) -> Manifest {
    let mut labels = BTreeMap::from([(NAME_LABEL, "tombolo"), (MANAGED_BY_LABEL, INSTALLER)]);
    if parts.iter().any(|part| part.is_on_nodes()) {
        labels.insert(ADMISSION_LABEL, "privileged");
    }
    account::namespace(ObjectMeta {
        name: Some(settings.namespace.clone()),
        labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()),
        ..ObjectMeta::default()
    })
}

/// The account of a part and what it may do.
pub(crate) fn access(part: Part, settings: &Settings) -> Vec<Manifest> {
    let name = part.object_name();
    let account = Account { namespace: &settings.namespace, name: &name };
    let mut all = vec![account.manifest(part.metadata(settings))];
    all.extend(account.everywhere(&part.cluster_metadata(), part.rights()));
    if !part.rights_at_home().is_empty() {
        all.extend(account.within(&part.metadata(settings), part.rights_at_home()));
    }
    if part == Part::Hub {
        all.extend(place::all_member_roles());
    }
    all
}

/// What runs of a part, and what protects it.
pub(crate) fn running(part: Part, settings: &Settings) -> Vec<Manifest> {
    let mut all = vec![workload::workload(part, settings), workload::service(part, settings)];
    if !part.is_on_nodes() {
        all.push(guard::disruption_budget(part, settings));
        all.push(guard::network_policy(part, settings));
    }
    all
}

/// For Prometheus' operator and Grafana.
pub(crate) fn monitoring(settings: &Settings) -> Vec<Manifest> {
    vec![monitor::service_monitor(settings), dashboard::config_map(settings)]
}
