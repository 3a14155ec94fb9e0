//! The API server of one cluster with its controllers: on the fabric for the cluster's own parts, on the host's loopback for
//! the person at the keyboard.

use std::net::{Ipv4Addr, SocketAddr};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::net::TcpListener;
use tombolo_apiserver::controllers::{self, Settings};
use tombolo_apiserver::{Cluster, Context, Options, kubeconfig};

use crate::error::{Doing as _, Error};
use crate::lifecycle;
use crate::station::{Station, Task};

/// A cluster's API server, up or down. Its data outlives it.
pub(crate) struct ControlPlane {
    pub(crate) cluster: Cluster,
    pub(crate) station: Station,
    settings: Settings,
    /// Where the cluster's own parts find it; nowhere without a fabric.
    fabric: Option<SocketAddr>,
    host: SocketAddr,
    /// How the person finds it, and how the cluster's own parts do.
    pub(crate) outer: Context,
    pub(crate) inner: Context,
    running: Vec<Task>,
}

impl ControlPlane {
    /// Starts it. The caller must be where the host's loopback is.
    pub(crate) async fn start(
        options: Options,
        station: Station,
        fabric: Option<SocketAddr>,
        phantom_nodes: usize,
    ) -> Result<Self, Error> {
        let cluster = Cluster::new(options);
        let authority = cluster.authority_pem().doing("cannot make certificates")?;
        let settings = Settings { phantom_nodes, ..Settings::with_authority(authority.clone()) };
        let nowhere = Context {
            name: cluster.name().to_owned(),
            server: String::new(),
            authority,
            token: String::new(),
        };
        let host = (Ipv4Addr::LOCALHOST, 0).into();
        let mut plane = Self {
            cluster,
            station,
            settings,
            fabric,
            host,
            outer: nowhere.clone(),
            inner: nowhere,
            running: Vec::new(),
        };
        plane.revive().await?;
        Ok(plane)
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.running.is_empty()
    }

    /// Cuts every connection, in the middle of whatever they carry. The data stays.
    pub(crate) async fn kill(&mut self) {
        for task in self.running.drain(..) {
            task.kill().await;
        }
    }

    /// Starts it where it was before, with what it knew.
    pub(crate) async fn revive(&mut self) -> Result<(), Error> {
        if self.is_up() {
            return Ok(());
        }
        let name = self.cluster.name().to_owned();
        let cannot = format!("{name}: the API server cannot be started");
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
        let (outer, inner) = self.station.run(bind).await.doing(&cannot)?.doing(&cannot)?;
        self.host = outer.address();
        self.outer = self.cluster.context(&outer).doing(&cannot)?;
        self.inner = self.outer.clone();
        self.running.push(self.station.spawn(outer.run(std::future::pending())));
        if let Some(inner) = inner {
            self.inner = self.cluster.context(&inner).doing(&cannot)?;
            self.running.push(self.station.spawn(inner.run(std::future::pending())));
        }
        let (client, settings) = (self.cluster.client(), self.settings.clone());
        if self.fabric.is_some() {
            self.running.push(self.station.spawn(lifecycle::run(client.clone())));
        }
        self.running.push(self.station.spawn(controllers::run(client, settings, std::future::pending())));
        Ok(())
    }

    /// Ends every watch, for an end in order.
    pub(crate) async fn stop(&mut self) {
        self.cluster.close();
        self.kill().await;
    }
}

/// A client over the network. Must be called at the station that uses it.
pub(crate) async fn connect(context: &Context) -> Result<Client, Error> {
    let cannot = format!("there is no way to {}", context.name);
    let text = kubeconfig(std::slice::from_ref(context));
    let read = Kubeconfig::from_yaml(&text).doing(&cannot)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(read, &options).await.doing(&cannot)?;
    Client::try_from(config).doing(&cannot)
}
