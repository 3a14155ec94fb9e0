//! The network between everything: a backbone, a router per cluster, nodes behind it.
//!
//! ```text
//!  outside ──┐                 ┌── router of member1 ──┬── node1 ── pods
//!  hub ──────┼── backbone ─────┤                       └── node2 ── pods
//!            └── (a bridge)    └── router of member2 ── …
//!                             ▲
//!                             the link that can be cut
//! ```

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::Ipv4Net;

use crate::plan::{MemberPlan, NodePlan, Plan};
use crate::slow::Detour;
use crate::wiring::{Hop, Wiring, default_route};

/// The link of every host; the other end is named after whom it leads to.
const LINK: &str = "eth0";
const BRIDGE: &str = "bridge";

/// The network of a playground that is there.
pub(crate) struct Fabric {
    backbone: Wiring,
    pub(crate) hub: Wiring,
    pub(crate) outside: Wiring,
    pub(crate) members: BTreeMap<u8, Member>,
}

/// The network of a cluster.
pub(crate) struct Member {
    pub(crate) router: Wiring,
    pub(crate) nodes: BTreeMap<u8, Wiring>,
}

impl Fabric {
    pub(crate) async fn build(plan: &Plan) -> io::Result<Self> {
        let backbone = Wiring::new().await?;
        backbone.add_bridge(BRIDGE).await?;
        let hub = join(&backbone, "hub", Plan::hub()).await?;
        let outside = join(&backbone, "outside", Plan::outside()).await?;
        let mut members = BTreeMap::new();
        for member in &plan.members {
            members.insert(member.number, build_member(&backbone, member).await?);
        }
        let fabric = Self { backbone, hub, outside, members };
        fabric.route(plan).await?;
        Ok(fabric)
    }

    /// Everybody on the backbone knows what is behind each router.
    async fn route(&self, plan: &Plan) -> io::Result<()> {
        for member in &plan.members {
            let others = self.members.iter().filter(|(number, _)| **number != member.number);
            let others = others.map(|(_, other)| &other.router);
            for from in others.chain([&self.hub, &self.outside]) {
                for network in [member.node_network(), member.pods()] {
                    from.add_route(network, Hop::Via(member.uplink())).await?;
                }
            }
        }
        Ok(())
    }

    /// Pulls the plug at the backbone's side: whoever is behind it keeps its routes, and nothing comes through.
    pub(crate) async fn cut(&self, host: &str) -> io::Result<()> {
        self.backbone.set_down(host).await
    }

    pub(crate) async fn mend(&self, host: &str) -> io::Result<()> {
        self.backbone.set_up(host).await
    }

    /// Leads the link of a host through a detour on which what it sends waits.
    pub(crate) async fn detour(&self, host: &str, delay: Duration) -> io::Result<Detour> {
        let (near, far) = detour_links(host);
        self.backbone.connect(&near, &self.backbone, &far).await?;
        self.backbone.plug(&near, BRIDGE).await?;
        self.backbone.unplug(host).await?;
        Detour::start(&self.backbone, host, &far, delay).await
    }

    /// Plugs it into the bridge again.
    pub(crate) async fn straighten(&self, host: &str) -> io::Result<()> {
        self.backbone.plug(host, BRIDGE).await?;
        self.backbone.remove(&detour_links(host).0).await
    }

    /// The same for a node, at its router's side.
    pub(crate) async fn cut_node(&self, node: &NodePlan) -> io::Result<()> {
        self.router_of(node)?.set_down(&node.name()).await
    }

    pub(crate) async fn mend_node(&self, node: &NodePlan) -> io::Result<()> {
        self.router_of(node)?.set_up(&node.name()).await
    }

    fn router_of(&self, node: &NodePlan) -> io::Result<&Wiring> {
        let member = self.members.get(&node.cluster).ok_or(io::ErrorKind::NotFound)?;
        Ok(&member.router)
    }
}

/// The two ends of the wire that stands for a host at the bridge while its link is slow.
fn detour_links(host: &str) -> (String, String) {
    (format!("near-{host}"), format!("far-{host}"))
}

/// A host at the backbone.
async fn join(backbone: &Wiring, name: &str, address: Ipv4Addr) -> io::Result<Wiring> {
    let host = Wiring::new().await?;
    backbone.connect(name, &host, LINK).await?;
    backbone.plug(name, BRIDGE).await?;
    host.add_address(LINK, address, Plan::backbone().prefix_len()).await?;
    Ok(host)
}

async fn build_member(backbone: &Wiring, member: &MemberPlan) -> io::Result<Member> {
    let router = join(backbone, &member.name(), member.uplink()).await?;
    router.forward()?;
    router.add_bridge(BRIDGE).await?;
    router.add_address(BRIDGE, member.router(), member.node_network().prefix_len()).await?;
    let mut nodes = BTreeMap::new();
    for node in &member.nodes {
        nodes.insert(node.number, build_node(&router, member, node).await?);
    }
    Ok(Member { router, nodes })
}

async fn build_node(router: &Wiring, member: &MemberPlan, node: &NodePlan) -> io::Result<Wiring> {
    let host = Wiring::new().await?;
    host.forward()?;
    router.connect(&node.name(), &host, LINK).await?;
    router.plug(&node.name(), BRIDGE).await?;
    host.add_address(LINK, node.address(), member.node_network().prefix_len()).await?;
    host.add_route(default_route(), Hop::Via(member.router())).await?;
    router.add_route(node.pods(), Hop::Via(node.address())).await?;
    // What no pod has must not go back to the router, and round and round.
    host.add_route(node.pods(), Hop::Nowhere).await?;
    Ok(host)
}

/// A pod at its own wire: the node has a route to it, the pod has one to everywhere.
pub(crate) async fn join_pod(host: &Wiring, node: &NodePlan, address: Ipv4Addr) -> io::Result<Wiring> {
    let pod = Wiring::new().await?;
    let name = pod_link(address);
    host.connect(&name, &pod, LINK).await?;
    host.add_address(&name, node.gateway(), 32).await?;
    host.add_route(Ipv4Net::new_assert(address, 32), Hop::Link(&name)).await?;
    pod.add_address(LINK, address, 32).await?;
    pod.add_route(Ipv4Net::new_assert(node.gateway(), 32), Hop::Link(LINK)).await?;
    pod.add_route(default_route(), Hop::Via(node.gateway())).await?;
    Ok(pod)
}

/// Takes the wire of a pod away at once; its namespace may live a little longer.
pub(crate) async fn part_pod(host: &Wiring, address: Ipv4Addr) -> io::Result<()> {
    host.remove(&pod_link(address)).await
}

fn pod_link(address: Ipv4Addr) -> String {
    format!("pod{}", address.octets()[3])
}
