//! A client whose watches are late, or break off.
//!
//! Everything else it asks is answered at once: exactly what a controller with a stale cache sees.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use kube::Client;
use tombolo_apiserver::{Body, Cluster, User};
use tower::{ServiceExt as _, service_fn};

type Answer = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, std::io::Error>;

/// What happens to the watches of a kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trouble {
    /// How late each piece of news is.
    pub(crate) lag: Duration,
    /// After how many pieces the connection breaks.
    pub(crate) breaks_after: Option<usize>,
}

/// A client of `cluster` with the trouble that `of` has for the path of a watch.
pub(crate) fn client(cluster: &Cluster, of: fn(&str) -> Trouble) -> Client {
    let service = cluster.service(User::admin());
    let troubled = service_fn(move |request: Request<kube::client::Body>| {
        let service = service.clone();
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let trouble = is_watch.then(|| of(request.uri().path()));
            let response = service.oneshot(request).await?;
            let answer: Response<Answer> = response.map(|body| match trouble {
                None => body.boxed_unsync(),
                Some(trouble) => disturbed(body, trouble),
            });
            Ok::<_, Infallible>(answer)
        }
    });
    Client::new(troubled, "default")
}

fn disturbed(body: Body, trouble: Trouble) -> Answer {
    let late = BodyStream::new(body).then(move |frame| async move {
        tokio::time::sleep(trouble.lag).await;
        frame
    });
    StreamBody::new(late.take(trouble.breaks_after.unwrap_or(usize::MAX))).boxed_unsync()
}
