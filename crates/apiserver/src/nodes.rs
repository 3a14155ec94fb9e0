//! What only the node of a pod knows: the seam between the API and whoever runs pods.
//!
//! The API server checks who asks and for what; the rest is for [`Nodes`]. Without any, subresources such as `pods/log` are
//! answered as if the node did not.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};

/// A container of a pod that is bound to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPlace {
    pub node: String,
    /// The UID of the pod.
    pub pod: String,
    /// Its name, for what people are told.
    pub pod_name: String,
    pub container: String,
}

/// Which part of a log is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Go on as long as there is more.
    pub follow: bool,
    /// Begin each line with the time it was written.
    pub timestamps: bool,
    /// Only the last so many lines; of these, what follows leaves out more.
    pub tail: Option<usize>,
    /// Only what was said from then on.
    pub since: Option<Since>,
    /// No more than so many bytes, with the times of lines.
    pub most_bytes: Option<usize>,
    /// What the container said before it was started again.
    pub previous: bool,
}

/// The beginning of what is wanted of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// So many seconds ago, by the clock that gave the lines their times: the node's.
    SecondsAgo(u64),
    Time(Timestamp),
}

/// A command that is to run in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    pub command: Vec<String>,
    /// Somebody will write to it.
    pub stdin: bool,
    /// It gets a terminal.
    pub tty: bool,
}

/// Where a command said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Stdout,
    Stderr,
}

/// A command that runs. Dropping `stdin` ends its input; `output` ends with the command's streams.
#[derive(Debug)]
pub struct Session {
    pub stdin: mpsc::Sender<Bytes>,
    /// The terminal's new width and height.
    pub resize: mpsc::Sender<(u16, u16)>,
    pub output: mpsc::Receiver<(Output, Bytes)>,
    /// The exit code, or why there is none.
    pub ended: oneshot::Receiver<Result<i32, String>>,
}

/// A connection to a port of a pod.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

/// Whoever runs the pods of a cluster.
pub trait Nodes: std::fmt::Debug + Send + Sync {
    /// The first container of a pod that a node has, by the pod's name: for API servers that ask the node itself.
    fn find(&self, node: &str, namespace: &str, pod: &str) -> Option<ContainerPlace>;

    /// What a container said. An error is a sentence for the person who asked.
    fn logs(
        &self,
        place: ContainerPlace,
        options: LogOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Bytes>, String>>;

    /// Runs a command in a container.
    fn exec(&self, place: ContainerPlace, options: ExecOptions) -> BoxFuture<'_, Result<Session, String>>;

    /// What a container says from now on, until it ends, and what is said to it, if it listens.
    fn attach(&self, place: ContainerPlace) -> BoxFuture<'_, Result<Session, String>>;

    /// A connection to a port that something in the pod listens on.
    fn connect(&self, place: ContainerPlace, port: u16)
    -> BoxFuture<'_, Result<Box<dyn Connection>, String>>;
}
