//! What a controller still has to look at.
//!
//! An item is in the queue once, however often it was added, so the queue is never longer than there are objects.
//! Items come out in the order they went in: with Tokio's clock paused, every run is the same. One that comes over and
//! over has to wait: whoever fights with somebody over an object does not do it as fast as the network allows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_secs(3);
/// More often than this within a [`WINDOW`] no item comes out; what changes that often can be looked at together.
const MOST_OFTEN: u32 = 100;
const WINDOW: Duration = Duration::from_secs(1);

/// A queue with one reader.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    wake: Notify,
}

#[derive(Debug)]
struct State<T> {
    ready: VecDeque<T>,
    members: BTreeSet<T>,
    later: BTreeMap<T, Instant>,
    /// The same, the earliest first.
    timetable: BTreeSet<(Instant, T)>,
    failures: BTreeMap<T, u32>,
    /// How often items have come out in the present window.
    taken: BTreeMap<T, u32>,
    window: Instant,
}

impl<T: Ord + Clone> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Ord + Clone> Queue<T> {
    pub fn new() -> Self {
        let state = State {
            ready: VecDeque::new(),
            members: BTreeSet::new(),
            later: BTreeMap::new(),
            timetable: BTreeSet::new(),
            failures: BTreeMap::new(),
            taken: BTreeMap::new(),
            window: Instant::now(),
        };
        Self { state: Mutex::new(state), wake: Notify::new() }
    }

    pub fn add(&self, item: T) {
        self.state().push(item);
        self.wake.notify_one();
    }

    /// Adds `item` after a while; of several such wishes the earliest counts.
    pub fn add_after(&self, item: T, delay: Duration) {
        let due = Instant::now() + delay;
        self.state().postpone(item, due);
        self.wake.notify_one();
    }

    /// Adds `item` again after a failure, later each time. Returns how often it has failed.
    pub fn retry(&self, item: &T) -> u32 {
        let mut state = self.state();
        let failures = state.failures.entry(item.clone()).or_default();
        *failures = failures.saturating_add(1);
        let count = *failures;
        drop(state);
        self.add_after(item.clone(), delay(count));
        count
    }

    /// Forgets earlier failures of `item`.
    pub fn forget(&self, item: &T) {
        self.state().failures.remove(item);
    }

    /// Forgets all failures and adds what waits because of one: the reason for them is gone.
    pub fn hurry(&self) {
        let mut state = self.state();
        let failed: Vec<T> = std::mem::take(&mut state.failures).into_keys().collect();
        failed.into_iter().for_each(|item| state.advance(item));
        drop(state);
        self.wake.notify_one();
    }

    /// The next item, as soon as there is one.
    pub async fn next(&self) -> T {
        loop {
            let due = match self.state().pop(Instant::now()) {
                Ok(item) => return item,
                Err(due) => due,
            };
            match due {
                None => self.wake.notified().await,
                Some(due) => tokio::select! {
                    biased;
                    () = self.wake.notified() => {}
                    () = sleep_until(due) => {}
                },
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Ord + Clone> State<T> {
    fn push(&mut self, item: T) {
        if self.members.insert(item.clone()) {
            self.ready.push_back(item);
        }
    }

    fn postpone(&mut self, item: T, due: Instant) {
        match self.later.get(&item) {
            Some(known) if *known <= due => return,
            Some(known) => drop(self.timetable.remove(&(*known, item.clone()))),
            None => {}
        }
        self.timetable.insert((due, item.clone()));
        self.later.insert(item, due);
    }

    /// What was to come later comes now.
    fn advance(&mut self, item: T) {
        if let Some(due) = self.later.remove(&item) {
            self.timetable.remove(&(due, item.clone()));
            self.push(item);
        }
    }

    /// The first item, or when to ask again.
    fn pop(&mut self, now: Instant) -> Result<T, Option<Instant>> {
        while self.timetable.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, item)) = self.timetable.pop_first() else { break };
            self.later.remove(&item);
            self.push(item);
        }
        if now >= self.window + WINDOW {
            self.taken.clear();
            self.window = now;
        }
        while let Some(item) = self.ready.pop_front() {
            self.members.remove(&item);
            let taken = self.taken.entry(item.clone()).or_default();
            if *taken < MOST_OFTEN {
                *taken += 1;
                return Ok(item);
            }
            self.postpone(item, self.window + WINDOW);
        }
        Err(self.timetable.first().map(|(due, _)| *due))
    }
}

fn delay(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(LONGEST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_item_added_twice_comes_out_once_and_in_order() {
        let queue = Queue::new();
        for item in ["b", "a", "b", "c"] {
            queue.add(item);
        }
        assert_eq!([queue.next().await, queue.next().await, queue.next().await], ["b", "a", "c"]);
        let nothing = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
        assert!(nothing.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_delays_the_shorter_counts() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(9));
        queue.add_after("a", Duration::from_secs(2));
        queue.add_after("a", Duration::from_secs(5));
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_that_comes_over_and_over_waits_and_others_do_not() {
        let (queue, start) = (Queue::new(), Instant::now());
        for _ in 0..MOST_OFTEN {
            queue.add("hot");
            assert_eq!(queue.next().await, "hot");
        }
        assert!(start.elapsed().is_zero());
        queue.add("hot");
        queue.add("cold");
        assert_eq!(queue.next().await, "cold");
        assert!(start.elapsed().is_zero());
        assert_eq!(queue.next().await, "hot");
        assert_eq!(start.elapsed(), WINDOW);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_failed_comes_at_once_when_the_reason_is_gone() {
        let (queue, start) = (Queue::new(), Instant::now());
        for _ in 0..9 {
            queue.retry(&"failed");
        }
        queue.add_after("patient", Duration::from_secs(1));
        queue.hurry();
        assert_eq!(queue.next().await, "failed");
        assert!(start.elapsed().is_zero());
        assert_eq!(queue.next().await, "patient");
        assert_eq!(start.elapsed(), Duration::from_secs(1), "it did not wait because of a failure");
        assert_eq!(queue.retry(&"failed"), 1);
    }

    #[test]
    fn retries_slow_down_to_a_few_seconds() {
        let delays: Vec<u128> = [1, 2, 3, 8, 9, u32::MAX].map(|count| delay(count).as_millis()).to_vec();
        assert_eq!(delays, [20, 40, 80, 2560, 3000, 3000]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_ends_the_count_of_failures() {
        let queue = Queue::new();
        assert_eq!([queue.retry(&1), queue.retry(&1)], [1, 2]);
        queue.forget(&1);
        assert_eq!(queue.retry(&1), 1);
    }
}
