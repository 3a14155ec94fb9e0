//! Events are kept for an hour, then forgotten.
//!
//! Looked for when one is written, once a minute at most: a cluster where nothing happens has nothing to sweep.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Call;
use crate::core::ClusterWriter;
use crate::object;
use crate::store::Key;

const KEEP_FOR: SignedDuration = SignedDuration::from_hours(1);
const SWEEP_EVERY: SignedDuration = SignedDuration::from_mins(1);
const EVENTS: &str = "/events";

/// Removes old events, if `call` writes one and it is time.
pub(super) fn sweep(call: &Call<'_>, writer: &mut ClusterWriter<'_>) {
    let now = call.core.now();
    if &*call.resource.collection != EVENTS || now < writer.extra.next_sweep {
        return;
    }
    writer.extra.next_sweep = now.checked_add(SWEEP_EVERY).unwrap_or(now);
    for stored in call.core.store.list(EVENTS, None).1 {
        if last_seen(&stored.value).is_some_and(|seen| now.duration_since(seen) > KEEP_FOR) {
            writer.remove(&call.resource.collection, &Key::of(&stored.value), stored.value.clone());
        }
    }
}

/// When the event happened last, as far as it says.
fn last_seen(event: &Value) -> Option<Timestamp> {
    let series = object::text(event, &["series", "lastObservedTime"]);
    let times = [
        series,
        object::text(event, &["lastTimestamp"]),
        Some(object::meta_text(event, "creationTimestamp")),
    ];
    times.into_iter().flatten().filter_map(|text| text.parse::<Timestamp>().ok()).max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_as_old_as_its_last_occurrence() {
        let event = json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "lastTimestamp": "2026-01-01T02:00:00Z",
            "series": {"lastObservedTime": null},
        });
        assert_eq!(last_seen(&event), "2026-01-01T02:00:00Z".parse().ok());
        assert_eq!(last_seen(&json!({})), None);
    }
}
