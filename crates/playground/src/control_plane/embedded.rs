//! The embedded API server: within this process, with its data in memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tombolo_apiserver::{Cluster, Nodes, Options};

use super::{Open, Order};
use crate::error::{Doing as _, Error};
use crate::station::Station;

pub(super) struct Embedded {
    cluster: Cluster,
    fabric: Option<SocketAddr>,
    host: SocketAddr,
}

impl Embedded {
    pub(super) fn new(order: Order) -> Self {
        let options = Options { service_cidrs: vec![order.services], ..Options::named(order.name) };
        let host = (Ipv4Addr::LOCALHOST, 0).into();
        Self { cluster: Cluster::new(options), fabric: order.fabric, host }
    }

    pub(super) fn attach(&self, nodes: Arc<dyn Nodes>) {
        self.cluster.attach(nodes);
    }

    pub(super) fn close(&self) {
        self.cluster.close();
    }

    /// Listens where it did before.
    pub(super) async fn open(&mut self, station: &Station) -> Result<Open, Error> {
        let cannot = format!("{}: the API server cannot be started", self.cluster.name());
        let outer = std::net::TcpListener::bind(self.host).doing(&cannot)?;
        outer.set_nonblocking(true).doing(&cannot)?;
        let (cluster, fabric) = (self.cluster.clone(), self.fabric);
        let bind = async move {
            let outer = cluster.serve(TcpListener::from_std(outer)?)?;
            // The last one is the address that the cluster publishes as its own.
            let inner = match fabric {
                Some(address) => Some(cluster.serve(TcpListener::bind(address).await?)?),
                None => None,
            };
            std::io::Result::Ok((outer, inner))
        };
        let (outer, inner) = station.run(bind).await.doing(&cannot)?.doing(&cannot)?;
        self.host = outer.address();
        let context = self.cluster.context(&outer).doing(&cannot)?;
        let mut open = Open {
            inner: context.clone(),
            outer: context,
            inner_client: self.cluster.client(),
            outer_client: self.cluster.client(),
            serving: vec![station.spawn(outer.run(std::future::pending()))],
        };
        if let Some(inner) = inner {
            open.inner = self.cluster.context(&inner).doing(&cannot)?;
            open.serving.push(station.spawn(inner.run(std::future::pending())));
        }
        Ok(open)
    }
}
