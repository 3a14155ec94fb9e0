//! Who may connect to a load balancer's address.
//!
//! A list of one family closes the other: somebody who names IPv4 networks does not expect all of IPv6 to be let in (where
//! kube-proxy lets it in). A network of length zero is everybody of its family; a list that restricts neither family is
//! as good as none. A list of which nothing can be read is a list all the same, and lets nobody in.

use std::net::IpAddr;

use ipnet::IpNet;
use tombolo_api::service::IpFamily;

use super::gathered::Gathered;
use crate::address::family_of;

#[derive(Debug, Default)]
pub(super) struct Ranges {
    networks: Vec<IpNet>,
    given: bool,
}

impl Ranges {
    pub(super) fn read(texts: &[String], gathered: &mut Gathered) -> Ranges {
        let mut read = |text: &String| {
            let network: Option<IpNet> = text.trim().parse().ok();
            if network.is_none() {
                let problem = "no network; nobody is let in by it";
                gathered.note("spec.loadBalancerSourceRanges", problem, format!("{text:?}"));
            }
            network.map(|network| network.trunc())
        };
        let mut networks: Vec<IpNet> = texts.iter().filter_map(&mut read).collect();
        networks.sort_unstable();
        networks.dedup();
        Ranges { networks, given: !texts.is_empty() }
    }

    /// The sources that may connect; `None`: everybody.
    ///
    /// A node that may connect sends from the balancer's address itself where it has taken that address over, so then
    /// `balancers` may, too.
    pub(super) fn allowed(
        &self,
        family: IpFamily,
        node: &[IpAddr],
        balancers: impl Iterator<Item = IpAddr>,
    ) -> Option<Vec<IpNet>> {
        if !self.given || self.is_open(family) {
            return None;
        }
        let mut allowed = self.of(family);
        let only_open = !self.networks.is_empty()
            && IpFamily::ALL.iter().all(|&f| self.of(f).is_empty() || self.is_open(f));
        if allowed.is_empty() && only_open {
            return None;
        }
        if node.iter().any(|address| allowed.iter().any(|network| network.contains(address))) {
            allowed.extend(balancers.map(IpNet::from));
            allowed.sort_unstable();
            allowed.dedup();
        }
        Some(allowed)
    }

    fn of(&self, family: IpFamily) -> Vec<IpNet> {
        self.networks.iter().copied().filter(|network| family_of(network.addr()) == family).collect()
    }

    fn is_open(&self, family: IpFamily) -> bool {
        self.of(family).iter().any(|network| network.prefix_len() == 0)
    }
}
