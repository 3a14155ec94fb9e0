//! WebSocket, as far as `exec` and its like need it: RFC 6455 from the server's side, without extensions.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// What the protocol appends to the client's key.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Clients send far less at once.
const MOST_BYTES: usize = 1 << 20;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// What proves to the client that the server understood.
pub(super) fn accept(key: &str) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{MAGIC}").as_bytes()))
}

/// What a client sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    Data(Bytes),
    Ping(Bytes),
    Close,
}

/// The next message. Fragments are put together; whatever breaks the rules or the limit is an error.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Message> {
    let mut gathered = Vec::new();
    loop {
        let (last, kind, payload) = read_frame(stream, MOST_BYTES - gathered.len()).await?;
        match kind {
            CONTINUATION | TEXT | BINARY => gathered.extend_from_slice(&payload),
            CLOSE => return Ok(Message::Close),
            // Control frames may come between fragments; answering one and forgetting the rest would lose data.
            PING if gathered.is_empty() => return Ok(Message::Ping(payload.into())),
            PING | PONG => continue,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        if last {
            return Ok(Message::Data(gathered.into()));
        }
    }
}

async fn read_frame(stream: &mut (impl AsyncRead + Unpin), room: usize) -> io::Result<(bool, u8, Vec<u8>)> {
    let [first, second] = [stream.read_u8().await?, stream.read_u8().await?];
    let length = match second & 0x7f {
        126 => u64::from(stream.read_u16().await?),
        127 => stream.read_u64().await?,
        short => u64::from(short),
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= room);
    // A client that does not mask, or uses an extension that nobody agreed on, is none.
    let (Some(length), true, true) = (length, second & 0x80 != 0, first & 0x70 == 0) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut mask = [0; 4];
    stream.read_exact(&mut mask).await?;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Ok((first & 0x80 != 0, first & 0x0f, payload))
}

/// Sends bytes of a channel, which is how Kubernetes puts several streams into one.
pub(super) async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    channel: u8,
    bytes: &[u8],
) -> io::Result<()> {
    write_frame(stream, BINARY, &[&[channel], bytes]).await
}

/// Sends bytes that know themselves what they are.
pub(super) async fn send_plain(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    write_frame(stream, BINARY, &[bytes]).await
}

pub(super) async fn pong(stream: &mut (impl AsyncWrite + Unpin), payload: &[u8]) -> io::Result<()> {
    write_frame(stream, PONG, &[payload]).await
}

/// Says that all is well and over.
pub(super) async fn close(stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    write_frame(stream, CLOSE, &[&1000_u16.to_be_bytes()]).await?;
    stream.shutdown().await
}

async fn write_frame(stream: &mut (impl AsyncWrite + Unpin), kind: u8, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = vec![0x80 | kind];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ ..126), _) => frame.push(short),
        (_, Ok(medium)) => {
            frame.push(126);
            frame.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    stream.write_all(&frame).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let masked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        [head, 0x80 | payload.len() as u8].into_iter().chain(mask).chain(masked).collect()
    }

    #[test]
    fn the_answer_to_a_key_is_that_of_the_standard() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[tokio::test]
    async fn messages_are_unmasked_and_fragments_put_together() {
        let bytes = [
            frame(0x82, b"\0ls"),
            frame(0x89, b"hi"),
            frame(0x02, b"one "),
            frame(0x80, b"two"),
            frame(0x88, b""),
        ];
        let mut stream = &bytes.concat()[..];
        assert_eq!(read(&mut stream).await.unwrap(), Message::Data(Bytes::from_static(b"\0ls")));
        assert_eq!(read(&mut stream).await.unwrap(), Message::Ping(Bytes::from_static(b"hi")));
        assert_eq!(read(&mut stream).await.unwrap(), Message::Data(Bytes::from_static(b"one two")));
        assert_eq!(read(&mut stream).await.unwrap(), Message::Close);
        assert!(read(&mut stream).await.is_err(), "the end");
    }

    #[tokio::test]
    async fn what_breaks_the_rules_is_refused() {
        let unmasked = vec![0x82, 2, b'a', b'b'];
        let huge = [vec![0x82, 0xff], u64::MAX.to_be_bytes().to_vec()].concat();
        for bytes in [unmasked, huge, frame(0xc2, b"extended"), frame(0x83, b"unknown"), vec![0x82]] {
            assert!(read(&mut &bytes[..]).await.is_err(), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn lengths_are_written_in_the_shortest_form() {
        for (length, head) in [
            (0, &[0x82, 1][..]),
            (124, &[0x82, 125]),
            (125, &[0x82, 126, 0, 126]),
            (65_535, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut out = Vec::new();
            send(&mut out, 1, &vec![0; length]).await.unwrap();
            assert_eq!(&out[..head.len()], head, "{length}");
            assert_eq!(out.len(), head.len() + 1 + length);
        }
    }
}
