//! How local and remote endpoints of one name are combined (specs/001, specs/003).
//!
//! A ServiceImport and a MultiClusterService carry the same annotation with different words. A word that is not in the
//! list of its kind is refused, never read as another one.

use crate::vocabulary::vocabulary;

/// Annotation of a ServiceImport or a MultiClusterService: the strategy (specs/001, Proposal).
pub const STRATEGY_ANNOTATION: &str = "discovery.karmada.io/strategy";

/// Prefix of the names of imported slices under native naming (specs/001, Design Details, service registration flow).
pub const IMPORTED_SLICE_PREFIX: &str = "import-";

vocabulary! {
    /// Strategies of a ServiceImport (specs/001, Proposal).
    #[derive(Default)]
    ImportStrategy {
        /// Nothing is imported while a Service of the name is there.
        LocalOnly = "LocalOnly",
        /// Local and remote endpoints together.
        #[default]
        LocalAndRemote = "LocalAndRemote",
        /// Remote endpoints only.
        RemoteOnly = "RemoteOnly",
    }
}

vocabulary! {
    /// Strategies of a MultiClusterService (specs/003, Proposal).
    #[derive(Default)]
    MultiClusterStrategy {
        /// Traffic spreads evenly over local and remote endpoints.
        #[default]
        RemoteAndLocal = "RemoteAndLocal",
        /// Remote endpoints are used only when the local ones fail.
        LocalFirst = "LocalFirst",
    }
}
