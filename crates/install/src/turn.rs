//! Turns: of several joins at one hub, one after the other looks at the members and makes a place.
//!
//! Two that did so at the same time would not see each other, and both could be admitted under one name or with the same
//! addresses. So a Lease at the hub says whose turn it is. It has one holder for all of its life: a turn begins when the
//! Lease is created and ends when it is deleted, by whoever created it, or by somebody who has waited for as long as it says
//! without seeing it change. Only one's own clock counts for that; clocks of two computers are never compared.
//!
//! Whoever is held up for longer than that may have lost its turn. So what is written in a turn begins with a look whether
//! it still is one ([`Turn::write`]): no Lease but one's own has the resource version that was last seen.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};
use tokio::time::{Instant, sleep, timeout};
use tombolo_api::tombolo::MANAGED_BY_LABEL;
use tombolo_model::ClusterId;
use tombolo_runtime::{delete_unchanged, is_absent, is_already_there, is_conflict};

use crate::part::INSTALLER;

/// Where the Lease is: whatever is installed at a hub, and wherever, it has this namespace, and anybody may write there who
/// may write everywhere.
const NAMESPACE: &str = "default";
const LEASE: &str = "tombolo-join";
/// How long others wait for somebody of whom they hear nothing.
const LENGTH: Duration = Duration::from_secs(30);
/// What is written takes no longer, so that it is there before anybody else can have the turn.
const CERTAIN: Duration = Duration::from_secs(20);
/// Whoever has waited for so long, behind others that do what they should, had better be told.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The turn of one join; others wait for its end.
#[derive(Debug)]
pub struct Turn {
    api: Api<Lease>,
    /// As it was written last.
    lease: Lease,
}

/// Why there is no turn, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    #[error("lease {LEASE} in namespace {NAMESPACE} of the hub cannot be read or written")]
    Refused(#[source] Box<kube::Error>),
    #[error("other clusters have been joining for {} s, at last {holder}", PATIENCE.as_secs())]
    Busy { holder: String },
    #[error("it took so long that another cluster has the turn")]
    Lost,
    #[error("the hub took longer than {} s to write it", CERTAIN.as_secs())]
    Slow,
}

impl From<kube::Error> for TurnError {
    fn from(cause: kube::Error) -> Self {
        Self::Refused(Box::new(cause))
    }
}

impl Turn {
    /// Waits until it is the turn of `member`. `tell` hears whom that waits for, and for how long at most if that one is dead.
    pub async fn take(
        hub: &Client,
        member: &ClusterId,
        mut tell: impl FnMut(&str, Duration),
    ) -> Result<Self, TurnError> {
        let api: Api<Lease> = Api::namespaced(hub.clone(), NAMESPACE);
        let (mut waiting, begun) = (Waiting::default(), Instant::now());
        loop {
            let found = api.get_opt(LEASE).await?;
            match waiting.next(found.as_ref(), Instant::now()) {
                Step::Take => match api.create(&PostParams::default(), &lease(member)).await {
                    Err(error) if is_already_there(&error) => {}
                    created => return Ok(Self { lease: created?, api }),
                },
                Step::Clear(dead) => match delete_unchanged(&api, dead).await {
                    // It is not dead, or not the same any more: somebody else has waited as long.
                    Err(error) if is_conflict(&error) => {}
                    cleared => cleared?,
                },
                Step::Wait { holder, .. } if begun.elapsed() > PATIENCE => {
                    return Err(TurnError::Busy { holder: holder.to_owned() });
                }
                Step::Wait { holder, at_most, is_news } => {
                    if is_news {
                        tell(holder, at_most);
                    }
                    sleep(LOOK_EVERY).await;
                }
            }
        }
    }

    /// Does what has to be done in the turn, if it still is one, and stops in time for it to be one to the end.
    pub async fn write<T>(&mut self, work: impl Future<Output = T>) -> Result<T, TurnError> {
        self.renew().await?;
        timeout(CERTAIN, work).await.map_err(|_| TurnError::Slow)
    }

    /// Begins the time of the turn anew. That succeeds only if nobody else has had it since it was taken.
    async fn renew(&mut self) -> Result<(), TurnError> {
        let spec = self.lease.spec.get_or_insert_default();
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        match self.api.replace(LEASE, &PostParams::default(), &self.lease).await {
            Err(error) if is_conflict(&error) || is_absent(&error) => Err(TurnError::Lost),
            renewed => {
                self.lease = renewed?;
                Ok(())
            }
        }
    }

    /// Lets the next one begin. Where that cannot be said, it begins when the time of this turn is over.
    pub async fn end(self) -> Result<(), TurnError> {
        match delete_unchanged(&self.api, &self.lease).await {
            Err(error) if is_conflict(&error) => Ok(()),
            ended => ended.map_err(Into::into),
        }
    }
}

/// Removes the Lease of a join of `member` that died in its turn. One that is alive loses the turn, and notices.
pub(crate) async fn forget(hub: &Client, member: &ClusterId) -> Result<(), kube::Error> {
    let api: Api<Lease> = Api::namespaced(hub.clone(), NAMESPACE);
    let Some(found) = api.get_opt(LEASE).await?.filter(|found| holder(found) == member.as_str()) else {
        return Ok(());
    };
    match delete_unchanged(&api, &found).await {
        Err(error) if is_conflict(&error) => Ok(()),
        gone => gone,
    }
}

fn lease(member: &ClusterId) -> Lease {
    let metadata = ObjectMeta {
        name: Some(LEASE.to_owned()),
        labels: Some([(MANAGED_BY_LABEL.to_owned(), INSTALLER.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let now = MicroTime(Timestamp::now());
    let spec = LeaseSpec {
        holder_identity: Some(member.to_string()),
        lease_duration_seconds: i32::try_from(LENGTH.as_secs()).ok(),
        acquire_time: Some(now.clone()),
        renew_time: Some(now),
        ..LeaseSpec::default()
    };
    Lease { metadata, spec: Some(spec) }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// For how long a Lease counts that does not change: as it says, since another version may have made it.
fn length(lease: &Lease) -> Duration {
    let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    let told = seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
    told.unwrap_or(LENGTH).min(PATIENCE)
}

/// What whoever wants the turn does next.
#[derive(Debug, PartialEq)]
enum Step<'a> {
    /// Nobody has it.
    Take,
    /// Whoever has it is dead.
    Clear(&'a Lease),
    /// Somebody has it, of whom `tell` has not heard if that is news.
    Wait { holder: &'a str, at_most: Duration, is_news: bool },
}

/// The Lease as it was seen last, and since when it has been like that. Pure.
#[derive(Debug, Default)]
struct Waiting(Option<Seen>);

#[derive(Debug)]
struct Seen {
    uid: Option<String>,
    version: Option<String>,
    since: Instant,
}

impl Waiting {
    fn next<'a>(&mut self, found: Option<&'a Lease>, now: Instant) -> Step<'a> {
        let Some(lease) = found else { return Step::Take };
        let (uid, version) = (lease.uid(), lease.resource_version());
        let known = self.0.as_ref().filter(|seen| seen.uid == uid);
        let is_news = known.is_none();
        let since = known.filter(|seen| seen.version == version).map_or(now, |seen| seen.since);
        self.0 = Some(Seen { uid, version, since });
        let (holder, at_most) = (holder(lease), length(lease));
        if holder.is_empty() || now.duration_since(since) > at_most {
            return Step::Clear(lease);
        }
        Step::Wait { holder, at_most, is_news }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(uid: &str, version: &str) -> Lease {
        let mut lease = lease(&"east".parse().unwrap());
        lease.metadata.uid = Some(uid.to_owned());
        lease.metadata.resource_version = Some(version.to_owned());
        lease
    }

    fn wait(is_news: bool) -> Step<'static> {
        Step::Wait { holder: "east", at_most: LENGTH, is_news }
    }

    #[test]
    fn a_turn_that_nobody_has_is_taken() {
        assert_eq!(Waiting::default().next(None, Instant::now()), Step::Take);
        let mut free = seen("a", "1");
        free.spec = None;
        assert_eq!(Waiting::default().next(Some(&free), Instant::now()), Step::Clear(&free));
    }

    #[test]
    fn whoever_is_not_heard_of_is_waited_for_as_long_as_its_lease_says() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let (first, renewed, next) = (seen("a", "1"), seen("a", "2"), seen("b", "3"));
        let mut waiting = Waiting::default();
        assert_eq!(waiting.next(Some(&first), start), wait(true), "it may be old, but not by this clock");
        assert_eq!(waiting.next(Some(&first), after(30)), wait(false));
        assert_eq!(waiting.next(Some(&renewed), after(31)), wait(false), "it lives");
        assert_eq!(waiting.next(Some(&renewed), after(61)), wait(false));
        assert_eq!(waiting.next(Some(&renewed), after(62)), Step::Clear(&renewed));
        assert_eq!(waiting.next(Some(&next), after(63)), wait(true), "another was faster");
        assert_eq!(waiting.next(None, after(64)), Step::Take);
    }

    #[test]
    fn the_length_of_a_turn_is_what_its_lease_says_within_reason() {
        let says = |seconds: Option<i32>| {
            let mut lease = seen("a", "1");
            lease.spec.as_mut().unwrap().lease_duration_seconds = seconds;
            length(&lease).as_secs()
        };
        assert_eq!([Some(1), Some(60), None, Some(-1), Some(i32::MAX)].map(says), [1, 60, 30, 30, 300]);
    }
}
