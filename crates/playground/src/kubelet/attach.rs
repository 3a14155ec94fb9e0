//! Being with a container: what it says from now on, and what is said to it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::{mpsc, oneshot};
use tombolo_apiserver::{Output, Session};

use super::container::Container;

/// Chunks that may wait on the way; whoever sends more waits, too.
const WAITING: usize = 16;
/// What a container said last comes at once after its end, or not at all.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Joins a container. Both its streams are one, as in its log.
pub(super) fn start(container: Arc<Container>, heard: broadcast::Receiver<Bytes>) -> io::Result<Session> {
    let (said, output) = mpsc::channel(WAITING);
    let (stdin, typed) = mpsc::channel(WAITING);
    let (resize, sizes) = mpsc::channel(WAITING);
    let (tell, ended) = oneshot::channel();
    container.input().follow(typed, sizes)?;
    tokio::spawn(async move {
        pass_on(&container, heard, said).await;
        let _ = tell.send(Ok(0));
    });
    Ok(Session { stdin, resize, output, ended })
}

/// Passes on what is heard until the container, or whoever listens, has gone.
async fn pass_on(
    container: &Container,
    mut heard: broadcast::Receiver<Bytes>,
    said: mpsc::Sender<(Output, Bytes)>,
) {
    let end = async {
        container.ended().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::pin!(end);
    loop {
        let chunk = tokio::select! {
            chunk = heard.recv() => chunk,
            () = said.closed() => return,
            () = &mut end => return,
        };
        match chunk {
            Ok(bytes) if bytes.is_empty() => return,
            Ok(bytes) => {
                if said.send((Output::Stdout, bytes)).await.is_err() {
                    return;
                }
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}
