//! The whole server: bound, then run until it is told to stop.
//!
//! Workers are threads, everything else is a task; all of them end before [`Dns::run`] returns.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tombolo_runtime::{Boxed, Readiness, Waiting};

use crate::answer::{self, Answerer, Transport};
use crate::config::{Config, Error};
use crate::forward::Forwarder;
use crate::message::Rcode;
use crate::metrics::Metrics;
use crate::server::{self, Job, Limit, Listener, Network, Open, Sockets, Tcp, Worker};
use crate::view::View;
use crate::zone::{Realm, Zones};

/// Queries that may wait for the forwarder.
const WAITING: usize = 1024;

/// A server that is bound and ready to run.
pub struct Dns {
    config: Config,
    client: Client,
    sockets: Sockets,
    network: Network,
    answerer: Answerer,
    metrics: Metrics,
    waiting: Vec<(Realm, Waiting)>,
}

impl Dns {
    /// A server for the cluster behind `client`. Opens its sockets.
    pub fn bind(config: Config, client: Client) -> Result<Self, Error> {
        let network = open_network(&config)?;
        let sockets = Sockets::open(&network, &config.listen, config.workers)
            .map_err(|cause| Error::Listen(config.listen.clone(), cause))?;
        Self::with_sockets(config, client, sockets)
    }

    /// A server on sockets that are open already. Upstreams are asked from the configured network namespace all the same.
    pub fn with_sockets(config: Config, client: Client, sockets: Sockets) -> Result<Self, Error> {
        let network = open_network(&config)?;
        let listening = sockets.addresses().map_err(|cause| Error::Listen(config.listen.clone(), cause))?;
        config.check_upstreams(&listening)?;
        let settings = Arc::new(config.settings(&listening)?);
        let answerer = Answerer { zones: Zones::new(), settings };
        let (metrics, waiting) = (Metrics::default(), Vec::new());
        Ok(Self { config, client, sockets, network, answerer, metrics, waiting })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.addresses().unwrap_or_default()
    }

    /// What it answers from; for whoever wants to answer from the same.
    pub fn answerer(&self) -> Answerer {
        self.answerer.clone()
    }

    /// Counts in `metrics`.
    pub fn with_metrics(self, metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), ..self }
    }

    /// Keeps `readiness` waiting until everything has been listed once.
    pub fn with_readiness(self, readiness: &Readiness) -> Self {
        let realms = Realm::ALL.into_iter().filter(|realm| self.answerer.settings.home(*realm).is_some());
        let gate = |realm: Realm| (realm, readiness.wait_for(format!("names of realm {}", realm.as_str())));
        Self { waiting: realms.map(gate).collect(), ..self }
    }

    /// Answers until `stop` resolves, and a while longer if so configured. Returns early only when a part of it breaks.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), Error> {
        self.answer_until(Box::pin(stop)).await
    }

    fn answer_until(self, stop: Boxed<'_>) -> Boxed<'_, Result<(), Error>> {
        Box::pin(async move {
            let Self { config, client, sockets, network, answerer, metrics, waiting } = self;
            metrics.begin(&answerer.zones, &answerer.settings);
            let mut tasks = JoinSet::new();
            let view = View::new(&answerer.settings);
            view.follow(&client, &mut tasks);
            tasks.spawn(open_gates(answerer.zones.clone(), waiting));
            tasks.spawn(view.publish(answerer.zones.clone(), metrics.clone(), config.clock.clone()));
            let (jobs, queue) = mpsc::channel(WAITING);
            let forwarder = (!config.forward.is_empty())
                .then(|| Arc::new(Forwarder::new(&config.forward, &network, metrics.clone())));
            if let Some(forwarder) = forwarder.clone() {
                tasks.spawn(forward_jobs(forwarder.clone(), queue));
                tasks.spawn(async move { forwarder.look_after().await });
            }
            let limit = Limit::new(config.rate_limit).map(Arc::new);
            let parts = Parts { answerer, metrics, limit, forwarder };
            parts.listen(&config, sockets.tcp, &mut tasks)?;
            let threads = parts.start_workers(sockets.udp, &jobs)?;
            tokio::select! {
                () = stop => tokio::time::sleep(config.drain).await,
                Some(ended) = tasks.join_next() => tracing::error!(?ended, "a part of the server ended by itself"),
            }
            threads.join().await;
            tasks.shutdown().await;
            Ok(())
        })
    }
}

/// What all sockets need.
struct Parts {
    answerer: Answerer,
    metrics: Metrics,
    limit: Option<Arc<Limit>>,
    forwarder: Option<Arc<Forwarder>>,
}

impl Parts {
    fn listen(
        &self,
        config: &Config,
        sockets: Vec<std::net::TcpListener>,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), Error> {
        let open = Open::new(Tcp {
            connections: config.connections.max(1),
            per_address: config.connections_per_address.max(1),
            idle: config.idle,
        });
        for socket in sockets {
            let listener = Listener {
                answerer: self.answerer.clone(),
                limit: self.limit.clone(),
                forwarder: self.forwarder.clone(),
                tally: self.metrics.tally(Transport::Tcp, &self.answerer.settings),
                metrics: self.metrics.clone(),
                open: open.clone(),
            };
            tasks.spawn(listener.run(TcpListener::from_std(socket).map_err(Error::Worker)?));
        }
        Ok(())
    }

    fn start_workers(
        &self,
        sockets: Vec<std::net::UdpSocket>,
        jobs: &mpsc::Sender<Job>,
    ) -> Result<Threads, Error> {
        let mut threads = Threads::default();
        for socket in sockets {
            let worker = Worker {
                socket: Arc::new(socket),
                answerer: self.answerer.clone(),
                limit: self.limit.clone(),
                forward: jobs.clone(),
                tally: self.metrics.tally(Transport::Udp, &self.answerer.settings),
                metrics: self.metrics.clone(),
                stop: threads.stop.clone(),
                seed: fastrand::u64(..),
            };
            threads.handles.push(server::start(worker).map_err(Error::Worker)?);
        }
        Ok(threads)
    }
}

/// The threads of the workers. Dropped, they are told to stop.
#[derive(Default)]
struct Threads {
    stop: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    async fn join(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let handles = std::mem::take(&mut self.handles);
        let joined =
            tokio::task::spawn_blocking(|| handles.into_iter().for_each(|handle| drop(handle.join())));
        let _ = joined.await;
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn open_network(config: &Config) -> Result<Network, Error> {
    let at = |path: &PathBuf| Network::at(path).map_err(|cause| Error::Network(path.clone(), cause));
    config.network.as_ref().map_or_else(|| Ok(Network::own()), at)
}

/// Opens each gate when the names of its realm are complete; then there is nothing left to do, for ever.
async fn open_gates(zones: Arc<Zones>, mut waiting: Vec<(Realm, Waiting)>) {
    while !waiting.is_empty() {
        waiting.retain(|(realm, _)| !zones.is_complete(*realm));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    std::future::pending().await
}

/// Passes queries on, each in a task of its own. There are never more than the forwarder lets in and the queue holds.
async fn forward_jobs(forwarder: Arc<Forwarder>, mut queue: mpsc::Receiver<Job>) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = tasks.join_next() => {}
            job = queue.recv(), if tasks.len() < WAITING => match job {
                Some(job) => { tasks.spawn(pass_on(forwarder.clone(), job)); }
                None => std::future::pending().await,
            },
        }
    }
}

async fn pass_on(forwarder: Arc<Forwarder>, job: Job) {
    let reply = forwarder.ask(&job.message, job.begun.as_deref(), Transport::Udp).await;
    if let Some(reply) = reply {
        return job.reply(&reply);
    }
    let mut buffer = [0; 512];
    if let Some(facts) = answer::fail(&job.message, Rcode::ServFail, &mut buffer) {
        job.reply(&buffer[..facts.size]);
    }
}
