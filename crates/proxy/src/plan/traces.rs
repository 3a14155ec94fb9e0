//! What clients of an earlier proxy, or from before a failure, hold on to: which of it has to go.
//!
//! While all goes well the changes of a plan say that. Who did not see the changes asks the kernel what there is, and this.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use tombolo_model::routing::Claim;

use super::element::{Key, Value, Whose, sticky};
use super::{Plan, datagrams};

/// Who sticks to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    pub source: IpAddr,
    /// With the address the client sent to, of a node port, too.
    pub frontend: Claim,
    pub target: SocketAddr,
}

/// Who may stick to what.
#[derive(Clone, Debug, Default)]
pub struct Stickiness(HashMap<(Claim, SocketAddr), Whose>);

impl Stickiness {
    /// `here`: the addresses of those who are on this node, its pods and itself.
    pub fn allows(&self, client: &Client, here: &[IpNet]) -> bool {
        let is_here = here.iter().any(|range| range.contains(&client.source));
        let claims = [client.frontend, anywhere(client.frontend)];
        let whose = claims.into_iter().find_map(|claim| self.0.get(&(claim, client.target)));
        whose.is_some_and(|whose| if is_here { whose.here } else { whose.outside })
    }
}

impl Plan {
    pub fn stickiness(&self) -> Stickiness {
        let mut all: HashMap<(Claim, SocketAddr), Whose> = HashMap::new();
        for (pair, whose) in self.elements().filter_map(sticky) {
            let known = all.entry(pair).or_default();
            *known = known.or(whose);
        }
        Stickiness(all)
    }

    /// Of UDP flows, given as where clients send to and who answers, those that lead to nobody who serves. `services` is where
    /// only Services have addresses.
    pub fn gone(
        &self,
        flows: impl IntoIterator<Item = (Claim, SocketAddr)>,
        services: &[IpNet],
    ) -> BTreeSet<(Claim, SocketAddr)> {
        let chosen: HashSet<(Claim, SocketAddr)> =
            self.services.values().flat_map(|planned| datagrams(&planned.elements)).collect();
        let is_gone = |(to, server): &(Claim, SocketAddr)| {
            let is_translated = to.address.is_none_or(|address| SocketAddr::new(address, to.port) != *server);
            let own = [*to, anywhere(*to)].into_iter().find_map(|claim| Some((claim, self.owner(&claim)?)));
            let planned = own.and_then(|(claim, service)| Some((claim, self.services.get(service)?)));
            let Some((claim, planned)) = planned else {
                // Whoever had an address that only Services have, nobody does any more.
                let of_services = |address| services.iter().any(|range| range.contains(&address));
                return is_translated && to.address.is_some_and(of_services);
            };
            if chosen.contains(&(claim, *server)) || planned.serving.contains(server) {
                return false;
            }
            if is_translated {
                // A port alone says too little where the Service has nobody: the flow may be somebody else's.
                return claim.address.is_some() || !planned.serving.is_empty();
            }
            // Nobody translated it. What is on its way through a node is not for its ports.
            let serves = |key| matches!(planned.elements.get(&key), Some(Value::Balance(_)));
            claim.address.is_some() && (serves(Key::Frontend(claim)) || serves(Key::FromHere(claim)))
        };
        flows.into_iter().filter(is_gone).collect()
    }
}

/// The node port with this number.
fn anywhere(claim: Claim) -> Claim {
    Claim { address: None, ..claim }
}
