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
        ["containerLogs", namespace, pod, name] => {
            log::answer_at_node(asked, pod, || container(namespace, pod, name)).await
        }
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::future::BoxFuture;
    use futures_util::stream::{self, BoxStream, StreamExt as _};
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::nodes::{Connection, ExecOptions, LogOptions, Session};

    /// A node with one pod, `demo/web` with containers `main` and `side`, of which only `main` says something.
    #[derive(Debug)]
    struct OnePod;

    impl Nodes for OnePod {
        fn find(&self, node: &str, namespace: &str, pod: &str) -> Option<ContainerPlace> {
            let place = ContainerPlace {
                node: node.into(),
                pod: "uid".into(),
                pod_name: pod.into(),
                container: "main".into(),
            };
            (namespace == "demo" && pod == "web").then_some(place)
        }

        fn logs(
            &self,
            place: ContainerPlace,
            options: LogOptions,
        ) -> BoxFuture<'_, Result<BoxStream<'static, Bytes>, String>> {
            let said = format!("{place:?} {:?} {:?}", options.tail, options.since);
            let found = (place.container == "main" && !options.previous)
                .then(|| stream::iter([Bytes::from(said)]).boxed());
            Box::pin(async move { found.ok_or_else(|| "it is waiting to start".to_owned()) })
        }

        fn exec(&self, _: ContainerPlace, _: ExecOptions) -> BoxFuture<'_, Result<Session, String>> {
            Box::pin(async { Err("nothing runs here".to_owned()) })
        }

        fn attach(&self, _: ContainerPlace) -> BoxFuture<'_, Result<Session, String>> {
            Box::pin(async { Err("nothing runs here".to_owned()) })
        }

        fn connect(&self, _: ContainerPlace, _: u16) -> BoxFuture<'_, Result<Box<dyn Connection>, String>> {
            Box::pin(async { Err("nothing runs here".to_owned()) })
        }
    }

    async fn ask(path: &str) -> (u16, String) {
        let nodes: Arc<dyn Nodes> = Arc::new(OnePod);
        let response = handle("node1", &nodes, Request::get(path).body(()).unwrap()).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_container_is_found_by_the_names_in_the_path_and_refusals_are_plain_words() {
        let cases = [
            (
                "/containerLogs/demo/web/main?tailLines=3",
                200,
                "pod: \"uid\", pod_name: \"web\", container: \"main\" } Some(3) None",
            ),
            ("/containerLogs/demo/web/main?sinceSeconds=9", 200, "None Some(SecondsAgo(9))"),
            ("/containerLogs/demo/web/main?sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0"),
            ("/containerLogs/demo/web/main?previous=true", 400, "it is waiting to start"),
            ("/containerLogs/demo/web/side", 400, "it is waiting to start"),
            ("/containerLogs/demo/other/main", 404, "pod does not exist"),
            ("/exec/demo/other/main?command=ls", 404, "pod does not exist"),
            ("/exec/demo/web/main?input=1", 400, "you must specify at least 1 command"),
            ("/exec/demo/web/main?command=ls&output=1", 400, "this needs a WebSocket"),
            ("/attach/demo/web/main?output=1", 400, "this needs a WebSocket"),
            ("/portForward/demo/web", 400, "this needs a WebSocket"),
            ("/healthz", 200, "ok"),
            ("/run/demo/web/main", 404, "404 page not found"),
            ("/", 404, "404 page not found"),
        ];
        for (path, code, words) in cases {
            let (found, said) = ask(path).await;
            assert!(
                found == code && said.contains(words) && !said.starts_with('{'),
                "{path}: {found} {said}"
            );
        }
    }
}
