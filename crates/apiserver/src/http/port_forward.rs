//! `pods/portforward`: connections to ports of a pod, as pairs of SPDY streams; the frames may be wrapped in a WebSocket.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::exec::nobody;
use super::spdy::{self, Sender, Stream};
use super::upgrade::{Offered, Spoken, switch};
use super::websocket::{self, Message};
use super::{Answer, Asked, Conversation, log};
use crate::nodes::{Connection, ContainerPlace, Nodes};
use crate::operation::{self, Call};

const OFFERED: Offered =
    Offered { websocket: &["SPDY/3.1+portforward.k8s.io"], spdy: &["portforward.k8s.io"] };
/// As much as may wait between the two sides of a wrapper.
const WAITING: usize = 64 << 10;
/// Requests that have sent only one of their two streams.
const MOST_HALVES: usize = 64;

pub(super) fn answer(asked: &Asked<'_>, call: &Call<'_>, name: &str) -> Answer {
    let pod = operation::get(call, name)?;
    // All containers of a pod share its network: any will do.
    let first = pod.value["spec"]["containers"][0]["name"].as_str().unwrap_or_default();
    let place = log::place(&pod.value, name, first)?;
    open(&asked.conversation(), place)
}

/// Agrees to talk and begins to.
pub(super) fn open(asked: &Conversation<'_>, place: ContainerPlace) -> Answer {
    let (spoken, response, upgrade) = switch(asked, &OFFERED)?;
    let nodes = asked.nodes.cloned();
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let connection = TokioIo::new(upgraded);
        let served = match spoken {
            Spoken::Spdy => forward(connection, nodes.as_deref(), &place).await,
            Spoken::WebSocket => {
                let (ours, theirs) = tokio::io::duplex(WAITING);
                let wrapped = async {
                    tokio::try_join!(unwrap(connection, theirs), forward(ours, nodes.as_deref(), &place))
                };
                wrapped.await.map(drop)
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a port-forward connection ended with an error");
        }
    });
    Ok(response)
}

/// Takes frames out of messages, and puts those that go back into some.
async fn unwrap(connection: impl AsyncRead + AsyncWrite, inner: DuplexStream) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(connection);
    let (mut said, mut heard) = tokio::io::split(inner);
    let (pong, mut pongs) = mpsc::channel::<Bytes>(4);
    let inward = async {
        loop {
            match websocket::read(&mut from).await? {
                Message::Data(bytes) => heard.write_all(&bytes).await?,
                Message::Ping(payload) => drop(pong.send(payload).await),
                Message::Close => return heard.shutdown().await,
            }
        }
    };
    let outward = async {
        let mut buffer = vec![0; 32 << 10];
        loop {
            tokio::select! {
                Some(payload) = pongs.recv() => websocket::pong(&mut to, &payload).await?,
                count = said.read(&mut buffer) => match count? {
                    0 => return websocket::close(&mut to).await,
                    count => websocket::send_plain(&mut to, &buffer[..count]).await?,
                },
            }
        }
    };
    tokio::pin!(inward, outward);
    tokio::select! {
        ended = &mut outward => ended,
        ended = &mut inward => ended,
    }
}

/// Joins the two streams of each request and connects them to the pod.
async fn forward(
    connection: impl AsyncRead + AsyncWrite + Send + 'static,
    nodes: Option<&dyn Nodes>,
    place: &ContainerPlace,
) -> io::Result<()> {
    let (run, mut incoming) = spdy::serve(connection);
    tokio::pin!(run);
    let mut halves: BTreeMap<String, Stream> = BTreeMap::new();
    let mut talks: JoinSet<()> = JoinSet::new();
    loop {
        let stream = tokio::select! {
            ended = &mut run => return ended,
            Some(_) = talks.join_next(), if !talks.is_empty() => continue,
            stream = incoming.recv() => stream,
        };
        let Some(stream) = stream else { return run.await };
        let request = stream.headers.get("requestid").cloned().unwrap_or_default();
        let Some(other) = halves.remove(&request) else {
            if halves.len() >= MOST_HALVES {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            halves.insert(request, stream);
            continue;
        };
        let is_error = |stream: &Stream| stream.headers.get("streamtype").is_some_and(|kind| kind == "error");
        let (error, data) = if is_error(&other) { (other, stream) } else { (stream, other) };
        let port = data.headers.get("port").and_then(|port| port.parse().ok());
        let connected = match (port, nodes) {
            (None, _) => Err("the request names no port".to_owned()),
            (_, None) => Err(nobody(place)),
            (Some(port), Some(nodes)) => nodes.connect(place.clone(), port).await,
        };
        talks.spawn(talk(connected, error.output, data));
    }
}

/// One connection, until both sides have said all.
async fn talk(connected: Result<Box<dyn Connection>, String>, error: Sender, data: Stream) {
    let outcome = match connected {
        Ok(connection) => pass(connection, data).await.map_err(|error| error.to_string()),
        Err(why) => {
            let _ = data.output.finish().await;
            Err(why)
        }
    };
    if let Err(why) = outcome {
        let _ = error.send(why.into()).await;
    }
    let _ = error.finish().await;
}

async fn pass(connection: Box<dyn Connection>, data: Stream) -> io::Result<()> {
    let Stream { mut input, output, .. } = data;
    let (mut from, mut to) = tokio::io::split(connection);
    let inward = async {
        while let Some(bytes) = input.recv().await {
            to.write_all(&bytes).await?;
        }
        to.shutdown().await
    };
    let outward = async {
        let mut buffer = vec![0; 32 << 10];
        loop {
            match from.read(&mut buffer).await? {
                0 => return output.finish().await,
                count => output.send(Bytes::copy_from_slice(&buffer[..count])).await?,
            }
        }
    };
    tokio::try_join!(inward, outward).map(drop)
}
