//! Namespaces: born active, deleted in two steps.

use serde_json::{Value, json};

use super::field;

/// The finalizer that only the controller which empties the namespace takes away.
pub(crate) const FINALIZER: &str = "kubernetes";

/// The label by which policies select a namespace by its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// What the server says when somebody tries to delete a namespace that it cannot live without.
pub(crate) const NOT_DELETABLE: &str = "this namespace may not be deleted";

/// Whether the namespace may be deleted at all.
pub(crate) fn is_deletable(name: &str) -> bool {
    !matches!(name, "default" | "kube-system" | "kube-public")
}

/// Keeps the label that carries the name; the name has to be known already.
pub(crate) fn default(namespace: &mut Value) {
    let name = field::text(namespace, "metadata.name").to_owned();
    if name.is_empty() {
        return;
    }
    if let Some(labels) = field::section(namespace, "metadata.labels") {
        labels.insert(NAME_LABEL.to_owned(), name.into());
    }
}

/// Makes a new namespace active and puts the finalizer on it.
pub(crate) fn prepare_create(namespace: &mut Value) {
    field::set(namespace, "status", json!({"phase": "Active"}));
    let mut finalizers = field::list(namespace, "spec.finalizers").to_vec();
    if !finalizers.iter().any(|name| name == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    field::set(namespace, "spec.finalizers", finalizers);
}

/// Keeps what only `/finalize` and `/status` may write.
pub(crate) fn prepare_update(old: &Value, new: &mut Value) {
    field::carry(old, new, "spec.finalizers");
    field::carry(old, new, "status");
}

/// What the first of the two steps leaves: a namespace on its way out.
pub(crate) fn prepare_delete(namespace: &mut Value) {
    field::set(namespace, "status.phase", "Terminating");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_namespace_is_active_labelled_and_guarded() {
        let mut namespace =
            json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "status": {"phase": "Gone"}});
        default(&mut namespace);
        prepare_create(&mut namespace);
        assert_eq!(
            namespace,
            json!({
                "metadata": {"name": "a", "labels": {"x": "y", "kubernetes.io/metadata.name": "a"}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            })
        );
    }

    #[test]
    fn an_update_cannot_take_the_finalizer_away() {
        let old = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let mut new = json!({"metadata": {"name": "a"}, "spec": {}});
        prepare_update(&old, &mut new);
        assert_eq!(new["spec"], old["spec"]);
        assert_eq!(new["status"], old["status"]);
        prepare_delete(&mut new);
        assert_eq!(new["status"]["phase"], "Terminating");
    }

    #[test]
    fn three_namespaces_stay() {
        let stays: Vec<_> = ["default", "kube-system", "kube-public", "kube-node-lease", "mine"]
            .into_iter()
            .filter(|name| !is_deletable(name))
            .collect();
        assert_eq!(stays, ["default", "kube-system", "kube-public"]);
    }
}
