//! A whole cluster's API as one value.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use http::{Request, Response};
use ipnet::IpNet;
use tokio::net::TcpListener;
use tombolo_runtime::Clock;
use tower::service_fn;

use crate::auth::{Auth, User};
use crate::bootstrap;
use crate::core::{Backup, Core, CoreSettings};
use crate::entropy::Entropy;
use crate::http as wire;
use crate::identity;
use crate::nodes::Nodes;
use crate::rules::service::{Features, Network};
use crate::serve::{Authority, Context, Server};
use crate::store::{DataError, Folder};

/// The ports that NodePort Services draw from.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// Settings of a cluster; the default is what a laptop wants.
#[derive(Clone, Debug)]
pub struct Options {
    /// Shows in the kubeconfig and in the authority's name.
    pub name: String,
    /// One range, or one per family; the first is the default family.
    pub service_cidrs: Vec<IpNet>,
    pub features: Features,
    /// Evaluate roles and bindings; off, whoever is known may do everything.
    pub rbac: bool,
    pub clock: Clock,
    pub entropy: Entropy,
}

impl Options {
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            service_cidrs: vec!["10.96.0.0/16".parse().expect("a network")],
            features: Features::default(),
            rbac: false,
            clock: Clock::wall(),
            entropy: Entropy::fresh(),
        }
    }

    fn with(self, auth: Auth) -> CoreSettings {
        let Self { clock, entropy, features, service_cidrs, .. } = self;
        let network = Network { service_cidrs, node_ports: NODE_PORTS };
        CoreSettings { clock, entropy, features, network, auth }
    }
}

/// An embedded cluster. Cheap to clone; the last clone to go takes everything with it.
#[derive(Clone, Debug)]
pub struct Cluster {
    core: Arc<Core>,
    name: Arc<str>,
    authority: Arc<OnceLock<Authority>>,
}

impl Cluster {
    /// A fresh cluster with the namespaces and roles every cluster has.
    pub fn new(options: Options) -> Self {
        let name = options.name.clone();
        let auth = Auth::new(options.rbac);
        Self::around(Core::new(options.with(auth)), name, OnceLock::new())
    }

    /// The cluster that is kept in `folder`, or a fresh one that will be: what it has answered is on disk by then, and
    /// there again after its process ended, in whatever way.
    pub fn open(options: Options, folder: &Path) -> Result<Self, DataError> {
        let name = options.name.clone();
        let folder = Folder::open(folder)?;
        let (auth, authority) = identity::open(&folder, &name, options.rbac)?;
        Ok(Self::around(Core::open(folder, options.with(auth))?, name, OnceLock::from(authority)))
    }

    fn around(core: Core, name: String, authority: OnceLock<Authority>) -> Self {
        bootstrap::fill(&core);
        Self { core: Arc::new(core), name: name.into(), authority: Arc::new(authority) }
    }

    /// Resolves when a cluster on disk can no longer be kept there, and says why; from then on it refuses everything.
    pub async fn broken(&self) -> String {
        self.core.store.broken().await
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says who runs the pods of this cluster. Only the first to say so is believed.
    pub fn attach(&self, nodes: Arc<dyn Nodes>) {
        let _ = self.core.nodes.set(nodes);
    }

    /// A client that talks to this cluster within the process, as its administrator.
    pub fn client(&self) -> kube::Client {
        self.client_as(User::admin())
    }

    /// A client within the process that acts as `user`.
    pub fn client_as(&self, user: User) -> kube::Client {
        kube::Client::new(self.service(user), "default")
    }

    /// The API as a tower service, for clients that want layers around it.
    pub fn service(
        &self,
        user: User,
    ) -> impl tower::Service<
        Request<kube::client::Body>,
        Response = Response<wire::Body>,
        Error = std::convert::Infallible,
        Future: Send,
    > + Clone
    + Send
    + 'static {
        let core = self.core.clone();
        service_fn(move |mut request: Request<kube::client::Body>| {
            let core = core.clone();
            request.extensions_mut().insert(user.clone());
            async move { Ok(wire::handle(&core, request).await) }
        })
    }

    /// HTTPS on `listener`, with a certificate of the cluster's own authority.
    pub fn serve(&self, listener: TcpListener) -> io::Result<Server> {
        let address = listener.local_addr()?;
        bootstrap::publish_address(&self.core, address.ip(), address.port());
        Server::new(self.core.clone(), listener, self.authority()?)
    }

    /// How to reach a server of this cluster as its administrator.
    pub fn context(&self, server: &Server) -> io::Result<Context> {
        Ok(Context {
            name: self.name.to_string(),
            server: format!("https://{}", server.address()),
            authority: self.authority()?.pem().to_owned(),
            token: self.core.auth.admin_token().to_owned(),
        })
    }

    /// The certificate that clients of this cluster trust, PEM.
    pub fn authority_pem(&self) -> io::Result<String> {
        Ok(self.authority()?.pem().to_owned())
    }

    /// What the cluster holds now.
    pub fn backup(&self) -> Backup {
        self.core.backup()
    }

    /// Makes the cluster hold what a backup of it, or of one with the same networks, holds. Revisions go back with it, as they do when
    /// etcd is restored from a snapshot, and every watch ends. A client that resumes one from a revision that has not been
    /// reached again is told nothing until it has, as by Kubernetes: it has to list.
    pub fn restore(&self, backup: &Backup) {
        self.core.restore(backup);
    }

    /// Ends every watch. A stopped cluster still answers; it is the last thing to do before dropping it.
    pub fn close(&self) {
        self.core.closing.send_replace(true);
    }

    fn authority(&self) -> io::Result<&Authority> {
        if let Some(made) = self.authority.get() {
            return Ok(made);
        }
        let made = Authority::new(&self.name).map_err(io::Error::other)?;
        Ok(self.authority.get_or_init(|| made))
    }
}
