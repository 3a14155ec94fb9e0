//! Frames of SPDY/3.1, as far as Kubernetes uses them. Pure but for reading and writing bytes.
//!
//! Clients do not watch windows (client-go's library ignores them), so neither does this side: whoever sends too much waits
//! for the socket.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Clients send far less at once.
const MOST_BYTES: u32 = 1 << 20;
const VERSION: u16 = 3;
const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;

/// What a client says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A stream begins; its headers are still compressed.
    Open {
        stream: u32,
        headers: Bytes,
        last: bool,
    },
    Data {
        stream: u32,
        bytes: Bytes,
        last: bool,
    },
    Reset {
        stream: u32,
    },
    Ping {
        id: u32,
    },
    GoAway,
    /// Something that does not matter here.
    Other,
}

/// The next frame; an error for what is none.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let (head, rest) = (from.read_u32().await?, from.read_u32().await?);
    let (flags, length) = ((rest >> 24) as u8, rest & 0x00ff_ffff);
    if length > MOST_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = vec![0; length as usize];
    from.read_exact(&mut payload).await?;
    let last = flags & FIN != 0;
    if head & 0x8000_0000 == 0 {
        return Ok(Frame::Data { stream: head, bytes: payload.into(), last });
    }
    control(head, last, &payload)
}

fn control(head: u32, last: bool, payload: &[u8]) -> io::Result<Frame> {
    let (version, kind) = ((head >> 16) as u16 & 0x7fff, head as u16);
    let number = |place: usize| -> io::Result<u32> {
        let bytes = payload.get(place..place + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_be_bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    };
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(match kind {
        SYN_STREAM => {
            let headers = payload.get(10..).ok_or(io::ErrorKind::InvalidData)?;
            Frame::Open { stream: number(0)? & 0x7fff_ffff, headers: Bytes::copy_from_slice(headers), last }
        }
        RST_STREAM => Frame::Reset { stream: number(0)? & 0x7fff_ffff },
        PING => Frame::Ping { id: number(0)? },
        GOAWAY => Frame::GoAway,
        _ => Frame::Other,
    })
}

/// Agrees to a stream. `headers` is a compressed block.
pub(super) async fn accept(
    to: &mut (impl AsyncWrite + Unpin),
    stream: u32,
    headers: &[u8],
) -> io::Result<()> {
    write_control(to, SYN_REPLY, &[&stream.to_be_bytes(), headers]).await
}

pub(super) async fn pong(to: &mut (impl AsyncWrite + Unpin), id: u32) -> io::Result<()> {
    write_control(to, PING, &[&id.to_be_bytes()]).await
}

pub(super) async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    stream: u32,
    bytes: &[u8],
    last: bool,
) -> io::Result<()> {
    let flags = if last { u32::from(FIN) << 24 } else { 0 };
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    write(to, stream, flags | length, &[bytes]).await
}

async fn write_control(to: &mut (impl AsyncWrite + Unpin), kind: u16, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let head = 0x8000_0000 | (u32::from(VERSION) << 16) | u32::from(kind);
    write(to, head, u32::try_from(length).map_err(io::Error::other)?, parts).await
}

async fn write(to: &mut (impl AsyncWrite + Unpin), head: u32, rest: u32, parts: &[&[u8]]) -> io::Result<()> {
    let mut out = Vec::with_capacity(8 + parts.iter().map(|part| part.len()).sum::<usize>());
    out.extend_from_slice(&head.to_be_bytes());
    out.extend_from_slice(&rest.to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
    to.write_all(&out).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_told_apart() {
        let open = [&[0x80, 3, 0, 1, 1, 0, 0, 12, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0][..], b"hh"].concat();
        let cases = [
            (open, Frame::Open { stream: 5, headers: Bytes::from_static(b"hh"), last: true }),
            (
                vec![0, 0, 0, 7, 0, 0, 0, 2, b'h', b'i'],
                Frame::Data { stream: 7, bytes: Bytes::from_static(b"hi"), last: false },
            ),
            (vec![0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 5], Frame::Reset { stream: 1 }),
            (vec![0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 9], Frame::Ping { id: 9 }),
            (vec![0x80, 3, 0, 7, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0], Frame::GoAway),
            (vec![0x80, 3, 0, 9, 0, 0, 0, 0], Frame::Other),
        ];
        for (bytes, expected) in cases {
            assert_eq!(read(&mut &bytes[..]).await.unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn what_is_no_frame_is_refused() {
        let cases: [&[u8]; 6] = [
            &[],
            &[0x80, 2, 0, 1, 0, 0, 0, 0],
            &[0x80, 3, 0, 1, 0, 0, 0, 2, 0, 0],
            &[0x80, 3, 0, 6, 0, 0, 0, 1, 0],
            &[0, 0, 0, 1, 0, 0xff, 0xff, 0xff],
            &[0, 0, 0, 1, 0, 0, 0, 9, 1],
        ];
        for bytes in cases {
            assert!(read(&mut &bytes[..]).await.is_err(), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn what_is_written_is_read_back() {
        let mut out = Vec::new();
        send(&mut out, 3, b"there", true).await.unwrap();
        pong(&mut out, 4).await.unwrap();
        let mut from = &out[..];
        let data = Frame::Data { stream: 3, bytes: Bytes::from_static(b"there"), last: true };
        assert_eq!(read(&mut from).await.unwrap(), data);
        assert_eq!(read(&mut from).await.unwrap(), Frame::Ping { id: 4 });
    }
}
