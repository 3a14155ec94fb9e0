//! What a pod's status says, in the questions controllers ask.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Whether the pod has run to its end.
pub(super) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(super) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether the pod counts: neither finished nor on its way out.
pub(super) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

pub(super) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Since when the pod has been ready.
pub(super) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// How long until the pod has been ready for `seconds`: zero when it has, nothing when it is not ready.
pub(super) fn until_available(pod: &Pod, seconds: i32, now: Timestamp) -> Option<Duration> {
    if !is_ready(pod) {
        return None;
    }
    if seconds <= 0 {
        return Some(Duration::ZERO);
    }
    let since = ready_since(pod)?.as_second();
    let left = since.saturating_add(seconds.into()).saturating_sub(now.as_second());
    Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
}

/// The node the pod is bound to.
pub(super) fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// All addresses of the pod, the first one first.
pub(super) fn addresses(pod: &Pod) -> Vec<&str> {
    let Some(status) = &pod.status else { return Vec::new() };
    let listed = status.pod_ips.iter().flatten().map(|found| found.ip.as_str());
    let mut found: Vec<&str> = listed.filter(|address| !address.is_empty()).collect();
    if found.is_empty() {
        found.extend(status.pod_ip.as_deref().filter(|address| !address.is_empty()));
    }
    found
}
