//! Doing several things side by side, but not all at once.

use futures_util::stream::{self, StreamExt as _};

use crate::boxed::Boxed;

/// What comes of `calls`, in the order in which they end, with at most so many under way at a time. The first that fails ends
/// it: the others are given up or never begun.
pub async fn try_abreast<T, E>(most: usize, calls: Vec<Boxed<'_, Result<T, E>>>) -> Result<Vec<T>, E> {
    let mut done = Vec::with_capacity(calls.len());
    let mut under_way = stream::iter(calls).buffer_unordered(most);
    while let Some(outcome) = under_way.next().await {
        done.push(outcome?);
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    /// Takes so many seconds, and fails at 9.
    fn call(seconds: u64) -> Boxed<'static, Result<u64, u64>> {
        Box::pin(async move {
            sleep(Duration::from_secs(seconds)).await;
            if seconds == 9 { Err(seconds) } else { Ok(seconds) }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn calls_go_side_by_side_within_the_bound_until_one_fails() {
        let start = Instant::now();
        let done = try_abreast(2, [3, 1, 1, 1].map(call).into()).await;
        assert_eq!((done, start.elapsed().as_secs()), (Ok(vec![1, 1, 3, 1]), 3));
        let start = Instant::now();
        let failed = try_abreast(2, [9, 20, 1].map(call).into()).await;
        assert_eq!((failed, start.elapsed().as_secs()), (Err(9), 9));
    }
}
