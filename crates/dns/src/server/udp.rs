//! One thread per UDP socket: receive a batch, answer it, send it.
//!
//! It takes no lock and allocates nothing for what it can answer itself. What has to be asked elsewhere is copied and
//! handed over through a queue that may be full, which is answered, too.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::datagrams::{self, Batch, Datagram, Local};
use super::limit::Limit;
use super::sockets::needs_locals;
use crate::answer::{Answerer, Facts, Scratch, Transport, Verdict, fail};
use crate::message::Rcode;
use crate::metrics::{Event, Metrics, Tally};

/// Of the queries over the limit, one in so many is told to come over TCP, where nobody can lie about his address.
const SLIP: u32 = 8;

/// A query that somebody else has to answer.
pub(crate) struct Job {
    pub(crate) message: Box<[u8]>,
    /// The reply so far, if it ends with a name that is not ours.
    pub(crate) begun: Option<Box<[u8]>>,
    to: SocketAddr,
    from: Local,
    socket: Arc<UdpSocket>,
    tally: Arc<Tally>,
}

impl Job {
    /// Sends the reply to whoever asked.
    pub(crate) fn reply(&self, reply: &[u8]) {
        let facts = Facts::of_forwarded(&self.message, reply);
        self.tally.note(&facts, self.to.is_ipv6(), self.message.len());
        if let Err(error) = datagrams::send_one(self.socket.as_fd(), reply, self.to, self.from) {
            tracing::debug!(%error, to = %self.to, "a reply could not be sent");
        }
    }
}

/// What a worker needs.
pub(crate) struct Worker {
    pub(crate) socket: Arc<UdpSocket>,
    pub(crate) answerer: Answerer,
    pub(crate) limit: Option<Arc<Limit>>,
    pub(crate) forward: mpsc::Sender<Job>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) metrics: Metrics,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) seed: u64,
}

/// Starts a worker on a thread of its own.
pub(crate) fn start(worker: Worker) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("dns".to_owned()).spawn(move || worker.run())
}

impl Worker {
    fn run(self) {
        let (mut batch, mut scratch) = (Batch::new(), Scratch::new(self.seed));
        let mut by_zone = vec![0_u64; self.tally.zones()];
        let (locals, mut over) = (needs_locals(&self.socket), 0_u32);
        while !self.stop.load(Ordering::Relaxed) {
            let count = match batch.receive(self.socket.as_fd(), locals) {
                Ok(count) => count,
                Err(error) => {
                    rest(&error);
                    continue;
                }
            };
            let started = Instant::now();
            for place in 0..count {
                if let Some(zone) = self.one(&mut batch, place, &mut scratch, started, &mut over) {
                    by_zone[zone] += 1;
                }
            }
            batch.send(self.socket.as_fd());
            let each = started.elapsed() / count.max(1) as u32;
            for (zone, times) in by_zone.iter_mut().enumerate().filter(|(_, times)| **times > 0) {
                self.tally.took(zone, each, std::mem::take(times));
            }
        }
    }

    /// Answers one datagram. Returns the place of its zone if it was.
    fn one(
        &self,
        batch: &mut Batch,
        place: usize,
        scratch: &mut Scratch,
        now: Instant,
        over: &mut u32,
    ) -> Option<usize> {
        let Some(Datagram { message, reply, peer }) = batch.get(place) else {
            self.metrics.count(Event::Ignored);
            return None;
        };
        let asked = message.len();
        if self.limit.as_ref().is_some_and(|limit| !limit.allows(peer.ip(), now)) {
            self.metrics.count(Event::Limited);
            *over = over.wrapping_add(1);
            let facts = fail(message, Rcode::NoError, reply).filter(|_| over.is_multiple_of(SLIP))?;
            reply[2] |= 0x02;
            batch.keep(place, facts.size);
            return None;
        }
        let facts = match self.answerer.answer(scratch, message, peer.ip(), Transport::Udp, reply) {
            Verdict::Reply(facts) => facts,
            Verdict::Ignore | Verdict::Transfer(_) => {
                self.metrics.count(Event::Ignored);
                return None;
            }
            verdict => self.hand_over(batch, place, verdict)?,
        };
        batch.keep(place, facts.size);
        Some(self.tally.note(&facts, peer.is_ipv6(), asked))
    }

    /// Gives a query to the forwarder; if it takes no more, there is a reply.
    fn hand_over(&self, batch: &mut Batch, place: usize, verdict: Verdict) -> Option<Facts> {
        let from = batch.local(place);
        let Datagram { message, reply, peer } = batch.get(place)?;
        let begun = match verdict {
            Verdict::Follow(facts) if !self.answerer.settings.forward => return Some(facts),
            Verdict::Follow(facts) => Some(Box::from(&reply[..facts.size])),
            _ => None,
        };
        let job = Job {
            message: message.into(),
            begun,
            to: peer,
            from,
            socket: self.socket.clone(),
            tally: self.tally.clone(),
        };
        match self.forward.try_send(job) {
            Ok(()) => None,
            Err(_) => {
                self.metrics.count(Event::ForwardFull);
                fail(message, Rcode::ServFail, reply)
            }
        }
    }
}

/// Nothing came for a while, or the socket is in trouble: then not so fast.
fn rest(error: &io::Error) {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    if !matches!(error.kind(), WouldBlock | TimedOut | Interrupted | ConnectionRefused) {
        tracing::warn!(%error, "datagrams could not be received");
        std::thread::sleep(Duration::from_millis(100));
    }
}
