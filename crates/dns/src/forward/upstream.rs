//! One upstream: how it is asked, and whether it answers.
//!
//! Every query goes out under a number and from a port that nobody can guess, and only a reply to exactly that question
//! counts.

use std::io;
use std::net::{SocketAddr, UdpSocket as StdUdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::time::timeout;

use super::cut;
use crate::answer::Transport;
use crate::message::{HEADER, rtype};
use crate::server::Network;
use crate::zone::Name;

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// After so many queries without a reply an upstream counts as down.
const FAILURES: u32 = 3;

#[derive(Debug)]
pub(super) struct Upstream {
    address: SocketAddr,
    network: Network,
    failures: AtomicU32,
    looping: AtomicBool,
    /// Whether the last query that was to show it has come back.
    returned: AtomicBool,
    /// Nobody else asks for names below this one.
    own: Name,
}

impl Upstream {
    pub(super) fn new(address: SocketAddr, network: Network) -> Self {
        // Right below the root: what is below `invalid`, `test` or `local` many do not pass on, and so would hide a loop.
        let own = Name::parse(&format!("tombolo-loop-{:016x}", fastrand::u64(..)));
        let own = own.expect("letters, dashes and digits are a label");
        let (failures, looping, returned) = Default::default();
        Self { address, network, failures, looping, returned, own }
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.failures.load(Ordering::Relaxed) < FAILURES
    }

    pub(super) fn is_looping(&self) -> bool {
        self.looping.load(Ordering::Relaxed)
    }

    /// A query that was to show a loop has come back.
    pub(super) fn came_back(&self) {
        self.returned.store(true, Ordering::Relaxed);
        if !self.looping.swap(true, Ordering::Relaxed) {
            tracing::error!(upstream = %self.address, "queries for this upstream come back; it is not asked any more");
        }
    }

    pub(super) fn is_own(&self, name: &Name) -> bool {
        name.below(&self.own).is_some()
    }

    /// Asks whether queries for this upstream come back to us, each time by a name that nobody can have kept an answer to.
    pub(super) async fn probe_loop(&self) {
        self.returned.store(false, Ordering::Relaxed);
        let label = format!("{:016x}", fastrand::u64(..));
        let name = [&[label.len() as u8][..], label.as_bytes(), self.own.bytes()].concat();
        let query = question(&name, rtype::TXT);
        let answered = self.ask(&query, query.len(), Transport::Udp).await.is_some();
        let returned = self.returned.load(Ordering::Relaxed);
        if answered && !returned && self.looping.swap(false, Ordering::Relaxed) {
            tracing::info!(upstream = %self.address, "queries for this upstream do not come back any more; it is asked again");
        }
    }

    /// Asks what every server can answer; returns whether it did.
    pub(super) async fn probe(&self) -> bool {
        let query = question(&[0], rtype::NS);
        self.ask(&query, query.len(), Transport::Udp).await.is_some()
    }

    /// The reply to a query whose question ends at `end`; `None` if there is none in time.
    pub(super) async fn ask(&self, query: &[u8], end: usize, transport: Transport) -> Option<Vec<u8>> {
        let mut query = query.to_vec();
        query[..2].copy_from_slice(&fastrand::u16(..).to_be_bytes());
        let mut reply = timeout(PATIENCE, self.over_udp(&query, end)).await;
        let cut = matches!(&reply, Ok(Ok(reply)) if reply[2] & 0x02 != 0);
        if cut
            && transport == Transport::Tcp
            && let whole @ Ok(Ok(_)) = timeout(PATIENCE, self.over_tcp(&query, end)).await
        {
            reply = whole;
        }
        match reply {
            Ok(Ok(reply)) => {
                self.failures.store(0, Ordering::Relaxed);
                Some(reply)
            }
            _ => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    async fn over_udp(&self, query: &[u8], end: usize) -> io::Result<Vec<u8>> {
        let any: SocketAddr =
            if self.address.is_ipv6() { ([0_u16; 8], 0).into() } else { ([0_u8; 4], 0).into() };
        let socket = self.network.open(|| StdUdpSocket::bind(any))?;
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from_std(socket)?;
        socket.connect(self.address).await?;
        socket.send(query).await?;
        let mut reply = vec![0; 4096];
        loop {
            let length = socket.recv(&mut reply).await?;
            if answers(&reply[..length], query, end) {
                // There may have been more than there was room for.
                if length == reply.len() {
                    cut(&mut reply, end);
                }
                reply.truncate(length);
                return Ok(reply);
            }
        }
    }

    async fn over_tcp(&self, query: &[u8], end: usize) -> io::Result<Vec<u8>> {
        let socket = self.network.open(|| {
            let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        })?;
        let mut stream = TcpSocket::from_std_stream(socket.into()).connect(self.address).await?;
        let length = (query.len() as u16).to_be_bytes();
        stream.write_all(&[&length[..], query].concat()).await?;
        let mut reply = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut reply).await?;
        if answers(&reply, query, end) { Ok(reply) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// Whether a message is a reply to exactly this query.
fn answers(reply: &[u8], query: &[u8], end: usize) -> bool {
    let same_question = reply.get(HEADER..end).is_some_and(|question| question == &query[HEADER..end]);
    reply.len() >= HEADER
        && reply[..2] == query[..2]
        && reply[2] & 0xf8 == 0x80
        && reply[4..6] == [0, 1]
        && same_question
}

/// A query of our own.
fn question(name: &[u8], kind: u16) -> Vec<u8> {
    let mut query = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend_from_slice(name);
    query.extend_from_slice(&kind.to_be_bytes());
    query.extend_from_slice(&[0, 1]);
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reply_to_the_same_question_under_the_same_number_counts() {
        let query = question(b"\x01a\x00", 1);
        let mut reply = query.clone();
        reply[2] |= 0x80;
        assert!(answers(&reply, &query, query.len()));
        for place in [0, 1, 2, 5, 13, query.len() - 1] {
            let mut wrong = reply.clone();
            wrong[place] ^= 0x88;
            assert!(!answers(&wrong, &query, query.len()), "octet {place}");
        }
        assert!(!answers(&reply[..HEADER], &query, query.len()));
        assert!(!answers(&[], &query, query.len()));
    }
}
