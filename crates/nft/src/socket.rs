//! The way to the kernel: a netlink socket of one network namespace.
//!
//! The kernel works on a request while it is being sent, so answers are there when `send` returns: nothing waits.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, netlink, sockopt,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thiserror::Error;

use crate::batch::{Batch, Operation};
use crate::message::{self, DONE, DUMP, Head, INTERRUPTED, Received, Subsystem};

/// The kernel sends at most 32 kB at a time; a page more is room for a change of mind.
const BUFFER: usize = 256 * 1024;
/// Answers to a batch: one per failed operation at worst.
const RECEIVE_BUFFER: usize = 4 * 1024 * 1024;
/// A dump that is interrupted by changes so often is given up.
pub(crate) const ATTEMPTS: usize = 20;
/// Much longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a transaction did not happen.
#[derive(Debug, Error)]
pub enum CommitError {
    /// The kernel refused an operation.
    #[error("{operation}: {cause}")]
    Operation { operation: Operation, cause: io::Error },
    /// The kernel refused the whole.
    #[error("the transaction was refused: {0}")]
    Refused(#[source] io::Error),
    /// It is larger than the kernel lets this process send.
    #[error(
        "the transaction of {0} bytes is larger than this process may send; it needs CAP_NET_ADMIN of the host"
    )]
    TooLarge(usize),
    #[error("the kernel cannot be reached: {0}")]
    Socket(#[from] io::Error),
}

impl CommitError {
    /// Whether a set that may hold so many elements was to get more.
    pub fn is_full(&self) -> bool {
        let full = Errno::NFILE.raw_os_error();
        matches!(self, CommitError::Operation { cause, .. } if cause.raw_os_error() == Some(full))
    }
}

/// A netlink socket for nftables and connection tracking.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    buffer: Vec<u8>,
    /// How much may be sent at a time, as far as was asked for.
    room: usize,
}

impl Socket {
    /// Of the network namespace of the calling thread.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let fd = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::NETFILTER))?;
        net::bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(PATIENCE))?;
        // Without the right to exceed the limit, what the limit gives must do.
        if sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BUFFER).is_err() {
            sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BUFFER)?;
        }
        Ok(Self { fd, buffer: vec![0; BUFFER], room: 0 })
    }

    /// Of the network namespace behind a file such as `/run/netns/NAME` or `/proc/PID/ns/net`.
    pub fn open_in(namespace: &Path) -> io::Result<Self> {
        within(namespace, Self::open)?
    }

    /// Makes a transaction happen. An empty one is no transaction.
    pub fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        if batch.is_empty() {
            return Ok(());
        }
        let (parts, last) = batch.finish();
        let length = parts.iter().map(|part| part.len()).sum();
        self.make_room(length);
        self.discard();
        let slices = parts.each_ref().map(|part| IoSlice::new(part));
        match net::sendmsg(&self.fd, &slices, &mut SendAncillaryBuffer::default(), SendFlags::empty()) {
            Ok(_) => {}
            Err(Errno::MSGSIZE) => return Err(CommitError::TooLarge(length)),
            Err(error) => return Err(CommitError::Socket(error.into())),
        }
        self.outcome(batch, last)
    }

    /// Reads the answers to a batch: the first error counts.
    fn outcome(&mut self, batch: &Batch, last: u32) -> Result<(), CommitError> {
        let mut failure = None;
        let mut acknowledged = false;
        loop {
            let length = match net::recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => length,
                Err(Errno::WOULDBLOCK) => break,
                Err(error) => return Err(CommitError::Socket(error.into())),
            };
            let mut rest = self.buffer.get(..length).unwrap_or_default();
            while let Some((message, after)) = Received::read(rest) {
                rest = after;
                match message.error() {
                    Some(0) => acknowledged |= message.sequence == last,
                    Some(code) if failure.is_none() => failure = Some((message.sequence, code)),
                    _ => {}
                }
            }
        }
        match failure {
            Some((sequence, code)) => Err(blame(batch, sequence, io::Error::from_raw_os_error(code))),
            None if acknowledged => Ok(()),
            None => Err(CommitError::Refused(io::Error::other("the kernel did not answer"))),
        }
    }

    fn make_room(&mut self, needed: usize) {
        let wanted = needed + needed / 4 + 64 * 1024;
        if wanted > self.room && sockopt::set_socket_send_buffer_size_force(&self.fd, wanted).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(&self.fd, wanted);
        }
        self.room = self.room.max(wanted);
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.discard();
        net::send(&self.fd, bytes, SendFlags::empty())?;
        Ok(())
    }

    /// Throws away what is left of answers that were not read to their end, which would be taken for the next one's.
    fn discard(&mut self) {
        loop {
            match net::recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                // Some of it found no room; the rest is there.
                Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Sends one request that is answered with an acknowledgement or an error.
    pub(crate) fn request(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send(bytes)?;
        let mut outcome = Ok(());
        self.receive(|message| match message.error() {
            Some(0) => true,
            Some(code) => {
                outcome = Err(io::Error::from_raw_os_error(code));
                true
            }
            None => false,
        })?;
        outcome
    }

    /// Asks for all of something, and again if it changed meanwhile.
    pub(crate) fn dump<T>(
        &mut self,
        (subsystem, number): (Subsystem, u16),
        family: u8,
        fill: impl Fn(&mut crate::attribute::Writer<'_>),
        mut read: impl FnMut(&Received<'_>, &mut Vec<T>),
    ) -> io::Result<Vec<T>> {
        let mut request = Vec::new();
        message::write(&mut request, Head::new(subsystem.message(number), DUMP, 1, family), fill);
        for _ in 0..ATTEMPTS {
            let mut found = Vec::new();
            if self.dump_once(&request, |message| read(message, &mut found))? {
                return Ok(found);
            }
        }
        Err(io::Error::new(io::ErrorKind::Interrupted, "the tables keep changing while they are read"))
    }

    /// Whether the answer is whole: nothing changed while it was told.
    fn dump_once(&mut self, request: &[u8], mut read: impl FnMut(&Received<'_>)) -> io::Result<bool> {
        self.send(request)?;
        let (mut whole, mut outcome) = (true, Ok(()));
        self.receive(|message| {
            whole &= message.flags & INTERRUPTED == 0;
            match message.error() {
                Some(code) => {
                    outcome = if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) };
                    true
                }
                None if message.kind == DONE => true,
                None => {
                    read(message);
                    false
                }
            }
        })?;
        match outcome {
            // EINTR is how some dumps say it.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            outcome => outcome.map(|()| whole),
        }
    }

    /// Hands on messages until `is_last` says that one was the last.
    fn receive(&mut self, mut is_last: impl FnMut(&Received<'_>) -> bool) -> io::Result<()> {
        loop {
            let (length, _) = net::recv(&self.fd, &mut self.buffer[..], RecvFlags::empty())?;
            let mut rest = self.buffer.get(..length).unwrap_or_default();
            while let Some((message, after)) = Received::read(rest) {
                rest = after;
                if is_last(&message) {
                    return Ok(());
                }
            }
        }
    }

    /// Sends one request and reads the one message that answers it.
    pub(crate) fn ask<T>(
        &mut self,
        number: u16,
        read: impl FnOnce(&Received<'_>) -> Option<T>,
    ) -> io::Result<T> {
        let mut bytes = Vec::new();
        message::write(&mut bytes, Head::new(Subsystem::Tables.message(number), 0, 1, 0), |_| ());
        self.send(&bytes)?;
        let mut read = Some(read);
        let mut answer = None;
        let mut failure = None;
        self.receive(|message| {
            match message.error() {
                Some(code) => failure = Some(io::Error::from_raw_os_error(code)),
                None => answer = read.take().and_then(|read| read(message)),
            }
            true
        })?;
        match failure {
            Some(error) => Err(error),
            None => answer.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData)),
        }
    }
}

fn blame(batch: &Batch, sequence: u32, cause: io::Error) -> CommitError {
    match batch.operation(sequence) {
        Some(operation) => CommitError::Operation { operation: operation.clone(), cause },
        None => CommitError::Refused(cause),
    }
}

/// Runs `work` in another network namespace, on a thread of its own: what it opens stays there.
pub fn within<T: Send>(namespace: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let file = File::open(namespace)?;
    let inside = || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(work())
    };
    std::thread::scope(|scope| match scope.spawn(inside).join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests {
    use tombolo_testkit::lab::isolated;

    use super::*;
    use crate::message::Family;
    use crate::object::Table;

    #[test]
    fn what_is_left_of_an_answer_is_not_taken_for_the_next_one() {
        isolated(|| {
            let mut socket = Socket::open().unwrap();
            let table = Table::new(Family::Ip, "t");
            let mut batch = Batch::new();
            batch.add_table(&table, None);
            socket.commit(&batch).unwrap();
            let mut request = Vec::new();
            let head = Head::new(Subsystem::Tables.message(1), DUMP, 1, 0);
            message::write(&mut request, head, |_| ());
            let leave = |socket: &Socket| net::send(&socket.fd, &request, SendFlags::empty()).unwrap();
            leave(&socket);
            assert!(socket.generation().is_ok());
            leave(&socket);
            assert_eq!(socket.tables().unwrap().len(), 1);
            leave(&socket);
            let mut wrong = Batch::new();
            wrong.delete_chain(&table, "none");
            assert!(matches!(socket.commit(&wrong), Err(CommitError::Operation { .. })));
        });
    }
}
