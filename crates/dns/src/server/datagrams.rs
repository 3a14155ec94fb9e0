//! Batches of datagrams: `recvmmsg` and `sendmmsg`, and entering a network namespace.
//!
//! The only unsafe code of the crate. Every call gets pointers to memory that the [`Batch`] owns, made right before the
//! call and forgotten after it; the kernel keeps none. Lengths come from the buffers themselves. What the kernel returns is
//! checked against what was asked for before it is used.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;

use libc::{c_int, c_uint, cmsghdr, iovec, mmsghdr, msghdr, sockaddr_storage, socklen_t};

/// Datagrams per system call.
pub(super) const BATCH: usize = 32;
/// The longest query that is read whole; nobody needs a longer one over UDP.
const LONGEST_QUERY: usize = 2048;
/// The longest reply.
const LONGEST_REPLY: usize = 1232;
/// Room for the address a datagram was sent to.
const CONTROL: usize = 64;

/// The address of this machine that a datagram was sent to, for sockets that have several.
pub(super) type Local = Option<IpAddr>;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Datagrams that came together, and what is to be sent back.
pub(super) struct Batch {
    queries: Box<[[u8; LONGEST_QUERY]; BATCH]>,
    replies: Box<[[u8; LONGEST_REPLY]; BATCH]>,
    peers: Box<[sockaddr_storage; BATCH]>,
    controls: Box<[Control; BATCH]>,
    received: [Received; BATCH],
    sizes: [u16; BATCH],
    count: usize,
}

#[derive(Clone, Copy, Default)]
struct Received {
    length: usize,
    peer_length: socklen_t,
    control_length: usize,
    cut: bool,
}

/// One datagram of a batch.
pub(super) struct Datagram<'b> {
    pub(super) message: &'b [u8],
    pub(super) reply: &'b mut [u8],
    pub(super) peer: SocketAddr,
}

impl Batch {
    pub(super) fn new() -> Self {
        // SAFETY: `sockaddr_storage` is plain data for which all zeros are a value.
        let none: sockaddr_storage = unsafe { zeroed() };
        Self {
            queries: Box::new([[0; LONGEST_QUERY]; BATCH]),
            replies: Box::new([[0; LONGEST_REPLY]; BATCH]),
            peers: Box::new([none; BATCH]),
            controls: Box::new([Control([0; CONTROL]); BATCH]),
            received: [Received::default(); BATCH],
            sizes: [0; BATCH],
            count: 0,
        }
    }

    /// Waits for at least one datagram and takes what is there. With `locals`, also where each was sent to.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, locals: bool) -> io::Result<usize> {
        self.count = 0;
        // SAFETY: `mmsghdr` and `iovec` are plain data for which all zeros are a value.
        let (mut headers, mut vectors): ([mmsghdr; BATCH], [iovec; BATCH]) = unsafe { (zeroed(), zeroed()) };
        for place in 0..BATCH {
            vectors[place] =
                iovec { iov_base: self.queries[place].as_mut_ptr().cast(), iov_len: LONGEST_QUERY };
            let header: &mut msghdr = &mut headers[place].msg_hdr;
            header.msg_iov = &raw mut vectors[place];
            header.msg_iovlen = 1;
            header.msg_name = (&raw mut self.peers[place]).cast();
            header.msg_namelen = size_of::<sockaddr_storage>() as socklen_t;
            if locals {
                header.msg_control = self.controls[place].0.as_mut_ptr().cast();
                header.msg_controllen = CONTROL;
            }
        }
        // SAFETY: `headers` holds BATCH headers whose pointers lead to buffers of `self` and to `vectors`, all of which live
        // until after the call and have the lengths given; no timeout is passed.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as c_uint,
                libc::MSG_WAITFORONE,
                ptr::null_mut(),
            )
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?.min(BATCH);
        for (place, header) in headers[..got].iter().enumerate() {
            self.received[place] = Received {
                length: (header.msg_len as usize).min(LONGEST_QUERY),
                peer_length: header.msg_hdr.msg_namelen.min(size_of::<sockaddr_storage>() as socklen_t),
                control_length: if locals { header.msg_hdr.msg_controllen.min(CONTROL) } else { 0 },
                cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            };
            self.sizes[place] = 0;
        }
        self.count = got;
        Ok(got)
    }

    /// A datagram of the last batch; `None` if it was cut or came from no IP address.
    pub(super) fn get(&mut self, place: usize) -> Option<Datagram<'_>> {
        let Received { length, cut, .. } = *self.received[..self.count].get(place)?;
        let peer = read_peer(&self.peers[place]).filter(|_| !cut)?;
        Some(Datagram { message: &self.queries[place][..length], reply: &mut self.replies[place], peer })
    }

    /// The first `size` octets of the reply are to be sent.
    pub(super) fn keep(&mut self, place: usize, size: usize) {
        self.sizes[place] = size.min(LONGEST_REPLY) as u16;
    }

    /// The address a datagram was sent to, if it was asked for.
    pub(super) fn local(&self, place: usize) -> Local {
        let length = self.received.get(place)?.control_length;
        read_local(&self.controls[place], length)
    }

    /// Sends what was kept. A reply that the kernel does not take is lost, as any datagram may be.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>) {
        // SAFETY: as in `receive`.
        let (mut headers, mut vectors): ([mmsghdr; BATCH], [iovec; BATCH]) = unsafe { (zeroed(), zeroed()) };
        let mut wanted = 0;
        for place in (0..self.count).filter(|place| self.sizes[*place] > 0) {
            let reply = &mut self.replies[place];
            vectors[wanted] =
                iovec { iov_base: reply.as_mut_ptr().cast(), iov_len: usize::from(self.sizes[place]) };
            let header: &mut msghdr = &mut headers[wanted].msg_hdr;
            header.msg_iov = &raw mut vectors[wanted];
            header.msg_iovlen = 1;
            header.msg_name = (&raw mut self.peers[place]).cast();
            header.msg_namelen = self.received[place].peer_length;
            if let Some(local) = read_local(&self.controls[place], self.received[place].control_length) {
                header.msg_controllen = write_local(&mut self.controls[place], local);
                header.msg_control = self.controls[place].0.as_mut_ptr().cast();
            }
            wanted += 1;
        }
        let mut sent = 0;
        while sent < wanted {
            // SAFETY: the `wanted` first headers were filled above with pointers to buffers of `self` and to `vectors`, all of
            // which live until after the call; `sent` stays below `wanted`.
            let result = unsafe {
                let first = headers.as_mut_ptr().add(sent);
                libc::sendmmsg(socket.as_raw_fd(), first, (wanted - sent) as c_uint, 0)
            };
            sent += match usize::try_from(result) {
                Ok(count) if count > 0 => count,
                // The first of those left was refused (no route, no buffer): go on with the next.
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => 0,
                _ => 1,
            };
        }
    }
}

/// Sends one datagram, from `local` if that is known.
pub(super) fn send_one(
    socket: BorrowedFd<'_>,
    reply: &[u8],
    peer: SocketAddr,
    local: Local,
) -> io::Result<()> {
    let (mut storage, length) = write_peer(peer);
    let mut control = Control([0; CONTROL]);
    let mut vector = iovec { iov_base: reply.as_ptr().cast_mut().cast(), iov_len: reply.len() };
    // SAFETY: `msghdr` is plain data for which all zeros are a value.
    let mut header: msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_name = (&raw mut storage).cast();
    header.msg_namelen = length;
    if let Some(local) = local {
        header.msg_controllen = write_local(&mut control, local);
        header.msg_control = control.0.as_mut_ptr().cast();
    }
    // SAFETY: the header's pointers lead to locals that live until after the call, and to `reply`, which is only read.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Asks the kernel to say where each datagram was sent to.
pub(super) fn want_locals(socket: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    let (level, option) =
        if v6 { (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) } else { (libc::IPPROTO_IP, libc::IP_PKTINFO) };
    let on: c_int = 1;
    // SAFETY: the option's value is a `c_int` that lives until after the call, with its size.
    let result = unsafe {
        let size = size_of::<c_int>() as socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), size)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Moves the calling thread into a network namespace. Sockets belong to the namespace they are made in.
pub(super) fn enter(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes a descriptor that is open and a flag; touches no memory of ours.
    let result = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn read_peer(storage: &sockaddr_storage) -> Option<SocketAddr> {
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is a `sockaddr_in`, which fits into the storage and has its alignment.
            let peer = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(peer.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(peer.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is a `sockaddr_in6`, which fits into the storage and has its alignment.
            let peer = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(peer.sin6_addr.s6_addr);
            let port = u16::from_be(peer.sin6_port);
            Some(SocketAddrV6::new(ip, port, peer.sin6_flowinfo, peer.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn write_peer(peer: SocketAddr) -> (sockaddr_storage, socklen_t) {
    let address = socket2::SockAddr::from(peer);
    (address_storage(&address), address.len())
}

fn address_storage(address: &socket2::SockAddr) -> sockaddr_storage {
    // SAFETY: all zeros are a value; the address is at most as long as the storage, and both are plain octets.
    unsafe {
        let mut storage: sockaddr_storage = zeroed();
        let length = (address.len() as usize).min(size_of::<sockaddr_storage>());
        ptr::copy_nonoverlapping(address.as_ptr().cast::<u8>(), (&raw mut storage).cast::<u8>(), length);
        storage
    }
}

/// Room that a control message takes before its data.
const CMSG_HEAD: usize = size_of::<cmsghdr>();

/// Where a datagram was sent to, from its control messages. Octets are read by hand: nothing here trusts a length.
fn read_local(control: &Control, length: usize) -> Local {
    let octets = control.0.get(..length)?;
    let word = |at: usize| Some(c_int::from_ne_bytes(*octets.get(at..at + 4)?.first_chunk()?));
    let (level, kind) = (word(CMSG_HEAD - 8)?, word(CMSG_HEAD - 4)?);
    match (level, kind) {
        // struct in_pktinfo: index, the address to answer from, the address in the header.
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let local: [u8; 4] = *octets.get(CMSG_HEAD + 4..)?.first_chunk()?;
            Some(Ipv4Addr::from(local).into())
        }
        // struct in6_pktinfo: the address, then the index.
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let local: [u8; 16] = *octets.get(CMSG_HEAD..)?.first_chunk()?;
            Some(Ipv6Addr::from(local).into())
        }
        _ => None,
    }
}

/// Says where a datagram is to be sent from; returns the length of the control message. The interface is left to routing.
fn write_local(control: &mut Control, local: IpAddr) -> usize {
    control.0 = [0; CONTROL];
    let (level, kind, data) = match local {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO, size_of::<libc::in_pktinfo>()),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, size_of::<libc::in6_pktinfo>()),
    };
    control.0[..size_of::<usize>()].copy_from_slice(&(CMSG_HEAD + data).to_ne_bytes());
    control.0[CMSG_HEAD - 8..CMSG_HEAD - 4].copy_from_slice(&level.to_ne_bytes());
    control.0[CMSG_HEAD - 4..CMSG_HEAD].copy_from_slice(&kind.to_ne_bytes());
    match local {
        IpAddr::V4(ip) => control.0[CMSG_HEAD + 4..CMSG_HEAD + 8].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => control.0[CMSG_HEAD..CMSG_HEAD + 16].copy_from_slice(&ip.octets()),
    }
    (CMSG_HEAD + data).next_multiple_of(size_of::<usize>())
}
