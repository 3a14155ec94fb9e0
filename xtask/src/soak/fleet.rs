//! A hub and members on real servers, installed and joined as people do it, with two agents for each member; and what users
//! and observers do there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tombolo_api::mcs::{SERVICE_NAME_LABEL, SOURCE_CLUSTER_LABEL, ServiceExport, ServiceImport};
use tombolo_api::tombolo::ServiceOffer;

use super::deck::SPARED;
use super::station::{AGENT, SYSTEM, Skew, Station};
use super::wanted::{Part, Step, View, name, second_byte};
use crate::servers::{Failure, Real};

pub(super) const NAMESPACE: &str = "demo";
/// The context of the hub; the members follow.
const HUB: &str = "member1";
/// Agents of each member.
const REPLICAS: usize = 2;
/// Clocks that are right, fast and slow, in turn: also the two agents of a member disagree about the time.
const SKEWS: [Skew; 3] = ["+0", "+10m", "-10m"];

fn skew(member: usize, replica: usize) -> Skew {
    SKEWS[(member + replica) % SKEWS.len()]
}

/// The programs of an upgrade that is half done; usually the same one twice.
pub(super) struct Versions {
    /// Installed and joined the clusters.
    pub(super) previous: PathBuf,
    /// Was installed over it.
    pub(super) current: PathBuf,
}

impl Versions {
    /// What an agent runs: of every member, one has been replaced already.
    fn of(&self, replica: usize) -> &Path {
        if replica == 0 { &self.previous } else { &self.current }
    }
}

pub(super) struct Fleet {
    pub(super) servers: Real,
    pub(super) hub: Client,
    pub(super) members: Vec<Client>,
    stations: Vec<Station>,
    agents: Vec<Vec<Child>>,
    versions: Versions,
    _keeping: JoinSet<()>,
}

/// The id of a member, which is also its context.
pub(super) fn id(member: usize) -> String {
    format!("member{}", member + 2)
}

impl Fleet {
    pub(super) async fn start(versions: Versions, members: usize, logs: &Path) -> Result<Self, Failure> {
        // The member that is spared does not lose its store with the others: its agents would rightly end.
        let servers = Real::start_apart(members + 1, Some(SPARED + 1)).await?;
        install(&versions.previous, &servers, members).await?;
        let tombolo = Tombolo { binary: &versions.previous, kubeconfig: servers.kubeconfig() };
        for member in 0..members {
            let id = id(member);
            let join = format!("join --name {id} --context {id} --hub-context {HUB} --token-lifetime 10m");
            tombolo.run(&format!("{join} --pod-cidr 10.{}.0.0/16", second_byte(member))).await?;
        }
        if versions.current != versions.previous {
            install(&versions.current, &servers, members).await?;
        }
        let (mut clients, mut stations, mut keeping) = (Vec::new(), Vec::new(), JoinSet::new());
        for (member, plane) in servers.planes[1..].iter().enumerate() {
            let id = id(member);
            let client = plane.context.client()?;
            namespace(&client, NAMESPACE).await?;
            let station =
                Station::new(&plane.context, servers.folder().join(&id), logs.join(format!("{id}.log")))
                    .await?;
            keeping.spawn(station.clone().keep());
            clients.push(client);
            stations.push(station);
        }
        let launch = |(member, station): (usize, &Station)| {
            let one = |replica| station.launch(versions.of(replica), skew(member, replica));
            (0..REPLICAS).map(one).collect()
        };
        let agents = stations.iter().enumerate().map(launch).collect::<Result<Vec<_>, _>>()?;
        let hub = servers.planes[0].context.client()?;
        Ok(Self { servers, hub, members: clients, stations, agents, versions, _keeping: keeping })
    }

    /// Kills an agent with SIGKILL and starts another in its place.
    pub(super) async fn replace_agent(&mut self, member: usize, replica: usize) -> Result<(), Failure> {
        self.agents[member][replica].kill().await?;
        self.launch(member, replica)
    }

    fn launch(&mut self, member: usize, replica: usize) -> Result<(), Failure> {
        let station = &self.stations[member];
        self.agents[member][replica] = station.launch(self.versions.of(replica), skew(member, replica))?;
        Ok(())
    }

    /// Starts agents anew that have ended, as a kubelet would: one that cannot keep its leadership ends. Those of the member
    /// that is spared have no reason to.
    pub(super) fn restart_ended(&mut self) -> Result<(), Failure> {
        for member in 0..self.agents.len() {
            for replica in 0..REPLICAS {
                let Some(status) = self.agents[member][replica].try_wait()? else { continue };
                if member == SPARED {
                    let id = id(member);
                    return Err(format!(
                        "an agent of {id} ended ({status}), to which nobody did anything; see {id}.log"
                    )
                    .into());
                }
                self.launch(member, replica)?;
            }
        }
        Ok(())
    }

    /// Which agent of a member leads, and what it calls itself: the number of its process is part of that.
    pub(super) async fn leader(&self, member: usize) -> Result<Option<(usize, String)>, Failure> {
        let leases: Api<Lease> = Api::namespaced(self.members[member].clone(), SYSTEM);
        let spec = leases.get_opt(AGENT).await?.and_then(|lease| lease.spec);
        let Some(identity) = spec.and_then(|spec| spec.holder_identity) else { return Ok(None) };
        let is_it = |agent: &Child| agent.id().is_some_and(|id| identity.contains(&format!("_{id}_")));
        Ok(self.agents[member].iter().position(is_it).map(|replica| (replica, identity)))
    }

    /// Stops agents of a member where they are, or lets them go on.
    pub(super) fn signal(&self, member: usize, replicas: &[usize], signal: Signal) -> Result<(), Failure> {
        for replica in replicas {
            let pid = self.agents[member][*replica].id().and_then(|id| i32::try_from(id).ok());
            // One that has just ended needs no signal.
            pid.and_then(Pid::from_raw).map_or(Ok(()), |pid| kill_process(pid, signal))?;
        }
        Ok(())
    }

    /// The resident memory of the larger agent of the member that is spared, in megabytes.
    pub(super) fn memory(&self) -> Result<f64, Failure> {
        let mut most = 0.0_f64;
        for agent in &self.agents[SPARED] {
            most = most.max(crate::bench::resident_memory(agent).map_err(|failure| failure.to_string())?);
        }
        Ok(most)
    }

    /// Does what a user does. Doing it twice does no harm.
    pub(super) async fn apply(&self, step: &Step) -> Result<(), kube::Error> {
        match step {
            Step::Serve(part, address) => self.serve(*part, address).await,
            Step::Export(part) => self.export(*part).await,
            Step::Withdraw(part) => {
                let api: Api<ServiceExport> = self.api(*part);
                match api.delete(&name(part.service), &DeleteParams::default()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                    other => other.map(|_| ()),
                }
            }
        }
    }

    /// One that is being taken back has to be gone first.
    async fn export(&self, part: Part) -> Result<(), kube::Error> {
        let (api, name) = (self.api::<ServiceExport>(part), name(part.service));
        match api.get_opt(&name).await? {
            Some(there) if there.metadata.deletion_timestamp.is_none() => return Ok(()),
            Some(_) => return Err(kube::Error::Service("it is still there".into())),
            None => {}
        }
        let export: ServiceExport = object(json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": {"name": name},
        }));
        api.create(&PostParams::default(), &export).await.map(|_| ())
    }

    async fn serve(&self, part: Part, address: &str) -> Result<(), kube::Error> {
        let (name, params) = (name(part.service), PatchParams::apply("soak").force());
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
        });
        self.api::<Service>(part).patch(&name, &params, &Patch::Apply(service)).await?;
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        });
        self.api::<EndpointSlice>(part).patch(&name, &params, &Patch::Apply(slice)).await.map(|_| ())
    }

    fn api<K>(&self, part: Part) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.members[part.member].clone(), NAMESPACE)
    }

    /// What a member holds of others and of itself.
    pub(super) async fn view(&self, member: usize) -> Result<View, kube::Error> {
        let client = &self.members[member];
        let mut view = View::new();
        let imports: Api<ServiceImport> = Api::namespaced(client.clone(), NAMESPACE);
        for import in imports.list(&ListParams::default()).await? {
            view.insert(import.name_any(), BTreeSet::new());
        }
        let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), NAMESPACE);
        for slice in slices.list(&ListParams::default().labels(SOURCE_CLUSTER_LABEL)).await? {
            let service = slice.labels().get(SERVICE_NAME_LABEL).cloned().unwrap_or_default();
            let addresses = slice.endpoints.into_iter().flatten().flat_map(|endpoint| endpoint.addresses);
            view.entry(service).or_default().extend(addresses);
        }
        Ok(view)
    }

    /// The versions of all that a member's agents write, at home and at the hub, but for signs of life.
    pub(super) async fn written(&self, member: usize) -> Result<BTreeMap<String, String>, kube::Error> {
        let (all, home, hub) = (ListParams::default(), &self.members[member], &self.hub);
        let derived = ListParams::default().labels(SOURCE_CLUSTER_LABEL);
        let at_hub = format!("tombolo-{}", id(member));
        let imports: Api<ServiceImport> = Api::namespaced(home.clone(), NAMESPACE);
        let slices: Api<EndpointSlice> = Api::namespaced(home.clone(), NAMESPACE);
        let services: Api<Service> = Api::namespaced(home.clone(), NAMESPACE);
        let exports: Api<ServiceExport> = Api::namespaced(home.clone(), NAMESPACE);
        let offers: Api<ServiceOffer> = Api::namespaced(hub.clone(), &at_hub);
        let published: Api<EndpointSlice> = Api::namespaced(hub.clone(), &at_hub);
        let found = versions(imports.list(&all).await?)
            .chain(versions(slices.list(&derived).await?))
            .chain(versions(services.list(&all).await?))
            .chain(versions(exports.list(&all).await?))
            .chain(versions(offers.list(&all).await?))
            .chain(
                versions(published.list(&all).await?)
                    .map(|(name, version)| (format!("{name} at the hub"), version)),
            );
        Ok(found.collect())
    }
}

/// The versions of some objects, by kind and name.
fn versions<K: kube::Resource<DynamicType = ()> + Clone>(
    objects: kube::core::ObjectList<K>,
) -> impl Iterator<Item = (String, String)> {
    objects.items.into_iter().map(|object| {
        (format!("{} {}", K::kind(&()), object.name_any()), object.resource_version().unwrap_or_default())
    })
}

/// Installs hub and members, in the order in which they are to be updated.
async fn install(binary: &Path, servers: &Real, members: usize) -> Result<(), Failure> {
    let tombolo = Tombolo { binary, kubeconfig: servers.kubeconfig() };
    tombolo.run(&format!("install --hub --context {HUB}")).await?;
    for member in 0..members {
        tombolo.run(&format!("install --member --context {}", id(member))).await?;
    }
    Ok(())
}

/// The program, as an administrator uses it.
struct Tombolo<'a> {
    binary: &'a Path,
    kubeconfig: PathBuf,
}

impl Tombolo<'_> {
    async fn run(&self, line: &str) -> Result<(), Failure> {
        let mut command = Command::new(self.binary);
        let output =
            command.args(line.split_whitespace()).env("KUBECONFIG", &self.kubeconfig).output().await?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("tombolo {line}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}

async fn namespace(client: &Client, name: &str) -> Result<(), Failure> {
    let namespace: Namespace = object(json!({"metadata": {"name": name}}));
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    Ok(())
}

pub(super) fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object of its kind")
}
