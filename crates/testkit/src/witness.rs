//! Who asked an API server for what: each right that was used, and each request that was refused.
//!
//! A part that runs under a [`Witness`] shows which of the rights it was given it needs. Rights that nobody used are too
//! many, a refusal means that one is missing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, StatusCode};
use serde_json::Value;
use tombolo_apiserver::User;
use tower::{ServiceExt as _, service_fn};

use crate::cluster::{BoxError, Cluster};

/// A right as one line: `patch tombolo.dev/serviceoffers/status`.
pub type Rights = BTreeSet<String>;

/// Watches the clients that it makes. Clones see the same.
#[derive(Clone, Debug, Default)]
pub struct Witness(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    used: Rights,
    refused: Rights,
}

impl Witness {
    /// A client of `cluster` for `user` whose requests are seen.
    pub fn client(&self, cluster: &Cluster, user: User) -> kube::Client {
        let (witness, inner) = (self.clone(), cluster.channel(user));
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (witness, inner) = (witness.clone(), inner.clone());
            async move {
                let asked = Asked::read(&request);
                let response = inner.oneshot(request).await?;
                witness.note(asked, response.status());
                Ok::<_, BoxError>(response)
            }
        });
        kube::Client::new(service, "default")
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, asked: Option<Asked>, status: StatusCode) {
        let Some(asked) = asked else { return };
        let mut seen = self.seen();
        if status == StatusCode::FORBIDDEN {
            seen.refused.insert(asked.right(asked.verb));
            return;
        }
        seen.used.insert(asked.right(asked.verb));
        // What is applied and was not there is created, which takes a right of its own.
        if asked.verb == "patch" && status == StatusCode::CREATED {
            seen.used.insert(asked.right("create"));
        }
    }

    /// The rights that were used so far.
    pub fn used(&self) -> Rights {
        self.seen().used.clone()
    }

    /// What was forbidden so far.
    pub fn refused(&self) -> Rights {
        self.seen().refused.clone()
    }

    /// Panics unless all that was granted was used and nothing was refused, but for what `unless` says.
    #[track_caller]
    pub fn used_exactly(&self, granted: &Rights, unless: &[&str]) {
        let refused = self.refused();
        let missing: Vec<&String> =
            refused.iter().filter(|right| !unless.contains(&right.as_str())).collect();
        assert!(missing.is_empty(), "refused: {missing:?}");
        let used = self.used();
        let idle: Vec<&String> =
            granted.difference(&used).filter(|right| !unless.contains(&right.as_str())).collect();
        assert!(idle.is_empty(), "granted and never used: {idle:?}");
        let wrong: Vec<&&str> = unless.iter().filter(|right| used.contains(**right)).collect();
        assert!(wrong.is_empty(), "used after all: {wrong:?}");
    }
}

/// What a request is about.
struct Asked {
    verb: &'static str,
    group: String,
    resource: String,
}

impl Asked {
    fn read<B>(request: &Request<B>) -> Option<Self> {
        let mut words = request.uri().path().trim_matches('/').split('/');
        let group = match words.next()? {
            "api" => String::new(),
            "apis" => words.next()?.to_owned(),
            _ => return None,
        };
        let _version = words.next()?;
        let rest: Vec<&str> = words.collect();
        let (resource, name, sub) = match rest.as_slice() {
            ["namespaces", _, resource, name, sub] => (*resource, Some(name), Some(*sub)),
            ["namespaces", _, resource, name] => (*resource, Some(name), None),
            ["namespaces", _, resource] => (*resource, None, None),
            [resource, name, sub] => (*resource, Some(name), Some(*sub)),
            [resource, name] => (*resource, Some(name), None),
            [resource] => (*resource, None, None),
            _ => return None,
        };
        let query = request.uri().query().unwrap_or_default();
        let watches = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
        let verb = match *request.method() {
            Method::GET if watches => "watch",
            Method::GET if name.is_some() => "get",
            Method::GET => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if name.is_some() => "delete",
            _ => "deletecollection",
        };
        let resource = sub.map_or(resource.to_owned(), |sub| format!("{resource}/{sub}"));
        Some(Self { verb, group, resource })
    }

    fn right(&self, verb: &str) -> String {
        line(verb, &self.group, &self.resource)
    }
}

fn line(verb: &str, group: &str, resource: &str) -> String {
    format!("{verb} {group}/{resource}")
}

/// The rights that roles give: those in these objects, of whatever kind.
pub fn granted<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Rights {
    let rules = objects.into_iter().filter_map(|object| object["rules"].as_array()).flatten();
    rules.flat_map(given_by).collect()
}

fn given_by(rule: &Value) -> Vec<String> {
    let words = |field: &str| -> Vec<&str> {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let (groups, resources, verbs) = (words("apiGroups"), words("resources"), words("verbs"));
    let mut all = Vec::new();
    for group in &groups {
        for resource in &resources {
            all.extend(verbs.iter().map(|verb| line(verb, group, resource)));
        }
    }
    all
}
