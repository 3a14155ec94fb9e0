//! The API server of one cluster with its controllers: on the fabric for the cluster's own parts, on the host's loopback for
//! the person at the keyboard.
//!
//! It is the embedded one or a real one; nobody else has to know which. What kube-controller-manager does is done by the
//! stand-ins where there is none. The scheduler's work and looking after nodes is always theirs.

mod embedded;
mod kube;
mod relay;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ::kube::config::{KubeConfigOptions, Kubeconfig};
use ::kube::{Client, Config};
use ipnet::IpNet;
use tombolo_apiserver::controllers::{self, Settings};
use tombolo_apiserver::{Authority, Context, Nodes, kubeconfig};

use self::embedded::Embedded;
use self::kube::Kube;
use crate::error::{Doing as _, Error};
use crate::lifecycle;
use crate::servers::Servers;
use crate::station::{Station, Task};

/// What an API server is told.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) name: String,
    pub(crate) services: IpNet,
    /// Where the cluster's own parts find it; nowhere without a fabric.
    pub(crate) fabric: Option<SocketAddr>,
    /// How many nodes are only pretended.
    pub(crate) phantom_nodes: usize,
    /// Where it may keep files, if it needs any.
    pub(crate) data: PathBuf,
}

/// A cluster's API server, up or down. Its data outlives it.
pub(crate) struct ControlPlane {
    pub(crate) name: String,
    pub(crate) station: Station,
    server: Server,
    phantom_nodes: usize,
    /// The nodes say that they live, and somebody has to listen.
    has_nodes: bool,
    /// How the person finds it, and how the cluster's own parts do.
    pub(crate) outer: Context,
    pub(crate) inner: Context,
    client: Client,
    running: Vec<Task>,
}

enum Server {
    Embedded(Embedded),
    Kube(Box<Kube>),
}

/// An API server that answers.
struct Open {
    outer: Context,
    inner: Context,
    /// The administrator's, for those at the station and for the playground itself.
    inner_client: Client,
    outer_client: Client,
    serving: Vec<Task>,
}

impl ControlPlane {
    /// Starts it. The caller must be where the host's loopback is.
    pub(crate) async fn start(order: Order, servers: &Servers, station: Station) -> Result<Self, Error> {
        let (name, phantom_nodes, has_nodes) =
            (order.name.clone(), order.phantom_nodes, order.fabric.is_some());
        let mut server = match servers {
            Servers::Embedded => Server::Embedded(Embedded::new(order)),
            Servers::Kube(programs) => Server::Kube(Box::new(Kube::start(order, programs, &station).await?)),
        };
        let open = server.open(&station).await?;
        let (outer, inner, client) = (open.outer.clone(), open.inner.clone(), open.outer_client.clone());
        let running = Vec::new();
        let mut plane =
            Self { name, station, server, phantom_nodes, has_nodes, outer, inner, client, running };
        plane.begin(open);
        Ok(plane)
    }

    /// A client for the playground itself, as the administrator.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self.server, Server::Embedded(_))
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.running.is_empty()
    }

    /// Says who runs the pods, to a server that asks within the process.
    pub(crate) fn attach(&self, nodes: Arc<dyn Nodes>) {
        if let Server::Embedded(embedded) = &self.server {
            embedded.attach(nodes);
        }
    }

    /// Who signs the certificates of nodes, for a server that asks them over the network.
    pub(crate) fn node_authority(&self) -> Option<Arc<Authority>> {
        match &self.server {
            Server::Embedded(_) => None,
            Server::Kube(kube) => kube.authority(),
        }
    }

    /// Cuts every connection, in the middle of whatever they carry. The data stays.
    pub(crate) async fn kill(&mut self) {
        if let Server::Kube(kube) = &mut self.server {
            kube.kill();
        }
        for task in self.running.drain(..) {
            task.kill().await;
        }
    }

    /// Starts it where it was before, with what it knew.
    pub(crate) async fn revive(&mut self) -> Result<(), Error> {
        if self.is_up() {
            return Ok(());
        }
        let open = self.server.open(&self.station).await?;
        self.begin(open);
        Ok(())
    }

    /// Lets those work who do what the server does not.
    fn begin(&mut self, open: Open) {
        self.running = open.serving;
        (self.outer, self.inner) = (open.outer, open.inner);
        if self.has_nodes {
            self.running.push(self.station.spawn(lifecycle::run(open.inner_client.clone())));
        }
        let settings = Settings {
            phantom_nodes: self.phantom_nodes,
            only_nodes: matches!(&self.server, Server::Kube(kube) if kube.has_controllers()),
            ..Settings::with_authority(self.inner.authority.clone())
        };
        let stand_ins = controllers::run(open.inner_client, settings, std::future::pending());
        self.running.push(self.station.spawn(stand_ins));
    }

    /// Ends it for good: every watch, or every process.
    pub(crate) async fn stop(&mut self) {
        match &mut self.server {
            Server::Embedded(embedded) => embedded.close(),
            Server::Kube(kube) => kube.end(),
        }
        self.kill().await;
    }
}

impl Server {
    async fn open(&mut self, station: &Station) -> Result<Open, Error> {
        match self {
            Self::Embedded(embedded) => embedded.open(station).await,
            Self::Kube(kube) => kube.open(station).await,
        }
    }
}

/// A client over the network, of the playground itself. Must be called at the station that uses it.
pub(crate) async fn connect(context: &Context) -> Result<Client, Error> {
    let config = tombolo_runtime::notice_silence(way_to(context).await?);
    Client::try_from(config).doing(no_way(context))
}

/// The same for a part, which decides by itself when to try again.
pub(crate) async fn connect_part(context: &Context) -> Result<Client, Error> {
    let config = tombolo_runtime::at_own_pace(way_to(context).await?);
    Client::try_from(config).doing(no_way(context))
}

async fn way_to(context: &Context) -> Result<Config, Error> {
    let text = kubeconfig(std::slice::from_ref(context));
    let read = Kubeconfig::from_yaml(&text).doing(no_way(context))?;
    Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.doing(no_way(context))
}

fn no_way(context: &Context) -> String {
    format!("there is no way to {}", context.name)
}
