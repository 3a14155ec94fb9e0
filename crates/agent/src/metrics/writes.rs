//! Counting writes where no code path can forget to: in the client.

use http::{Method, StatusCode};
use kube::Client;
use kube::client::Body;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tower::service_fn;

use super::Labels;

/// Whose API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Member,
    Hub,
}

impl Side {
    const fn as_str(self) -> &'static str {
        match self {
            Side::Member => "member",
            Side::Hub => "hub",
        }
    }
}

pub(super) fn count(client: Client, side: Side, writes: Family<Labels<3>, Counter>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: http::Request<Body>| {
        let (client, writes) = (client.clone(), writes.clone());
        let resource = is_write(request.method()).then(|| resource(request.uri().path()));
        async move {
            let outcome = client.send(request).await;
            if let Some(resource) = resource {
                let result = result(outcome.as_ref().ok().map(|answer| answer.status()));
                let labels = [
                    ("side", side.as_str().to_owned()),
                    ("resource", resource),
                    ("result", result.to_owned()),
                ];
                writes.get_or_create(&labels).inc();
            }
            outcome
        }
    });
    Client::new(service, namespace)
}

fn is_write(method: &Method) -> bool {
    *method != Method::GET && *method != Method::HEAD
}

/// What became of a request, in one word.
fn result(status: Option<StatusCode>) -> &'static str {
    match status {
        None => "unreachable",
        Some(status) if status.is_success() => "ok",
        Some(StatusCode::CONFLICT) => "conflict",
        Some(StatusCode::FORBIDDEN) => "forbidden",
        Some(StatusCode::NOT_FOUND) => "not_found",
        Some(status) if status.is_client_error() => "refused",
        Some(_) => "failed",
    }
}

/// The resource in the path of a request, such as `endpointslices` or `serviceexports/status`.
fn resource(path: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let group = if parts.first() == Some(&"apis") { 3 } else { 2 };
    parts.drain(..group.min(parts.len()));
    // `namespaces/x/services`, but also `namespaces/x`, which is a namespace itself.
    if parts.first() == Some(&"namespaces") && parts.len() > 2 {
        parts.drain(..2);
    }
    match parts[..] {
        [resource, _, sub, ..] => format!("{resource}/{sub}"),
        [resource, ..] => resource.to_owned(),
        [] => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resource_is_found_in_every_kind_of_path() {
        let cases = [
            ("/api/v1/namespaces/demo/services/echo", "services"),
            ("/api/v1/namespaces/demo/services", "services"),
            ("/api/v1/namespaces", "namespaces"),
            ("/api/v1/namespaces/demo", "namespaces"),
            ("/apis/discovery.k8s.io/v1/namespaces/demo/endpointslices/a", "endpointslices"),
            (
                "/apis/multicluster.k8s.io/v1alpha1/namespaces/demo/serviceexports/a/status",
                "serviceexports/status",
            ),
            ("/apis/about.k8s.io/v1beta1/clusterproperties/x", "clusterproperties"),
            ("/", "unknown"),
        ];
        for (path, expected) in cases {
            assert_eq!(resource(path), expected, "{path}");
        }
    }

    #[test]
    fn every_answer_has_a_word() {
        let cases = [
            (Some(201), "ok"),
            (Some(409), "conflict"),
            (Some(403), "forbidden"),
            (Some(404), "not_found"),
            (Some(422), "refused"),
            (Some(503), "failed"),
            (None, "unreachable"),
        ];
        for (code, expected) in cases {
            assert_eq!(result(code.map(|code| StatusCode::from_u16(code).unwrap())), expected, "{code:?}");
        }
    }
}
