//! SPDY/3.1 from the server's side, as client-go speaks it: several streams in one connection, each opened by the client.
//!
//! One task reads the connection and one writes it. A [`Stream`] gets what the client sends on it, in order, and whoever
//! holds it may answer. When the last half is dropped the connection is closed, which is what clients wait for.

mod frame;
mod headers;

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use self::frame::Frame;

/// Chunks that may wait on the way; whoever sends more waits, too.
const WAITING: usize = 16;
/// More than a client opens before it has closed others.
const MOST_STREAMS: usize = 1024;

/// What is written.
enum Out {
    Accept(u32),
    Pong(u32),
    Data(u32, Bytes, bool),
}

/// One stream of a connection.
pub(super) struct Stream {
    pub(super) headers: BTreeMap<String, String>,
    /// What the client sends; it ends with the client's half.
    pub(super) input: mpsc::Receiver<Bytes>,
    pub(super) output: Sender,
}

/// The way back to the client.
#[derive(Clone)]
pub(super) struct Sender {
    stream: u32,
    out: mpsc::Sender<Out>,
}

impl Sender {
    /// Sends bytes; an error once the client is gone.
    pub(super) async fn send(&self, bytes: Bytes) -> io::Result<()> {
        self.out.send(Out::Data(self.stream, bytes, false)).await.map_err(|_| gone())
    }

    /// Ends this half.
    pub(super) async fn finish(&self) -> io::Result<()> {
        self.out.send(Out::Data(self.stream, Bytes::new(), true)).await.map_err(|_| gone())
    }
}

fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

/// Serves a connection: streams come out as the client opens them. The future ends with the connection.
pub(super) fn serve<C>(connection: C) -> (impl Future<Output = io::Result<()>>, mpsc::Receiver<Stream>)
where
    C: AsyncRead + AsyncWrite + Send + 'static,
{
    let (opened, streams) = mpsc::channel(WAITING);
    let (from, to) = tokio::io::split(connection);
    let (out, outgoing) = mpsc::channel(WAITING);
    let run = async move {
        let (write, listen) = (write(to, outgoing), listen(from, out, opened));
        tokio::pin!(write, listen);
        tokio::select! {
            // All streams are closed, or the client is gone.
            written = &mut write => written,
            // The client has said all; what is still on the way to it goes on.
            heard = &mut listen => { heard?; write.await }
        }
    };
    (run, streams)
}

async fn write(mut to: impl AsyncWrite + Unpin, mut outgoing: mpsc::Receiver<Out>) -> io::Result<()> {
    let mut headers = headers::Writer::default();
    while let Some(out) = outgoing.recv().await {
        match out {
            Out::Accept(stream) => frame::accept(&mut to, stream, &headers.empty()).await?,
            Out::Pong(id) => frame::pong(&mut to, id).await?,
            Out::Data(stream, bytes, last) => frame::send(&mut to, stream, &bytes, last).await?,
        }
    }
    to.shutdown().await
}

async fn listen(
    mut from: impl AsyncRead + Unpin,
    out: mpsc::Sender<Out>,
    opened: mpsc::Sender<Stream>,
) -> io::Result<()> {
    let mut reader = headers::Reader::new();
    let mut inputs: BTreeMap<u32, mpsc::Sender<Bytes>> = BTreeMap::new();
    // Once nobody takes streams any more, the only ends that keep the connection open are those of the streams.
    let mut out = Some(out);
    loop {
        let next = tokio::select! {
            next = frame::read(&mut from) => next,
            () = opened.closed(), if out.is_some() => {
                out = None;
                continue;
            }
        };
        let next = match next {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            next => next?,
        };
        match next {
            Frame::Open { stream, headers, last } => {
                let headers = reader.read(&headers)?;
                let Some(out) = &out else { continue };
                if inputs.len() >= MOST_STREAMS {
                    return Err(io::ErrorKind::QuotaExceeded.into());
                }
                let (input, received) = mpsc::channel(WAITING);
                if !last {
                    inputs.insert(stream, input);
                }
                out.send(Out::Accept(stream)).await.map_err(|_| gone())?;
                let output = Sender { stream, out: out.clone() };
                let _ = opened.send(Stream { headers, input: received, output }).await;
            }
            Frame::Data { stream, bytes, last } => {
                if let Some(input) = inputs.get(&stream).filter(|_| !bytes.is_empty()) {
                    let _ = input.send(bytes).await;
                }
                if last {
                    inputs.remove(&stream);
                }
            }
            Frame::Reset { stream } => drop(inputs.remove(&stream)),
            Frame::Ping { id } => {
                if let Some(out) = &out {
                    let _ = out.send(Out::Pong(id)).await;
                }
            }
            Frame::GoAway => return Ok(()),
            Frame::Other => {}
        }
    }
}
