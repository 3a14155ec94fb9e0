//! `pods/exec` over WebSocket: the streams of a command in a container, as numbered channels of one connection.

use std::io;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use super::websocket::{self, Message};
use super::{Answer, Asked, Body, log};
use crate::nodes::{ContainerPlace, ExecOptions, Output, Session};
use crate::operation::{self, Call};
use crate::status::Status;

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");
/// What is spoken, the best first. The fifth edition can say that one stream has ended.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

const STDIN: u8 = 0;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// In the fifth edition: the channel in the next byte has ended.
const ENDED: u8 = 255;

pub(super) fn answer(asked: &Asked<'_>, call: &Call<'_>, name: &str) -> Answer {
    let pod = operation::get(call, name)?;
    let place = log::place(&pod.value, name, asked.query.text("container"))?;
    let options = ExecOptions {
        command: asked.query.all("command"),
        stdin: asked.query.flag("stdin")?,
        tty: asked.query.flag("tty")?,
    };
    if options.command.is_empty() {
        return Err(Status::bad_request("you must specify at least 1 command for the container"));
    }
    let (response, upgrade) = switch(asked)?;
    let core = asked.core.clone();
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let session = match core.nodes.get() {
            Some(nodes) => nodes.exec(place, options).await,
            None => Err(nobody(&place)),
        };
        if let Err(error) = serve(TokioIo::new(upgraded), session).await {
            tracing::debug!(%error, "an exec connection ended with an error");
        }
    });
    Ok(response)
}

fn nobody(place: &ContainerPlace) -> String {
    format!("nothing runs on the node {}", place.node)
}

/// Agrees to a WebSocket, if the client asks for one that is spoken here.
fn switch(asked: &Asked<'_>) -> Result<(Response<Body>, OnUpgrade), Status> {
    let unspoken =
        || Status::bad_request("exec needs a WebSocket with v5.channel.k8s.io or v4.channel.k8s.io");
    let key = asked.headers.get(KEY).and_then(|key| key.to_str().ok()).ok_or_else(unspoken)?;
    let protocol = choose(asked.headers).ok_or_else(unspoken)?;
    let upgrade = asked.upgrade.lock().ok().and_then(|mut upgrade| upgrade.take()).ok_or_else(unspoken)?;
    let mut response = Response::new(Body::whole(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(PROTOCOL, HeaderValue::from_static(protocol));
    headers.insert(ACCEPT, HeaderValue::from_str(&websocket::accept(key)).map_err(|_| unspoken())?);
    Ok((response, upgrade))
}

fn choose(headers: &HeaderMap) -> Option<&'static str> {
    let offered = headers.get_all(PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<&str> = offered.flat_map(|value| value.split(',')).map(str::trim).collect();
    PROTOCOLS.into_iter().find(|protocol| offered.contains(protocol))
}

/// Passes everything on, both ways, until the command has ended.
async fn serve(connection: TokioIo<Upgraded>, session: Result<Session, String>) -> io::Result<()> {
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

fn size(bytes: &[u8]) -> Option<(u16, u16)> {
    let told: Value = serde_json::from_slice(bytes).ok()?;
    let number = |key: &str| told[key].as_u64().and_then(|number| u16::try_from(number).ok());
    Some((number("Width")?, number("Height")?))
}

fn channel(stream: Output) -> u8 {
    match stream {
        Output::Stdout => 1,
        Output::Stderr => 2,
    }
}

/// How it ended, in the words that clients look for.
fn status(verdict: &Result<i32, String>) -> Value {
    match verdict {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(why) => json!({
            "metadata": {},
            "status": "Failure",
            "message": why,
            "reason": "InternalError",
            "details": {"causes": [{"message": why}]},
            "code": 500,
        }),
    }
}
