//! Who has which address: the whole network on paper.
//!
//! ```text
//!  backbone 172.31.0.0/24   hub .1, outside .2, router of member C .(10+C)
//!  nodes    172.20.C.0/24   router .1 (API server, DNS), node N .(10+N), load balancers .128/25
//!  pods     10.C.N.0/24     gateway .1, pods from .2 on
//!  services 10.96.0.0/16    the same in every cluster: nobody else can reach them
//! ```

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use ipnet::Ipv4Net;

/// More would leave the ranges above.
pub const MOST_CLUSTERS: u8 = 50;
pub const MOST_NODES: u8 = 50;

/// Where API servers listen on the fabric.
const API_PORT: u16 = 6443;
const DNS_PORT: u16 = 53;

/// The network of a playground.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub members: Vec<MemberPlan>,
}

/// The network of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPlan {
    /// Counted from one.
    pub number: u8,
    pub nodes: Vec<NodePlan>,
}

/// The network of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePlan {
    pub cluster: u8,
    /// Counted from one.
    pub number: u8,
}

impl Plan {
    /// A plan for so many clusters with so many nodes each, as far as there are addresses.
    pub fn new(clusters: u8, nodes: u8) -> Self {
        let nodes = nodes.min(MOST_NODES);
        let member = |cluster| {
            let nodes = (1..=nodes).map(|number| NodePlan { cluster, number });
            MemberPlan { number: cluster, nodes: nodes.collect() }
        };
        Self { members: (1..=clusters.min(MOST_CLUSTERS)).map(member).collect() }
    }

    pub fn backbone() -> Ipv4Net {
        network([172, 31, 0, 0], 24)
    }

    pub fn hub() -> Ipv4Addr {
        Ipv4Addr::new(172, 31, 0, 1)
    }

    pub fn hub_api() -> SocketAddr {
        (Self::hub(), API_PORT).into()
    }

    /// The host that belongs to no cluster.
    pub fn outside() -> Ipv4Addr {
        Ipv4Addr::new(172, 31, 0, 2)
    }

    pub fn services() -> Ipv4Net {
        network([10, 96, 0, 0], 16)
    }
}

impl MemberPlan {
    pub fn name(&self) -> String {
        format!("member{}", self.number)
    }

    /// The router's address on the backbone.
    pub fn uplink(&self) -> Ipv4Addr {
        Ipv4Addr::new(172, 31, 0, 10 + self.number)
    }

    pub fn node_network(&self) -> Ipv4Net {
        network([172, 20, self.number, 0], 24)
    }

    /// The router's address in the nodes' network.
    pub fn router(&self) -> Ipv4Addr {
        Ipv4Addr::new(172, 20, self.number, 1)
    }

    pub fn api(&self) -> SocketAddr {
        (self.router(), API_PORT).into()
    }

    pub fn dns(&self) -> SocketAddr {
        (self.router(), DNS_PORT).into()
    }

    /// All pods of the cluster.
    pub fn pods(&self) -> Ipv4Net {
        network([10, self.number, 0, 0], 16)
    }

    /// The part of the nodes' network that load balancers draw from.
    pub fn load_balancers(&self) -> Ipv4Net {
        network([172, 20, self.number, 128], 25)
    }
}

impl NodePlan {
    pub fn name(&self) -> String {
        format!("node{}", self.number)
    }

    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(172, 20, self.cluster, 10 + self.number)
    }

    pub fn pods(&self) -> Ipv4Net {
        network([10, self.cluster, self.number, 0], 24)
    }

    /// The node, as its pods see it.
    pub fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, self.cluster, self.number, 1)
    }

    /// The lowest address for a pod that is not taken.
    pub fn free_address(&self, taken: &BTreeSet<Ipv4Addr>) -> Option<Ipv4Addr> {
        self.pods().hosts().skip(1).find(|address| !taken.contains(address))
    }

    /// Nodes take turns, so that even two of them are in different zones.
    pub fn zone(&self) -> String {
        format!("zone{}", self.number)
    }

    pub fn region(&self) -> String {
        format!("region{}", self.cluster)
    }
}

fn network(first: [u8; 4], length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(first.into(), length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every network and address that something has, with what has it.
    fn everything(plan: &Plan) -> Vec<(String, Ipv4Net)> {
        let mut all =
            vec![("services".to_owned(), Plan::services()), ("backbone".to_owned(), Plan::backbone())];
        for member in &plan.members {
            all.push((format!("nodes of {}", member.name()), member.node_network()));
            all.push((format!("pods of {}", member.name()), member.pods()));
        }
        all
    }

    #[test]
    fn networks_of_the_largest_playground_do_not_overlap() {
        let all = everything(&Plan::new(MOST_CLUSTERS, MOST_NODES));
        for (place, (what, network)) in all.iter().enumerate() {
            for (other, range) in &all[place + 1..] {
                let apart = !network.contains(range) && !range.contains(network);
                assert!(apart, "{what} {network} and {other} {range}");
            }
        }
    }

    #[test]
    fn every_host_is_in_its_network_and_alone_at_its_address() {
        let plan = Plan::new(MOST_CLUSTERS, MOST_NODES);
        let mut hosts = BTreeSet::from([Plan::hub(), Plan::outside()]);
        for member in &plan.members {
            assert!(Plan::backbone().contains(&member.uplink()));
            assert!(member.node_network().contains(&member.load_balancers()));
            assert!(hosts.insert(member.uplink()) && hosts.insert(member.router()));
            for node in &member.nodes {
                assert!(member.node_network().contains(&node.address()));
                assert!(!member.load_balancers().contains(&node.address()));
                assert!(member.pods().contains(&node.pods()) && node.pods().contains(&node.gateway()));
                assert!(hosts.insert(node.address()) && hosts.insert(node.gateway()));
            }
        }
    }

    #[test]
    fn pods_get_addresses_from_below_until_none_is_left() {
        let node = NodePlan { cluster: 3, number: 2 };
        let mut taken = BTreeSet::new();
        while let Some(address) = node.free_address(&taken) {
            taken.insert(address);
        }
        assert_eq!(taken.len(), 253);
        assert_eq!(taken.first(), Some(&Ipv4Addr::new(10, 3, 2, 2)));
        taken.remove(&Ipv4Addr::new(10, 3, 2, 77));
        assert_eq!(node.free_address(&taken), Some(Ipv4Addr::new(10, 3, 2, 77)));
    }

    #[test]
    fn more_than_there_are_addresses_for_is_not_planned() {
        let plan = Plan::new(200, 200);
        assert_eq!(plan.members.len(), usize::from(MOST_CLUSTERS));
        assert!(plan.members.iter().all(|member| member.nodes.len() == usize::from(MOST_NODES)));
    }
}
