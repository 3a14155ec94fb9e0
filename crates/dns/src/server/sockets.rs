//! The sockets a server listens on: one UDP socket per worker and address, one TCP socket per address.
//!
//! They are opened before anything runs, so that what cannot work is said at once; and they may be opened in another
//! network namespace, or be handed in ready-made, because sockets stay where they were made while threads come and go.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::datagrams;

/// Octets of datagrams that may wait while a worker is busy.
const RECEIVE_BUFFER: usize = 4 << 20;
/// How often a worker that hears nothing looks whether it shall stop.
const LOOK_UP: Duration = Duration::from_millis(200);
/// How often a free port is tried for both protocols.
const ATTEMPTS: usize = 16;

/// Sockets that are bound.
#[derive(Debug)]
pub struct Sockets {
    /// As many per address as there are workers for it.
    pub(crate) udp: Vec<UdpSocket>,
    pub(crate) tcp: Vec<TcpListener>,
}

/// A network namespace to open sockets in.
#[derive(Clone, Debug)]
pub struct Network(Option<Arc<OwnedFd>>);

impl Network {
    /// The one the process is in.
    pub fn own() -> Self {
        Self(None)
    }

    /// The one behind a file, such as `/run/netns/name` or `/proc/1/ns/net`.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self(Some(Arc::new(File::open(path)?.into()))))
    }

    /// Runs `open` in the namespace: on a thread of its own, which ends with it.
    pub fn open<T: Send>(&self, open: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let Some(namespace) = &self.0 else { return open() };
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| datagrams::enter(namespace.as_fd()).and_then(|()| open()));
            thread.join().unwrap_or_else(|_| Err(io::Error::other("opening sockets panicked")))
        })
    }
}

impl Sockets {
    /// Opens `workers` UDP sockets and a TCP socket for each address. Port 0 takes any that is free for both.
    pub fn open(network: &Network, addresses: &[SocketAddr], workers: usize) -> io::Result<Self> {
        network.open(|| {
            let mut sockets = Self { udp: Vec::new(), tcp: Vec::new() };
            for address in addresses {
                let (udp, tcp) = open_retrying(*address, workers.max(1))?;
                sockets.udp.extend(udp);
                sockets.tcp.push(tcp);
            }
            Ok(sockets)
        })
    }

    /// The addresses that are listened on.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.tcp.iter().map(TcpListener::local_addr).collect()
    }
}

fn open_retrying(address: SocketAddr, workers: usize) -> io::Result<(Vec<UdpSocket>, TcpListener)> {
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match open(address, workers) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && address.port() == 0 && left > 0 => {}
            result => return result,
        }
    }
}

fn open(mut address: SocketAddr, workers: usize) -> io::Result<(Vec<UdpSocket>, TcpListener)> {
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers {
        let socket = udp(address)?;
        address = socket.local_addr()?;
        sockets.push(socket);
    }
    let tcp = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    prepare(&tcp, address)?;
    tcp.bind(&address.into())?;
    tcp.listen(1024)?;
    tcp.set_nonblocking(true)?;
    Ok((sockets, tcp.into()))
}

fn prepare(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    socket.set_reuse_address(true)?;
    // `[::]` and `0.0.0.0` are two addresses, so that both can be given.
    if address.is_ipv6() { socket.set_only_v6(true) } else { Ok(()) }
}

fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(true)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.set_read_timeout(Some(LOOK_UP))?;
    if address.ip().is_unspecified() {
        datagrams::want_locals(socket.as_fd(), address.is_ipv6())?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Whether replies of this socket must say where they come from.
pub(super) fn needs_locals(socket: &UdpSocket) -> bool {
    socket.local_addr().is_ok_and(|address| match address.ip() {
        IpAddr::V4(ip) => ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_unspecified(),
    })
}
