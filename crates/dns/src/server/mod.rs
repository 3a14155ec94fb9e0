//! The server: sockets, workers, connections, and what is asked elsewhere.
//!
//! Each UDP socket has a thread that does nothing but receive, answer and send, batch by batch. TCP connections and queries
//! for upstreams are tasks. Threads and tasks end when they are told, after what they have begun.

#[expect(
    unsafe_code,
    reason = "recvmmsg, sendmmsg and setns have no safe wrapper; the module says why each use is sound"
)]
mod datagrams;
mod limit;
mod sockets;
mod tcp;
mod udp;

pub(crate) use self::limit::Limit;
pub use self::sockets::{Network, Sockets};
pub(crate) use self::tcp::{Listener, Open, Tcp};
pub(crate) use self::udp::{Job, Worker, start};
