//! How local and remote endpoints of one name are combined (Karmada's proposals of native naming and MultiClusterService).
//!
//! A ServiceImport and a MultiClusterService carry the same annotation with different words. A word that is not in the
//! list of its kind is refused, never read as another one.

use crate::vocabulary::vocabulary;

/// Annotation of a ServiceImport or a MultiClusterService: the strategy (native naming proposal, Proposal).
pub const STRATEGY_ANNOTATION: &str = "discovery.karmada.io/strategy";

/// Prefix of the names of imported slices under native naming (native naming proposal, Design Details).
pub const IMPORTED_SLICE_PREFIX: &str = "import-";

vocabulary! {
    /// Strategies of a ServiceImport (native naming proposal, Proposal).
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
    /// Strategies of a MultiClusterService (MultiClusterService proposal, Proposal).
    #[derive(Default)]
    MultiClusterStrategy {
        /// Traffic spreads evenly over local and remote endpoints.
        #[default]
        RemoteAndLocal = "RemoteAndLocal",
        /// Remote endpoints are used only when the local ones fail.
        LocalFirst = "LocalFirst",
    }
}

vocabulary! {
    /// Condition of a ServiceImport with native naming, beside those of its own API.
    StrategyCondition {
        /// The Service of the import's name is as the strategy wants it.
        StrategyApplied = "StrategyApplied",
    }
}

vocabulary! {
    /// Reasons of [`StrategyCondition::StrategyApplied`].
    StrategyReason {
        /// `True`: remote endpoints stand behind the Service's own name.
        Applied = "Applied",
        /// `True`: nothing is imported, because `LocalOnly` found a Service of the name.
        LocalServicePresent = "LocalServicePresent",
        /// `False`: the annotation has a word that is none of the strategies.
        UnknownStrategy = "UnknownStrategy",
        /// `False`: no other cluster has a ready endpoint of the service.
        NoRemoteEndpoints = "NoRemoteEndpoints",
        /// `False`: `RemoteOnly`, but somebody wrote slices with local endpoints that are not ours to remove.
        LocalEndpointsRemain = "LocalEndpointsRemain",
        /// `False`: there is no Service of the name that could have endpoints, nor can one be made.
        ServiceNotUsable = "ServiceNotUsable",
        /// `False`: slices with remote endpoints could not be written.
        SlicesRefused = "SlicesRefused",
    }
}
