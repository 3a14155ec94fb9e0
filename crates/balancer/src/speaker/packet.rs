//! A socket for the frames of one link. The only unsafe code of the crate: the address of a link as the kernel wants it,
//! and the promise that a socket keeps its descriptor.

use std::io::{self, Read as _};
use std::mem::size_of;

use libc::{sockaddr_ll, socklen_t};
use socket2::{Domain, Protocol, SockAddr, SockFilter, Socket, Type};
use tokio::io::unix::AsyncFd;

/// Which frames a socket gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    Arp,
    /// Neighbour solicitations and advertisements only.
    NeighbourDiscovery,
}

/// Loads one byte, compares, returns: the classic packet filter's words.
const LOAD_BYTE: u16 = 0x30;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// Of all IPv6 packets, those whose next header is ICMPv6 and whose type is 135 or 136. The kernel sorts out the rest, so
/// that the traffic of the node does not wake anybody.
const NEIGHBOURS: [SockFilter; 7] = [
    SockFilter::new(LOAD_BYTE, 0, 0, 20),
    SockFilter::new(JUMP_EQUAL, 0, 4, 58),
    SockFilter::new(LOAD_BYTE, 0, 0, 54),
    SockFilter::new(JUMP_EQUAL, 1, 0, 135),
    SockFilter::new(JUMP_EQUAL, 0, 1, 136),
    SockFilter::new(RETURN, 0, 0, 0xffff),
    SockFilter::new(RETURN, 0, 0, 0),
];

/// A socket bound to one link.
pub(super) struct PacketSocket {
    socket: AsyncFd<Socket>,
    address: SockAddr,
}

impl PacketSocket {
    /// In the network namespace of the calling thread. Needs `CAP_NET_RAW`.
    pub(super) fn open(link: u32, traffic: Traffic) -> io::Result<Self> {
        let kind = match traffic {
            Traffic::Arp => libc::ETH_P_ARP,
            Traffic::NeighbourDiscovery => libc::ETH_P_IPV6,
        };
        let kind = (kind as u16).to_be();
        let socket = open()?;
        if traffic == Traffic::NeighbourDiscovery {
            socket.attach_filter(&NEIGHBOURS)?;
        }
        let address = link_address(link, kind)?;
        socket.bind(&address)?;
        Ok(Self { socket: watched(socket)?, address })
    }

    /// Waits for the next frame; returns its length.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.socket.readable().await?;
            if let Ok(read) = ready.try_io(|socket| socket.get_ref().read(buffer)) {
                return read;
            }
        }
    }

    /// Sends a frame; one that finds no room is lost, as on any wire.
    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.socket.get_ref().send_to(frame, &self.address).map(drop)
    }
}

/// Without a protocol nothing arrives before the filter is there and the link is chosen.
fn open() -> io::Result<Socket> {
    Socket::new(Domain::PACKET, Type::RAW.nonblocking().cloexec(), Some(Protocol::from(0)))
}

/// Opens one and closes it again.
pub(super) fn try_open() -> io::Result<()> {
    open().map(drop)
}

#[expect(unsafe_code, reason = "Tokio wants to be told that a socket keeps its descriptor")]
fn watched(socket: Socket) -> io::Result<AsyncFd<Socket>> {
    // SAFETY: a `Socket` owns one descriptor, the same all its life, and closes it only when it is dropped.
    unsafe { AsyncFd::register(socket) }.map_err(Into::into)
}

#[expect(unsafe_code, reason = "no safe crate makes the address of a link")]
fn link_address(link: u32, protocol: u16) -> io::Result<SockAddr> {
    let index = i32::try_from(link).map_err(|_| io::ErrorKind::InvalidInput)?;
    let fill = |storage: *mut socket2::SockAddrStorage, length: *mut socklen_t| {
        // SAFETY: the storage is zeroed, larger than a `sockaddr_ll` and aligned for every kind of address; only its
        // fields are written, all of them plain numbers.
        let address = unsafe { &mut *storage.cast::<sockaddr_ll>() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index;
        // SAFETY: `length` points to the length that belongs to the storage.
        unsafe { *length = size_of::<sockaddr_ll>() as socklen_t };
        Ok(())
    };
    // SAFETY: `fill` writes a whole address and its length.
    unsafe { SockAddr::try_init(fill) }.map(|((), address)| address)
}
