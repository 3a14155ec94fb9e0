//! The loop every controller runs: take what changed, look at it, do what is missing.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kube::Error;
use tokio::time::timeout;

use crate::causes::with_causes;
use crate::queue::Queue;

/// An attempt that takes longer is given up.
pub const LONGEST_ATTEMPT: Duration = Duration::from_secs(10);

/// What is to be done with an item after it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until something changes.
    Rest,
    /// Time alone may change the answer: look again after a while.
    Again(Duration),
}

/// A loop over items of one kind. `reconcile` is level-triggered: whatever made it run, it looks at all there is.
pub trait Controller: Send + Sync + 'static {
    type Item: Ord + Clone + Debug + Send + Sync;

    const NAME: &'static str;

    /// How many items are looked at side by side: with several, one that waits for a slow answer does not keep all others
    /// waiting. Nobody looks at the same item twice at a time.
    const ABREAST: usize = 1;

    fn queue(&self) -> &Queue<Self::Item>;

    fn reconcile(&self, item: &Self::Item) -> impl Future<Output = Result<Next, Error>> + Send;
}

/// Runs a controller for ever.
pub async fn work<C: Controller>(controller: C) {
    let queue = controller.queue();
    let mut under_way = FuturesUnordered::new();
    // What came once more while it was looked at has to wait for its turn.
    let (mut busy, mut once_more) = (BTreeSet::new(), BTreeSet::new());
    loop {
        tokio::select! {
            biased;
            Some(item) = under_way.next() => {
                busy.remove(&item);
                if once_more.remove(&item) {
                    queue.add(item);
                }
            }
            item = queue.next(), if under_way.len() < C::ABREAST => {
                if busy.insert(item.clone()) {
                    under_way.push(attempt(&controller, item));
                } else {
                    once_more.insert(item);
                }
            }
        }
    }
}

/// Looks at an item once, and sees to it that it is looked at again where that is needed.
async fn attempt<C: Controller>(controller: &C, item: C::Item) -> C::Item {
    let queue = controller.queue();
    match in_time(LONGEST_ATTEMPT, controller.reconcile(&item)).await {
        Ok(next) => {
            queue.forget(&item);
            if let Next::Again(delay) = next {
                queue.add_after(item.clone(), delay);
            }
        }
        // Whoever asked for things in a namespace that is going away has no use for them any more.
        Err(error) if is_place_gone(&error) => queue.forget(&item),
        Err(error) => {
            let failures = queue.retry(&item);
            report(C::NAME, &item, failures, &error);
        }
    }
    item
}

/// What came of a call, or that nothing did: a server that hangs must not keep everything else waiting for ever. Whoever
/// calls in a loop, calls through this.
pub async fn in_time<T>(limit: Duration, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(limit, call).await.unwrap_or_else(|_| Err(Error::Service("there was no answer in time".into())))
}

/// Stale caches make conflicts; they are ordinary. Other failures are told once, not with every attempt.
fn report(controller: &str, item: &impl Debug, failures: u32, error: &Error) {
    let told = with_causes(error);
    if is_conflict(error) || failures > 3 {
        tracing::debug!(controller, ?item, failures, error = %told, "will try again");
    } else {
        tracing::warn!(controller, ?item, failures, error = %told, "will try again");
    }
}

pub fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409)
}

/// Whether a server has looked at a request and says no to it; not one that has no time, is out of order or is out of reach.
pub fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code < 500 && status.code != 429)
}

/// Whether there is no point in waiting for another answer: a refusal that is not for want of a newer state, nor because the
/// place of things is on its way.
pub fn is_final(error: &Error) -> bool {
    let is_late = matches!(error, Error::Api(status) if status.is_conflict());
    is_refusal(error) && !is_late && !is_place_gone(error)
}

/// Whether a new object has the name of one that is there. Another conflict says nothing of that kind.
pub fn is_already_there(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.is_already_exists())
}

pub fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.is_not_found())
}

/// Whether there is no such object, or not even its kind: then the answer is no status of the API's own.
pub fn is_absent(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404)
}

/// Whether the namespace is missing or on its way out.
pub fn is_place_gone(error: &Error) -> bool {
    let Error::Api(status) = error else { return false };
    let Some(details) = &status.details else { return false };
    let terminating = details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating");
    terminating || (status.is_not_found() && details.kind == "namespaces")
}

/// Turns "it is there already" into success: for what has to be there, whoever made it.
pub fn unless_there<T>(result: Result<T, Error>) -> Result<(), Error> {
    match result {
        Err(error) if !is_already_there(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Turns "it is not there" into success: for deletions, and for changes to what has just gone.
pub fn unless_gone<T>(result: Result<T, Error>) -> Result<(), Error> {
    match result {
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kube::core::Status;

    use super::*;

    /// Hangs at 1, and finishes everything else.
    struct Hanging {
        queue: Queue<u8>,
        seen: &'static Mutex<Vec<u8>>,
    }

    impl Controller for Hanging {
        type Item = u8;

        const NAME: &'static str = "hanging";

        fn queue(&self) -> &Queue<u8> {
            &self.queue
        }

        async fn reconcile(&self, item: &u8) -> Result<Next, Error> {
            self.seen.lock().expect("no panic").push(*item);
            if *item == 1 {
                std::future::pending::<()>().await;
            }
            Ok(Next::Rest)
        }
    }

    #[test]
    fn only_a_server_that_says_so_is_believed_that_something_is_there() {
        let refused = |reason: &str| -> Result<(), Error> {
            Err(Error::Api(Status::failure("no", reason).with_code(409).boxed()))
        };
        assert!(unless_there(refused("AlreadyExists")).is_ok());
        assert!(unless_there(refused("Conflict")).is_err(), "nothing was made");
    }

    /// Takes a second for everything, and writes down when it begins and ends with what.
    struct Slow {
        queue: Queue<u8>,
        seen: &'static Mutex<Vec<(u8, bool)>>,
    }

    impl Controller for Slow {
        type Item = u8;

        const NAME: &'static str = "slow";
        const ABREAST: usize = 2;

        fn queue(&self) -> &Queue<u8> {
            &self.queue
        }

        async fn reconcile(&self, item: &u8) -> Result<Next, Error> {
            self.seen.lock().expect("no panic").push((*item, true));
            if *item == 1 {
                self.queue.add(1);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.seen.lock().expect("no panic").push((*item, false));
            Ok(Next::Rest)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn several_are_looked_at_side_by_side_but_none_twice_at_a_time() {
        static SEEN: Mutex<Vec<(u8, bool)>> = Mutex::new(Vec::new());
        let controller = Slow { queue: Queue::new(), seen: &SEEN };
        [1, 2, 3].into_iter().for_each(|item| controller.queue.add(item));
        let _ = timeout(Duration::from_millis(2500), work(controller)).await;
        let seen = SEEN.lock().expect("no panic").clone();
        assert_eq!(seen[..2], [(1, true), (2, true)], "the third has to wait");
        let mut open = BTreeSet::new();
        for (item, begins) in &seen {
            assert!(if *begins { open.insert(item) } else { open.remove(item) }, "{seen:?}");
            assert!(open.len() <= 2, "{seen:?}");
        }
        assert!(seen.contains(&(3, false)), "{seen:?}");
        assert!(seen.iter().filter(|event| **event == (1, true)).count() > 1, "it came once more: {seen:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_hangs_is_given_up_and_repeated_after_the_others() {
        static SEEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());
        let controller = Hanging { queue: Queue::new(), seen: &SEEN };
        controller.queue.add(1);
        controller.queue.add(2);
        let _ = timeout(LONGEST_ATTEMPT + LONGEST_ATTEMPT / 2, work(controller)).await;
        assert_eq!(*SEEN.lock().expect("no panic"), [1, 2, 1]);
    }
}
