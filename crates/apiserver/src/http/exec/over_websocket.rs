//! A command over a WebSocket: its streams are numbered channels of one connection.

use std::io;

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use super::super::websocket::{self, Message};
use super::size;
use super::verdict::status;
use crate::nodes::{Output, Session};

const STDIN: u8 = 0;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// In the fifth edition: the channel in the next byte has ended.
const ENDED: u8 = 255;

/// Passes everything on, both ways, until the command has ended.
pub(super) async fn serve(connection: TokioIo<Upgraded>, session: Result<Session, String>) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(connection);
    let verdict = match session {
        Err(why) => Err(why),
        Ok(Session { stdin, resize, mut output, ended }) => {
            let (pong, mut pongs) = mpsc::channel(4);
            let listen = listen(&mut from, stdin, resize, pong);
            let speak = async {
                loop {
                    tokio::select! {
                        Some(payload) = pongs.recv() => websocket::pong(&mut to, &payload).await?,
                        said = output.recv() => match said {
                            Some((stream, bytes)) => websocket::send(&mut to, channel(stream), &bytes).await?,
                            None => return io::Result::Ok(()),
                        },
                    }
                }
            };
            tokio::pin!(listen);
            tokio::select! {
                spoken = speak => spoken?,
                // Who hangs up takes the command with it: its streams close.
                _ = &mut listen => return Ok(()),
            }
            ended.await.unwrap_or_else(|_| Err("the command was lost".to_owned()))
        }
    };
    websocket::send(&mut to, ERROR, status(&verdict).to_string().as_bytes()).await?;
    websocket::close(&mut to).await
}

/// Takes what the client sends until it hangs up.
async fn listen(
    from: &mut (impl AsyncRead + Unpin),
    stdin: mpsc::Sender<Bytes>,
    resize: mpsc::Sender<(u16, u16)>,
    pong: mpsc::Sender<Bytes>,
) {
    let mut stdin = Some(stdin);
    while let Ok(message) = websocket::read(from).await {
        let data = match message {
            Message::Data(data) => data,
            Message::Ping(payload) => {
                let _ = pong.send(payload).await;
                continue;
            }
            Message::Close => return,
        };
        match data.split_first() {
            Some((&STDIN, bytes)) if !bytes.is_empty() => {
                if let Some(stdin) = &stdin {
                    let _ = stdin.send(Bytes::copy_from_slice(bytes)).await;
                }
            }
            Some((&RESIZE, bytes)) => {
                if let Some(size) = size(bytes) {
                    let _ = resize.send(size).await;
                }
            }
            Some((&ENDED, [STDIN])) => stdin = None,
            _ => {}
        }
    }
}

fn channel(stream: Output) -> u8 {
    match stream {
        Output::Stdout => 1,
        Output::Stderr => 2,
    }
}
