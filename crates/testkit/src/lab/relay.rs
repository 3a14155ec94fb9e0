//! A way from a namespace to a server on the test's own loopback.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::network::Namespace;

/// Connections within a namespace to `server` reach the server of that address where the test is. Ends with this value,
/// but for connections that are open.
#[derive(Debug)]
pub struct Relay {
    ended: Arc<AtomicBool>,
}

impl Relay {
    pub fn start(namespace: &Namespace, server: SocketAddr) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let listener = namespace.within(|| TcpListener::bind(server).expect("a free port"));
        let done = ended.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().take_while(|_| !done.load(Ordering::Relaxed)).flatten() {
                if let Ok(other) = TcpStream::connect(server) {
                    join(&stream, &other);
                    join(&other, &stream);
                }
            }
        });
        Self { ended }
    }
}

/// Copies one way, on a thread of its own, until one side has nothing more to say.
fn join(from: &TcpStream, to: &TcpStream) {
    if let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) {
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}
