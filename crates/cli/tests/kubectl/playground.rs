//! Clusters within the test's process, and a kubectl that knows them.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tombolo_apiserver::{Cluster, Context, Options, controllers, kubeconfig};
use tombolo_testkit::{Kubectl, Outcome};

/// Running clusters; dropping it ends them.
pub(crate) struct Playground {
    pub(crate) kubectl: Kubectl,
    stop: watch::Sender<bool>,
    runtime: Option<Runtime>,
}

impl Playground {
    /// One cluster with nothing but its API: nobody else writes, so tables and watches show exactly what the test did.
    pub(crate) fn bare() -> Self {
        Self::start([Options::named("member1")], false)
    }

    /// One cluster whose controllers run, with two nodes on which pods look as if they ran.
    pub(crate) fn new() -> Self {
        Self::start([Options::named("member1")], true)
    }

    /// One bare cluster with these settings.
    pub(crate) fn with(options: Options) -> Self {
        Self::start([options], false)
    }

    pub(crate) fn start(clusters: impl IntoIterator<Item = Options>, controlled: bool) -> Self {
        let kubectl = Kubectl::new();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (stop, stopping) = watch::channel(false);
        let contexts: Vec<Context> =
            clusters.into_iter().map(|options| launch(&runtime, options, controlled, &stopping)).collect();
        kubectl.file("kubeconfig", &kubeconfig(&contexts));
        Self { kubectl, stop, runtime: Some(runtime) }
    }

    /// Runs a kubectl command line to its end.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> Outcome {
        self.kubectl.run(line)
    }

    /// `kubectl apply` of a manifest.
    #[track_caller]
    pub(crate) fn apply(&self, manifest: &str) -> Outcome {
        self.kubectl.feed("apply -f -", manifest)
    }
}

fn launch(
    runtime: &Runtime,
    options: Options,
    controlled: bool,
    stopping: &watch::Receiver<bool>,
) -> Context {
    let cluster = Cluster::new(options);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let _inside = runtime.enter();
    let server = cluster.serve(listener).expect("HTTPS");
    let context = cluster.context(&server).expect("a context");
    if controlled {
        let authority = cluster.authority_pem().expect("an authority");
        let settings =
            controllers::Settings { phantom_nodes: 2, ..controllers::Settings::with_authority(authority) };
        runtime.spawn(controllers::run(cluster.client(), settings, stopped(stopping)));
    }
    runtime.spawn(server.run(stopped(stopping)));
    context
}

fn stopped(stopping: &watch::Receiver<bool>) -> impl Future<Output = ()> + use<> {
    let mut stopping = stopping.clone();
    async move {
        let _ = stopping.wait_for(|stop| *stop).await;
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}
