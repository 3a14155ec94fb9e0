//! Questions to the server that leave nothing behind: who am I, may I, is this token good; and new tokens.

use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tombolo_runtime::stamp;

use super::{Answer, Asked, decode, reply};
use crate::auth::{Attributes, Claims, ISSUER, User, rules_for};
use crate::invalid::FieldError;
use crate::object;
use crate::operation::{self, Call};
use crate::status::Status;

pub(super) fn answer(asked: &Asked<'_>, call: &Call<'_>) -> Answer {
    let mut review = decode::object(asked.headers, &asked.body, &call.resource.kind)?;
    let spec = review.get("spec").cloned().unwrap_or_default();
    let status = match call.resource.kind.as_str() {
        "TokenReview" => token_review(asked, &spec)?,
        "SelfSubjectReview" => json!({"userInfo": asked.user.to_value()}),
        "SelfSubjectAccessReview" => access_review(asked, &asked.user, &spec),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => access_review(asked, &subject(&spec), &spec),
        "SelfSubjectRulesReview" => rules_review(asked, &spec),
        _ => return Err(Status::no_resource()),
    };
    object::fields(&mut review).insert("status".into(), status);
    let review = object::fields(&mut review);
    review.insert("kind".into(), call.resource.kind.as_str().into());
    review.insert("apiVersion".into(), call.resource.api_version().into());
    review.entry("metadata").or_insert_with(|| json!({}));
    Ok(reply(StatusCode::CREATED, &Value::Object(review.clone())))
}

fn token_review(asked: &Asked<'_>, spec: &Value) -> Result<Value, Status> {
    let token = spec.get("token").and_then(Value::as_str).unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    Ok(match asked.core.auth.verify(asked.core, token, &audiences(spec)) {
        Ok(good) => {
            json!({"authenticated": true, "user": good.user.to_value(), "audiences": good.audiences})
        }
        Err(why) => json!({"user": {}, "error": why}),
    })
}

/// Whom a token is, or shall be, for: this server, if nobody is named.
fn audiences(spec: &Value) -> Vec<String> {
    let named = spec.get("audiences").and_then(Value::as_array).into_iter().flatten();
    let named: Vec<String> = named.filter_map(Value::as_str).map(str::to_owned).collect();
    if named.is_empty() { vec![ISSUER.to_owned()] } else { named }
}

fn subject(spec: &Value) -> User {
    let text = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let groups = spec.get("groups").and_then(Value::as_array).into_iter().flatten();
    let groups = groups.filter_map(Value::as_str).map(str::to_owned).collect();
    User { name: text("user"), uid: text("uid"), groups }
}

fn access_review(asked: &Asked<'_>, user: &User, spec: &Value) -> Value {
    let allowed = asked.core.auth.allows(asked.core, user, &attributes(spec));
    json!({"allowed": allowed})
}

fn attributes(spec: &Value) -> Attributes {
    let text = |part: &str, field: &str| object::text(spec, &[part, field]).unwrap_or_default().to_owned();
    if spec.get("nonResourceAttributes").is_some_and(Value::is_object) {
        let path = Some(text("nonResourceAttributes", "path"));
        return Attributes { verb: text("nonResourceAttributes", "verb"), path, ..Attributes::default() };
    }
    let of = |field: &str| text("resourceAttributes", field);
    Attributes::resource(
        &of("verb"),
        &of("group"),
        &of("resource"),
        &of("subresource"),
        &of("namespace"),
        &of("name"),
    )
}

fn rules_review(asked: &Asked<'_>, spec: &Value) -> Value {
    let namespace = spec.get("namespace").and_then(Value::as_str).unwrap_or("default");
    let all = Attributes::resource("*", "*", "*", "", namespace, "");
    let rules = if asked.core.auth.allows(asked.core, &asked.user, &all) {
        vec![json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})]
    } else {
        rules_for(asked.core, &asked.user, namespace)
    };
    let (paths, resources): (Vec<Value>, Vec<Value>) =
        rules.into_iter().partition(|rule| rule.get("nonResourceURLs").is_some());
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}

/// `POST serviceaccounts/<name>/token`.
pub(super) fn token(asked: &Asked<'_>, call: &Call<'_>, name: &str, mut request: Value) -> Answer {
    let account = operation::get(call, name)?;
    let seconds =
        object::at(&request, &["spec", "expirationSeconds"]).and_then(Value::as_i64).unwrap_or(3600);
    if seconds < 600 {
        let error = FieldError::invalid(
            "spec.expirationSeconds",
            seconds,
            "may not specify a duration less than 10 minutes",
        );
        return Err(Status::invalid("authentication.k8s.io", "TokenRequest", "", &[error]));
    }
    let audiences = audiences(request.get("spec").unwrap_or(&Value::Null));
    let issued = asked.core.now();
    let expires = issued.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(issued);
    let claims = Claims {
        namespace: call.namespace.to_owned(),
        name: name.to_owned(),
        uid: object::uid(&account.value).to_owned(),
        audiences: audiences.clone(),
        issued,
        expires,
    };
    let token = asked.core.auth.sign(&claims)?;
    let spec = object::section(&mut request, "spec");
    spec.insert("audiences".into(), audiences.into());
    spec.insert("expirationSeconds".into(), seconds.into());
    let answer = json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": call.namespace, "creationTimestamp": stamp(issued)},
        "spec": request["spec"],
        "status": {"token": token, "expirationTimestamp": stamp(expires)},
    });
    Ok(reply(StatusCode::CREATED, &answer))
}
