//! The field `spec.topologyKeys` of Services: servers before Kubernetes 1.22 have it, the published types do not.
//!
//! On a server that has it, each look at an export asks for its Service once more; on others nothing is asked.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, Error};
use tokio::sync::OnceCell;
use tombolo_api::tombolo::ServiceRef;
use tombolo_model::offer::topology_keys;

use crate::version::minor;

/// The first minor version of Kubernetes 1 without the field.
const WITHOUT: u32 = 22;

/// Asks the member's server, if that makes sense.
#[derive(Debug, Default)]
pub(super) struct TopologyKeys {
    server_has_them: OnceCell<bool>,
}

impl TopologyKeys {
    /// Those that a Service has in the field.
    pub(super) async fn of(
        &self,
        member: &Client,
        service: &ServiceRef,
    ) -> Result<Option<Vec<String>>, Error> {
        let ask = || async { member.apiserver_version().await.map(|version| has_field(&version)) };
        if !*self.server_has_them.get_or_try_init(ask).await? {
            return Ok(None);
        }
        let kind = ApiResource::erase::<Service>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(member.clone(), &service.namespace, &kind);
        Ok(api.get_opt(&service.name).await?.and_then(|found| topology_keys(&found.data)))
    }
}

fn has_field(version: &Info) -> bool {
    minor(version).is_some_and(|minor| minor < WITHOUT)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A server of this version, which has one Service.
    fn server(minor: &'static str) -> Client {
        let answer = move |request: Request<Body>| async move {
            let body = match request.uri().path() {
                "/version" => json!({
                    "major": "1", "minor": minor, "gitVersion": "", "gitCommit": "", "gitTreeState": "",
                    "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
                }),
                "/api/v1/namespaces/demo/services/echo" => json!({
                    "apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"},
                    "spec": {"topologyKeys": ["topology.kubernetes.io/zone", "*"]},
                }),
                other => panic!("nobody should ask for {other}"),
            };
            Ok::<_, Infallible>(Response::new(Body::from(body.to_string().into_bytes())))
        };
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test]
    async fn the_field_counts_on_servers_that_have_it_and_is_not_looked_for_on_others() {
        let service = ServiceRef { namespace: "demo".to_owned(), name: "echo".to_owned() };
        for (minor, expected) in
            [("18", true), ("21+", true), ("22", false), ("37", false), ("", false), ("9x9", false)]
        {
            let (keys, client) = (TopologyKeys::default(), server(minor));
            for _ in 0..2 {
                let found = keys.of(&client, &service).await.unwrap();
                assert_eq!(found.is_some(), expected, "1.{minor}");
                assert!(found.is_none_or(|keys| keys == ["topology.kubernetes.io/zone", "*"]));
            }
        }
    }
}
