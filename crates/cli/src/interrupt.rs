//! The signals that ask a process to end: SIGINT from a person, SIGTERM from whoever supervises it.

use crate::failure::Failure;

/// Waits until the process is asked to end.
pub(crate) async fn interrupted() -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let cannot = |cause: std::io::Error| Failure::new("cannot wait for signals").because(cause);
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result.map_err(cannot),
        _ = terminate.recv() => Ok(()),
    }
}
