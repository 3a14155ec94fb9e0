//! What was written and may not have come back through the watch yet.
//!
//! Without it, the return of the first of a hundred Works would make the other ninety-nine be written again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kube::ResourceExt;
use tombolo_api::karmada::work::Work;
use tombolo_model::multi_cluster_service::{Place, place};
use tombolo_runtime::Key;

use crate::shared::{locked, service_key};

/// The Works that were written, by service.
#[derive(Default)]
pub(crate) struct Unseen(Mutex<BTreeMap<Key, BTreeMap<Place, Arc<Work>>>>);

impl Unseen {
    pub(crate) fn note(&self, work: Work) {
        if let Some(key) = service_key(&work) {
            locked(&self.0).entry(key).or_default().insert(place(&work), Arc::new(work));
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
            written.retain(|place, work| works.get(place).is_none_or(|seen| version(seen) < version(work)));
            works.extend(written.iter().map(|(place, work)| (place.clone(), work.clone())));
            if written.is_empty() {
                all.remove(key);
            }
        }
        works.into_values().collect()
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
}
