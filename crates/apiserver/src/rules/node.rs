//! Nodes: what can be used is what is there, unless said otherwise.

use serde_json::Value;

use super::field;
use crate::invalid::FieldError;

/// Lets `allocatable` follow `capacity`.
pub(crate) fn default(node: &mut Value) {
    if field::at(node, "status.allocatable").is_none()
        && let Some(capacity) = field::at(node, "status.capacity").cloned()
    {
        field::set(node, "status.allocatable", capacity);
    }
    let first = field::texts(node, "spec.podCIDRs").first().map(|cidr| (*cidr).to_owned());
    match (field::text(node, "spec.podCIDR").to_owned(), first) {
        (cidr, None) if !cidr.is_empty() => field::set(node, "spec.podCIDRs", vec![cidr]),
        (cidr, Some(first)) if cidr.is_empty() => field::set(node, "spec.podCIDR", first),
        _ => {}
    }
}

/// What may not change about a node once it is set.
pub(crate) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let Some(old) = old else { return Vec::new() };
    let mut wrong = Vec::new();
    let (before, after) = (field::list(old, "spec.podCIDRs"), field::list(new, "spec.podCIDRs"));
    if !before.is_empty() && before != after {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        wrong.push(FieldError::forbidden("spec.podCIDRs", detail));
    }
    let id = |node| field::text(node, "spec.providerID");
    if !id(old).is_empty() && id(old) != id(new) {
        let detail = "node updates may not change providerID except from \"\" to valid";
        wrong.push(FieldError::forbidden("spec.providerID", detail));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_offers_what_it_has() {
        let mut node = json!({"spec": {"podCIDR": "10.1.0.0/24"}, "status": {"capacity": {"cpu": "2"}}});
        default(&mut node);
        assert_eq!(
            node,
            json!({
                "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]},
                "status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}},
            })
        );
    }

    #[test]
    fn the_pod_network_is_set_once() {
        let (none, one) = (json!({"spec": {}}), json!({"spec": {"podCIDRs": ["10.1.0.0/24"]}}));
        let other = json!({"spec": {"podCIDRs": ["10.2.0.0/24"]}});
        assert_eq!(validate(&one, Some(&none)), []);
        assert_eq!(validate(&other, Some(&one)).len(), 1);
    }
}
