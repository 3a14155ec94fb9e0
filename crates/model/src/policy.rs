//! How the two editions of the API differ, as a value.
//!
//! Nothing below the API edge asks which edition it serves; it asks the policy what to do.

use tombolo_api::tombolo::Dialect;
use tombolo_api::{kep, mcs};

/// What becomes of a service whose exports disagree on a property of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// It is withdrawn everywhere until they agree (KEP-1645 first edition, Global Properties).
    Withdraw,
    /// The oldest export decides and the service stays (KEP-1645 today, Constraints and Conflict Resolution).
    OldestWins,
}

/// The rules of one dialect.
#[derive(Debug, PartialEq, Eq)]
pub struct Policy {
    pub dialect: Dialect,
    pub disagreement: Disagreement,
    /// Label of an imported slice: its import.
    pub import_label: &'static str,
    /// `apiVersion` and `kind` of the import.
    pub import_kind: (&'static str, &'static str),
}

impl Policy {
    /// KEP-1645, first edition.
    pub const KEP: Policy = Policy {
        dialect: Dialect::Kep,
        disagreement: Disagreement::Withdraw,
        import_label: kep::IMPORTED_SERVICE_NAME_LABEL,
        import_kind: ("multicluster.k8s.io/v1alpha1", "ImportedService"),
    };

    /// Today's MCS API.
    pub const MCS: Policy = Policy {
        dialect: Dialect::Mcs,
        disagreement: Disagreement::OldestWins,
        import_label: mcs::SERVICE_NAME_LABEL,
        import_kind: ("multicluster.x-k8s.io/v1beta1", "ServiceImport"),
    };

    pub const fn of(dialect: Dialect) -> &'static Policy {
        match dialect {
            Dialect::Kep => &Self::KEP,
            Dialect::Mcs => &Self::MCS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_has_its_own_policy() {
        for &dialect in Dialect::ALL {
            assert_eq!(Policy::of(dialect).dialect, dialect);
        }
    }

    #[test]
    fn slices_are_tied_to_their_import_by_the_label_of_the_dialect() {
        assert_eq!(Policy::KEP.import_label, "multicluster.kubernetes.io/imported-service-name");
        assert_eq!(Policy::MCS.import_label, "multicluster.kubernetes.io/service-name");
    }
}
