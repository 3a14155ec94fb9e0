//! DNS over TCP: connections that are kept, and cut when they are slow.
//!
//! Queries may follow each other without waiting (RFC 7766); replies come in their order. A connection that says nothing for
//! a while, or does not finish what it began, is closed. When there are too many, the one that was silent longest makes
//! room; one address may have only a share of them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};

use super::limit::Limit;
use crate::answer::{Answerer, Facts, Scratch, Transfer, Transport, Verdict, fail};
use crate::forward::Forwarder;
use crate::message::{Rcode, TCP_LIMIT};
use crate::metrics::{Event, Metrics, Tally};

/// A message that was begun has to be whole, and a reply to be taken, within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Replies are collected up to so many octets while more queries wait in the buffer.
const COLLECTED: usize = 16 * 1024;

/// How connections are treated.
#[derive(Clone, Debug)]
pub(crate) struct Tcp {
    pub(crate) connections: usize,
    pub(crate) per_address: usize,
    pub(crate) idle: Duration,
}

/// A TCP socket and everything its connections need.
pub(crate) struct Listener {
    pub(crate) answerer: Answerer,
    pub(crate) limit: Option<Arc<Limit>>,
    pub(crate) forwarder: Option<Arc<Forwarder>>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) metrics: Metrics,
    pub(crate) open: Arc<Open>,
}

/// The connections that are open, of all listeners.
#[derive(Debug)]
pub(crate) struct Open {
    tcp: Tcp,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    connections: BTreeMap<u64, Connection>,
    addresses: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Connection {
    address: IpAddr,
    last: Instant,
    abort: Option<AbortHandle>,
}

impl Open {
    pub(crate) fn new(tcp: Tcp) -> Arc<Self> {
        Arc::new(Self { tcp, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a connection in, at the cost of the one that was silent longest if need be.
    fn admit(self: &Arc<Self>, address: IpAddr, metrics: &Metrics) -> Option<Pass> {
        let mut state = self.state();
        if state.addresses.get(&address).is_some_and(|count| *count >= self.tcp.per_address) {
            metrics.count(Event::Refused);
            return None;
        }
        if state.connections.len() >= self.tcp.connections {
            let oldest = state.connections.iter().min_by_key(|(_, connection)| connection.last)?.0;
            let oldest = *oldest;
            if let Some(abort) = state.connections.get(&oldest).and_then(|c| c.abort.as_ref()) {
                abort.abort();
            }
            state.forget(oldest);
            metrics.count(Event::Evicted);
        }
        metrics.count(Event::Accepted);
        let id = state.next;
        state.next += 1;
        *state.addresses.entry(address).or_default() += 1;
        state.connections.insert(id, Connection { address, last: Instant::now(), abort: None });
        Some(Pass { id, open: self.clone() })
    }
}

impl State {
    fn forget(&mut self, id: u64) {
        let Some(connection) = self.connections.remove(&id) else { return };
        if let Some(count) = self.addresses.get_mut(&connection.address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&connection.address);
            }
        }
    }
}

/// The place of one connection; given back when it is dropped.
struct Pass {
    id: u64,
    open: Arc<Open>,
}

impl Pass {
    fn touch(&self) {
        if let Some(connection) = self.open.state().connections.get_mut(&self.id) {
            connection.last = Instant::now();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.open.state().forget(self.id);
    }
}

impl Listener {
    /// Serves connections until it is dropped.
    pub(crate) async fn run(self, listener: TcpListener) {
        let shared = Arc::new(self);
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                Some(_) = tasks.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => shared.clone().admit(&mut tasks, stream, peer),
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
    }

    fn admit(self: Arc<Self>, tasks: &mut JoinSet<()>, stream: TcpStream, peer: SocketAddr) {
        let Some(pass) = self.open.admit(peer.ip(), &self.metrics) else { return };
        let (id, open) = (pass.id, self.open.clone());
        let handle = tasks.spawn(async move {
            let _ = stream.set_nodelay(true);
            if let Err(error) = self.serve(stream, peer, &pass).await {
                tracing::debug!(%error, %peer, "a connection ended");
            }
        });
        if let Some(connection) = open.state().connections.get_mut(&id) {
            connection.abort = Some(handle);
        }
    }

    async fn serve(&self, stream: TcpStream, peer: SocketAddr, pass: &Pass) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        let (mut message, mut out) = (Vec::new(), Vec::new());
        let mut scratch = Scratch::new(pass.id);
        loop {
            let Ok(length) = timeout(self.open.tcp.idle, stream.read_u16()).await else { return Ok(()) };
            message.resize(usize::from(length?), 0);
            timeout(PATIENCE, stream.read_exact(&mut message)).await??;
            pass.touch();
            let now = Instant::now().into_std();
            if self.limit.as_ref().is_some_and(|limit| !limit.allows(peer.ip(), now)) {
                self.metrics.count(Event::Limited);
                return Ok(());
            }
            if let Some(mut transfer) = self.answer(&mut scratch, &message, peer, &mut out).await? {
                while let Some(page) = transfer.next() {
                    out.extend_from_slice(&framed(&page)?);
                    send(&mut stream, &mut out).await?;
                    pass.touch();
                }
            }
            if out.len() > COLLECTED || !holds_message(stream.buffer()) {
                send(&mut stream, &mut out).await?;
            }
        }
    }

    /// Adds the reply to `out`, with its length, unless it is a whole zone.
    async fn answer(
        &self,
        scratch: &mut Scratch,
        message: &[u8],
        peer: SocketAddr,
        out: &mut Vec<u8>,
    ) -> io::Result<Option<Transfer>> {
        let started = Instant::now();
        let answered = match self.decide(scratch, message, peer) {
            (Verdict::Reply(facts), reply) => Some((reply, facts)),
            (Verdict::Ignore, _) => None,
            (Verdict::Transfer(place), _) => {
                return Ok(Transfer::new(&self.answerer, place, message, scratch.query.end));
            }
            (verdict, begun) => self.forward(message, verdict, begun).await,
        };
        let Some((reply, facts)) = answered else { return Ok(None) };
        out.extend_from_slice(&framed(&reply)?);
        let zone = self.tally.note(&facts, peer.is_ipv6(), message.len());
        self.tally.took(zone, started.elapsed(), 1);
        Ok(None)
    }

    fn decide(&self, scratch: &mut Scratch, message: &[u8], peer: SocketAddr) -> (Verdict, Vec<u8>) {
        thread_local! {
            static LONGEST: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; TCP_LIMIT]);
        }
        LONGEST.with_borrow_mut(|buffer| {
            let verdict = self.answerer.answer(scratch, message, peer.ip(), Transport::Tcp, buffer);
            let size = match verdict {
                Verdict::Reply(facts) | Verdict::Follow(facts) => facts.size,
                _ => 0,
            };
            (verdict, buffer[..size].to_vec())
        })
    }

    async fn forward(&self, message: &[u8], verdict: Verdict, begun: Vec<u8>) -> Option<(Vec<u8>, Facts)> {
        let forwarder = match (&self.forwarder, verdict) {
            (Some(forwarder), _) => forwarder,
            (None, Verdict::Follow(facts)) => return Some((begun, facts)),
            (None, _) => return None,
        };
        let begun = Some(begun).filter(|begun| !begun.is_empty());
        if let Some(reply) = forwarder.ask(message, begun.as_deref(), Transport::Tcp).await {
            let facts = Facts::of_forwarded(message, &reply);
            return Some((reply, facts));
        }
        let mut buffer = vec![0; 512];
        let facts = fail(message, Rcode::ServFail, &mut buffer)?;
        buffer.truncate(facts.size);
        Some((buffer, facts))
    }
}

/// Sends what was collected.
async fn send(stream: &mut BufReader<TcpStream>, out: &mut Vec<u8>) -> io::Result<()> {
    timeout(PATIENCE, stream.get_mut().write_all(&std::mem::take(out))).await?
}

/// Whether what was read ahead begins with a whole message. Nobody has to finish a query to get the reply to the one before.
fn holds_message(buffer: &[u8]) -> bool {
    let length = buffer.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length)));
    length.is_some_and(|length| buffer.len() >= 2 + length)
}

/// A message with its length before it, which is at most what two octets can say.
fn framed(message: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok([&length.to_be_bytes()[..], message].concat())
}
