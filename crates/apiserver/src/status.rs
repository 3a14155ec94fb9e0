//! Refusals, as the `Status` object clients branch on.
//!
//! Code, reason, details and message follow a real API server; `kubectl` and client libraries read all four.

use serde_json::{Map, Value, json};

use crate::invalid::{self, FieldError};

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    pub(crate) details: Map<String, Value>,
    /// A fresh token for a client whose list expired half way.
    pub(crate) continue_token: Option<String>,
}

/// What a refusal speaks about: `services "web"` or `deployments.apps "web"`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) name: &'a str,
}

impl Subject<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    fn details(&self) -> Map<String, Value> {
        details(self.name, self.group, self.plural)
    }
}

fn details(name: &str, group: &str, kind: &str) -> Map<String, Value> {
    [("name", name), ("group", group), ("kind", kind)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect()
}

impl Status {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Map::new(), continue_token: None }
    }

    fn about(self, subject: Subject<'_>) -> Self {
        Self { details: subject.details(), ..self }
    }

    pub(crate) fn with_causes(mut self, causes: Vec<Value>) -> Self {
        self.details.insert("causes".into(), causes.into());
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(subject: Subject<'_>, why: &str) -> Self {
        let message = match (subject.qualified(), subject.name) {
            (kind, "") if kind.is_empty() => format!("forbidden: {why}"),
            (kind, "") => format!("{kind} is forbidden: {why}"),
            (kind, name) => format!("{kind} {name:?} is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).about(subject)
    }

    pub(crate) fn not_found(subject: Subject<'_>) -> Self {
        Self::new(404, "NotFound", format!("{} {:?} not found", subject.qualified(), subject.name))
            .about(subject)
    }

    /// No such resource in a group version that exists.
    pub(crate) fn no_resource() -> Self {
        let mut status = Self::new(404, "NotFound", "the server could not find the requested resource");
        status.details = Map::new();
        status
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn already_exists(subject: Subject<'_>) -> Self {
        let message = format!("{} {:?} already exists", subject.qualified(), subject.name);
        Self::new(409, "AlreadyExists", message).about(subject)
    }

    /// The name is taken by an object that is on its way out.
    pub(crate) fn still_terminating(subject: Subject<'_>) -> Self {
        let mut status = Self::already_exists(subject);
        status.message = format!("object is being deleted: {}", status.message);
        status
    }

    pub(crate) fn conflict(subject: Subject<'_>, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {:?}: {why}", subject.qualified(), subject.name);
        Self::new(409, "Conflict", message).about(subject)
    }

    pub(crate) fn stale(subject: Subject<'_>) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(subject, why)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("{qualified} {name:?} is invalid: {}", invalid::summary(errors));
        let mut status = Self::new(422, "Invalid", message);
        status.details = details(name, group, kind);
        status.with_causes(errors.iter().map(FieldError::cause).collect())
    }

    /// A refusal that says as little as the real server does, e.g. for a failed `test` of a JSON patch.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    /// An error the real server returns without a reason.
    pub(crate) fn unexplained(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// The client has seen a resource version this server has not reached.
    pub(crate) fn from_the_future(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut status = Self::new(504, "Timeout", message);
        status.details.insert("retryAfterSeconds".into(), 1.into());
        status.with_causes(vec![json!({
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        })])
    }

    /// The number of seconds for a `Retry-After` header, where the refusal names one.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds")?.as_u64()
    }

    /// The `Status` object of the API.
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), token.as_str().into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_empty() || matches!(self.reason, "NotFound" | "MethodNotAllowed" | "Invalid") {
            status["details"] = self.details.clone().into();
        }
        status
    }
}
