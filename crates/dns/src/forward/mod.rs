//! Asking others for what is not ours.
//!
//! Upstreams are asked in their order, those that answer before those that do not; a small cache keeps what they say for as
//! long as they say it may be kept. A query that comes back to us shows a loop: the upstream it went to is not asked until
//! another one does not.

mod cache;
mod edns;
mod follow;
mod records;
mod upstream;

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::cache::Cache;
use self::upstream::Upstream;
use crate::answer::{Transport, limit};
use crate::message::{HEADER, Query, Readable};
use crate::metrics::{Event, Metrics};
use crate::server::Network;

/// Queries that may wait for upstreams at one time.
const IN_FLIGHT: usize = 1024;
/// Attempts for one query, each with the next upstream.
const ATTEMPTS: usize = 3;
/// How often upstreams that do not answer are tried.
const PROBES: Duration = Duration::from_secs(1);
/// After so many of them all are asked whether queries come back: others change what they forward where, too.
const PROBES_PER_ROUND: usize = 30;

/// Upstreams and what is known from them.
#[derive(Debug)]
pub(crate) struct Forwarder {
    upstreams: Vec<Upstream>,
    cache: Mutex<Cache>,
    in_flight: Semaphore,
    metrics: Metrics,
}

impl Forwarder {
    pub(crate) fn new(upstreams: &[SocketAddr], network: &Network, metrics: Metrics) -> Self {
        let upstreams = upstreams.iter().map(|address| Upstream::new(*address, network.clone())).collect();
        Self { upstreams, cache: Mutex::default(), in_flight: Semaphore::new(IN_FLIGHT), metrics }
    }

    /// The reply to a query; `None` if nobody has one. `begun`: a reply of ours whose last name is to be resolved.
    pub(crate) async fn ask(
        &self,
        message: &[u8],
        begun: Option<&[u8]>,
        transport: Transport,
    ) -> Option<Vec<u8>> {
        let mut query = Query::default();
        if query.read(message) != Readable::Yes || self.is_own(&query) {
            return None;
        }
        let mut reply = match begun {
            None => self.resolve(message, &query, transport).await?,
            Some(begun) => {
                let question = follow::question(message, begun)?;
                let mut next = Query::default();
                next.read(&question);
                follow::join(begun, &self.resolve(&question, &next, Transport::Tcp).await?)?
            }
        };
        reply[..2].copy_from_slice(&message[..2]);
        shorten(&mut reply, query.end, limit(&query, transport));
        Some(reply)
    }

    /// From the cache or from an upstream.
    async fn resolve(&self, message: &[u8], query: &Query, transport: Transport) -> Option<Vec<u8>> {
        let key = cache::key(message, query);
        if let Some(mut reply) = self.cached().get(&key, Instant::now()) {
            self.metrics.count(Event::CacheHit);
            // The same letters in the case they were asked in.
            reply.get_mut(HEADER..query.end)?.copy_from_slice(&message[HEADER..query.end]);
            return Some(reply);
        }
        let Ok(_permit) = self.in_flight.try_acquire() else {
            self.metrics.count(Event::ForwardFull);
            return None;
        };
        self.metrics.count(Event::Forwarded);
        let mut order: Vec<&Upstream> =
            self.upstreams.iter().filter(|upstream| !upstream.is_looping()).collect();
        order.sort_by_key(|upstream| !upstream.is_healthy());
        let asked = edns::passed_on(message, query);
        for upstream in order.iter().cycle().take(ATTEMPTS.min(order.len() * ATTEMPTS)) {
            if let Some(mut reply) = upstream.ask(&asked, query.end, transport).await
                && edns::take_over(&mut reply).is_some()
            {
                self.cached().put(key, &reply, Instant::now());
                return Some(reply);
            }
        }
        self.metrics.count(Event::ForwardFailed);
        None
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a query is one of those we send out to see whether they come back.
    fn is_own(&self, query: &Query) -> bool {
        let looping = self.upstreams.iter().find(|upstream| upstream.is_own(&query.name));
        if let Some(upstream) = looping {
            self.metrics.count(Event::Looping);
            upstream.came_back();
        }
        looping.is_some()
    }

    /// Looks for loops and after upstreams that do not answer, for ever.
    pub(crate) async fn look_after(&self) {
        loop {
            self.look_for_loops().await;
            for _ in 0..PROBES_PER_ROUND {
                tokio::time::sleep(PROBES).await;
                for upstream in self.upstreams.iter().filter(|upstream| !upstream.is_healthy()) {
                    if upstream.probe().await {
                        upstream.probe_loop().await;
                    }
                }
            }
        }
    }

    async fn look_for_loops(&self) {
        for upstream in &self.upstreams {
            upstream.probe_loop().await;
        }
    }
}

/// Cuts a reply that its client cannot take down to the question.
fn shorten(reply: &mut Vec<u8>, end: usize, limit: usize) {
    if reply.len() > limit && reply.len() >= end {
        cut(reply, end);
    }
}

/// Leaves of a reply only the question, which ends at `end`, and says that there is more.
fn cut(reply: &mut Vec<u8>, end: usize) {
    reply.truncate(end);
    reply[2] |= 0x02;
    reply[6..HEADER].fill(0);
}

#[cfg(test)]
mod tests;
