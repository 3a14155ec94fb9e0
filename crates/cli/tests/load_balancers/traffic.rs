//! A client that connects again and again, and counts.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tombolo_testkit::lab::Namespace;

/// As long as the test of Kubernetes waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// About a hundred connections a second.
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Default)]
struct Count {
    good: AtomicU64,
    bad: AtomicU64,
    ended: AtomicBool,
}

/// Connections from a namespace, one after the other; ends with this value.
pub(crate) struct Traffic {
    count: Arc<Count>,
    thread: Option<JoinHandle<()>>,
}

impl Traffic {
    pub(crate) fn start(from: &Namespace, to: SocketAddr) -> Traffic {
        Traffic::with_patience(from, to, PATIENCE)
    }

    pub(crate) fn with_patience(from: &Namespace, to: SocketAddr, patience: Duration) -> Traffic {
        let (from, count) = (from.clone(), Arc::new(Count::default()));
        let counted = count.clone();
        let work = move || {
            while !counted.ended.load(Ordering::Relaxed) {
                let answered = connect(to, patience);
                let counter = if answered { &counted.good } else { &counted.bad };
                counter.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(PAUSE);
            }
        };
        Traffic { count, thread: Some(std::thread::spawn(move || from.within(work))) }
    }

    /// How many connections were answered and how many were not, since this was last asked.
    pub(crate) fn take(&self) -> (u64, u64) {
        (self.count.good.swap(0, Ordering::Relaxed), self.count.bad.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.count.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn connect(to: SocketAddr, patience: Duration) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&to, patience) else { return false };
    let mut answer = String::new();
    let _ = stream.set_read_timeout(Some(patience));
    stream.read_to_string(&mut answer).is_ok() && !answer.is_empty()
}
