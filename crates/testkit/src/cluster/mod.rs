//! Where end-to-end tests get their clusters from: the embedded API server, or real ones.
//!
//! `TOMBOLO_TEST_APISERVER` decides for a whole run: `embedded` (the default), or `kube` for kube-apiserver with etcd and
//! kube-controller-manager from the search path. A test sees a [`Cluster`] and does not know which it is. A real one is
//! lent: when nobody has it or a client of it any more, it is emptied and lent to the next. Real servers have no paused
//! time, so time that is paused goes on as soon as a test has one.

mod keeper;
mod server;
mod stock;
mod wipe;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tombolo_apiserver::controllers::{self, Settings};
use tombolo_apiserver::{Clock, Context, Options, User, kubeconfig};
use tower::util::BoxCloneSyncService;
use tower::{ServiceExt as _, service_fn};

pub(crate) use self::keeper::KEEPER_SOCKET;
pub use self::keeper::keep_clusters;
use self::keeper::{Lent, Needs};
pub(crate) use self::server::how_soon;
pub use self::server::{
    Server, left_out, linger, linger_at_least, name_of, not_run, patience, relaxed, timely,
};

/// What a request to any cluster goes through.
pub(crate) type Channel =
    BoxCloneSyncService<Request<kube::client::Body>, Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A cluster for one test, embedded or real. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Cluster {
    name: Arc<str>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Embedded(tombolo_apiserver::Cluster),
    Real(Arc<Lent>),
}

impl Cluster {
    /// A cluster with nothing but what every cluster has. What `options` say of clock, randomness and features is for the
    /// embedded server only, and a real one always enforces RBAC; administrators notice neither.
    ///
    /// Behind a real one kube-controller-manager is at work. Panics when there is none to be had: a test that cannot run
    /// has failed.
    pub fn new(options: Options) -> Self {
        Self::lend(options, true, true)
    }

    /// The same with nothing but its API, also if it is real: nobody writes but the test.
    pub fn bare(options: Options) -> Self {
        Self::lend(options, false, true)
    }

    /// The same without our definitions, which other real ones have from the beginning.
    pub fn pristine(options: Options) -> Self {
        Self::lend(options, true, false)
    }

    fn lend(options: Options, controllers: bool, definitions: bool) -> Self {
        let name = options.name.as_str().into();
        let kind = match Server::chosen() {
            Server::Embedded => Kind::Embedded(tombolo_apiserver::Cluster::new(options)),
            Server::Kube => {
                server::let_time_pass();
                let needs = Needs { networks: options.service_cidrs, controllers, definitions };
                Kind::Real(Arc::new(keeper::lend(&needs)))
            }
        };
        Self { name, kind }
    }

    /// The same, with our definitions.
    pub async fn with_definitions(options: Options) -> Self {
        let cluster = Self::new(options);
        cluster.define(&tombolo_api::crd::crds()).await;
        cluster
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The embedded one, for what only it can do; nothing if it is real.
    pub fn embedded(&self) -> Option<&tombolo_apiserver::Cluster> {
        match &self.kind {
            Kind::Embedded(cluster) => Some(cluster),
            Kind::Real(_) => None,
        }
    }

    /// A client that acts as the administrator.
    pub fn client(&self) -> Client {
        match &self.kind {
            Kind::Embedded(cluster) => cluster.client(),
            Kind::Real(lent) => lent.held_by(lent.context.client().expect("a client of a real server")),
        }
    }

    /// A client that acts as `user`.
    pub fn client_as(&self, user: User) -> Client {
        match &self.kind {
            Kind::Embedded(cluster) => cluster.client_as(user),
            Kind::Real(lent) => {
                lent.held_by(lent.context.client_as(&user).expect("a client of a real server"))
            }
        }
    }

    /// The administrator's client for threads in other network namespaces: it connects from where this is called.
    pub fn client_from_here(&self) -> Client {
        let (here, channel) = (Handle::current(), self.channel(User::admin()));
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let answer = here.spawn(channel.clone().oneshot(request));
            async move { answer.await? }
        });
        Client::new(service, "default")
    }

    /// The API as a service, for layers around it.
    pub(crate) fn channel(&self, user: User) -> Channel {
        match &self.kind {
            Kind::Embedded(cluster) => {
                let service = cluster.service(user).map_response(boxed).map_err(BoxError::from);
                BoxCloneSyncService::new(service)
            }
            Kind::Real(_) => {
                let client = self.client_as(user);
                BoxCloneSyncService::new(service_fn(move |request| {
                    let client = client.clone();
                    async move { client.send(request).await.map(boxed).map_err(BoxError::from) }
                }))
            }
        }
    }

    /// How to reach it over TLS as its administrator. The embedded one begins to listen for it.
    pub async fn serve(&self) -> Context {
        match &self.kind {
            Kind::Embedded(cluster) => {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let server = cluster.serve(listener).expect("HTTPS");
                let context = cluster.context(&server).expect("a context");
                tokio::spawn(server.run(std::future::pending()));
                context
            }
            Kind::Real(lent) => Context { name: self.name.to_string(), ..lent.context.clone() },
        }
    }

    /// The certificate that its clients trust, PEM.
    pub fn authority_pem(&self) -> String {
        match &self.kind {
            Kind::Embedded(cluster) => cluster.authority_pem().expect("an authority"),
            Kind::Real(lent) => lent.context.authority.clone(),
        }
    }

    /// Where a part that works for this cluster has its time from.
    pub fn clock(&self, epoch: &str) -> Clock {
        match &self.kind {
            Kind::Embedded(_) => Clock::starting_at(epoch.parse().expect("a time")),
            Kind::Real(_) => server::time_of_day(),
        }
    }

    /// Makes sure that somebody does the work of kube-controller-manager, which a real cluster has, and of the nodes that
    /// are asked for. Ends with the task.
    pub fn start_controllers(&self, settings: Settings) -> JoinHandle<()> {
        if let Kind::Real(lent) = &self.kind {
            lent.control(true);
        }
        let only_nodes = self.embedded().is_none();
        if only_nodes && settings.phantom_nodes == 0 {
            return tokio::spawn(std::future::pending());
        }
        let settings = Settings { only_nodes, ..settings };
        tokio::spawn(controllers::run(self.client(), settings, std::future::pending()))
    }

    /// Kills what [`start_controllers`](Self::start_controllers) started, the real kube-controller-manager, too.
    pub async fn kill_controllers(&self, started: JoinHandle<()>) {
        started.abort();
        let _ = started.await;
        if let Kind::Real(lent) = &self.kind {
            lent.control(false);
        }
    }

    /// Creates the definitions that are not there yet, as they are on most real clusters, and waits until all are served.
    pub async fn define(&self, definitions: &[CustomResourceDefinition]) {
        define(&self.client(), definitions).await;
    }
}

impl From<&Self> for Cluster {
    fn from(cluster: &Self) -> Self {
        cluster.clone()
    }
}

/// For tests that are about the embedded server, or need what only it can do.
impl From<&tombolo_apiserver::Cluster> for Cluster {
    fn from(cluster: &tombolo_apiserver::Cluster) -> Self {
        Self { name: cluster.name().into(), kind: Kind::Embedded(cluster.clone()) }
    }
}

async fn define(client: &Client, definitions: &[CustomResourceDefinition]) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    // To be told that one is there costs a real server as much as to check it: it does that first.
    let there = api.list_metadata(&ListParams::default()).await.expect("the definitions");
    let there: BTreeSet<String> = there.iter().map(|definition| definition.name_any()).collect();
    let is_missing = |definition: &&CustomResourceDefinition| !there.contains(&definition.name_any());
    for definition in definitions.iter().filter(is_missing) {
        let created = api.create(&PostParams::default(), definition).await;
        created.unwrap_or_else(|error| panic!("{} cannot be defined: {error}", definition.name_any()));
    }
    for definition in definitions.iter().filter(is_missing) {
        while !is_established(&api, &definition.name_any()).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    for definition in definitions {
        while !is_served(client, definition).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn is_established(api: &Api<CustomResourceDefinition>, name: &str) -> bool {
    let status = api.get(name).await.expect("a definition").status.unwrap_or_default();
    let mut conditions = status.conditions.unwrap_or_default().into_iter();
    conditions.any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// Real servers answer for a kind a moment after they have said that they do.
async fn is_served(client: &Client, definition: &CustomResourceDefinition) -> bool {
    let spec = &definition.spec;
    for version in spec.versions.iter().filter(|version| version.served) {
        let path = format!("/apis/{}/{}/{}?limit=1", spec.group, version.name, spec.names.plural);
        let request = Request::get(path).body(Vec::new()).expect("a request");
        if client.request_text(request).await.is_err() {
            return false;
        }
    }
    true
}

fn boxed<B>(response: Response<B>) -> Response<UnsyncBoxBody<Bytes, BoxError>>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}

/// A kubeconfig with a context per cluster, served over TLS.
pub async fn serve_all(clusters: &[Cluster]) -> String {
    let mut contexts = Vec::new();
    for cluster in clusters {
        contexts.push(cluster.serve().await);
    }
    kubeconfig(&contexts)
}
