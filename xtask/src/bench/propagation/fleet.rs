//! A hub, members with services, and their agents.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tombolo_api::crd;

use super::agents::{Agent, Writes};
use super::{Args, Server};
use crate::bench::client::{Connection, Failure, Target};
use crate::bench::process::Embedded;
use crate::servers::Real;

const JSON: &str = "application/json";
const PATIENCE: Duration = Duration::from_secs(600);
/// The first cluster is the hub.
const HUB: &str = "member1";

/// All clusters in one process, or real ones.
enum Servers {
    Embedded(Embedded),
    Real(Real),
}

impl Servers {
    async fn start(on: Server, binary: &Path, clusters: usize) -> Result<Self, Failure> {
        Ok(match on {
            Server::Embedded => {
                let started = Embedded::start(binary, clusters).await;
                Self::Embedded(started.map_err(|failure| failure.to_string())?)
            }
            Server::Kube => Self::Real(Real::start(clusters).await?),
        })
    }

    fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Embedded(server) => server.kubeconfig(),
            Self::Real(servers) => servers.kubeconfig(),
        }
    }

    async fn stop(self) -> Result<(), Failure> {
        match self {
            Self::Embedded(server) => server.stop().await.map_err(|failure| failure.to_string().into()),
            Self::Real(servers) => {
                drop(servers);
                Ok(())
            }
        }
    }
}

pub(super) struct Fleet {
    servers: Servers,
    binary: PathBuf,
    pub(super) hub: Target,
    pub(super) members: Vec<Target>,
    pub(super) agents: Vec<Agent>,
    pub(super) services: usize,
    pub(super) endpoints: usize,
}

/// The context of a member, which is also the id of the cluster.
fn name(member: usize) -> String {
    format!("member{}", member + 2)
}

/// Where the slice of a service is changed.
pub(super) fn slice_path(service: usize) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/demo/endpointslices/service-{service}")
}

/// The slice of a service with so many endpoints, the first of them at `address`.
pub(super) fn slice(service: usize, endpoints: usize, address: &str) -> Value {
    let others = (1..endpoints).map(|place| format!("10.{}.{}.{place}", service >> 8, service & 255));
    let all = [address.to_owned()].into_iter().chain(others);
    let endpoints: Vec<Value> =
        all.map(|address| json!({"addresses": [address], "conditions": {"ready": true}})).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("service-{service}"),
            "labels": {"kubernetes.io/service-name": format!("service-{service}")},
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

impl Fleet {
    /// Returns when every member has imported every service. One more cluster stands by.
    pub(super) async fn start(args: &Args, binary: PathBuf, members: usize) -> Result<Self, Failure> {
        let (services, endpoints) = (args.services, args.endpoints);
        let servers = Servers::start(args.on, &binary, members + 2).await?;
        let target = |context: &str| Target::read(&servers.kubeconfig(), Some(context));
        let hub = target(HUB)?;
        let targets = (0..members).map(|place| target(&name(place))).collect::<Result<Vec<_>, _>>()?;
        let mut fleet =
            Self { servers, binary, hub, members: targets, agents: Vec::new(), services, endpoints };
        let mut connection = fleet.hub.connect().await?;
        install_crds(&mut connection).await?;
        for place in 0..=members {
            make_namespace(&mut connection, &format!("tombolo-{}", name(place))).await?;
        }
        for place in 0..members {
            fleet.fill(place).await?;
        }
        for place in 0..members {
            fleet.add_agent(place)?;
        }
        for agent in &fleet.agents {
            agent.has_imported(services, PATIENCE).await?;
        }
        Ok(fleet)
    }

    /// Makes the services of one member and exports them.
    async fn fill(&self, place: usize) -> Result<(), Failure> {
        let mut connection = self.members[place].connect().await?;
        install_crds(&mut connection).await?;
        make_namespace(&mut connection, "demo").await?;
        for service in (place..self.services).step_by(self.members.len()) {
            let name = format!("service-{service}");
            let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
            let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports}});
            make(&mut connection, "/api/v1/namespaces/demo/services", &object).await?;
            let slice = slice(service, self.endpoints, "10.200.0.1");
            make(&mut connection, "/apis/discovery.k8s.io/v1/namespaces/demo/endpointslices", &slice).await?;
            let api = "multicluster.x-k8s.io/v1beta1";
            let export = json!({"apiVersion": api, "kind": "ServiceExport", "metadata": {"name": name}});
            make(&mut connection, &format!("/apis/{api}/namespaces/demo/serviceexports"), &export).await?;
        }
        Ok(())
    }

    fn add_agent(&mut self, place: usize) -> Result<(), Failure> {
        let (kubeconfig, number) = (self.servers.kubeconfig(), u16::try_from(place)?);
        let agent = Agent::start(&self.binary, &kubeconfig, number, &name(place), HUB)?;
        self.agents.push(agent);
        Ok(())
    }

    /// Starts an agent in the cluster that stands by. Returns when all services are there, slices included.
    pub(super) async fn join_spare(&mut self) -> Result<(), Failure> {
        let place = self.members.len();
        let target = Target::read(&self.servers.kubeconfig(), Some(&name(place)))?;
        let mut connection = target.connect().await?;
        install_crds(&mut connection).await?;
        make_namespace(&mut connection, "demo").await?;
        self.add_agent(place)?;
        let agent = self.agents.last().ok_or("no agent")?;
        agent.has_imported(self.services, PATIENCE).await?;
        let path = "/apis/discovery.k8s.io/v1/namespaces/demo/endpointslices";
        loop {
            let answer = connection.expect(Method::GET, path, JSON, "").await?;
            let list: Value = serde_json::from_slice(&answer)?;
            if list["items"].as_array().is_some_and(|items| items.len() >= self.services) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What all agents have written so far.
    pub(super) async fn writes(&self) -> Result<Writes, Failure> {
        let mut sum = Writes::default();
        for agent in &self.agents {
            let writes = agent.writes().await?;
            sum.leases += writes.leases;
            sum.others += writes.others;
        }
        Ok(sum)
    }

    pub(super) async fn stop(self) -> Result<(), Failure> {
        for agent in self.agents {
            agent.stop().await?;
        }
        self.servers.stop().await
    }
}

async fn install_crds(connection: &mut Connection) -> Result<(), Failure> {
    for definition in crd::crds() {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        make(connection, path, &serde_json::to_value(&definition)?).await?;
    }
    Ok(())
}

async fn make_namespace(connection: &mut Connection, name: &str) -> Result<(), Failure> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    make(connection, "/api/v1/namespaces", &namespace).await
}

async fn make(connection: &mut Connection, path: &str, object: &Value) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        let (status, body) = connection.call(Method::POST, path, JSON, object.to_string()).await?;
        match status {
            StatusCode::CREATED => return Ok(()),
            // Real servers take a moment until a new kind can be used.
            StatusCode::NOT_FOUND if begin.elapsed() < Duration::from_secs(30) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            _ => return Err(format!("POST {path}: {status}: {}", String::from_utf8_lossy(&body)).into()),
        }
    }
}
