//! HTTP in, HTTP out: what a request asks for and how the answer looks.
//!
//! The same function serves the in-process client and the TLS listener, so what a test sees is what `kubectl` sees.

mod body;
mod decode;
mod discovery;
mod exec;
mod json;
mod log;
pub(crate) mod node;
mod openapi;
mod port_forward;
mod present;
mod query;
mod resource;
mod review;
mod route;
mod selectable;
mod spdy;
mod upgrade;
mod watch;
mod websocket;

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::upgrade::OnUpgrade;
use serde_json::{Value, json};

pub use self::body::Body;
use self::query::Query;
use self::route::Route;
use crate::auth::{Attributes, User};
use crate::core::Core;
use crate::nodes::Nodes;
use crate::registry::Registry;
use crate::status::Status;

/// The version this server claims to be.
pub(crate) const MAJOR: &str = "1";
pub(crate) const MINOR: &str = "33";

/// A request that has been read completely.
struct Asked<'a> {
    core: &'a Arc<Core>,
    user: User,
    method: Method,
    query: Query,
    headers: &'a HeaderMap,
    body: Bytes,
    /// What the connection becomes when the client wants to go on otherwise; taken by whoever agrees.
    upgrade: Mutex<Option<OnUpgrade>>,
}

impl Asked<'_> {
    /// The client's name, as far as it tells.
    fn agent(&self) -> Cow<'_, str> {
        let named = self.headers.get(USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
        named.unwrap_or(Cow::Borrowed("unknown"))
    }

    /// The same, for what only nodes can answer.
    fn conversation(&self) -> Conversation<'_> {
        let nodes = self.core.nodes.get();
        Conversation { nodes, query: &self.query, headers: self.headers, upgrade: &self.upgrade }
    }
}

/// What a talk with a node needs of a request, whoever was asked first: an API server, or the node itself.
struct Conversation<'a> {
    nodes: Option<&'a Arc<dyn Nodes>>,
    query: &'a Query,
    headers: &'a HeaderMap,
    upgrade: &'a Mutex<Option<OnUpgrade>>,
}

type Answer = Result<Response<Body>, Status>;

/// Answers one request. Never fails: what is wrong becomes a `Status`.
pub(crate) async fn handle<B>(core: &Arc<Core>, request: Request<B>) -> Response<Body>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let answered = answer(core, request).await.unwrap_or_else(|status| refuse(&status));
    // Whatever the answer shows, a refusal as well, must not be taken back by a crash.
    match core.store.settled().await {
        Ok(()) => answered,
        Err(why) => refuse(&Status::internal(why)),
    }
}

async fn answer<B>(core: &Arc<Core>, request: Request<B>) -> Answer
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut parts, body) = request.into_parts();
    let upgrade = Mutex::new(parts.extensions.remove::<OnUpgrade>());
    let route = Route::parse(parts.uri.path());
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let user = match parts.extensions.get::<User>() {
        Some(user) => user.clone(),
        None => core.auth.identify(core, &parts.headers)?,
    };
    let user = core.auth.impersonated(core, user, &parts.headers)?;
    authorize(core, &user, &parts.method, parts.uri.path(), &route, &query)?;
    let body = read(body).await?;
    let asked = Asked { core, user, method: parts.method, query, headers: &parts.headers, body, upgrade };
    dispatch(&asked, route).await
}

fn authorize(
    core: &Core,
    user: &User,
    method: &Method,
    path: &str,
    route: &Route,
    query: &Query,
) -> Result<(), Status> {
    let attributes = match route {
        Route::Resource(target) => Attributes::resource(
            resource::verb(method, target, query.flag("watch")),
            &target.group,
            &target.plural,
            target.subresource.as_deref().unwrap_or_default(),
            &target.namespace,
            &resource::name(method, target, query),
        ),
        _ => Attributes::path(method, path),
    };
    core.auth.authorize(core, user, &attributes)
}

async fn read<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, decode::MOST_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::too_large(decode::MOST_BYTES)),
        Err(error) => Err(Status::bad_request(format!("the body could not be read: {error}"))),
    }
}

async fn dispatch(asked: &Asked<'_>, route: Route) -> Answer {
    if let Route::Resource(target) = &route {
        return resource::answer(asked, target).await;
    }
    if asked.method != Method::GET && asked.method != Method::HEAD && route != Route::Unknown {
        return Err(Status::method_not_allowed());
    }
    let registry = asked.core.registry();
    let answer = describe(asked, &registry, route)?;
    Ok(unless_known(asked, answer))
}

/// A client that has the current answer in its cache is told just that.
fn unless_known(asked: &Asked<'_>, answer: Response<Body>) -> Response<Body> {
    let tag = answer.headers().get(ETAG);
    if tag.is_none() || asked.headers.get(IF_NONE_MATCH) != tag {
        return answer;
    }
    let (mut parts, _) = answer.into_parts();
    parts.status = StatusCode::NOT_MODIFIED;
    parts.headers.remove(CONTENT_TYPE);
    Response::from_parts(parts, Body::whole(""))
}

/// What the server tells about itself.
fn describe(asked: &Asked<'_>, registry: &Registry, route: Route) -> Answer {
    match route {
        Route::Health => Ok(text(StatusCode::OK, "ok")),
        Route::Version => Ok(reply(StatusCode::OK, &version())),
        Route::Root => Ok(reply(StatusCode::OK, &discovery::paths(registry))),
        Route::CoreVersions => Ok(discovery::core(registry, asked.headers)),
        Route::Groups => Ok(discovery::groups(registry, asked.headers)),
        Route::Group(name) => discovery::group(registry, &name).map_or_else(page_not_found, found),
        Route::GroupVersion { group, version } => {
            discovery::resources(registry, &group, &version).map_or_else(page_not_found, found)
        }
        Route::OpenApiV2 => Ok(openapi::v2()),
        Route::OpenApiIndex => Ok(reply(StatusCode::OK, &openapi::index(registry))),
        Route::OpenApi(path) => {
            let hash = asked.query.text("hash");
            openapi::document(registry, &path, hash, asked.core.now()).map_or_else(page_not_found, Ok)
        }
        Route::Resource(_) | Route::Unknown => page_not_found(),
    }
}

fn found(value: Value) -> Answer {
    Ok(reply(StatusCode::OK, &value))
}

fn page_not_found() -> Answer {
    Ok(text(StatusCode::NOT_FOUND, "404 page not found\n"))
}

fn version() -> Value {
    json!({
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": format!("v{MAJOR}.{MINOR}.0+tombolo"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn text(code: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::whole(text));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn reply(code: StatusCode, value: &Value) -> Response<Body> {
    json_bytes(code, serde_json::to_vec(value).expect("a JSON value encodes").into())
}

fn json_bytes(code: StatusCode, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::whole(bytes));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The answer to a request that is refused.
pub(crate) fn refuse(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = reply(code, &status.to_value());
    if let Some(seconds) = status.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}
