//! 10, 11: a UDP client that keeps its port, while the endpoint behind the load balancer changes.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use serde_json::json;
use tombolo_testkit::lab::Protocol;
use tombolo_testkit::until;

use crate::outcome::Outcome;
use crate::world::{Endpoint, TARGET, World, reached_at, ready};

/// A client that sends from one port all the time, which connection tracking takes for one connection.
struct Stubborn(UdpSocket);

impl Stubborn {
    fn new(world: &World, to: SocketAddr, port: u16) -> Stubborn {
        let client = &world.lab.client;
        let socket = client.within(|| UdpSocket::bind((client.v4(), port)).unwrap());
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        Stubborn(socket)
    }

    /// Who answers; answers to earlier questions are read first.
    fn ask(&self) -> Option<String> {
        self.0.send(b"?").ok()?;
        let mut buffer = [0; 256];
        let length = self.0.recv(&mut buffer).ok()?;
        let line = String::from_utf8_lossy(&buffer[..length]).into_owned();
        line.split_once(' ').map(|(server, _)| server.to_owned())
    }
}

async fn cycle(world: &World, first: Endpoint, second: Endpoint, port: u16) -> Outcome {
    world.endpoints(&[first]).await;
    let ports = json!({"ports": [{"name": "udp", "port": 80, "targetPort": TARGET, "protocol": "UDP"}]});
    let service = world.provision(ports).await?;
    let to = reached_at(&service, 80)[0];
    // A datagram that comes before the rules begins a flow that nobody translates, for as long as the client goes on.
    world.until_reachable(to, Protocol::Udp).await;
    let client = Stubborn::new(world, to, port);
    for endpoint in [first, second, first] {
        world.endpoints(&[endpoint]).await;
        let name = world.pod(endpoint.node, endpoint.pod).name();
        until(&format!("{name} answers"), async || client.ask().as_deref() == Some(name)).await;
    }
    Ok(())
}

pub(super) async fn on_two_nodes(world: &World) -> Outcome {
    cycle(world, ready(0, 0), ready(1, 0), 40_123).await
}

pub(super) async fn on_one_node(world: &World) -> Outcome {
    cycle(world, ready(0, 0), ready(0, 1), 40_124).await
}
