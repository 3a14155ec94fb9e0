//! Who is at work behind a Service.
//!
//! Works are looked at side by side, so that one that waits for a slow answer does not keep all others waiting. But nothing
//! goes from behind a Service before what was to take its place is there: who takes away waits for those who are adding, and
//! who comes to add after that waits, too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tombolo_api::tombolo::ServiceRef;

/// The Services that somebody is at.
#[derive(Default)]
pub(crate) struct Turns(Mutex<BTreeMap<Option<ServiceRef>, Arc<RwLock<()>>>>);

impl Turns {
    /// To add something, beside others who do.
    pub(crate) async fn beside(&self, service: Option<ServiceRef>) -> OwnedRwLockReadGuard<()> {
        self.of(service).read_owned().await
    }

    /// To take something away, alone.
    pub(crate) async fn alone(&self, service: Option<ServiceRef>) -> OwnedRwLockWriteGuard<()> {
        self.of(service).write_owned().await
    }

    fn of(&self, service: Option<ServiceRef>) -> Arc<RwLock<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, turn| Arc::strong_count(turn) > 1);
        all.entry(service).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_ready<T>(turn: impl Future<Output = T>) -> bool {
        matches!(pin!(turn).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_))
    }

    #[tokio::test]
    async fn who_takes_away_waits_for_who_adds_to_the_same_service_and_to_no_other() {
        let service = |name: &str| Some(ServiceRef { namespace: "demo".into(), name: name.into() });
        let turns = Turns::default();
        let adding = turns.beside(service("foo")).await;
        assert!(is_ready(turns.beside(service("foo"))));
        assert!(!is_ready(turns.alone(service("foo"))));
        assert!(is_ready(turns.alone(service("bar"))));
        drop(adding);
        let _taking = turns.alone(service("foo")).await;
        assert!(!is_ready(turns.beside(service("foo"))));
    }
}
