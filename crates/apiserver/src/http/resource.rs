//! Requests to resources and objects: which operation they are, and the answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderName, Method, Response, StatusCode};
use serde_json::{Value, json};

use super::present::Presentation;
use super::route::Target;
use super::watch::{self, WatchQuery};
use super::{Answer, Asked, Body, decode, exec, json_bytes, log, port_forward, reply, review};
use crate::invalid::FieldError;
use crate::object;
use crate::operation::{self, Call, DeleteOptions, Deleted, ListQuery, Outcome, Part, PatchKind};
use crate::registry::Resource;
use crate::selector::FieldTerm;
use crate::status::Status;
use crate::store::Stored;

/// How long a list waits for a resource version that has not been reached.
const WAIT_FOR_REVISION: Duration = Duration::from_secs(3);

/// The verb of a request, as authorization knows it.
pub(super) fn verb(method: &Method, target: &Target, watching: bool) -> &'static str {
    match (method, target.name.is_some()) {
        (&Method::GET | &Method::HEAD, _) if watching => "watch",
        (&Method::GET | &Method::HEAD, true) => "get",
        (&Method::GET | &Method::HEAD, false) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => "unknown",
    }
}

pub(super) async fn answer(asked: &Asked<'_>, target: &Target) -> Answer {
    let registry = asked.core.registry();
    let Some(resource) = registry.find(&target.group, &target.version, &target.plural) else {
        let known = registry.group_version(&target.group, &target.version).is_some();
        return if known { Err(Status::no_resource()) } else { super::page_not_found() };
    };
    if !resource.namespaced && !target.namespace.is_empty() {
        return Err(Status::no_resource());
    }
    // What cannot be shown must not be written either.
    Presentation::negotiate(asked.headers, &asked.query)?;
    let mut call = Call::new(asked.core, resource, &target.namespace);
    if let Some(sentence) = resource.deprecation() {
        call.warn(sentence);
    }
    let answer = match (&target.name, target.subresource.as_deref()) {
        (None, _) => collection(asked, &mut call).await,
        (Some(name), _) if resource.namespaced && target.namespace.is_empty() => {
            tracing::debug!(name, "an object of a namespaced kind was asked for without a namespace");
            Err(Status::no_resource())
        }
        (Some(name), None) => {
            await_revision(asked).await?;
            item(asked, &mut call, name)
        }
        (Some(name), Some("status")) if resource.traits.status => {
            call.part = Part::Status;
            item(asked, &mut call, name)
        }
        (Some(name), Some("log")) if resource.is("", "pods") => log::answer(asked, &call, name).await,
        (Some(name), Some("exec")) if resource.is("", "pods") => {
            exec::answer(asked, &call, name, exec::Wish::Exec)
        }
        (Some(name), Some("attach")) if resource.is("", "pods") => {
            exec::answer(asked, &call, name, exec::Wish::Attach)
        }
        (Some(name), Some("portforward")) if resource.is("", "pods") => {
            port_forward::answer(asked, &call, name)
        }
        (Some(name), Some(subresource)) => part(asked, &mut call, name, subresource),
    };
    answer.map(|response| with_warnings(response, &call))
}

fn with_warnings(mut response: Response<Body>, call: &Call<'_>) -> Response<Body> {
    const WARNING: HeaderName = HeaderName::from_static("warning");
    for sentence in call.warnings() {
        let quoted = sentence.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

async fn collection(asked: &Asked<'_>, call: &mut Call<'_>) -> Answer {
    if call.resource.traits.review {
        return if asked.method == Method::POST {
            review::answer(asked, call)
        } else {
            Err(Status::method_not_allowed())
        };
    }
    match asked.method {
        Method::GET | Method::HEAD if asked.query.flag("watch")? => watch(asked, call, None),
        Method::GET | Method::HEAD => list(asked, call).await,
        Method::POST => create(asked, call),
        Method::DELETE => delete_collection(asked, call),
        _ => Err(Status::method_not_allowed()),
    }
}

fn item(asked: &Asked<'_>, call: &mut Call<'_>, name: &str) -> Answer {
    match asked.method {
        Method::GET | Method::HEAD if asked.query.flag("watch")? => watch(asked, call, Some(name)),
        Method::GET | Method::HEAD => shown(asked, call, StatusCode::OK, &operation::get(call, name)?),
        Method::PUT => {
            call.options = asked.query.write_options(asked.agent())?;
            let value = decode::of_call(asked.headers, &asked.body, call)?;
            written(asked, call, &operation::update(call, name, value)?)
        }
        Method::PATCH => {
            call.options = asked.query.write_options(asked.agent())?;
            let is_custom = call.resource.is_custom();
            let (kind, patch) = decode::patch(asked.headers, &asked.body, call, is_custom)?;
            if kind == PatchKind::Apply {
                call.options.manager = asked.query.text("fieldManager").to_owned();
            } else if call.options.force {
                let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
                return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
            }
            written(asked, call, &operation::patch(call, name, kind, patch)?)
        }
        Method::DELETE if call.part == Part::Whole => {
            let options = delete_options(asked, call)?;
            deleted(asked, call, &operation::delete(call, name, &options)?)
        }
        _ => Err(Status::method_not_allowed()),
    }
}

fn part(asked: &Asked<'_>, call: &mut Call<'_>, name: &str, subresource: &str) -> Answer {
    call.options = asked.query.write_options(asked.agent())?;
    let body = |kind: &str| decode::object(asked.headers, &asked.body, kind);
    match (subresource, &asked.method) {
        ("scale", method) if call.resource.traits.scale => scale(asked, call, name, method),
        ("binding", &Method::POST) if call.resource.is("", "pods") => {
            operation::bind(call, name, &body("Binding")?)?;
            Ok(reply(StatusCode::CREATED, &success(None)))
        }
        ("eviction", &Method::POST) if call.resource.is("", "pods") => {
            operation::evict(call, name, &body("Eviction")?)?;
            Ok(reply(StatusCode::CREATED, &success(None)))
        }
        ("finalize", &Method::PUT) if call.resource.is("", "namespaces") => {
            shown(asked, call, StatusCode::OK, &operation::finalize(call, name, &body("Namespace")?)?)
        }
        ("token", &Method::POST) if call.resource.is("", "serviceaccounts") => {
            review::token(asked, call, name, body("TokenRequest")?)
        }
        _ => Err(Status::no_resource()),
    }
}

fn scale(asked: &Asked<'_>, call: &mut Call<'_>, name: &str, method: &Method) -> Answer {
    let value = match *method {
        Method::GET => operation::read_scale(call, name)?,
        Method::PUT => {
            let wanted = decode::object(asked.headers, &asked.body, "Scale")?;
            operation::write_scale(call, name, |_| Ok(wanted))?
        }
        Method::PATCH => {
            let (kind, patch) = decode::patch(asked.headers, &asked.body, call, false)?;
            let call = &*call;
            operation::write_scale(call, name, |scale| operation::patched(call, kind, scale, &patch))?
        }
        _ => return Err(Status::method_not_allowed()),
    };
    Ok(reply(StatusCode::OK, &value))
}

fn shown(asked: &Asked<'_>, call: &Call<'_>, code: StatusCode, stored: &Arc<Stored>) -> Answer {
    let presentation = Presentation::negotiate(asked.headers, &asked.query)?;
    Ok(json_bytes(code, presentation.one(call.resource, stored, asked.core.now(), true)))
}

fn written(asked: &Asked<'_>, call: &Call<'_>, outcome: &Outcome) -> Answer {
    let code = match outcome {
        Outcome::Created(_) => StatusCode::CREATED,
        Outcome::Updated(_) => StatusCode::OK,
    };
    shown(asked, call, code, outcome.stored())
}

fn create(asked: &Asked<'_>, call: &mut Call<'_>) -> Answer {
    if call.resource.namespaced && call.namespace.is_empty() {
        return Err(Status::method_not_allowed());
    }
    call.options = asked.query.write_options(asked.agent())?;
    let value = decode::of_call(asked.headers, &asked.body, call)?;
    let stored = operation::create(call, value)?;
    shown(asked, call, StatusCode::CREATED, &stored)
}

/// A read of one object may ask to be no older than something.
async fn await_revision(asked: &Asked<'_>) -> Result<(), Status> {
    let reads = matches!(asked.method, Method::GET | Method::HEAD) && !asked.query.flag("watch")?;
    let wanted =
        operation::parse_revision(asked.query.text("resourceVersion"))?.filter(|_| reads).unwrap_or(0);
    if wanted > asked.core.store.revision() {
        tokio::time::sleep(WAIT_FOR_REVISION).await;
        let current = asked.core.store.revision();
        if wanted > current {
            return Err(Status::from_the_future(wanted, current));
        }
    }
    Ok(())
}

async fn list(asked: &Asked<'_>, call: &Call<'_>) -> Answer {
    let presentation = Presentation::negotiate(asked.headers, &asked.query)?;
    let query = asked.query.list(call.resource)?;
    let page = match operation::list(call, &query) {
        Err(early) if early.code == 504 => {
            tokio::time::sleep(WAIT_FOR_REVISION).await;
            operation::list(call, &query)?
        }
        result => result?,
    };
    let selected = !query.selector.is_empty();
    Ok(json_bytes(StatusCode::OK, presentation.list(call.resource, &page, asked.core.now(), selected)))
}

fn watch(asked: &Asked<'_>, call: &Call<'_>, name: Option<&str>) -> Answer {
    let query = watch_query(asked, call, name)?;
    let presentation = Presentation::negotiate(asked.headers, &asked.query)?;
    let resource: Arc<Resource> = call.resource.clone();
    let stream = watch::stream(asked.core.clone(), resource, query, presentation);
    let mut response = Response::new(Body::stream(stream));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn watch_query(asked: &Asked<'_>, call: &Call<'_>, name: Option<&str>) -> Result<WatchQuery, Status> {
    let mut selector = asked.query.selector(call.resource)?;
    if let Some(name) = name {
        let term = FieldTerm { path: "metadata.name".into(), value: name.into(), negated: false };
        selector.fields.push(term);
    }
    let revision = operation::parse_revision(asked.query.text("resourceVersion"))?;
    let initial_events = asked.query.initial_events()?;
    let bookmarks = asked.query.flag("allowWatchBookmarks")?;
    Ok(WatchQuery {
        namespace: call.namespace.to_owned(),
        selector,
        revision,
        bookmarks,
        initial_events,
        timeout: timeout(asked)?,
    })
}

/// As long as the client says, or half an hour to an hour, so that not all come back at once.
fn timeout(asked: &Asked<'_>) -> Result<Duration, Status> {
    let seconds = asked.query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
    let seconds = seconds.filter(|seconds| *seconds > 0);
    Ok(Duration::from_secs(seconds.unwrap_or_else(|| 1800 + asked.core.entropy.below(1800)).min(86_400)))
}

fn delete_options(asked: &Asked<'_>, call: &mut Call<'_>) -> Result<DeleteOptions, Status> {
    let mut body = decode::optional(asked.headers, &asked.body, "DeleteOptions")?;
    for field in ["propagationPolicy", "gracePeriodSeconds"] {
        let value = asked.query.text(field);
        // Whoever sends options in the body has said everything there.
        if asked.body.is_empty() && !value.is_empty() {
            let value = value.parse::<i64>().map_or_else(|_| Value::from(value), Value::from);
            object::fields(&mut body).insert(field.into(), value);
        }
    }
    let in_body =
        body.get("dryRun").and_then(Value::as_array).is_some_and(|list| list.iter().any(|v| v == "All"));
    call.options.dry_run = in_body || asked.query.dry_run()?;
    DeleteOptions::parse(&body)
}

fn deleted(asked: &Asked<'_>, call: &Call<'_>, deleted: &Deleted) -> Answer {
    match deleted {
        Deleted::Gone(stored) if !call.resource.traits.delete_returns_object => {
            Ok(reply(StatusCode::OK, &success(Some((call.resource, &stored.value)))))
        }
        Deleted::Gone(stored) | Deleted::Pending(stored) => shown(asked, call, StatusCode::OK, stored),
    }
}

fn success(about: Option<(&Resource, &Value)>) -> Value {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if let Some((resource, value)) = about {
        status["details"] =
            json!({"name": object::name(value), "kind": resource.plural, "uid": object::uid(value)});
        if !resource.group.is_empty() {
            status["details"]["group"] = resource.group.as_str().into();
        }
    } else {
        status["code"] = 201.into();
    }
    status
}

fn delete_collection(asked: &Asked<'_>, call: &mut Call<'_>) -> Answer {
    let options = delete_options(asked, call)?;
    let query = ListQuery { limit: 0, continue_token: None, ..asked.query.list(call.resource)? };
    let gone = operation::delete_collection(call, &query, &options)?;
    let page = crate::store::Page::cut(asked.core.store.revision(), gone, 0);
    let bytes: Bytes = Presentation::Object.list(call.resource, &page, asked.core.now(), true);
    Ok(json_bytes(StatusCode::OK, bytes))
}
