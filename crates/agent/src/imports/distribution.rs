//! The field `spec.trafficDistribution` in words that the member's server knows: with one that it does not know it would refuse the
//! whole Service, and the import would have no address.
//!
//! The server is asked once, by the first import that has the field. After an upgrade of the server the next start of an agent
//! brings the better word.

use k8s_openapi::api::core::v1::Service;
use kube::{Client, Error};
use tokio::sync::OnceCell;

use crate::version::minor;

const CLOSE: &str = "PreferClose";
/// The first minor version of Kubernetes 1 that keeps the field, and takes `PreferClose`, unless told otherwise.
const WITH_CLOSE: u32 = 31;
/// The first that takes `PreferSameZone` and `PreferSameNode`, too.
const WITH_ALL: u32 = 34;

/// What is known of the server.
#[derive(Debug, Default)]
pub(super) struct Distributions {
    minor: OnceCell<Option<u32>>,
}

impl Distributions {
    /// Gives a Service the nearest word that the server knows, or none.
    pub(super) async fn adapt(&self, member: &Client, service: &mut Service) -> Result<(), Error> {
        let Some(spec) = service.spec.as_mut() else { return Ok(()) };
        let Some(word) = spec.traffic_distribution.take() else { return Ok(()) };
        let ask = || async { member.apiserver_version().await.map(|version| minor(&version)) };
        let known = *self.minor.get_or_try_init(ask).await?;
        spec.traffic_distribution = nearest(word, known);
        Ok(())
    }
}

/// A server that does not say what it is gets what was asked for.
fn nearest(word: String, minor: Option<u32>) -> Option<String> {
    match minor {
        Some(minor) if minor < WITH_CLOSE => None,
        Some(minor) if minor < WITH_ALL => Some(CLOSE.to_owned()),
        _ => Some(word),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{from_value, json};

    use super::*;

    fn server(minor: &'static str) -> Client {
        let answer = move |request: Request<Body>| async move {
            assert_eq!(request.uri().path(), "/version");
            let version = json!({
                "major": "1", "minor": minor, "gitVersion": "", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
            });
            Ok::<_, Infallible>(Response::new(Body::from(version.to_string().into_bytes())))
        };
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test]
    async fn an_older_server_gets_the_nearest_word_that_it_knows_or_none() {
        for (minor, word, expected) in [
            ("37", "PreferSameNode", Some("PreferSameNode")),
            ("34", "PreferSameZone", Some("PreferSameZone")),
            ("33+", "PreferSameZone", Some("PreferClose")),
            ("31", "PreferSameNode", Some("PreferClose")),
            ("32", "PreferClose", Some("PreferClose")),
            ("30", "PreferClose", None),
            ("", "PreferSameNode", Some("PreferSameNode")),
        ] {
            let (distributions, client) = (Distributions::default(), server(minor));
            for _ in 0..2 {
                let mut service: Service =
                    from_value(json!({"spec": {"trafficDistribution": word}})).unwrap();
                distributions.adapt(&client, &mut service).await.unwrap();
                let found = service.spec.unwrap().traffic_distribution;
                assert_eq!(found.as_deref(), expected, "{word} on 1.{minor}");
            }
        }
    }
}
