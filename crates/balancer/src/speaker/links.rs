//! The links of this node that belong to a network: where addresses are answered for.

use std::collections::BTreeMap;
use std::io;

use futures_util::TryStreamExt as _;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::AddressScope;
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage};
use rtnetlink::{Error, Handle, new_connection};

use super::frame::Mac;

/// A link to answer on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) mac: Mac,
}

/// The way to ask the kernel about links, in the network namespace it was opened in.
pub(super) struct Links {
    handle: Handle,
    /// Those that were asked for; empty: all that fit.
    chosen: Vec<String>,
}

impl Links {
    pub(super) fn open(chosen: Vec<String>) -> io::Result<(Self, impl Future<Output = ()>)> {
        let (connection, handle, _) = new_connection()?;
        Ok((Self { handle, chosen }, connection))
    }

    /// By their index: Ethernet, up, and with an address of a network, which the wires to pods do not have.
    pub(super) async fn find(&self) -> io::Result<BTreeMap<u32, Link>> {
        let networks = self.networks().await.map_err(io::Error::other)?;
        let links: Vec<LinkMessage> =
            self.handle.link().get().execute().try_collect().await.map_err(io::Error::other)?;
        let found = links.iter().filter_map(|link| self.read(link));
        Ok(found.filter(|(index, _)| !self.chosen.is_empty() || networks.contains(index)).collect())
    }

    async fn networks(&self) -> Result<Vec<u32>, Error> {
        let addresses: Vec<_> = self.handle.address().get().execute().try_collect().await?;
        let whole = |family: AddressFamily| if family == AddressFamily::Inet { 32 } else { 128 };
        let of_network = |head: &rtnetlink::packet_route::address::AddressHeader| {
            head.scope == AddressScope::Universe && head.prefix_len < whole(head.family)
        };
        Ok(addresses
            .iter()
            .filter(|found| of_network(&found.header))
            .map(|found| found.header.index)
            .collect())
    }

    fn read(&self, link: &LinkMessage) -> Option<(u32, Link)> {
        let up =
            link.header.flags.contains(LinkFlags::Up) && !link.header.flags.contains(LinkFlags::Loopback);
        if !up || link.header.link_layer_type != LinkLayerType::Ether {
            return None;
        }
        let name = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.clone()),
            _ => None,
        })?;
        let mac = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Address(bytes) => Mac::try_from(bytes.as_slice()).ok(),
            _ => None,
        })?;
        let wanted = self.chosen.is_empty() || self.chosen.contains(&name);
        wanted.then_some((link.header.index, Link { name, mac }))
    }
}
