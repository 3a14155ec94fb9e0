//! A value that others wait for.
//!
//! Unlike Tokio's watch channel it wakes those who wait in the order they came, so that a simulation of many of them is
//! the same every time.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub struct Signal<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy> Signal<T> {
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    pub fn get(&self) -> T {
        *self.lock()
    }

    pub fn set(&self, value: T) {
        self.update(|_| value);
    }

    /// Makes a new value of the old one, with nobody else in between.
    pub fn update(&self, change: impl FnOnce(T) -> T) {
        let mut value = self.lock();
        *value = change(*value);
        drop(value);
        self.changed.notify_waiters();
    }

    /// The value, as soon as it is one that is wanted.
    pub async fn wait_for(&self, wanted: impl Fn(T) -> bool) -> T {
        loop {
            // Whoever looks before it listens misses what happens in between.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let value = self.get();
            if wanted(value) {
                return value;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_are_woken_in_the_order_they_came() {
        let (signal, order) = (Arc::new(Signal::new(0)), Arc::new(Mutex::new(Vec::new())));
        for name in 0..20 {
            let (signal, order) = (signal.clone(), order.clone());
            tokio::spawn(async move {
                assert_eq!(signal.wait_for(|value| value > 1).await, 2);
                order.lock().expect("no panic").push(name);
            });
        }
        for value in [1, 2] {
            yield_now().await;
            signal.set(value);
        }
        yield_now().await;
        assert_eq!(*order.lock().expect("no panic"), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_is_there_already_is_not_waited_for() {
        assert!(Signal::new(true).wait_for(|value| value).await);
    }
}
