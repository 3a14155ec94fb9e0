//! Work that is done in lanes: some at the same time, but no more of one kind than there is room for.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One piece of it.
pub(super) struct Piece<W> {
    pub(super) work: W,
    pub(super) kinds: Vec<Kind>,
}

/// What its like would be disturbed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It sends packets: two would take the processor from each other at the wrong moment.
    Loud,
    /// It wants real servers, which are not idle even if nobody asks them for anything.
    Real,
}

impl Kind {
    /// How many of a kind may be done at the same time.
    fn room(self) -> usize {
        match self {
            Kind::Loud => 1,
            Kind::Real => 3,
        }
    }
}

/// What is still to be done.
struct Queue<W> {
    state: Mutex<State<W>>,
    done: Condvar,
}

struct State<W> {
    waiting: VecDeque<Piece<W>>,
    /// The kinds of what is being done.
    under_way: Vec<Kind>,
}

/// Does all pieces, in their order as far as possible. The first failure is returned; the lane that has it ends.
pub(super) fn run<W: Send>(
    lanes: usize,
    pieces: impl IntoIterator<Item = Piece<W>>,
    act: impl Fn(W) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let state = State { waiting: pieces.into_iter().collect(), under_way: Vec::new() };
    let queue = Queue { state: Mutex::new(state), done: Condvar::new() };
    let lane = || {
        while let Some(Piece { work, kinds }) = queue.next() {
            let outcome = act(work);
            queue.end(&kinds);
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

    /// Waits if there is no room for anything that is left.
    fn next(&self) -> Option<Piece<W>> {
        let mut state = self.lock();
        while !state.waiting.is_empty() {
            let fitting = state.waiting.iter().position(|piece| state.has_room(piece));
            if let Some(piece) = fitting.and_then(|place| state.waiting.remove(place)) {
                state.under_way.extend(&piece.kinds);
                return Some(piece);
            }
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn end(&self, kinds: &[Kind]) {
        let mut state = self.lock();
        for kind in kinds {
            let place = state.under_way.iter().position(|other| other == kind);
            place.map(|place| state.under_way.swap_remove(place));
        }
        self.done.notify_all();
    }
}

impl<W> State<W> {
    fn has_room(&self, piece: &Piece<W>) -> bool {
        let count = |kind| self.under_way.iter().filter(|other| **other == kind).count();
        piece.kinds.iter().all(|kind| count(*kind) < kind.room())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn all_is_done_and_of_each_kind_only_as_much_as_there_is_room_for() {
        let kinds = |number: usize| match number % 4 {
            0 => vec![Kind::Loud],
            1 => vec![Kind::Real],
            2 => vec![Kind::Loud, Kind::Real],
            _ => Vec::new(),
        };
        let pieces = (0..200).map(|number| Piece { work: number, kinds: kinds(number) });
        let (done, now, most) =
            (AtomicUsize::new(0), [0, 0].map(AtomicUsize::new), [0, 0].map(AtomicUsize::new));
        let outcome = run(4, pieces, |number| {
            for kind in kinds(number) {
                let count = now[kind as usize].fetch_add(1, Ordering::SeqCst) + 1;
                most[kind as usize].fetch_max(count, Ordering::SeqCst);
            }
            std::thread::yield_now();
            for kind in kinds(number) {
                now[kind as usize].fetch_sub(1, Ordering::SeqCst);
            }
            done.fetch_add(number, Ordering::SeqCst);
            Ok(())
        });
        assert_eq!((outcome, done.into_inner()), (Ok(()), (0..200).sum()));
        let most = most.map(AtomicUsize::into_inner);
        assert!(most[0] == Kind::Loud.room() && most[1] <= Kind::Real.room(), "{most:?}");
    }

    #[test]
    fn a_lane_that_fails_tells_why_and_others_go_on() {
        let pieces = (0..10).map(|number| Piece { work: number, kinds: vec![Kind::Loud] });
        let done = AtomicUsize::new(0);
        let outcome = run(2, pieces, |number| {
            done.fetch_add(1, Ordering::SeqCst);
            if number == 0 { Err("no".to_owned()) } else { Ok(()) }
        });
        assert_eq!((outcome, done.into_inner()), (Err("no".to_owned()), 10));
    }
}
