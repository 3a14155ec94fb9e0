//! From a listener in one network to a server in another, byte for byte.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Out of file descriptors, mostly: some come back.
const PAUSE: Duration = Duration::from_millis(50);

/// Passes on what comes, for ever. Cut off, it takes all connections with it.
pub(super) async fn run(listener: TcpListener, to: SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(pass(stream, to))),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn pass(mut from: TcpStream, to: SocketAddr) {
    let passed = async {
        let mut to = TcpStream::connect(to).await?;
        from.set_nodelay(true)?;
        to.set_nodelay(true)?;
        tokio::io::copy_bidirectional(&mut from, &mut to).await
    };
    if let Err(error) = passed.await {
        tracing::debug!(%error, "a connection to an API server ended with an error");
    }
}
