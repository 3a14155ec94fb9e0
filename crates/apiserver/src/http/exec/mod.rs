//! `pods/exec` and `pods/attach`: the streams of a command in a container, over a WebSocket or SPDY.

mod over_spdy;
mod over_websocket;
mod verdict;

use hyper_util::rt::TokioIo;

use super::query::Query;
use super::upgrade::{Offered, Spoken, switch};
use super::{Answer, Asked, Conversation, log};
use crate::nodes::{ContainerPlace, ExecOptions, Nodes, Session};
use crate::operation::{self, Call};
use crate::status::Status;

/// The fifth edition can say that one stream has ended; within SPDY streams end anyway.
const OFFERED: Offered =
    Offered { websocket: &["v5.channel.k8s.io", "v4.channel.k8s.io"], spdy: &["v4.channel.k8s.io"] };

/// What the client wants of the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// A further command.
    Exec,
    /// What it says itself.
    Attach,
}

/// Which streams the client has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Streams {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl Streams {
    /// Reads them from a query that calls them by these names.
    fn read(query: &Query, [stdin, stdout, stderr]: [&str; 3]) -> Self {
        Self {
            stdin: query.flag(stdin),
            stdout: query.flag(stdout),
            stderr: query.flag(stderr),
            tty: query.flag("tty"),
        }
    }
}

pub(super) fn answer(asked: &Asked<'_>, call: &Call<'_>, name: &str, wish: Wish) -> Answer {
    let pod = operation::get(call, name)?;
    let place = log::place(&pod.value, name, asked.query.text("container"))?;
    open(&asked.conversation(), place, wish, ["stdin", "stdout", "stderr"])
}

/// Agrees to talk and begins to. Streams have other names where a node is asked than where an API server is.
pub(super) fn open(asked: &Conversation<'_>, place: ContainerPlace, wish: Wish, names: [&str; 3]) -> Answer {
    let streams = Streams::read(asked.query, names);
    let options = ExecOptions { command: asked.query.all("command"), stdin: streams.stdin, tty: streams.tty };
    if wish == Wish::Exec && options.command.is_empty() {
        return Err(Status::bad_request("you must specify at least 1 command for the container"));
    }
    let (spoken, response, upgrade) = switch(asked, &OFFERED)?;
    let nodes = asked.nodes.cloned();
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let start = async move {
            let nodes = nodes.ok_or_else(|| nobody(&place))?;
            begin(nodes.as_ref(), place, options, wish).await
        };
        let connection = TokioIo::new(upgraded);
        let served = match spoken {
            Spoken::WebSocket => over_websocket::serve(connection, start.await).await,
            Spoken::Spdy => over_spdy::serve(connection, &streams, start).await,
        };
        if let Err(error) = served {
            tracing::debug!(%error, "an exec connection ended with an error");
        }
    });
    Ok(response)
}

async fn begin(
    nodes: &dyn Nodes,
    place: ContainerPlace,
    options: ExecOptions,
    wish: Wish,
) -> Result<Session, String> {
    match wish {
        Wish::Exec => nodes.exec(place, options).await,
        Wish::Attach => nodes.attach(place).await,
    }
}

pub(super) fn nobody(place: &ContainerPlace) -> String {
    format!("nothing runs on the node {}", place.node)
}

/// The new size of a terminal, as clients tell it.
fn size(bytes: &[u8]) -> Option<(u16, u16)> {
    let told: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let number = |key: &str| told[key].as_u64().and_then(|number| u16::try_from(number).ok());
    Some((number("Width")?, number("Height")?))
}
