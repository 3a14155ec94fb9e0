//! What only the node of a pod knows: the seam between the API and whoever runs pods.
//!
//! The API server checks who asks and for what; the rest is for [`Nodes`]. Without any, subresources such as `pods/log` are
//! answered as if the node did not.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

/// A container of a pod that is bound to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPlace {
    pub node: String,
    /// The UID of the pod.
    pub pod: String,
    pub container: String,
}

/// Which part of a log is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Go on as long as there is more.
    pub follow: bool,
    /// Begin each line with the time it was written.
    pub timestamps: bool,
    /// Only the last so many lines.
    pub tail: Option<usize>,
}

/// Whoever runs the pods of a cluster.
pub trait Nodes: std::fmt::Debug + Send + Sync {
    /// What a container said. An error is a sentence for the person who asked.
    fn logs(
        &self,
        place: ContainerPlace,
        options: LogOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Bytes>, String>>;
}
