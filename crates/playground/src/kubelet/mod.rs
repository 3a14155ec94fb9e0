//! A small kubelet: registers its node, and makes the pods that are bound to it real.
//!
//! A pod is a network namespace at its own wire and a process per container. One task looks after each pod (`worker`) and
//! tells the API server what is true; nothing is written on disk, and whatever ends this task kills the processes.

mod attach;
mod board;
mod container;
mod endpoint;
mod excerpt;
mod exec;
mod hosts;
mod image;
mod input;
mod launch;
mod lives;
mod log;
mod names;
mod probe;
mod probing;
mod registration;
mod status;
mod worker;

pub(crate) use self::exec::IN_TERMINAL;
pub(crate) use self::hosts::Hosts;
pub(crate) use self::image::Program;
pub(crate) use self::launch::{Identity, Launch, Listening};
pub(crate) use self::names::Names;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tombolo_apiserver::{Authority, ContainerPlace};
use tombolo_runtime::{Cache, Change, follow};

use self::container::{Container, Door};
use self::launch::Place;
use self::lives::Lives;
use self::log::Log;
use crate::fabric::{join_pod, part_pod};
use crate::namespace::Namespace;
use crate::plan::NodePlan;
use crate::wiring::Wiring;

/// What a kubelet is told.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) cluster: String,
    pub(crate) plan: NodePlan,
    /// The node's network.
    pub(crate) wiring: Wiring,
    /// Where the cluster's API server is.
    pub(crate) api: SocketAddr,
    /// Where the cluster's pods ask for names; without it they see this computer's settings.
    pub(crate) dns: Option<SocketAddr>,
    /// Where files for pods are put, and tools for all of them.
    pub(crate) scratch: PathBuf,
    pub(crate) tools: PathBuf,
    /// Where the cluster's API server finds the node.
    pub(crate) hosts: Arc<Hosts>,
    /// Who signs the node's certificate, if the API server asks over the network.
    pub(crate) authority: Option<Arc<Authority>>,
}

/// A container, by the UID of its pod and its own name.
type ContainerKey = (String, String);

/// The node as its pods' tasks see it.
pub(crate) struct Host {
    client: Client,
    config: Config,
    plan: NodePlan,
    addresses: Mutex<BTreeMap<String, Ipv4Addr>>,
    /// The first container of each pod, by the pod's namespace and name.
    pods: Mutex<BTreeMap<(String, String), ContainerPlace>>,
    logs: Mutex<BTreeMap<ContainerKey, Lives>>,
    running: Mutex<BTreeMap<ContainerKey, Weak<Container>>>,
}

/// Runs the kubelet of a node, for ever. `registered` is called once the API server knows the node.
pub(crate) async fn run(client: Client, config: Config, registered: impl FnOnce()) {
    let plan = config.plan;
    let host = Arc::new(Host {
        client: client.clone(),
        config,
        plan,
        addresses: Mutex::default(),
        pods: Mutex::default(),
        logs: Mutex::default(),
        running: Mutex::default(),
    });
    host.config.hosts.put(plan.name(), &host);
    let selector = watcher::Config::default().fields(&format!("spec.nodeName={}", plan.name()));
    let (cache, (changed, changes)) = (Cache::<Pod>::new(), mpsc::unbounded_channel());
    cache.listen_to_changes(move |change| {
        let (pod, gone) = match change {
            Change::Put { new, .. } => (*new, false),
            Change::Gone(pod) => (*pod, true),
        };
        // The queue holds at most what the watch brought, and is read at once.
        let _ = changed.send((Arc::new(pod.clone()), gone));
    });
    let port = host.config.authority.is_some().then_some(endpoint::PORT);
    tokio::join!(
        follow(cache, Api::all(client.clone()), selector),
        registration::keep(&client, &plan, port, registered),
        tend(host.clone(), changes),
        endpoint::serve(&host.config),
    );
}

/// Gives each pod a task of its own, and that task the news.
async fn tend(host: Arc<Host>, mut changes: mpsc::UnboundedReceiver<(Arc<Pod>, bool)>) {
    let mut pods: BTreeMap<String, watch::Sender<Option<Arc<Pod>>>> = BTreeMap::new();
    let mut tasks: JoinSet<String> = JoinSet::new();
    loop {
        let (pod, gone) = tokio::select! {
            Some(change) = changes.recv() => change,
            Some(ended) = tasks.join_next() => {
                if let Ok(uid) = ended {
                    pods.remove(&uid);
                    host.forget(&uid);
                }
                continue;
            }
        };
        let uid = pod.uid().unwrap_or_default();
        if let Some(known) = pods.get(&uid) {
            known.send_replace((!gone).then_some(pod));
        } else if !gone && !is_over(&pod) {
            host.note(&pod);
            let (news, latest) = watch::channel(Some(pod));
            pods.insert(uid.clone(), news);
            let host = host.clone();
            tasks.spawn(async move {
                worker::run(host, latest).await;
                uid
            });
        }
    }
}

/// Whether a pod has done what it was for, in another life of this kubelet. One that is to be deleted still is ours.
fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed")) && pod.metadata.deletion_timestamp.is_none()
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Host {
    /// A network for a pod.
    async fn join(&self, pod: &Pod) -> io::Result<(Namespace, Place)> {
        let shares_host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
        let (network, address) = if shares_host {
            (self.config.wiring.namespace().clone(), self.plan.address())
        } else {
            let address = self.address(pod)?;
            (join_pod(&self.config.wiring, &self.plan, address).await?.namespace().clone(), address)
        };
        let place = Place {
            cluster: self.config.cluster.clone(),
            node: self.plan.name(),
            host: self.plan.address(),
            address,
            names: self.names(pod)?,
            tools: self.config.tools.clone(),
            api: Some((self.config.api.ip().to_string(), self.config.api.port())),
        };
        Ok((network, place))
    }

    /// The address that the pod had before, if it is free; otherwise the next one.
    fn address(&self, pod: &Pod) -> io::Result<Ipv4Addr> {
        let uid = pod.uid().unwrap_or_default();
        let mut addresses = lock(&self.addresses);
        if let Some(known) = addresses.get(&uid) {
            return Ok(*known);
        }
        let taken = addresses.values().copied().collect();
        let before = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()?.parse().ok());
        let before = before.filter(|before| {
            self.plan.pods().contains(before) && !addresses.values().any(|one| one == before)
        });
        let address = before.or_else(|| self.plan.free_address(&taken));
        let address = address.ok_or_else(|| io::Error::other("the node has no address left"))?;
        addresses.insert(uid, address);
        Ok(address)
    }

    /// How a pod finds names, unless it wants this computer's way.
    fn names(&self, pod: &Pod) -> io::Result<Option<Names>> {
        let policy = pod.spec.as_ref().and_then(|spec| spec.dns_policy.as_deref()).unwrap_or("ClusterFirst");
        let dns = self.config.dns.filter(|_| policy.starts_with("ClusterFirst"));
        let Config { scratch, cluster, .. } = &self.config;
        let namespace = pod.namespace().unwrap_or_default();
        dns.map(|dns| Names::provide(scratch, cluster, &namespace, dns)).transpose()
    }

    async fn part(&self, pod: &Pod) {
        let address = lock(&self.addresses).get(&pod.uid().unwrap_or_default()).copied();
        if let Some(address) = address
            && let Err(error) = part_pod(&self.config.wiring, address).await
        {
            tracing::debug!(pod = pod.name_any(), %error, "a wire could not be taken away");
        }
    }

    /// Asks all containers of a pod to end, and kills them after the grace.
    async fn end(&self, pod: &Pod, grace: Duration) {
        let all = self.containers(&pod.uid().unwrap_or_default());
        all.iter().for_each(|container| container.terminate());
        let ended = async {
            for container in &all {
                container.ended().await;
            }
        };
        tokio::pin!(ended);
        if tokio::time::timeout(grace, &mut ended).await.is_err() {
            all.iter().for_each(|container| container.kill());
            ended.await;
        }
    }

    fn containers(&self, uid: &str) -> Vec<Arc<Container>> {
        let running = lock(&self.running);
        let own = running.iter().filter(|((pod, _), _)| pod == uid);
        own.filter_map(|(_, container)| container.upgrade()).collect()
    }

    fn begin_life(&self, pod: &Pod, container: &str, log: Arc<Log>) {
        let key = (pod.uid().unwrap_or_default(), container.to_owned());
        lock(&self.logs).entry(key).or_default().begin(log);
    }

    fn end_life(&self, pod: &Pod, container: &str) {
        let key = (pod.uid().unwrap_or_default(), container.to_owned());
        lock(&self.logs).entry(key).or_default().end();
    }

    fn find_log(&self, key: &ContainerKey, previous: bool) -> Option<Arc<Log>> {
        lock(&self.logs).get(key).and_then(|lives| lives.log(previous))
    }

    fn door(&self, key: &ContainerKey) -> Option<Door> {
        self.container(key).map(|container| container.door())
    }

    fn container(&self, key: &ContainerKey) -> Option<Arc<Container>> {
        lock(&self.running).get(key).and_then(Weak::upgrade)
    }

    /// A pod is here, for those who ask for it by name.
    fn note(&self, pod: &Pod) {
        let first = pod.spec.as_ref().and_then(|spec| spec.containers.first());
        let place = ContainerPlace {
            node: self.plan.name(),
            pod: pod.uid().unwrap_or_default(),
            pod_name: pod.name_any(),
            container: first.map(|container| container.name.clone()).unwrap_or_default(),
        };
        lock(&self.pods).insert((pod.namespace().unwrap_or_default(), pod.name_any()), place);
    }

    fn find_pod(&self, namespace: &str, name: &str) -> Option<ContainerPlace> {
        lock(&self.pods).get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// A pod has gone: so goes what is known of it. Another may have its name already.
    fn forget(&self, uid: &str) {
        lock(&self.addresses).remove(uid);
        lock(&self.pods).retain(|_, place| place.pod != uid);
        lock(&self.logs).retain(|(pod, _), _| pod != uid);
    }
}

/// A container that others can find as long as this value lives.
struct Running<'a> {
    host: &'a Host,
    key: ContainerKey,
}

impl<'a> Running<'a> {
    fn show(host: &'a Host, pod: &Pod, name: &str, container: &Arc<Container>) -> Self {
        let key = (pod.uid().unwrap_or_default(), name.to_owned());
        lock(&host.running).insert(key.clone(), Arc::downgrade(container));
        Self { host, key }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        lock(&self.host.running).remove(&self.key);
    }
}
