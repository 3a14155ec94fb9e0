//! A socket that sees and sends whole frames of one link: the system calls for it that no safe library has.
//!
//! Frames come with the header that says what the kernel has not done yet (checksums, cutting into pieces), and go out with
//! it again, so what is passed on is what would have come by itself.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::net::{AddressFamily, Protocol, RawProtocol, SocketFlags, SocketType, socket_with};
use tokio::io::unix::AsyncFd;

/// All kinds of frames, in the order of bytes that the kernel wants here.
const EVERYTHING: u16 = (libc::ETH_P_ALL as u16).to_be();

/// Opens a socket at the link with this index, in the network namespace of the calling thread. What is sent through the
/// link by others is not seen, only what arrives.
pub(crate) fn open(link: u32) -> io::Result<OwnedFd> {
    let protocol = RawProtocol::new(u32::from(EVERYTHING)).map(Protocol::from_raw);
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, protocol)?;
    set(&socket, libc::PACKET_VNET_HDR)?;
    set(&socket, libc::PACKET_IGNORE_OUTGOING)?;
    bind(&socket, link)?;
    Ok(socket)
}

/// Lets the runtime of the caller wait for it.
#[expect(unsafe_code, reason = "Tokio must be told that the descriptor stays what it is")]
pub(crate) fn register(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor belongs to the value, which gives the same one every time and closes it last.
    Ok(unsafe { AsyncFd::register(socket) }?)
}

#[expect(unsafe_code, reason = "rustix has no options of packet sockets")]
fn set(socket: &OwnedFd, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer and the length are those of one integer, which outlives the call.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, (&raw const on).cast(), length)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(unsafe_code, reason = "rustix has no addresses of links")]
fn bind(socket: &OwnedFd, link: u32) -> io::Result<()> {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = EVERYTHING;
    address.sll_ifindex = i32::try_from(link).map_err(io::Error::other)?;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer and the length are those of one address, which outlives the call.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
