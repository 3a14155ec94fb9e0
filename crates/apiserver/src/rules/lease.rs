//! Leases: who leads, for how long.

use serde_json::Value;

use super::{field, not_negative};
use crate::invalid::FieldError;

/// Everything that is wrong with a Lease. Metadata is judged elsewhere.
pub(crate) fn validate(lease: &Value) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let path = "spec.leaseDurationSeconds";
    if field::at(lease, path).is_some() && field::number(lease, path) <= 0 {
        wrong.push(FieldError::invalid(path, field::number(lease, path), "must be greater than 0"));
    }
    wrong.extend(not_negative(lease, "spec.leaseTransitions"));
    let has = |path: &str| !field::text(lease, path).is_empty();
    if has("spec.preferredHolder") && !has("spec.strategy") {
        let detail = "may only be specified if `strategy` is defined";
        wrong.push(FieldError::forbidden("spec.preferredHolder", detail));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_lasts_and_counts_upwards() {
        let fine =
            json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0}});
        assert_eq!(validate(&fine), []);
        let lease =
            json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1, "preferredHolder": "b"}});
        let wrong: Vec<_> = validate(&lease).iter().map(ToString::to_string).collect();
        assert_eq!(
            wrong,
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
                "spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined",
            ]
        );
    }
}
