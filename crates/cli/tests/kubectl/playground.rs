//! Clusters, embedded or real, and a kubectl that knows them.

use std::time::Duration;

use tokio::runtime::Runtime;
use tombolo_apiserver::Options;
use tombolo_apiserver::controllers::Settings;
use tombolo_testkit::{Cluster, Kubectl, Outcome, serve_all};

/// Running clusters; dropping it ends them.
pub(crate) struct Playground {
    pub(crate) kubectl: Kubectl,
    clusters: Vec<Cluster>,
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
        let make = if controlled { Cluster::new } else { Cluster::bare };
        let clusters: Vec<Cluster> = clusters.into_iter().map(make).collect();
        if controlled {
            let _inside = runtime.enter();
            clusters.iter().for_each(control);
        }
        kubectl.file("kubeconfig", &runtime.block_on(serve_all(&clusters)));
        Self { kubectl, clusters, runtime: Some(runtime) }
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

fn control(cluster: &Cluster) {
    let settings = Settings { phantom_nodes: 2, ..Settings::with_authority(cluster.authority_pem()) };
    cluster.start_controllers(settings);
}

impl Drop for Playground {
    fn drop(&mut self) {
        for cluster in self.clusters.iter().filter_map(Cluster::embedded) {
            cluster.close();
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}
