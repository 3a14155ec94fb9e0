//! What keeps a namespace from going, for those who wait for it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, NamespaceStatus};
use kube::ResourceExt;

use super::super::catalogue::{GroupKind, Meta};
use super::super::moment;

/// What is left in a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Remains {
    /// By kind, how many.
    objects: BTreeMap<String, usize>,
    /// By finalizer, on how many objects.
    finalizers: BTreeMap<String, usize>,
    /// What could not be deleted or listed.
    pub(super) failures: Vec<String>,
}

impl Remains {
    pub(super) fn note(&mut self, kind: &GroupKind, object: &Meta) {
        let name = match kind.group.as_str() {
            "" => kind.kind.clone(),
            group => format!("{}.{group}", kind.kind),
        };
        *self.objects.entry(name).or_default() += 1;
        for finalizer in object.finalizers() {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.failures.is_empty()
    }
}

/// The status of a namespace that is being emptied.
pub(super) fn status(namespace: &Namespace, remains: &Remains, now: Timestamp) -> NamespaceStatus {
    let list = |counts: &BTreeMap<String, usize>, link: &str| {
        let parts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} {link} {count}")).collect();
        parts.join(", ")
    };
    let objects = list(&remains.objects, "has");
    let finalizers = list(&remains.finalizers, "on");
    let failures = remains.failures.join("; ");
    let tell = |found: bool, yes: String, no: &str| if found { yes } else { no.to_owned() };
    let facts = [
        (
            "NamespaceDeletionDiscoveryFailure",
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionContentFailure",
            !failures.is_empty(),
            if failures.is_empty() { "ContentDeleted" } else { "ContentDeletionFailed" },
            tell(
                !failures.is_empty(),
                failures,
                "All content successfully deleted, may be waiting on finalization",
            ),
        ),
        (
            "NamespaceContentRemaining",
            !objects.is_empty(),
            if objects.is_empty() { "ContentRemoved" } else { "SomeResourcesRemain" },
            tell(
                !objects.is_empty(),
                format!("Some resources are remaining: {objects}"),
                "All content successfully removed",
            ),
        ),
        (
            "NamespaceFinalizersRemaining",
            !finalizers.is_empty(),
            if finalizers.is_empty() { "ContentHasNoFinalizers" } else { "SomeFinalizersRemain" },
            tell(
                !finalizers.is_empty(),
                format!("Some content in the namespace has finalizers remaining: {finalizers}"),
                "All content-preserving finalizers finished",
            ),
        ),
    ];
    let mut status = namespace.status.clone().unwrap_or_default();
    for (kind, is_true, reason, message) in facts {
        record(&mut status, kind, is_true, reason, message, now);
    }
    status
}

fn record(
    status: &mut NamespaceStatus,
    kind: &str,
    is_true: bool,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let value = if is_true { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    let known = conditions.iter_mut().find(|condition| condition.type_ == kind);
    let since = known
        .as_ref()
        .filter(|known| known.status == value)
        .and_then(|known| known.last_transition_time.clone());
    let condition = NamespaceCondition {
        type_: kind.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: since.or_else(|| Some(moment::time(now))),
    };
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn what_remains_is_told_and_told_once() {
        let object: Meta =
            from_value(json!({"metadata": {"name": "x", "finalizers": ["a.example/b"]}})).unwrap();
        let mut remains = Remains::default();
        assert!(remains.is_empty());
        remains.note(&GroupKind::new("example.com/v1", "Toy"), &object);
        remains.note(&GroupKind::new("example.com/v1", "Toy"), &object);
        let namespace = Namespace::default();
        let first = status(&namespace, &remains, "2026-01-01T00:00:00Z".parse().unwrap());
        let messages: Vec<&str> =
            first.conditions.iter().flatten().filter_map(|found| found.message.as_deref()).collect();
        assert_eq!(messages[2], "Some resources are remaining: Toy.example.com has 2");
        assert_eq!(messages[3], "Some content in the namespace has finalizers remaining: a.example/b on 2");
        let namespace = Namespace { status: Some(first.clone()), ..namespace };
        assert_eq!(status(&namespace, &remains, "2026-01-01T00:09:00Z".parse().unwrap()), first);
    }
}
