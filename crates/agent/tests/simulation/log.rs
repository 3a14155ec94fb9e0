//! What happened in a run: for whoever has to understand a failing seed, and to tell whether two runs were the same.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use kube::ResourceExt;
use tokio::time::Instant;
use tombolo_runtime::{Cache, Key};

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The log of one run. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Inner>);

#[derive(Default)]
struct Inner {
    start: OnceLock<Instant>,
    lines: Mutex<Vec<String>>,
    trace: Mutex<(DefaultHasher, u64)>,
    /// The change that came last.
    last: Mutex<String>,
}

impl Log {
    pub(crate) fn note(&self, what: &str) {
        let line = format!("{:>9.3}s {what}", self.at().as_secs_f64());
        locked(&self.0.lines).push(line);
    }

    fn at(&self) -> std::time::Duration {
        let now = Instant::now();
        now.duration_since(*self.0.start.get_or_init(|| now))
    }

    /// Takes every change of every object in `cache` into the trace; with `TRACE` set, each is told, too.
    pub(crate) fn follow<K: ResourceExt<DynamicType = ()> + 'static>(&self, place: &str, cache: &Cache<K>) {
        let (log, place, is_told) = (self.clone(), place.to_owned(), std::env::var_os("TRACE").is_some());
        cache.listen(move |object| {
            let (at, version) = (log.at(), object.resource_version());
            let mut trace = locked(&log.0.trace);
            (at, &place, K::kind(&()), object.namespace(), object.name_any(), &version).hash(&mut trace.0);
            trace.1 += 1;
            let (kind, key) = (K::kind(&()), Key::of(object));
            let change = format!("{kind} {key} in {place} at {:.3}s", at.as_secs_f64());
            if is_told {
                log.note(&format!("    {change}: version {}", version.unwrap_or_default()));
            }
            *locked(&log.0.last) = change;
        });
    }

    /// How many changes there were.
    pub(crate) fn events(&self) -> u64 {
        locked(&self.0.trace).1
    }

    /// Which of them was the last.
    pub(crate) fn last_event(&self) -> String {
        locked(&self.0.last).clone()
    }

    /// What was noted, and a mark that differs as soon as a single change came otherwise or at another time.
    pub(crate) fn text(&self) -> String {
        let (trace, events) = locked(&self.0.trace).clone();
        let lines = locked(&self.0.lines).join("\n");
        format!("{lines}\n{events} changes, trace {:016x}", trace.finish())
    }
}
