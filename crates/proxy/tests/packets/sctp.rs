//! SCTP through the rules: associations are begun by hand, packet by packet.
//!
//! A kernel that routes SCTP for others (connection tracking and translation of its packets) need not speak it itself, so
//! both ends are raw sockets: the client sends INIT, whoever it is for answers INIT ACK.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, sockopt};
use serde_json::json;
use tombolo_model::routing::Protocol;
use tombolo_proxy::simulate::{Fate, Origin, Packet};
use tombolo_testkit::lab::{Namespace, isolated};

use crate::world::{From, LB, NODE_PORT, PORT, TARGET, VIP, World, both, ready, service};

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const PATIENCE: Duration = Duration::from_secs(10);

/// The checksum of SCTP (RFC 9260, appendix A): CRC-32C.
fn checksum(packet: &[u8]) -> [u8; 4] {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    let crc =
        packet.iter().fold(!0_u32, |crc, octet| (0..8).fold(crc ^ u32::from(*octet), |crc, _| step(crc)));
    (!crc).to_le_bytes()
}

/// A packet with one INIT or INIT ACK chunk.
fn packet(from: u16, to: u16, verification: u32, chunk: u8, tag: u32) -> Vec<u8> {
    let mut packet = Vec::new();
    packet.extend_from_slice(&from.to_be_bytes());
    packet.extend_from_slice(&to.to_be_bytes());
    packet.extend_from_slice(&verification.to_be_bytes());
    packet.extend_from_slice(&[0; 4]);
    packet.extend_from_slice(&[chunk, 0, 0, 20]);
    packet.extend_from_slice(&tag.to_be_bytes());
    packet.extend_from_slice(&65_536_u32.to_be_bytes());
    packet.extend_from_slice(&[0, 1, 0, 1]);
    packet.extend_from_slice(&1_u32.to_be_bytes());
    let sum = checksum(&packet);
    packet[8..12].copy_from_slice(&sum);
    packet
}

/// What such a packet says.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    peer: IpAddr,
    from: u16,
    to: u16,
    chunk: u8,
    tag: u32,
}

struct Raw(OwnedFd);

impl Raw {
    fn open(is_v4: bool) -> Self {
        let family = if is_v4 { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = net::socket(family, SocketType::RAW, Some(ipproto::SCTP)).unwrap();
        let short = Some(Duration::from_millis(100));
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, short).unwrap();
        Self(socket)
    }

    fn send(&self, packet: &[u8], to: IpAddr) {
        net::sendto(&self.0, packet, SendFlags::empty(), &SocketAddr::new(to, 0)).unwrap();
    }

    /// The next packet, if one comes soon. Of IPv4 its header comes, too.
    fn receive(&self) -> Option<Heard> {
        let mut buffer = [0; 256];
        let (length, _, peer) = net::recvfrom(&self.0, &mut buffer[..], RecvFlags::empty()).ok()?;
        let peer: SocketAddr = peer?.try_into().ok()?;
        let header = if peer.is_ipv4() { usize::from(buffer[0] & 0x0f) * 4 } else { 0 };
        let packet = &buffer[header..length];
        let half = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
        let mut zeroed = packet.to_vec();
        zeroed[8..12].fill(0);
        assert_eq!(checksum(&zeroed), packet[8..12], "the checksum was mended with the port");
        let tag = u32::from_be_bytes(packet[16..20].try_into().unwrap());
        Some(Heard { peer: peer.ip(), from: half(0), to: half(2), chunk: packet[12], tag })
    }
}

/// Answers INIT in a pod, for both families, until told to end; who came is written down.
fn serve(pod: &Namespace, seen: &Arc<Mutex<Vec<(String, IpAddr)>>>, ended: &Arc<AtomicBool>) {
    for is_v4 in [true, false] {
        let (socket, name) = (pod.within(|| Raw::open(is_v4)), pod.name().to_owned());
        let (seen, ended) = (seen.clone(), ended.clone());
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let Some(heard) = socket.receive() else { continue };
                if (heard.chunk, heard.to) == (INIT, TARGET) {
                    seen.lock().unwrap().push((name.clone(), heard.peer));
                    socket.send(&packet(TARGET, heard.from, heard.tag, INIT_ACK, 7), heard.peer);
                }
            }
        });
    }
}

/// Begins an association and waits until the frontend, and nobody else, accepts.
fn associate(place: &Namespace, to: IpAddr, port: u16, from: u16) -> io::Result<()> {
    let socket = place.within(|| Raw::open(to.is_ipv4()));
    socket.send(&packet(from, port, 0, INIT, 9), to);
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(heard) = socket.receive().filter(|heard| heard.to == from) {
            assert_eq!(heard, Heard { peer: to, from: port, to: from, chunk: INIT_ACK, tag: 7 });
            return Ok(());
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// What the simulator says may become of it: the pod, and whether it sees who asks.
fn expected(world: &World, from: From, to: IpAddr, port: u16) -> BTreeSet<(String, bool)> {
    let node = world.lab.nodes[0].place.like(to);
    let packet = Packet {
        source: world.namespace(from).like(to),
        origin: if from == From::Client { Origin::Elsewhere } else { Origin::Pod },
        destination: to,
        to_node: to == node,
        protocol: Protocol::Sctp,
        port,
    };
    let pods = || world.lab.nodes.iter().flat_map(|node| &node.pods);
    let fates = world.proxies[0].simulator.fates(&packet);
    let delivered = fates.into_iter().map(|fate| match fate {
        Fate::Delivered { to, masqueraded } => {
            let pod = pods().find(|pod| pod.like(to.ip()) == to.ip()).unwrap();
            (pod.name().to_owned(), masqueraded)
        }
        other => panic!("{other:?}"),
    });
    delivered.collect()
}

#[test]
fn associations_reach_backends_through_every_frontend_in_both_families() {
    isolated(|| {
        let mut world = World::new(&[2, 1]);
        let port = json!({"name": "sctp", "protocol": "SCTP", "port": PORT, "targetPort": TARGET, "nodePort": NODE_PORT});
        world.set(&service(json!({"ports": [port]})), &[ready(0, 0), ready(1, 0)]);
        let (seen, ended) = (Arc::default(), Arc::default());
        world.lab.nodes.iter().flat_map(|node| &node.pods).for_each(|pod| serve(pod, &seen, &ended));
        let mut number = 40_000;
        for family in [0, 1] {
            let node = world.lab.nodes[0].place.like(both(VIP)[family]);
            for (from, to, port) in [
                (From::Pod(0, 1), both(VIP)[family], PORT),
                (From::Client, both(LB)[family], PORT),
                (From::Client, node, NODE_PORT),
            ] {
                let place = world.namespace(from);
                let mut found = BTreeSet::new();
                for _ in 0..20 {
                    number += 1;
                    associate(place, to, port, number).unwrap();
                    let (server, peer) = seen.lock().unwrap().pop().unwrap();
                    found.insert((server, peer != place.like(to)));
                }
                // One of two is missed by chance once in half a million times.
                assert_eq!(found, expected(&world, from, to, port), "{from:?} to {to}");
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
}
