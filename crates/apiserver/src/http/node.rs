//! What a node is asked by a real API server: the paths of a kubelet, as far as `kubectl` needs them.
//!
//! The talks are those of the embedded API server; only how a container and its streams are named differs. Refusals are plain
//! words, which the API server puts into a `Status` of its own.

use std::sync::{Arc, Mutex};

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;

use super::exec::{self, Wish};
use super::query::Query;
use super::{Answer, Body, Conversation, log, port_forward};
use crate::nodes::{ContainerPlace, Nodes};
use crate::status::Status;

/// How the streams of a command are called in a query.
const STREAMS: [&str; 3] = ["input", "output", "error"];

/// Answers one request to the node of this name. Never fails: what is wrong is told.
pub(crate) async fn handle<B>(node: &str, nodes: &Arc<dyn Nodes>, request: Request<B>) -> Response<Body> {
    let (mut parts, _) = request.into_parts();
    let upgrade = Mutex::new(parts.extensions.remove::<OnUpgrade>());
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let asked =
        Conversation { nodes: Some(nodes), query: &query, headers: &parts.headers, upgrade: &upgrade };
    let answer = answer(node, nodes.as_ref(), &asked, parts.uri.path()).await;
    answer.unwrap_or_else(|status| refuse(&status))
}

async fn answer(node: &str, nodes: &dyn Nodes, asked: &Conversation<'_>, path: &str) -> Answer {
    let words: Vec<&str> = path.split('/').skip(1).collect();
    let place = |namespace: &str, pod: &str| {
        let found = nodes.find(node, namespace, pod);
        found.ok_or_else(|| Status::new(404, "NotFound", "pod does not exist"))
    };
    let container = |namespace: &str, pod: &str, name: &str| {
        place(namespace, pod).map(|place| ContainerPlace { container: name.to_owned(), ..place })
    };
    match words.as_slice() {
        ["containerLogs", namespace, pod, name] => log::open(asked, container(namespace, pod, name)?).await,
        ["exec", namespace, pod, name] => {
            exec::open(asked, container(namespace, pod, name)?, Wish::Exec, STREAMS)
        }
        ["attach", namespace, pod, name] => {
            exec::open(asked, container(namespace, pod, name)?, Wish::Attach, STREAMS)
        }
        ["portForward", namespace, pod] => port_forward::open(asked, place(namespace, pod)?),
        ["healthz"] => Ok(super::text(StatusCode::OK, "ok")),
        _ => super::page_not_found(),
    }
}

fn refuse(status: &Status) -> Response<Body> {
    let mut response = Response::new(Body::whole(status.message.clone()));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
