//! What was written and may not have come back through the watch yet.
//!
//! Without it, the return of the first of a hundred Works would make the other ninety-nine be written again.
//!
//! Some never come back: one that is deleted at once may be gone from the watch before it is noted here, or between two
//! watches. So what was written is believed for a while only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use tokio::time::Instant;
use tombolo_api::karmada::work::Work;
use tombolo_model::multi_cluster_service::{Place, place};
use tombolo_runtime::Key;

use crate::shared::{locked, service_key};

/// How long a Work is believed to be as it was written: longer than any watch lags behind that is not broken.
pub(crate) const BELIEVED: Duration = Duration::from_secs(10);

/// The Works that were written, by service.
#[derive(Default)]
pub(crate) struct Unseen(Mutex<BTreeMap<Key, BTreeMap<Place, Written>>>);

struct Written {
    at: Instant,
    work: Arc<Work>,
}

impl Written {
    fn is_old(&self) -> bool {
        self.at.elapsed() >= BELIEVED
    }
}

impl Unseen {
    pub(crate) fn note(&self, work: Work) {
        if let Some(key) = service_key(&work) {
            let written = Written { at: Instant::now(), work: Arc::new(work) };
            locked(&self.0).entry(key).or_default().insert(place(&written.work), written);
        }
    }

    pub(crate) fn forget(&self, key: &Key, place: &Place) {
        let mut all = locked(&self.0);
        if let Some(works) = all.get_mut(key) {
            works.remove(place);
            if works.is_empty() {
                all.remove(key);
            }
        }
    }

    /// The Works of a service as they are known, in the newest state of each.
    pub(crate) fn complete(&self, key: &Key, seen: Vec<Arc<Work>>) -> Vec<Arc<Work>> {
        let mut works: BTreeMap<Place, Arc<Work>> =
            seen.into_iter().map(|work| (place(&work), work)).collect();
        let mut all = locked(&self.0);
        if let Some(written) = all.get_mut(key) {
            written.retain(|place, written| {
                let is_newer = |seen: &Arc<Work>| version(&written.work) > version(seen);
                !written.is_old() && works.get(place).is_none_or(is_newer)
            });
            works.extend(written.iter().map(|(place, written)| (place.clone(), written.work.clone())));
            if written.is_empty() {
                all.remove(key);
            }
        }
        works.into_values().collect()
    }

    /// The services with a Work that is not believed any more.
    pub(crate) fn overdue(&self) -> Vec<Key> {
        let all = locked(&self.0);
        let is_overdue = |works: &BTreeMap<Place, Written>| works.values().any(|written| written.is_old());
        all.iter().filter(|(_, works)| is_overdue(works)).map(|(key, _)| key.clone()).collect()
    }
}

fn version(work: &Work) -> Option<u64> {
    work.resource_version()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tombolo_api::karmada::networking::{NAME_LABEL, NAMESPACE_LABEL};

    use super::*;

    fn work(name: &str, version: &str) -> Work {
        let mut work = Work::new(name, Default::default());
        work.metadata.namespace = Some("karmada-es-a".to_owned());
        work.metadata.resource_version = Some(version.to_owned());
        let labels = [(NAME_LABEL, "foo"), (NAMESPACE_LABEL, "demo")];
        work.metadata.labels = Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        work
    }

    fn check(unseen: &Unseen, seen: &[(&str, &str)], expected: &[(&str, &str)]) {
        let seen = seen.iter().map(|(name, version)| Arc::new(work(name, version))).collect();
        let known = unseen.complete(&Key::new("demo", "foo"), seen);
        let known: Vec<(String, String)> =
            known.iter().map(|work| (work.name_any(), work.resource_version().unwrap_or_default())).collect();
        let known: Vec<(&str, &str)> = known.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(known, expected);
    }

    #[test]
    fn the_newest_state_counts_and_what_is_gone_is_gone() {
        let unseen = Unseen::default();
        check(&unseen, &[("a", "9")], &[("a", "9")]);
        unseen.note(work("a", "10"));
        unseen.note(work("b", "11"));
        check(&unseen, &[("a", "9")], &[("a", "10"), ("b", "11")]);
        check(&unseen, &[("a", "12"), ("b", "11")], &[("a", "12"), ("b", "11")]);
        check(&unseen, &[], &[]);
        unseen.note(work("c", "13"));
        unseen.forget(&Key::new("demo", "foo"), &("karmada-es-a".to_owned(), "c".to_owned()));
        check(&unseen, &[], &[]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_never_comes_back_is_not_believed_for_ever() {
        let unseen = Unseen::default();
        // The watch told that it came and went before this.
        unseen.note(work("a", "10"));
        tokio::time::sleep(BELIEVED / 2).await;
        unseen.note(work("b", "11"));
        check(&unseen, &[], &[("a", "10"), ("b", "11")]);
        assert_eq!(unseen.overdue(), []);
        tokio::time::sleep(BELIEVED / 2).await;
        assert_eq!(unseen.overdue(), [Key::new("demo", "foo")]);
        check(&unseen, &[], &[("b", "11")]);
        assert_eq!(unseen.overdue(), [], "the other may still come");
        tokio::time::sleep(BELIEVED / 2).await;
        check(&unseen, &[], &[]);
    }
}
