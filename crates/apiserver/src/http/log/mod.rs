//! `pods/log`: which container is meant, which part of its log, and what its node says.

mod options;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Response};
use serde_json::Value;

use super::{Answer, Asked, Body, Conversation};
use crate::nodes::{ContainerPlace, LogOptions};
use crate::operation::{self, Call};
use crate::status::Status;

/// Names the container that is meant when a pod has several.
const DEFAULT_CONTAINER: &str = "/metadata/annotations/kubectl.kubernetes.io~1default-container";

pub(super) async fn answer(asked: &Asked<'_>, call: &Call<'_>, name: &str) -> Answer {
    if asked.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    // What is asked is judged before whom it is asked of, as by a real server.
    let options = options::read(&asked.query, name)?;
    let pod = operation::get(call, name)?;
    let place = place(&pod.value, name, asked.query.text("container"))?;
    open(&asked.conversation(), place, options).await
}

/// What a container said, and if asked says from now on.
async fn open(asked: &Conversation<'_>, place: ContainerPlace, options: LogOptions) -> Answer {
    let nodes = asked.nodes.ok_or_else(|| {
        Status::internal(format!("the node {} keeps no logs: nothing runs there", place.node))
    })?;
    let lines = nodes.logs(place, options).await.map_err(Status::bad_request)?;
    let mut response = Response::new(Body::stream(lines));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// The same where the node itself is asked, for a place that is yet to be found.
pub(super) async fn answer_at_node(
    asked: &Conversation<'_>,
    pod: &str,
    place: impl FnOnce() -> Result<ContainerPlace, Status>,
) -> Answer {
    let options = options::read(asked.query, pod)?;
    open(asked, place()?, options).await
}

/// The container that is meant. The refusals are those of the real server, which kubectl shows.
pub(super) fn place(pod: &Value, name: &str, asked: &str) -> Result<ContainerPlace, Status> {
    let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let names = |list: &str| -> Vec<String> {
        let all = pod["spec"][list].as_array().into_iter().flatten();
        all.filter_map(|container| container["name"].as_str()).map(str::to_owned).collect()
    };
    let (usual, init) = (names("containers"), names("initContainers"));
    let container = match (asked, usual.as_slice(), text(DEFAULT_CONTAINER)) {
        ("", [only], _) => only.clone(),
        ("", _, default) if usual.contains(&default) => default,
        ("", ..) => {
            let choice = usual.join(" ");
            let why = format!("a container name must be specified for pod {name}, choose one of: [{choice}]");
            return Err(Status::bad_request(why));
        }
        (given, ..) if usual.iter().chain(&init).any(|known| known == given) => given.to_owned(),
        (given, ..) => {
            return Err(Status::bad_request(format!("container {given} is not valid for pod {name}")));
        }
    };
    let node = text("/spec/nodeName");
    if node.is_empty() {
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    }
    Ok(ContainerPlace { node, pod: text("/metadata/uid"), pod_name: name.to_owned(), container })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_container_is_the_one_named_or_the_only_one() {
        let containers =
            |names: &[&str]| -> Vec<Value> { names.iter().map(|name| json!({"name": name})).collect() };
        let one =
            json!({"metadata": {"uid": "u"}, "spec": {"nodeName": "n", "containers": containers(&["a"])}});
        let mut two = json!({"metadata": {"annotations": {}}, "spec": {
            "nodeName": "n", "containers": containers(&["a", "b"]), "initContainers": containers(&["i"])}});
        let chosen = |pod: &Value, asked: &str| place(pod, "p", asked).map(|place| place.container);
        assert_eq!(chosen(&one, "").unwrap(), "a");
        assert_eq!(chosen(&two, "i").unwrap(), "i");
        assert!(
            chosen(&two, "").unwrap_err().to_value()["message"]
                .as_str()
                .unwrap()
                .contains("choose one of: [a b]")
        );
        assert!(chosen(&two, "z").is_err());
        two["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] = json!("b");
        assert_eq!(chosen(&two, "").unwrap(), "b");
        assert!(
            place(&json!({"spec": {"containers": containers(&["a"])}}), "p", "").is_err(),
            "not bound yet"
        );
    }
}
