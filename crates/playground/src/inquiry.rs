//! What can only be found out from within: what names lead to, who accepts connections, which ways packets take.
//!
//! Whoever wants to know asks the running playground, because only it stands in the networks of nodes and pods.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use tombolo_dns::{Name, presentation, query, record_type};

use crate::Playground;
use crate::control::{Request, ask};
use crate::directory::Directory;
use crate::error::{Doing as _, Error};
use crate::fabric::{join_pod, part_pod};
use crate::node::Node;
use crate::plan::NodePlan;
use crate::wiring::Wiring;

/// On one computer everything answers at once, or not at all.
const PATIENCE: Duration = Duration::from_secs(1);
/// Nobody listens there: a refusal says that packets go there and come back.
const CLOSED: u16 = 9;
/// The last address of a node for pods, which only pods get that come after all others.
const PASSER_BY: u8 = 254;

/// What somebody wants to know.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Inquiry {
    /// What the DNS server of a member tells each of its nodes about the addresses of a name, of either family: the replies as
    /// people read them.
    Name { member: String, name: String },
    /// Whether a connection is accepted, from each node of a member.
    Connection { member: String, to: SocketAddr },
    /// Whether packets go from a pod of each member to a pod of each other one, and back.
    Ways,
}

/// What was found, from one place.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Found {
    /// The node, or the member.
    pub from: String,
    pub to: String,
    /// What came back, or why nothing did.
    pub outcome: Result<String, String>,
}

/// Asks the playground of a directory.
pub fn inquire(directory: &Directory, inquiry: Inquiry) -> Result<Vec<Found>, Error> {
    let said = ask(directory, &Request::Inquire(inquiry))?;
    serde_json::from_str(&said).doing("the playground did not answer")
}

impl Playground {
    /// Finds out what was asked; the answer is for [`inquire`].
    pub(crate) async fn find_out(&self, inquiry: &Inquiry) -> Result<String, Error> {
        let found = match inquiry {
            Inquiry::Name { member, name } => self.look_up(member, name).await?,
            Inquiry::Connection { member, to } => self.connect_from(member, *to).await?,
            Inquiry::Ways => self.try_ways().await?,
        };
        serde_json::to_string(&found).doing("this cannot be told")
    }

    async fn look_up(&self, member: &str, name: &str) -> Result<Vec<Found>, Error> {
        let found = self.members.iter().find(|one| one.plan.name() == member);
        let server = found.ok_or_else(|| Error::new(format!("there is no cluster {member}")))?.plan.dns();
        let name = Name::parse(name).map_err(|_| Error::new(format!("{name:?} is no domain name")))?;
        let asked = self.nodes_of(member).map(|node| {
            let name = name.clone();
            async move {
                let said = node.within(async move { told(timeout(PATIENCE, resolve(server, name)).await) });
                Found { from: node.name(), to: server.to_string(), outcome: said.await }
            }
        });
        Ok(join_all(asked).await)
    }

    async fn connect_from(&self, member: &str, to: SocketAddr) -> Result<Vec<Found>, Error> {
        let tried = self.nodes_of(member).map(|node| async move {
            let tried = node.within(async move { told(timeout(PATIENCE, TcpStream::connect(to)).await) });
            let outcome = tried.await.map(|_| "accepted".to_owned());
            Found { from: node.name(), to: to.to_string(), outcome }
        });
        Ok(join_all(tried).await)
    }

    fn nodes_of(&self, member: &str) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.member() == member && node.is_up())
    }

    /// A passer-by on one node of each member stands for its pods: routes are those of all of them.
    async fn try_ways(&self) -> Result<Vec<Found>, Error> {
        let mut visits = Vec::new();
        for member in &self.members {
            let Some(node) = self.nodes_of(&member.plan.name()).next() else { continue };
            visits.push(Visit::begin(member.plan.name(), node).await.doing("no pod can be tried")?);
        }
        let pairs = visits.iter().flat_map(|from| visits.iter().map(move |to| (from, to)));
        let tried = pairs.filter(|(from, to)| from.member != to.member).map(|(from, to)| from.try_way(to));
        let found = join_all(tried).await;
        for visit in &visits {
            visit.end().await;
        }
        Ok(found)
    }
}

/// A pod that is there only to try which way packets go.
struct Visit {
    member: String,
    host: Wiring,
    pod: Wiring,
    address: Ipv4Addr,
}

impl Visit {
    async fn begin(member: String, node: &Node) -> io::Result<Self> {
        let (host, address) = (node.wiring().clone(), passer_by(&node.plan));
        let pod = join_pod(&host, &node.plan, address).await?;
        Ok(Self { member, host, pod, address })
    }

    async fn try_way(&self, to: &Visit) -> Found {
        let (namespace, target) = (self.pod.namespace().clone(), SocketAddr::from((to.address, CLOSED)));
        let connect = move || namespace.within(|| std::net::TcpStream::connect_timeout(&target, PATIENCE));
        let tried = tokio::task::spawn_blocking(connect).await.map_err(io::Error::other).flatten().flatten();
        let outcome = match tried {
            Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => Err(error.to_string()),
            _ => Ok("packets come back".to_owned()),
        };
        Found { from: self.member.clone(), to: to.member.clone(), outcome }
    }

    async fn end(&self) {
        if let Err(error) = part_pod(&self.host, self.address).await {
            tracing::warn!(%error, "a pod that was tried could not be taken away");
        }
    }
}

fn passer_by(node: &NodePlan) -> Ipv4Addr {
    let [first, second, third, _] = node.pods().network().octets();
    Ipv4Addr::new(first, second, third, PASSER_BY)
}

/// The addresses of a name.
async fn resolve(server: SocketAddr, name: Name) -> io::Result<String> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    socket.connect(server).await?;
    let mut lines = Vec::new();
    for kind in ["A", "AAAA"].into_iter().filter_map(record_type) {
        socket.send(&query(&name, kind)).await?;
        let mut reply = [0; 4096];
        let length = socket.recv(&mut reply).await?;
        lines.extend(presentation(&reply[..length]));
    }
    Ok(lines.join("\n"))
}

/// What came back in time, or why nothing did.
fn told<T>(tried: Result<io::Result<T>, tokio::time::error::Elapsed>) -> Result<T, String> {
    tried.map_err(|_| "no answer".to_owned())?.map_err(|error| error.to_string())
}
