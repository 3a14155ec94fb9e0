//! What a provider makes of a Service: serve it, serve it with less than it asks for, or refuse it.
//!
//! KEP-4631, Newly-Required Behavior for Cloud Providers. Where the KEP leaves the choice between less and nothing, it is
//! less, unless the Service requires the feature: whoever does not want that can say so.

use std::fmt;

use tombolo_api::loadbalancer::Feature;
use tombolo_api::service::{IpFamily, Protocol};

use super::capabilities::Capabilities;
use super::wish::Wish;

/// Something the Service asks for and does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degradation {
    pub feature: Feature,
    pub why: String,
}

impl Degradation {
    pub fn new(feature: Feature, why: impl Into<String>) -> Self {
        Degradation { feature, why: why.into() }
    }
}

impl fmt::Display for Degradation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.feature, self.why)
    }
}

type Ports = Vec<(Protocol, u16)>;

/// How a Service is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Never empty.
    pub families: Vec<IpFamily>,
    pub ports: Vec<(Protocol, u16)>,
    /// What is not served.
    pub dropped_ports: Vec<(Protocol, u16)>,
    pub degraded: Vec<Degradation>,
}

/// What becomes of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Serve(Terms),
    /// Nothing is provisioned, for these reasons.
    Refuse(Vec<String>),
}

/// What a provider that can do so much makes of a wish. What depends on addresses comes later, in [`settle`](super::settle()).
pub fn judge(wish: &Wish, can: &Capabilities) -> Verdict {
    let mut judge = Judge { wish, refusals: Vec::new(), degraded: Vec::new() };
    judge.check_names();
    let families = judge.families(can);
    let (ports, dropped_ports) = judge.ports(can);
    judge.node_ports(can);
    judge.extras(can);
    if judge.refusals.is_empty() {
        return Verdict::Serve(Terms { families, ports, dropped_ports, degraded: judge.degraded });
    }
    Verdict::Refuse(judge.refusals)
}

/// Whether a Service insists on a feature.
pub(super) fn requires(wish: &Wish, feature: Feature) -> bool {
    wish.required.iter().any(|name| name == feature.as_str())
        || (feature == Feature::IpFamilies && wish.dual_stack_required)
}

struct Judge<'a> {
    wish: &'a Wish,
    refusals: Vec<String>,
    degraded: Vec<Degradation>,
}

impl Judge<'_> {
    /// A feature that nobody here has heard of cannot be promised.
    fn check_names(&mut self) {
        let unknown = |name: &&String| name.parse::<Feature>().is_err();
        let unknown = self.wish.required.iter().filter(unknown);
        self.refusals.extend(unknown.map(|name| format!("the required feature {name:?} is not known")));
    }

    /// Less than was asked for: told, or refused where it is required.
    fn lack(&mut self, feature: Feature, why: String) {
        if requires(self.wish, feature) {
            let named = self.wish.required.iter().any(|name| name == feature.as_str());
            let who = if named { format!("{feature} is required") } else { "RequireDualStack".to_owned() };
            self.refusals.push(format!("{why}, and {who}"));
        } else {
            self.degraded.push(Degradation::new(feature, why));
        }
    }

    fn families(&mut self, can: &Capabilities) -> Vec<IpFamily> {
        let supported = |family: &IpFamily| can.families.contains(family);
        let (served, not): (Vec<IpFamily>, Vec<IpFamily>) =
            self.wish.families.iter().partition(|family| supported(family));
        if served.is_empty() {
            self.refusals.push(format!("{} is not supported", list(&not, IpFamily::to_string)));
        } else if !not.is_empty() {
            self.lack(Feature::IpFamilies, format!("{} is not supported", list(&not, IpFamily::to_string)));
        }
        served
    }

    /// Those that are served, and the others.
    fn ports(&mut self, can: &Capabilities) -> (Ports, Ports) {
        let supported = |(protocol, _): &&(Protocol, u16)| can.protocols.contains(protocol);
        let first = self.wish.ports.iter().find(supported).map(|(protocol, _)| *protocol);
        let fits =
            |port: &&(Protocol, u16)| supported(port) && (can.mixed_protocols || Some(port.0) == first);
        let (served, dropped): (Vec<_>, Vec<_>) = self.wish.ports.iter().partition(|port| fits(port));
        if dropped.is_empty() {
            return (served, dropped);
        }
        let why =
            format!("{} cannot be served", list(&dropped, |(protocol, port)| format!("{port}/{protocol}")));
        if served.is_empty() {
            self.refusals.push(format!("{why}: the protocol is not supported"));
        } else {
            self.lack(Feature::Ports, why);
        }
        (served, dropped)
    }

    /// Never served with less: there would be nothing to send traffic to.
    fn node_ports(&mut self, can: &Capabilities) {
        if !self.wish.node_ports && !can.without_node_ports {
            let why =
                "allocateLoadBalancerNodePorts is false, but Services are reached through node ports only";
            self.refusals.push(why.to_owned());
        }
    }

    fn extras(&mut self, can: &Capabilities) {
        let wish = self.wish;
        if wish.sticky && !can.session_affinity {
            self.lack(Feature::SessionAffinity, "clients do not stick to an endpoint".to_owned());
        }
        if !wish.source_ranges.is_empty() && !can.source_ranges {
            self.lack(Feature::LoadBalancerSourceRanges, "source ranges are not enforced".to_owned());
        }
        if wish.local && !can.source_address {
            self.lack(Feature::ExternalTrafficPolicy, "the client's address is not kept".to_owned());
        }
        let nonsense: Vec<String> = wish
            .asked
            .iter()
            .filter(|asked| asked.address.is_none())
            .map(|asked| format!("{:?} is no address that clients can connect to", asked.text))
            .collect();
        if !wish.asked.is_empty() && !can.explicit_addresses {
            self.lack(Feature::LoadBalancerIp, "addresses cannot be asked for".to_owned());
        } else if !nonsense.is_empty() {
            self.lack(Feature::LoadBalancerIp, nonsense.join(", "));
        }
    }
}

fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}
