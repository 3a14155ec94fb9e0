//! A command over SPDY: a stream of the connection for each of its own, and one for how it ended.
//!
//! Clients open as many streams as the request says, but not always those that it names: client-go's executor may ask for a
//! terminal and then open `stderr` instead of `resize`. So they are counted, and each is taken for what it says it is.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::spdy::{self, Sender, Stream};
use super::verdict::status;
use super::{Streams, size};
use crate::nodes::{Output, Session};

/// How long a client may take to open its streams.
const PATIENCE: Duration = Duration::from_secs(30);

/// The streams that a client opened.
#[derive(Default)]
struct Opened {
    error: Option<Sender>,
    stdin: Option<mpsc::Receiver<Bytes>>,
    stdout: Option<Sender>,
    stderr: Option<Sender>,
    resize: Option<mpsc::Receiver<Bytes>>,
}

impl Streams {
    /// How many streams a client opens, as the kubelet counts them.
    fn count(&self) -> usize {
        let stderr = self.stderr && !self.tty;
        1 + [self.stdin, self.stdout, stderr, self.tty].into_iter().filter(|there| *there).count()
    }
}

/// Passes everything on, both ways, until the command has ended.
pub(super) async fn serve(
    connection: impl AsyncRead + AsyncWrite + Send + 'static,
    streams: &Streams,
    start: impl Future<Output = Result<Session, String>>,
) -> io::Result<()> {
    let (run, incoming) = spdy::serve(connection);
    tokio::pin!(run);
    let talk = talk(incoming, streams, start);
    tokio::select! {
        // Who hangs up takes the command with it: its streams close.
        ended = &mut run => ended,
        talked = talk => {
            talked?;
            run.await
        }
    }
}

async fn talk(
    mut incoming: mpsc::Receiver<Stream>,
    streams: &Streams,
    start: impl Future<Output = Result<Session, String>>,
) -> io::Result<()> {
    let gathered = timeout(PATIENCE, gather(&mut incoming, streams.count())).await;
    let opened = gathered.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let (error, outputs) = (opened.error.clone(), [opened.stdout.clone(), opened.stderr.clone()]);
    let verdict = match start.await {
        Ok(session) => pass(session, opened).await,
        Err(why) => Err(why),
    };
    for output in outputs.into_iter().flatten() {
        output.finish().await?;
    }
    if let Some(error) = error {
        error.send(status(&verdict).to_string().into()).await?;
        error.finish().await?;
    }
    Ok(())
}

async fn gather(incoming: &mut mpsc::Receiver<Stream>, count: usize) -> io::Result<Opened> {
    let mut opened = Opened::default();
    for _ in 0..count {
        let stream = incoming.recv().await.ok_or(io::ErrorKind::UnexpectedEof)?;
        match stream.headers.get("streamtype").map(String::as_str) {
            Some("error") => opened.error = Some(stream.output),
            Some("stdin") => opened.stdin = Some(stream.input),
            Some("stdout") => opened.stdout = Some(stream.output),
            Some("stderr") => opened.stderr = Some(stream.output),
            Some("resize") => opened.resize = Some(stream.input),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(opened)
}

async fn pass(session: Session, opened: Opened) -> Result<i32, String> {
    let Session { stdin, resize, mut output, ended } = session;
    let Opened { stdin: typed, stdout, stderr, resize: sizes, .. } = opened;
    let hear = async {
        tokio::join!(feed(typed, stdin), follow_size(sizes, resize));
        std::future::pending::<()>().await;
    };
    let speak = async {
        while let Some((stream, bytes)) = output.recv().await {
            let to = if stream == Output::Stdout { &stdout } else { &stderr };
            if let Some(to) = to {
                let _ = to.send(bytes).await;
            }
        }
    };
    tokio::select! {
        () = speak => {}
        () = hear => {}
    }
    ended.await.unwrap_or_else(|_| Err("the command was lost".to_owned()))
}

async fn feed(typed: Option<mpsc::Receiver<Bytes>>, stdin: mpsc::Sender<Bytes>) {
    let Some(mut typed) = typed else { return };
    while let Some(bytes) = typed.recv().await {
        let _ = stdin.send(bytes).await;
    }
}

async fn follow_size(sizes: Option<mpsc::Receiver<Bytes>>, resize: mpsc::Sender<(u16, u16)>) {
    let Some(mut sizes) = sizes else { return };
    while let Some(bytes) = sizes.recv().await {
        if let Some(size) = size(&bytes) {
            let _ = resize.send(size).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_counted_as_the_kubelet_counts_them() {
        let streams = |stdin, stdout, stderr, tty| Streams { stdin, stdout, stderr, tty };
        let cases = [
            (streams(false, true, true, false), 3),
            (streams(true, true, true, false), 4),
            // A terminal has no stderr, but a size.
            (streams(false, true, true, true), 3),
            (streams(true, true, false, true), 4),
            (streams(false, false, false, false), 1),
        ];
        for (streams, expected) in cases {
            assert_eq!(streams.count(), expected, "{streams:?}");
        }
    }
}
