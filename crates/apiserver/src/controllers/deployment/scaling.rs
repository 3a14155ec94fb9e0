//! How many pods more or fewer a Deployment may have while it changes, and how a new size is shared out.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::sets::{self, Sets, Step};

/// The room a rollout has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) replicas: i32,
    pub(super) surge: i32,
    pub(super) unavailable: i32,
}

impl Limits {
    pub(super) fn of(deployment: &Deployment) -> Self {
        let spec = &deployment.spec;
        let replicas = spec.replicas.unwrap_or(1).max(0);
        if !is_rolling(deployment) {
            return Self { replicas, surge: 0, unavailable: 0 };
        }
        let rolling = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
        let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let surge = share(surge, replicas, true);
        let mut unavailable = share(unavailable, replicas, false).min(replicas);
        // Without room in either direction nothing would ever move.
        if surge == 0 && unavailable == 0 {
            unavailable = 1.min(replicas);
        }
        Self { replicas, surge, unavailable }
    }

    pub(super) fn least_available(self) -> i32 {
        self.replicas - self.unavailable
    }

    pub(super) fn most(self) -> i32 {
        self.replicas.saturating_add(self.surge)
    }

    pub(super) fn notes(self) -> BTreeMap<String, String> {
        sets::sizes(self.replicas, self.surge)
    }
}

pub(super) fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
    strategy != Some("Recreate")
}

/// A number, or a percentage of `whole`; a quarter when nothing is said.
fn share(wanted: Option<&IntOrString>, whole: i32, round_up: bool) -> i32 {
    let percent = match wanted {
        Some(IntOrString::Int(number)) => return (*number).max(0),
        Some(IntOrString::String(text)) => text.trim_end_matches('%').parse().unwrap_or(25_i64),
        None => 25,
    };
    let hundredfold = i64::from(whole) * percent.max(0);
    let shared = if round_up { (hundredfold + 99) / 100 } else { hundredfold / 100 };
    i32::try_from(shared).unwrap_or(i32::MAX)
}

/// Whether somebody changed the deployment's size since its sets were last scaled.
pub(super) fn is_due(deployment: &Deployment, sets: &Sets<'_>) -> bool {
    let wanted = Limits::of(deployment).replicas;
    sets.active().iter().any(|set| sets::desired(set).is_some_and(|desired| desired != wanted))
}

/// Shares out the deployment's size among its sets, without rolling any further.
pub(super) fn steps(deployment: &Deployment, sets: &Sets<'_>) -> Vec<Step> {
    let limits = Limits::of(deployment);
    let notes = limits.notes();
    if let Some(only) = only(sets) {
        return sets::scale(only, limits.replicas, &notes).into_iter().collect();
    }
    if sets.new.is_some_and(|new| is_saturated(new, limits)) {
        return sets.old.iter().filter_map(|old| sets::scale(old, 0, &notes)).collect();
    }
    if !is_rolling(deployment) {
        return Vec::new();
    }
    let sizes = proportions(&sets.active(), limits);
    sizes.into_iter().filter_map(|(set, size)| sets::scale(set, size, &notes)).collect()
}

/// The set that has all pods, or would have if there were any.
fn only<'a>(sets: &Sets<'a>) -> Option<&'a ReplicaSet> {
    match sets.active().as_slice() {
        [] => sets.new.or(sets.old.last().copied()),
        [one] => Some(one),
        _ => None,
    }
}

fn is_saturated(set: &ReplicaSet, limits: Limits) -> bool {
    let wanted = limits.replicas;
    sets::replicas(set) == wanted && sets::desired(set) == Some(wanted) && sets::available(set) == wanted
}

/// New sizes in proportion to the old ones; what rounding leaves over goes to the largest.
fn proportions<'a>(active: &[&'a ReplicaSet], limits: Limits) -> Vec<(&'a ReplicaSet, i32)> {
    let mut ordered = active.to_vec();
    ordered.sort_by_key(|set| {
        (Reverse(sets::replicas(set)), Reverse(set.metadata.creation_timestamp.clone()), set.name_any())
    });
    let total: i32 = ordered.iter().map(|set| sets::replicas(set)).sum();
    let allowed = if limits.replicas > 0 { limits.most() } else { 0 };
    let mut left = allowed - total;
    let mut sizes = Vec::new();
    for set in ordered {
        let size = sets::replicas(set);
        let before = i64::from(sets::maximum(set).unwrap_or(total).max(1));
        // Rounded to the nearest.
        let fair = (2 * i64::from(size) * i64::from(allowed) + before) / (2 * before);
        let change = i32::try_from(fair).unwrap_or(i32::MAX) - size;
        let change = if left >= 0 { change.clamp(0, left) } else { change.clamp(left, 0) };
        left -= change;
        sizes.push((set, size + change));
    }
    if let Some((_, size)) = sizes.first_mut() {
        *size = (*size + left).max(0);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn deployment(replicas: i32, strategy: Value) -> Deployment {
        from_value(json!({"metadata": {}, "spec": {
            "replicas": replicas, "selector": {}, "template": {}, "strategy": strategy}}))
        .unwrap()
    }

    #[test]
    fn percentages_are_rounded_to_the_side_that_keeps_pods() {
        let rolling = |surge: Value, unavailable: Value| json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        let cases = [
            (10, json!({}), (3, 2)),
            (1, json!({}), (1, 0)),
            (4, rolling(json!(0), json!("100%")), (0, 4)),
            (4, rolling(json!("0%"), json!("10%")), (0, 1)),
            (3, rolling(json!(2), json!(9)), (2, 3)),
            (0, json!({}), (0, 0)),
            (5, json!({"type": "Recreate"}), (0, 0)),
        ];
        for (replicas, strategy, expected) in cases {
            let limits = Limits::of(&deployment(replicas, strategy.clone()));
            assert_eq!((limits.surge, limits.unavailable), expected, "{replicas} {strategy}");
        }
    }

    fn set(name: &str, replicas: i32, maximum: i32) -> ReplicaSet {
        let mut set: ReplicaSet =
            from_value(json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {}}}))
                .unwrap();
        set.metadata.annotations = Some(sets::sizes(maximum, 0));
        set
    }

    #[test]
    fn a_new_size_is_shared_out_by_the_old_sizes() {
        let cases = [
            // From 10 to 20 with 8 old and 4 new pods: the maximum was 12 and is 24.
            ((8, 4, 12), (20, 4), (16, 8)),
            ((8, 4, 12), (5, 1), (4, 2)),
            ((8, 4, 12), (0, 0), (0, 0)),
            ((3, 3, 6), (7, 0), (3, 4)),
        ];
        for ((old, new, maximum), (replicas, surge), expected) in cases {
            let (old, new) = (set("old", old, maximum), set("new", new, maximum));
            let limits = Limits { replicas, surge, unavailable: 0 };
            let sizes = proportions(&[&old, &new], limits);
            let size =
                |name: &str| sizes.iter().find(|(set, _)| set.name_any() == name).map(|(_, size)| *size);
            assert_eq!((size("old"), size("new")), (Some(expected.0), Some(expected.1)));
        }
    }
}
