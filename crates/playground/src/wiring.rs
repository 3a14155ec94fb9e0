//! Links, addresses and routes of one network namespace, by netlink.

use std::io;
use std::net::Ipv4Addr;

use futures_util::TryStreamExt as _;
use ipnet::Ipv4Net;
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute};
use rtnetlink::{
    Error, Handle, LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder, new_connection,
};

use crate::namespace::Namespace;

/// What turns a namespace into a router. Reverse path filters would drop what comes back another way.
const ROUTER: [(&str, &str); 4] = [
    ("/proc/sys/net/ipv4/ip_forward", "1"),
    ("/proc/sys/net/ipv4/conf/all/rp_filter", "0"),
    ("/proc/sys/net/ipv4/conf/default/rp_filter", "0"),
    ("/proc/sys/net/ipv4/conf/all/send_redirects", "0"),
];

/// Where packets to a network go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hop<'a> {
    /// To this neighbour.
    Via(Ipv4Addr),
    /// Straight out of this link.
    Link(&'a str),
    /// Nowhere, and the sender is told.
    Nowhere,
}

/// A namespace whose network can be changed.
#[derive(Clone)]
pub(crate) struct Wiring {
    namespace: Namespace,
    handle: Handle,
}

impl Wiring {
    /// A fresh namespace with a loopback. Must be called within a Tokio runtime, which it needs from then on.
    pub(crate) async fn new() -> io::Result<Self> {
        let namespace = Namespace::new()?;
        let runtime = tokio::runtime::Handle::current();
        let open = || {
            let _inside = runtime.enter();
            new_connection()
        };
        let (connection, handle, _) = namespace.within(open)??;
        tokio::spawn(connection);
        let wiring = Self { namespace, handle };
        wiring.set_up("lo").await?;
        Ok(wiring)
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Lets packets through.
    pub(crate) fn forward(&self) -> io::Result<()> {
        self.namespace.within(|| ROUTER.iter().try_for_each(|(file, value)| std::fs::write(file, value)))?
    }

    pub(crate) async fn add_bridge(&self, name: &str) -> io::Result<()> {
        self.handle.link().add(LinkBridge::new(name).up().build()).execute().await.map_err(failed)
    }

    /// A wire with one end here and the other there, both up.
    pub(crate) async fn connect(&self, here: &str, other: &Wiring, there: &str) -> io::Result<()> {
        let end = LinkMessageBuilder::<LinkUnspec>::new().name(there.to_owned());
        let descriptor = other.namespace.descriptor();
        let end = end.append_extra_attribute(LinkAttribute::NetNsFd(descriptor)).build();
        let wire = LinkVeth::new(here, there).set_info_data(InfoData::Veth(InfoVeth::Peer(end)));
        self.handle.link().add(wire.build()).execute().await.map_err(failed)?;
        // An end cannot go up before the other exists, so not in one message.
        self.set_up(here).await?;
        other.set_up(there).await
    }

    /// Plugs a link into a bridge.
    pub(crate) async fn plug(&self, link: &str, bridge: &str) -> io::Result<()> {
        let bridge = self.index(bridge).await?;
        let change = LinkUnspec::new_with_name(link).controller(bridge);
        self.handle.link().set(change.build()).execute().await.map_err(failed)
    }

    /// Takes a link out of its bridge.
    pub(crate) async fn unplug(&self, link: &str) -> io::Result<()> {
        let change = LinkUnspec::new_with_name(link).nocontroller();
        self.handle.link().set(change.build()).execute().await.map_err(failed)
    }

    pub(crate) async fn set_up(&self, link: &str) -> io::Result<()> {
        let change = LinkUnspec::new_with_name(link).up();
        self.handle.link().set(change.build()).execute().await.map_err(failed)
    }

    pub(crate) async fn set_down(&self, link: &str) -> io::Result<()> {
        let change = LinkUnspec::new_with_name(link).down();
        self.handle.link().set(change.build()).execute().await.map_err(failed)
    }

    pub(crate) async fn remove(&self, link: &str) -> io::Result<()> {
        let index = self.index(link).await?;
        self.handle.link().del(index).execute().await.map_err(failed)
    }

    pub(crate) async fn add_address(&self, link: &str, address: Ipv4Addr, length: u8) -> io::Result<()> {
        let index = self.index(link).await?;
        self.handle.address().add(index, address.into(), length).execute().await.map_err(failed)
    }

    pub(crate) async fn add_route(&self, to: Ipv4Net, hop: Hop<'_>) -> io::Result<()> {
        let route = RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(to.network(), to.prefix_len());
        let route = match hop {
            Hop::Via(neighbour) => route.gateway(neighbour),
            Hop::Link(link) => {
                let scope = rtnetlink::packet_route::route::RouteScope::Link;
                route.output_interface(self.index(link).await?).scope(scope)
            }
            Hop::Nowhere => route.kind(rtnetlink::packet_route::route::RouteType::Unreachable),
        };
        self.handle.route().add(route.build()).execute().await.map_err(failed)
    }

    pub(crate) async fn index(&self, link: &str) -> io::Result<u32> {
        let mut found = self.handle.link().get().match_name(link.to_owned()).execute();
        let found = found.try_next().await.map_err(failed)?;
        found.map(|link| link.header.index).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn failed(error: Error) -> io::Error {
    match error {
        Error::NetlinkError(message) => message.to_io(),
        other => io::Error::other(other),
    }
}

/// Everywhere.
pub(crate) fn default_route() -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)
}
