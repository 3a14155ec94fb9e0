//! Work that is done in lanes: some at the same time, but of what is loud, and would disturb its like, one after the other.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One piece of it.
pub(super) struct Piece<W> {
    pub(super) work: W,
    pub(super) is_loud: bool,
}

/// What is still to be done.
struct Queue<W> {
    state: Mutex<State<W>>,
    silence: Condvar,
}

struct State<W> {
    waiting: VecDeque<Piece<W>>,
    /// Whether something loud is being done.
    is_loud: bool,
}

/// Does all pieces, in their order as far as possible. The first failure is returned; the lane that has it ends.
pub(super) fn run<W: Send>(
    lanes: usize,
    pieces: impl IntoIterator<Item = Piece<W>>,
    act: impl Fn(W) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let state = State { waiting: pieces.into_iter().collect(), is_loud: false };
    let queue = Queue { state: Mutex::new(state), silence: Condvar::new() };
    let lane = || {
        while let Some(piece) = queue.next() {
            let outcome = act(piece.work);
            if piece.is_loud {
                queue.fall_silent();
            }
            outcome?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("a lane ends"))
    })
}

impl<W> Queue<W> {
    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits if nothing is left but what is too loud just now.
    fn next(&self) -> Option<Piece<W>> {
        let mut state = self.lock();
        while !state.waiting.is_empty() {
            let fitting = state.waiting.iter().position(|piece| !(piece.is_loud && state.is_loud));
            if let Some(piece) = fitting.and_then(|place| state.waiting.remove(place)) {
                state.is_loud |= piece.is_loud;
                return Some(piece);
            }
            state = self.silence.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn fall_silent(&self) {
        self.lock().is_loud = false;
        self.silence.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn all_is_done_and_nothing_loud_at_the_same_time() {
        let pieces = (0..100).map(|number: usize| Piece { work: number, is_loud: number.is_multiple_of(3) });
        let (done, loud, loudest) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let outcome = run(3, pieces, |number| {
            if number.is_multiple_of(3) {
                loudest.fetch_max(loud.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                loud.fetch_sub(1, Ordering::SeqCst);
            }
            done.fetch_add(number, Ordering::SeqCst);
            Ok(())
        });
        assert_eq!((outcome, done.into_inner(), loudest.into_inner()), (Ok(()), (0..100).sum(), 1));
    }

    #[test]
    fn a_lane_that_fails_tells_why_and_others_go_on() {
        let pieces = (0..10).map(|number| Piece { work: number, is_loud: true });
        let done = AtomicUsize::new(0);
        let outcome = run(2, pieces, |number| {
            done.fetch_add(1, Ordering::SeqCst);
            if number == 0 { Err("no".to_owned()) } else { Ok(()) }
        });
        assert_eq!((outcome, done.into_inner()), (Err("no".to_owned()), 10));
    }
}
