//! A real API server: kube-apiserver and etcd as processes in the cluster's own network, and kube-controller-manager beside
//! them if there is one.
//!
//! They live at the station, so that they are reached, and reach the nodes, as in any cluster; etcd has the loopback there.
//! The person's connections come from the host's loopback through a relay. The kernel ends the processes with the station's
//! thread.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tombolo_apiserver::{Authority, Context};
use tombolo_upstream::{ControlPlane, Etcd, Folder, Place, Programs, Settings};

use super::{Open, Order, connect, relay};
use crate::error::{Doing as _, Error};
use crate::station::{Station, Task};

pub(super) struct Kube {
    name: String,
    fabric: Option<SocketAddr>,
    host: SocketAddr,
    /// Nothing while it is on its way to the station, or got lost there.
    plane: Option<ControlPlane>,
    is_up: bool,
    etcd: Etcd,
    _data: Folder,
}

impl Kube {
    pub(super) async fn start(order: Order, programs: &Programs, station: &Station) -> Result<Self, Error> {
        let cannot = format!("{}: the API server cannot be started", order.name);
        let (name, fabric, programs) = (order.name.clone(), order.fabric, programs.clone());
        let started = station.run(async move { start(order, &programs).await }).await.doing(&cannot)?;
        let (plane, etcd, data) = started.doing(cannot)?;
        let host = (Ipv4Addr::LOCALHOST, 0).into();
        Ok(Self { name, fabric, host, plane: Some(plane), is_up: true, etcd, _data: data })
    }

    pub(super) fn has_controllers(&self) -> bool {
        self.plane.as_ref().is_some_and(ControlPlane::has_controllers)
    }

    pub(super) fn authority(&self) -> Option<Arc<Authority>> {
        self.plane.as_ref().map(ControlPlane::authority)
    }

    pub(super) fn kill(&mut self) {
        self.is_up = false;
        if let Some(plane) = &mut self.plane {
            plane.kill();
        }
    }

    /// Ends everything, for good: nothing is written any more.
    pub(super) fn end(&mut self) {
        self.kill();
        self.etcd.kill();
    }

    /// Starts what was killed, and the way there from the host.
    pub(super) async fn open(&mut self, station: &Station) -> Result<Open, Error> {
        let cannot = format!("{}: the API server cannot be started", self.name);
        let inner = self.revive(station).await.doing(&cannot)?;
        let (outer, serving) = self.show(&inner, station).await.doing(&cannot)?;
        let context = inner.clone();
        let inner_client = station.run(async move { connect(&context).await }).await.doing(&cannot)??;
        let outer_client = connect(&outer).await?;
        Ok(Open { outer, inner, inner_client, outer_client, serving })
    }

    /// Starts what was killed, and says where it is.
    async fn revive(&mut self, station: &Station) -> Result<Context, Error> {
        let lost = "it got lost when it was started before";
        let mut plane = self.plane.take().ok_or_else(|| Error::new(lost))?;
        let is_up = self.is_up;
        let revive = async move {
            let revived = if is_up { Ok(()) } else { plane.revive().await };
            (plane, revived)
        };
        let (plane, revived) = station.run(revive).await.doing(lost)?;
        let context = plane.context.clone();
        self.plane = Some(plane);
        self.is_up = revived.is_ok();
        revived.doing("its processes do not start").map(|()| context)
    }

    /// Makes it seen on the host's loopback, where it is already without a fabric.
    async fn show(&mut self, inner: &Context, station: &Station) -> io::Result<(Context, Vec<Task>)> {
        let Some(fabric) = self.fabric else { return Ok((inner.clone(), Vec::new())) };
        let listener = std::net::TcpListener::bind(self.host)?;
        listener.set_nonblocking(true)?;
        self.host = listener.local_addr()?;
        let listener = station.run(async move { TcpListener::from_std(listener) }).await??;
        let relay = station.spawn(relay::run(listener, fabric));
        Ok((Context { server: format!("https://{}", self.host), ..inner.clone() }, vec![relay]))
    }
}

async fn start(
    order: Order,
    programs: &Programs,
) -> Result<(ControlPlane, Etcd, Folder), tombolo_upstream::Error> {
    let data = Folder::at(order.data.join("etcd"))?;
    let etcd = Etcd::start(&programs.etcd, data.path(), IpAddr::V4(Ipv4Addr::LOCALHOST)).await?;
    let settings = Settings {
        name: order.name,
        service_cidrs: vec![order.services],
        place: order.fabric.map_or(Place::Loopback, Place::At),
        etcd: etcd.url(),
        prefix: "/registry".to_owned(),
    };
    let folder = Folder::at(order.data.join("servers"))?;
    let plane = ControlPlane::start(programs, settings, folder).await?;
    Ok((plane, etcd, data))
}
