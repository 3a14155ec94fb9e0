//! A whole supercluster on one computer, in one process.
//!
//! Each cluster has an API server, embedded or real, and the real parts of Tombolo; nodes and pods are network namespaces that are
//! joined by a fabric ([`plan`] says who has which address). Every namespace has a thread with a runtime (`station`), so
//! that what runs there has its sockets there and a link that is cut really cuts it. Namespaces have no names and processes
//! die with their parent: whatever ends the playground, nothing is left behind.

mod control;
mod control_plane;
mod directory;
mod error;
mod fabric;
mod fault;
mod hub;
mod inquiry;
mod inside;
mod joining;
mod kubelet;
mod lifecycle;
mod member;
mod namespace;
mod node;
mod outside;
mod pace;
mod packet_socket;
mod part;
pub mod plan;
mod pods;
mod privilege;
mod servers;
mod slow;
mod station;
mod unshare;
mod wiring;

pub use self::control::{Fault, Request, ask};
pub use self::directory::{Directory, Endpoints, PartAt};
pub use self::error::Error;
pub use self::inquiry::{Found, Inquiry, inquire};
pub use self::inside::{SUBCOMMAND, become_container, become_tool};
pub use self::outside::enter_outside;
pub use self::pace::Pace;
pub use self::pods::{Pods, Said};
pub use self::privilege::{Network, acquire};
pub use self::servers::Servers;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tombolo_apiserver::{Context, kubeconfig};
use tombolo_model::balancer::Capabilities;
use tombolo_runtime::Boxed;

use self::control::Control;
use self::control_plane::{ControlPlane, Order};
use self::error::Doing as _;
use self::fabric::Fabric;
use self::hub::Hub;
use self::member::Member;
use self::namespace::Namespace;
use self::node::Node;
use self::part::Part;
use self::plan::{NodePlan, Plan};
use self::slow::Detour;
use self::station::Station;

/// Everything should be ready long before.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// What a playground is told.
#[derive(Clone, Debug)]
pub struct Config {
    pub clusters: u8,
    /// Of each cluster.
    pub nodes: u8,
    pub directory: Directory,
    pub network: Network,
    pub servers: Servers,
    pub pace: Pace,
    /// What the balancers of a member claim to be able to do; everything, if it is not named.
    pub capabilities: BTreeMap<String, Capabilities>,
}

/// A playground that runs.
pub struct Playground {
    directory: Directory,
    control: Control,
    fabric: Option<Fabric>,
    hub: Hub,
    members: Vec<Member>,
    nodes: Vec<Node>,
    /// Links that are slow on purpose, by the name of their host.
    slow: BTreeMap<String, Detour>,
}

impl Playground {
    /// Starts everything and returns when it is ready. `tell` hears how it goes.
    pub async fn start(config: Config, tell: impl Fn(&str) + Send + Sync) -> Result<Self, Error> {
        Self::begin(config, &tell).await
    }

    fn begin(config: Config, tell: &(dyn Fn(&str) + Send + Sync)) -> Boxed<'_, Result<Self, Error>> {
        Box::pin(async move {
            let plan = Plan::new(config.clusters, config.nodes);
            config.directory.make()?;
            let control = Control::open(&config.directory)?;
            let unfinished = Unfinished(Some(config.directory.clone()));
            let fabric = match config.network {
                Network::Namespaces => {
                    tell("laying the network");
                    Some(Fabric::build(&plan).await.doing("the network cannot be made")?)
                }
                Network::Pretended(_) => None,
            };
            tell("starting the API servers");
            let (hub, planes) = start_planes(&plan, &config, fabric.as_ref()).await?;
            tell("preparing the clusters");
            let hub = Hub::start(hub, &plan, &config.pace).await?;
            let members = plan.members.iter().zip(planes).map(|(member, plane)| {
                Member::start(plane, member, &hub.plane.inner, fabric.is_some(), &config.pace)
            });
            let members = try_join_all(members).await?;
            tell("starting the nodes");
            let nodes = start_nodes(&config, &members, fabric.as_ref()).await?;
            let slow = BTreeMap::new();
            let playground = Self { directory: config.directory, control, fabric, hub, members, nodes, slow };
            tell("waiting for the agents");
            playground.ready().await?;
            playground.tell_where()?;
            unfinished.finish();
            Ok(playground)
        })
    }

    /// How to reach the hub, then each member.
    pub fn contexts(&self) -> Vec<Context> {
        let members = self.members.iter().map(|member| member.plane.outer.clone());
        std::iter::once(self.hub.plane.outer.clone()).chain(members).collect()
    }

    /// Whether its API servers are those within this process, which have fields that are only proposed.
    pub fn has_embedded_servers(&self) -> bool {
        self.hub.plane.is_embedded()
    }

    /// A client of the hub or of a member, as its administrator.
    pub fn client(&self, name: &str) -> Option<kube::Client> {
        let found = self.members.iter().find(|member| member.plan.name() == name).map(|member| &member.plane);
        let plane = if name == "hub" { Some(&self.hub.plane) } else { found };
        plane.map(ControlPlane::client)
    }

    /// The way into all pods.
    pub fn pods(&self) -> Pods {
        let place = |member: &Member| (member.plan.name(), (member.plane.client(), member.hosts.clone()));
        Pods::new(self.members.iter().map(place))
    }

    /// Goes on until `stop` resolves or somebody asks for the end, then ends everything.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        self.go_on_until(Box::pin(stop)).await;
    }

    fn go_on_until(mut self, mut stop: Boxed<'_>) -> Boxed<'_> {
        Box::pin(async move {
            // Whoever asked for the end waits for it: the connection closes with the process.
            let mut waiting = None;
            while waiting.is_none() {
                let (request, asker) = tokio::select! {
                    () = &mut stop => break,
                    asked = self.control.next() => asked,
                };
                match request {
                    Request::Stop => waiting = Some(asker.answer(Ok("stopped".to_owned())).await),
                    Request::Fault(fault) => drop(asker.answer(self.inflict(&fault).await).await),
                    Request::Inquire(inquiry) => drop(asker.answer(self.find_out(&inquiry).await).await),
                }
            }
            self.end().await;
            std::mem::forget(waiting);
        })
    }

    async fn end(mut self) {
        for node in &mut self.nodes {
            node.kill().await;
        }
        // Who asks goes before who answers.
        for member in &mut self.members {
            member.parts.clear();
        }
        self.hub.parts.clear();
        for member in &mut self.members {
            member.plane.stop().await;
        }
        self.hub.plane.stop().await;
        self.directory.clear();
    }

    async fn ready(&self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        let members = self.members.iter().flat_map(|member| &member.parts);
        let parts = self.hub.parts.iter().chain(members);
        for part in parts.chain(self.nodes.iter().flat_map(|node| &node.parts)) {
            while let Some(what) = part.readiness.pending().first() {
                if Instant::now() > deadline {
                    return Err(Error::new(format!("{}: {what} does not come", part.name)));
                }
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(())
    }

    fn tell_where(&self) -> Result<(), Error> {
        self.directory.write(&kubeconfig(&self.contexts()), &self.endpoints())
    }

    fn endpoints(&self) -> Endpoints {
        let fabric = self.fabric.as_ref();
        Endpoints {
            pid: std::process::id(),
            hub: directory::Hub {
                server: self.hub.plane.outer.server.clone(),
                namespace: fabric.map(|fabric| fabric.hub.namespace().path()),
                parts: self.hub.parts.iter().map(Part::told).collect(),
            },
            outside: fabric.map(|fabric| directory::Outside {
                address: Plan::outside().to_string(),
                namespace: fabric.outside.namespace().path(),
            }),
            members: self.members.iter().map(|member| describe(member, &self.nodes, fabric)).collect(),
        }
    }
}

/// A start that has not come to its end: if it fails, or is given up, what it has written goes.
struct Unfinished(Option<Directory>);

impl Unfinished {
    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(directory) = &self.0 {
            directory.clear();
        }
    }
}

/// All API servers at the same time: real ones take a while.
async fn start_planes(
    plan: &Plan,
    config: &Config,
    fabric: Option<&Fabric>,
) -> Result<(ControlPlane, Vec<ControlPlane>), Error> {
    let hub = Order {
        name: "hub".to_owned(),
        services: Plan::services().into(),
        fabric: fabric.map(|_| Plan::hub_api()),
        phantom_nodes: 0,
        data: config.directory.data("hub"),
    };
    let hub = start_plane(hub, config, fabric.map(|fabric| fabric.hub.namespace()));
    let members = plan.members.iter().map(|member| {
        let network = fabric.and_then(|fabric| fabric.members.get(&member.number));
        let order = Order {
            name: member.name(),
            services: Plan::services().into(),
            fabric: network.map(|_| member.api()),
            phantom_nodes: if network.is_some() { 0 } else { member.nodes.len() },
            data: config.directory.data(&member.name()),
        };
        start_plane(order, config, network.map(|network| network.router.namespace()))
    });
    tokio::try_join!(hub, try_join_all(members))
}

async fn start_plane(
    order: Order,
    config: &Config,
    namespace: Option<&Namespace>,
) -> Result<ControlPlane, Error> {
    let station = Station::start(&order.name, namespace).await;
    let station = station.doing(format!("{} cannot be started", order.name))?;
    ControlPlane::start(order, &config.servers, station).await
}

async fn start_nodes(
    config: &Config,
    members: &[Member],
    fabric: Option<&Fabric>,
) -> Result<Vec<Node>, Error> {
    let Some(fabric) = fabric else { return Ok(Vec::new()) };
    let starting = members.iter().flat_map(|member| {
        let network = fabric.members.get(&member.plan.number);
        let nodes = network.into_iter().flat_map(|network| &network.nodes);
        let capabilities = config.capabilities.get(&member.plan.name());
        nodes.map(move |(number, wiring)| {
            let kubelet = kubelet::Config {
                cluster: member.plan.name(),
                plan: NodePlan { cluster: member.plan.number, number: *number },
                wiring: wiring.clone(),
                api: member.plan.api(),
                dns: Some(member.plan.dns()),
                scratch: config.directory.scratch(),
                tools: config.directory.tools(),
                hosts: member.hosts.clone(),
                authority: member.plane.node_authority(),
            };
            let capabilities = capabilities.cloned().unwrap_or_else(Capabilities::full);
            Node::start(member.plane.inner.clone(), kubelet, capabilities)
        })
    });
    try_join_all(starting).await
}

fn describe(member: &Member, nodes: &[Node], fabric: Option<&Fabric>) -> directory::Member {
    let plan = &member.plan;
    let network = fabric.and_then(|fabric| fabric.members.get(&plan.number));
    let node = |node: &plan::NodePlan| directory::Node {
        name: node.name(),
        address: node.address().to_string(),
        pod_cidr: node.pods().to_string(),
        namespace: network
            .and_then(|found| found.nodes.get(&node.number))
            .map(|found| found.namespace().path()),
        parts: nodes
            .iter()
            .filter(|one| one.plan == *node)
            .flat_map(|one| &one.parts)
            .map(Part::told)
            .collect(),
    };
    directory::Member {
        name: plan.name(),
        server: member.plane.outer.server.clone(),
        pod_cidr: plan.pods().to_string(),
        node_cidr: plan.node_network().to_string(),
        service_cidr: Plan::services().to_string(),
        load_balancer_cidr: plan.load_balancers().to_string(),
        dns: network.map(|_| plan.dns().to_string()),
        namespace: network.map(|network| network.router.namespace().path()),
        nodes: plan.nodes.iter().map(node).collect(),
        parts: member.parts.iter().map(Part::told).collect(),
    }
}
