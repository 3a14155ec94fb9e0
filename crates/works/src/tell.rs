//! Saying at the hub what became of Works, apart from applying them: nothing in the member waits for the hub.
//!
//! Of each Work only the newest is said. It is said of the Work as it was when it was applied; if it has changed since, the hub
//! refuses that, and whoever applies the changed one has something newer to say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::{Error, ResourceExt as _};
use tombolo_api::karmada::work::Work;
use tombolo_runtime::{Controller, Next, Queue};

use crate::shared::Shared;
use crate::status::{Results, tell_applied};

/// How long an attempt that may succeed in a moment is not talked about.
const PATIENCE: Duration = Duration::from_secs(2);

/// What became of a Work.
struct News {
    work: Arc<Work>,
    results: Results,
}

/// What is still to be said, by Work.
#[derive(Default)]
pub(crate) struct Tidings {
    queue: Queue<String>,
    news: Mutex<BTreeMap<String, Arc<News>>>,
}

impl Tidings {
    fn news(&self) -> MutexGuard<'_, BTreeMap<String, Arc<News>>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it said what became of a Work, instead of what became of it before.
    pub(crate) fn bring(&self, work: Arc<Work>, results: Results) {
        self.queue.add(self.keep(work, results));
    }

    /// The same, unless something newer is brought before long.
    pub(crate) fn bring_later(&self, work: Arc<Work>, results: Results) {
        self.queue.add_after(self.keep(work, results), PATIENCE);
    }

    fn keep(&self, work: Arc<Work>, results: Results) -> String {
        let name = work.name_any();
        self.news().insert(name.clone(), Arc::new(News { work, results }));
        name
    }

    /// There is nothing to say of a Work.
    pub(crate) fn forget(&self, name: &str) {
        self.news().remove(name);
    }

    fn newest(&self, name: &str) -> Option<Arc<News>> {
        self.news().get(name).cloned()
    }

    /// It has been said, unless there is something newer.
    fn said(&self, name: &str, news: &Arc<News>) {
        let mut all = self.news();
        if all.get(name).is_some_and(|newest| Arc::ptr_eq(newest, news)) {
            all.remove(name);
        }
    }
}

/// The controller of what is said about Works.
pub(crate) struct Teller {
    shared: Arc<Shared>,
    tidings: Arc<Tidings>,
}

impl Teller {
    pub(crate) fn new(shared: &Arc<Shared>, tidings: &Arc<Tidings>) -> Self {
        Self { shared: shared.clone(), tidings: tidings.clone() }
    }
}

impl Controller for Teller {
    type Item = String;

    const NAME: &'static str = "told works";
    const ABREAST: usize = 8;

    fn queue(&self) -> &Queue<String> {
        &self.tidings.queue
    }

    async fn reconcile(&self, item: &String) -> Result<Next, Error> {
        let Some(news) = self.tidings.newest(item) else { return Ok(Next::Rest) };
        tell_applied(&self.shared, &news.work, &news.results).await?;
        self.tidings.said(item, &news);
        Ok(Next::Rest)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;
    use tombolo_api::karmada::work::WorkSpec;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_told_after_a_while_and_what_is_newer_at_once() {
        let (tidings, start) = (Tidings::default(), Instant::now());
        let work = Arc::new(Work::new("w", WorkSpec::default()));
        tidings.bring_later(work.clone(), Results::new());
        assert_eq!((tidings.queue.next().await.as_str(), start.elapsed()), ("w", PATIENCE));
        tidings.bring_later(work.clone(), Results::new());
        tidings.bring(work, vec![(None, Err("no".to_owned()))]);
        assert_eq!((tidings.queue.next().await.as_str(), start.elapsed()), ("w", PATIENCE));
        assert_eq!(tidings.newest("w").map(|news| news.results.len()), Some(1), "the newest");
    }
}
