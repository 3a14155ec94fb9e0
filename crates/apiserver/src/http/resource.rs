//! Requests to resources and objects: which operation they are, and the answer.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderName, Method, Response, StatusCode};
use serde_json::{Value, json};

use super::present::Presentation;
use super::query::Query;
use super::route::Target;
use super::watch::{self, WatchQuery};
use super::{Answer, Asked, Body, decode, exec, json_bytes, log, port_forward, reply, review};
use crate::invalid::FieldError;
use crate::object;
use crate::operation::{self, Call, DeleteOptions, Deleted, Outcome, Part, PatchKind};
use crate::registry::Resource;
use crate::selector;
use crate::status::Status;
use crate::store::Stored;

/// How long a list waits for a resource version that has not been reached.
const WAIT_FOR_REVISION: Duration = Duration::from_secs(3);

/// The verb of a request, as authorization knows it.
pub(super) fn verb(method: &Method, target: &Target, watching: bool) -> &'static str {
    match (method, target.name.is_some()) {
        // One object is read, whatever is said about watching: a watch of it is one of the collection that selects it.
        (&Method::GET | &Method::HEAD, true) => "get",
        (&Method::GET | &Method::HEAD, false) if watching => "watch",
        (&Method::GET | &Method::HEAD, false) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => "unknown",
    }
}

/// The name that authorization knows: a list or watch of one object by its name is about that object, so that who may
/// only see some of them by name can do that.
pub(super) fn name(method: &Method, target: &Target, query: &Query) -> String {
    if let Some(name) = &target.name {
        return name.clone();
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        return String::new();
    }
    let terms = selector::parse_fields(query.text("fieldSelector")).unwrap_or_default();
    let named = terms.into_iter().find(|term| term.path == "metadata.name" && !term.negated);
    named.map(|term| term.value).filter(|name| is_path_segment(name)).unwrap_or_default()
}

fn is_path_segment(name: &str) -> bool {
    !matches!(name, "." | "..") && !name.contains(['/', '%'])
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
    // Also who is refused is told what was odd until then.
    Ok(with_warnings(answer.unwrap_or_else(|status| super::refuse(&status)), &call))
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
        Method::GET | Method::HEAD if asked.query.flag("watch") => watch(asked, call),
        Method::GET | Method::HEAD => list(asked, call).await,
        Method::POST => create(asked, call),
        Method::DELETE => delete_collection(asked, call),
        _ => Err(Status::method_not_allowed()),
    }
}

fn item(asked: &Asked<'_>, call: &mut Call<'_>, name: &str) -> Answer {
    match asked.method {
        Method::GET | Method::HEAD => shown(asked, call, StatusCode::OK, &operation::get(call, name)?),
        Method::PUT => {
            call.options = asked.query.write_options(&asked.agent(), "UpdateOptions")?;
            let value = decode::of_call(asked.headers, &asked.body, call)?;
            written(asked, call, &operation::update(call, name, value)?)
        }
        Method::PATCH => {
            call.options = asked.query.write_options(&asked.agent(), "PatchOptions")?;
            let is_custom = call.resource.is_custom();
            let (kind, patch) = decode::patch(asked.headers, &asked.body, call, is_custom)?;
            if kind == PatchKind::Apply {
                call.options.manager = asked.query.text("fieldManager").to_owned();
            } else if asked.query.has("force") {
                let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
                return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
            }
            written(asked, call, &operation::patch(call, name, kind, patch)?)
        }
        Method::DELETE if call.part == Part::Whole => {
            let options = delete_options(asked, call)?;
            deleted(asked, call, &operation::delete(call, name, &options)?, &options)
        }
        _ => Err(Status::method_not_allowed()),
    }
}

fn part(asked: &Asked<'_>, call: &mut Call<'_>, name: &str, subresource: &str) -> Answer {
    let kind = match asked.method {
        Method::PUT => "UpdateOptions",
        Method::PATCH => "PatchOptions",
        _ => "CreateOptions",
    };
    call.options = asked.query.write_options(&asked.agent(), kind)?;
    if subresource == "scale" && call.resource.traits.scale {
        return scale(asked, call, name);
    }
    let body = |api_version: &str, kind: &str| body(asked, call, api_version, kind);
    match (subresource, &asked.method) {
        ("binding", &Method::POST) if call.resource.is("", "pods") => {
            operation::bind(call, name, &body("v1", "Binding")?)?;
            Ok(reply(StatusCode::CREATED, &success(None)))
        }
        ("eviction", &Method::POST) if call.resource.is("", "pods") => {
            operation::evict(call, name, &body("policy/v1", "Eviction")?)?;
            Ok(reply(StatusCode::CREATED, &success(None)))
        }
        ("finalize", &Method::PUT) if call.resource.is("", "namespaces") => {
            let stored = operation::finalize(call, name, &body("v1", "Namespace")?)?;
            shown(asked, call, StatusCode::OK, &stored)
        }
        ("token", &Method::POST) if call.resource.is("", "serviceaccounts") => {
            review::token(asked, call, name, body("authentication.k8s.io/v1", "TokenRequest")?)
        }
        _ => Err(Status::no_resource()),
    }
}

/// The body of a request that has a type of its own.
fn body(asked: &Asked<'_>, call: &Call<'_>, api_version: &str, kind: &str) -> Result<Value, Status> {
    operation::decoded(call, api_version, kind, decode::object(asked.headers, &asked.body, kind)?)
}

fn scale(asked: &Asked<'_>, call: &mut Call<'_>, name: &str) -> Answer {
    const VERSION: &str = "autoscaling/v1";
    call.part = Part::Scale;
    let value = match asked.method {
        Method::GET => operation::read_scale(call, name)?,
        Method::PUT => {
            let wanted = body(asked, call, VERSION, "Scale")?;
            operation::write_scale(call, name, |_| Ok(wanted))?
        }
        Method::PATCH => {
            let (kind, patch) = decode::patch(asked.headers, &asked.body, call, false)?;
            let call = &*call;
            let change = |scale| operation::patched(call, kind, scale, &patch);
            let change = |scale| operation::decoded(call, VERSION, "Scale", change(scale)?);
            operation::write_scale(call, name, change)?
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
    call.options = asked.query.write_options(&asked.agent(), "CreateOptions")?;
    let value = decode::of_call(asked.headers, &asked.body, call)?;
    let stored = operation::create(call, value)?;
    shown(asked, call, StatusCode::CREATED, &stored)
}

/// A read of one object may ask to be no older than something; to a write this parameter means nothing.
async fn await_revision(asked: &Asked<'_>) -> Result<(), Status> {
    if !matches!(asked.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let wanted = operation::parse_revision(asked.query.text("resourceVersion"))?.unwrap_or(0);
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

fn watch(asked: &Asked<'_>, call: &Call<'_>) -> Answer {
    let query = watch_query(asked, call)?;
    let presentation = Presentation::negotiate(asked.headers, &asked.query)?;
    let resource: Arc<Resource> = call.resource.clone();
    let stream = watch::stream(asked.core.clone(), resource, query, presentation);
    let mut response = Response::new(Body::stream(stream));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn watch_query(asked: &Asked<'_>, call: &Call<'_>) -> Result<WatchQuery, Status> {
    let selector = asked.query.selector(call.resource)?;
    let revision = operation::parse_revision(asked.query.text("resourceVersion"))?;
    let initial_events = asked.query.initial_events()?;
    let bookmarks = asked.query.flag("allowWatchBookmarks");
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

/// Whoever sends options in the body has said everything there: the query counts only without one.
fn delete_options(asked: &Asked<'_>, call: &Call<'_>) -> Result<DeleteOptions, Status> {
    let body = if asked.body.is_empty() {
        queried_delete_options(&asked.query)?
    } else {
        decode::object(asked.headers, &asked.body, "DeleteOptions")?
    };
    let options = DeleteOptions::parse(body)?;
    if call.resource.is("batch", "jobs") && options.says_nothing_of_dependents() {
        call.warn(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
             them or set propagationPolicy=Orphan to suppress this warning",
        );
    }
    Ok(options)
}

fn queried_delete_options(query: &Query) -> Result<Value, Status> {
    let mut options = json!({"dryRun": query.all("dryRun")});
    if let Some(seconds) = query.number("gracePeriodSeconds")? {
        options["gracePeriodSeconds"] = seconds.into();
    }
    if query.has("propagationPolicy") {
        options["propagationPolicy"] = query.text("propagationPolicy").into();
    }
    if query.has("orphanDependents") {
        options["orphanDependents"] = query.flag("orphanDependents").into();
    }
    for field in ["uid", "resourceVersion"] {
        let value = query.text(field);
        if !value.is_empty() {
            options["preconditions"][field] = value.into();
        }
    }
    Ok(options)
}

fn deleted(asked: &Asked<'_>, call: &Call<'_>, deleted: &Deleted, options: &DeleteOptions) -> Answer {
    match deleted {
        Deleted::Gone(stored) if !call.resource.traits.delete_returns_object => {
            Ok(reply(StatusCode::OK, &success(Some((call.resource, &stored.value)))))
        }
        Deleted::Gone(stored) => shown(asked, call, StatusCode::OK, stored),
        Deleted::Pending(stored) => {
            let code = if options.accepts() { StatusCode::ACCEPTED } else { StatusCode::OK };
            shown(asked, call, code, stored)
        }
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

fn delete_collection(asked: &Asked<'_>, call: &Call<'_>) -> Answer {
    let is_everywhere = call.resource.namespaced && call.namespace.is_empty();
    if is_everywhere || !call.resource.deletes_collections() {
        return Err(Status::method_not_allowed());
    }
    let presentation = Presentation::negotiate(asked.headers, &asked.query)?;
    let query = asked.query.list(call.resource)?;
    let options = delete_options(asked, call)?;
    let page = operation::delete_collection(call, &query, &options)?;
    let selected = !query.selector.is_empty();
    Ok(json_bytes(StatusCode::OK, presentation.list(call.resource, &page, asked.core.now(), selected)))
}
