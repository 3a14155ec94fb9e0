//! A link that is slow on purpose: frames are taken off it here, wait, and go on.
//!
//! Not every kernel has `netem`, so it is done in this process. The link of a host is unplugged from the bridge and led
//! through here instead: what leaves the host waits, what comes to it does not, so a round trip takes that much longer. A
//! queue that is full loses what comes, as networks do.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::packet_socket;
use crate::station::Task;
use crate::wiring::Wiring;

/// The largest frame that the kernel hands over in one piece, with its header.
const LARGEST: usize = 72 << 10;
/// As much as may wait.
const MOST_BYTES: usize = 32 << 20;
const MOST_FRAMES: usize = 16 << 10;

/// A detour between a link and the bridge; dropped, nothing passes any more.
pub(crate) struct Detour(#[expect(dead_code, reason = "it works until it is dropped")] Task);

impl Detour {
    /// Leads everything between two links of a network through here.
    pub(crate) async fn start(
        network: &Wiring,
        inner: &str,
        outer: &str,
        delay: Duration,
    ) -> io::Result<Self> {
        let links = (network.index(inner).await?, network.index(outer).await?);
        let open = || Ok::<_, io::Error>((packet_socket::open(links.0)?, packet_socket::open(links.1)?));
        let (inner, outer) = network.namespace().within(open)??;
        let (inner, outer) =
            (Arc::new(packet_socket::register(inner)?), Arc::new(packet_socket::register(outer)?));
        let mut ways = JoinSet::new();
        ways.spawn(carry(inner.clone(), outer.clone(), delay));
        ways.spawn(carry(outer, inner, Duration::ZERO));
        Ok(Self(Task::here(async move {
            while let Some(ended) = ways.join_next().await {
                tracing::debug!(?ended, "a slow link ended");
            }
        })))
    }
}

/// One way, until a link goes.
async fn carry(from: Arc<AsyncFd<OwnedFd>>, to: Arc<AsyncFd<OwnedFd>>, delay: Duration) -> io::Result<()> {
    let (queue, mut waiting) = mpsc::channel::<(Instant, Vec<u8>)>(MOST_FRAMES);
    let held = Arc::new(AtomicUsize::new(0));
    let (mut buffer, counted) = (vec![0; LARGEST], held.clone());
    let take = async {
        loop {
            let count = receive(&from, &mut buffer).await?;
            if counted.load(Ordering::Relaxed) + count <= MOST_BYTES
                && queue.try_send((Instant::now() + delay, buffer[..count].to_vec())).is_ok()
            {
                counted.fetch_add(count, Ordering::Relaxed);
            }
        }
    };
    let give = async {
        while let Some((due, frame)) = waiting.recv().await {
            sleep_until(due).await;
            held.fetch_sub(frame.len(), Ordering::Relaxed);
            send(&to, &frame).await?;
        }
        Ok(())
    };
    tokio::select! {
        ended = take => ended,
        ended = give => ended,
    }
}

async fn receive(socket: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut ready = socket.readable().await?;
        if let Ok(count) = ready.try_io(|socket| Ok(rustix::io::read(socket, &mut *buffer)?)) {
            match count {
                // The link was down for a moment.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NETDOWN.raw_os_error()) => {}
                other => return other,
            }
        }
    }
}

/// A frame that the link does not take is lost.
async fn send(socket: &AsyncFd<OwnedFd>, frame: &[u8]) -> io::Result<()> {
    loop {
        let mut ready = socket.writable().await?;
        match ready.try_io(|socket| Ok(rustix::io::write(socket, frame)?)) {
            Ok(Err(error)) => {
                tracing::debug!(%error, length = frame.len(), "a frame was lost");
                return Ok(());
            }
            Ok(Ok(_)) => return Ok(()),
            Err(_) => {}
        }
    }
}
