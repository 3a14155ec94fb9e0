//! `pods/log`: what the node of a pod is asked, and what is refused before it is.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use serde_json::json;
use tombolo_apiserver::{Connection, ContainerPlace, ExecOptions, LogOptions, Nodes, Session, Since};

use crate::client::Wire;

/// A node whose containers were never started again, and say what they were asked.
#[derive(Debug)]
struct Parrot;

impl Nodes for Parrot {
    fn find(&self, _: &str, _: &str, _: &str) -> Option<ContainerPlace> {
        None
    }

    fn logs(
        &self,
        place: ContainerPlace,
        options: LogOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Bytes>, String>> {
        let since = match options.since {
            Some(Since::SecondsAgo(seconds)) => format!("{seconds}s"),
            Some(Since::Time(time)) => time.to_string(),
            None => "ever".to_owned(),
        };
        let said = format!("{} since {since}, at most {:?}", place.container, options.most_bytes);
        let ContainerPlace { container, pod_name, .. } = place;
        let missing = format!("previous terminated container {container:?} in pod {pod_name:?} not found");
        let found = (!options.previous).then(|| stream::iter([Bytes::from(said)]).boxed());
        Box::pin(ready(found.ok_or(missing)))
    }

    fn exec(&self, _: ContainerPlace, _: ExecOptions) -> BoxFuture<'_, Result<Session, String>> {
        Box::pin(ready(Err("nothing can be run here".to_owned())))
    }

    fn attach(&self, _: ContainerPlace) -> BoxFuture<'_, Result<Session, String>> {
        Box::pin(ready(Err("nobody listens here".to_owned())))
    }

    fn connect(&self, _: ContainerPlace, _: u16) -> BoxFuture<'_, Result<Box<dyn Connection>, String>> {
        Box::pin(ready(Err("nothing listens here".to_owned())))
    }
}

const LOG: &str = "/api/v1/namespaces/default/pods/web/log";

async fn with_a_pod() -> Wire {
    let wire = Wire::new();
    wire.cluster.attach(Arc::new(Parrot));
    let pod = json!({"metadata": {"name": "web"}, "spec": {
        "nodeName": "node1", "containers": [{"name": "main", "image": "echo"}]}});
    wire.create("/api/v1/namespaces/default/pods", &pod).await;
    wire
}

#[tokio::test]
async fn the_node_is_asked_for_the_part_of_the_log_that_is_wanted() {
    let wire = with_a_pod().await;
    let cases = [
        ("", "main since ever, at most None"),
        ("?sinceSeconds=60&limitBytes=9", "main since 60s, at most Some(9)"),
        ("?sinceTime=2026-11-15T12:00:00%2B02:00", "main since 2026-11-15T10:00:00Z, at most None"),
    ];
    for (query, said) in cases {
        let reply = wire.get(&format!("{LOG}{query}")).await;
        assert_eq!((reply.code, reply.body.as_ref()), (200, said.as_bytes()), "{query}");
    }
    let reply = wire.get(&format!("{LOG}?previous=true")).await;
    assert_eq!((reply.code, &reply.json["reason"]), (400, &json!("BadRequest")));
    assert_eq!(reply.json["message"], "previous terminated container \"main\" in pod \"web\" not found");
}

#[tokio::test]
async fn options_of_a_log_that_cannot_be_meant_are_named_with_their_causes_even_if_there_is_no_pod() {
    let wire = with_a_pod().await;
    let query = "?tailLines=-1&limitBytes=0&sinceSeconds=1&sinceTime=2026-11-15T10:00:00Z";
    let reply = wire.get(&format!("{LOG}{query}")).await;
    let causes = json!([
        {"reason": "FieldValueInvalid", "field": "tailLines",
         "message": "Invalid value: -1: must be greater than or equal to 0"},
        {"reason": "FieldValueInvalid", "field": "limitBytes",
         "message": "Invalid value: 0: must be greater than 0"},
        {"reason": "FieldValueForbidden", "field": "[]",
         "message": "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"}]);
    assert_eq!((reply.code, &reply.json["reason"]), (422, &json!("Invalid")));
    assert_eq!(
        reply.json["details"],
        json!({"name": "web", "kind": "PodLogOptions", "causes": causes}),
        "{}",
        reply.json
    );
    let nobody = LOG.replace("web", "nobody");
    assert_eq!(wire.get(&format!("{nobody}{query}")).await.code, 422);
    assert_eq!(wire.get(&nobody).await.code, 404);
    assert_eq!(wire.get(&format!("{LOG}?sinceTime=yesterday")).await.code, 400);
}
