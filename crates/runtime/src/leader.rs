//! Leadership: of several processes only one works, and another takes over when it dies.
//!
//! A Lease says who leads. Whoever waits watches whether the leader's record still changes, by its own clock: clocks of
//! two machines are never compared. A leader that cannot renew in time stops working before anybody else may start.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Error};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::causes::with_causes;
use crate::clock::Clock;

/// What a candidate needs to know.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub namespace: String,
    /// The name of the Lease the candidates compete for.
    pub lease: String,
    /// Unique among the candidates.
    pub identity: String,
    /// A record that has not changed for so long is that of a dead leader.
    pub duration: Duration,
    /// A leader that could not renew for so long steps down; must be shorter.
    pub deadline: Duration,
    /// How often to look and to renew.
    pub period: Duration,
    pub clock: Clock,
}

impl Candidate {
    /// The times client-go uses: 15 s, 10 s, 2 s.
    pub fn new(namespace: impl Into<String>, lease: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            lease: lease.into(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            deadline: Duration::from_secs(10),
            period: Duration::from_secs(2),
            clock: Clock::wall(),
        }
    }

    /// Waits to become the leader, then runs `work` for as long as this process leads. Returns when leadership was lost,
    /// with nothing of `work` running any more, or when `work` ends by itself.
    pub async fn lead(&self, client: Client, work: impl Future<Output = ()>) {
        let api: Api<Lease> = Api::namespaced(client, &self.namespace);
        let since = self.acquire(&api).await;
        tracing::info!(lease = self.lease, identity = self.identity, "leading");
        tokio::select! {
            () = work => self.release(&api).await,
            () = self.keep(&api, since) => tracing::warn!(lease = self.lease, "leadership lost"),
        }
    }

    /// Returns since when this candidate leads: from when it asked, since others may have seen the record from then on.
    async fn acquire(&self, api: &Api<Lease>) -> Instant {
        let mut observed: Option<(Option<LeaseSpec>, Instant)> = None;
        loop {
            let asked = Instant::now();
            match self.try_acquire(api, &mut observed).await {
                Ok(true) if asked.elapsed() < self.deadline => return asked,
                // Of what came so late nobody knows how long it still counts.
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "no leadership yet"),
            }
            sleep(self.period).await;
        }
    }

    /// One attempt. `observed` is the leader's record and when it was first seen like this.
    async fn try_acquire(
        &self,
        api: &Api<Lease>,
        observed: &mut Option<(Option<LeaseSpec>, Instant)>,
    ) -> Result<bool, Error> {
        let Some(mut lease) = api.get_opt(&self.lease).await? else {
            let metadata = ObjectMeta { name: Some(self.lease.clone()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.record(0)) };
            return taken(api.create(&PostParams::default(), &lease).await);
        };
        let now = Instant::now();
        if observed.as_ref().is_none_or(|(seen, _)| *seen != lease.spec) {
            *observed = Some((lease.spec.clone(), now));
        }
        let since = observed.as_ref().map_or(now, |(_, since)| *since);
        let spec = lease.spec.unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if !holder.is_empty() && holder != self.identity && now.duration_since(since) < self.duration {
            return Ok(false);
        }
        lease.spec = Some(self.record(spec.lease_transitions.unwrap_or(0) + 1));
        // The resource version of what was read goes along: of two candidates one gets a conflict.
        taken(api.replace(&self.lease, &PostParams::default(), &lease).await)
    }

    fn record(&self, transitions: i32) -> LeaseSpec {
        let now = MicroTime(self.clock.now());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.duration.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    /// Renews until that fails for too long or somebody else leads.
    async fn keep(&self, api: &Api<Lease>, mut renewed: Instant) {
        let attempt = || async {
            sleep(self.period).await;
            let asked = Instant::now();
            (asked, self.renew(api).await)
        };
        loop {
            match timeout_at(renewed + self.deadline, attempt()).await {
                Ok((asked, Ok(true))) => renewed = asked,
                Ok((_, Err(error))) => {
                    tracing::warn!(error = %with_causes(&error), "leadership could not be renewed")
                }
                Ok((_, Ok(false))) | Err(_) => return,
            }
        }
    }

    async fn renew(&self, api: &Api<Lease>) -> Result<bool, Error> {
        let mut lease = api.get(&self.lease).await?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            return Ok(false);
        }
        spec.renew_time = Some(MicroTime(self.clock.now()));
        api.replace(&self.lease, &PostParams::default(), &lease).await.map(|_| true)
    }

    /// Lets the next one lead at once; if that fails, it leads after the lease has run out.
    async fn release(&self, api: &Api<Lease>) {
        let released = async {
            let mut lease = api.get(&self.lease).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.identity) {
                spec.holder_identity = Some(String::new());
                api.replace(&self.lease, &PostParams::default(), &lease).await?;
            }
            Ok::<_, Error>(())
        };
        match timeout(self.period, released).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "leadership was not handed over"),
            Err(_) => tracing::debug!("leadership was not handed over in time"),
        }
    }
}

fn taken<T>(result: Result<T, Error>) -> Result<bool, Error> {
    match result {
        Ok(_) => Ok(true),
        Err(Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
