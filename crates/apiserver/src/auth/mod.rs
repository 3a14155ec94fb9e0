//! Who asks, and may they.
//!
//! Over TLS a request carries a bearer token: the administrator's, or a service account's. In process the caller says
//! who it is. Authorization is off by default (everyone who is known may do everything); with it on, roles and bindings
//! are evaluated as RBAC defines them.

mod rbac;
mod token;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

pub(crate) use self::rbac::rules_for;
use self::token::Signer;
pub(crate) use self::token::fresh_key;
pub use self::token::fresh_token;
pub(crate) use self::token::{Claims, ISSUER};
use crate::core::Core;
use crate::object;
use crate::status::{Status, Subject};
use crate::store::Key;

/// The collection of service accounts.
const SERVICE_ACCOUNTS: &str = "/serviceaccounts";

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
}

impl User {
    /// The administrator: may do everything, also with authorization on.
    pub fn admin() -> Self {
        Self::named("kubernetes-admin", &["system:masters", "system:authenticated"])
    }

    /// A service account of the cluster.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let own = format!("system:serviceaccounts:{namespace}");
        let groups = ["system:serviceaccounts", &own, "system:authenticated"];
        Self::named(&format!("system:serviceaccount:{namespace}:{name}"), &groups)
    }

    fn anonymous() -> Self {
        Self::named("system:anonymous", &["system:unauthenticated"])
    }

    fn named(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        Self { name: name.to_owned(), uid: String::new(), groups }
    }

    /// As it stands in reviews.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            value["uid"] = self.uid.as_str().into();
        }
        value
    }
}

/// What a request wants to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Set for requests that are not about resources.
    pub(crate) path: Option<String>,
}

impl Attributes {
    pub(crate) fn resource(
        verb: &str,
        group: &str,
        resource: &str,
        subresource: &str,
        namespace: &str,
        name: &str,
    ) -> Self {
        Self {
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
            path: None,
        }
    }

    pub(crate) fn path(method: &Method, path: &str) -> Self {
        Self { verb: method.as_str().to_lowercase(), path: Some(path.into()), ..Self::default() }
    }

    /// What is said to someone who may not.
    fn refusal(&self, user: &User) -> Status {
        let User { name: who, .. } = user;
        let Self { verb, group, namespace, .. } = self;
        if let Some(path) = &self.path {
            let subject = Subject { group: "", plural: "", name: "" };
            return Status::forbidden(subject, &format!("User {who:?} cannot {verb} path {path:?}"));
        }
        let resource = match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        };
        let place = match namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let why = format!("User {who:?} cannot {verb} resource {resource:?} in API group {group:?} {place}");
        Status::forbidden(Subject { group, plural: &self.resource, name: &self.name }, &why)
    }
}

fn acting_as(resource: &str, namespace: &str, name: &str) -> Attributes {
    Attributes::resource("impersonate", "", resource, "", namespace, name)
}

/// A token that is good.
pub(crate) struct Verified {
    pub(crate) user: User,
    /// For whom it is good, of those that were asked about.
    pub(crate) audiences: Vec<String>,
}

fn common(had: &[String], asked: &[String]) -> Vec<String> {
    had.iter().filter(|audience| asked.contains(audience)).cloned().collect()
}

/// A list as Go shows it in messages.
fn quoted(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    format!("[{}]", words.join(" "))
}

/// A deleted account's tokens die with it, also when the name is taken again.
fn account_of(core: &Core, claims: &Claims) -> Option<User> {
    let account = core.store.get(SERVICE_ACCOUNTS, &Key::new(&claims.namespace, &claims.name))?;
    (object::uid(&account.value) == claims.uid)
        .then(|| User { uid: claims.uid.clone(), ..User::service_account(&claims.namespace, &claims.name) })
}

/// Who is known, and whether roles are evaluated.
#[derive(Debug)]
pub(crate) struct Auth {
    admin_token: String,
    rbac: bool,
    signer: Signer,
}

impl Auth {
    pub(crate) fn new(rbac: bool) -> Self {
        Self { admin_token: fresh_token(), rbac, signer: Signer::default() }
    }

    /// The same as before: who had a token can go on using it. Nothing when the key is none.
    pub(crate) fn again(rbac: bool, admin_token: String, key: &[u8]) -> Option<Self> {
        Some(Self { admin_token, rbac, signer: Signer::with(key)? })
    }

    /// The bearer token of the administrator.
    pub(crate) fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// Who sent these headers. Nobody in particular is someone, too, but may not do much.
    pub(crate) fn identify(&self, core: &Core, headers: &HeaderMap) -> Result<User, Status> {
        let Some(header) = headers.get(AUTHORIZATION) else { return Ok(User::anonymous()) };
        let token = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer ")).unwrap_or_default();
        let found = self.verify(core, token.trim(), &[ISSUER.to_owned()]);
        found.map(|verified| verified.user).map_err(|_| Status::unauthorized())
    }

    /// The user a token stands for, if it is good for one of these audiences.
    pub(crate) fn verify(&self, core: &Core, token: &str, audiences: &[String]) -> Result<Verified, String> {
        let invalid = || "invalid bearer token".to_owned();
        if token::is_same(token, &self.admin_token) {
            // Such a token knows nothing of audiences, so it is for this server.
            let audiences = common(&[ISSUER.to_owned()], audiences);
            return if audiences.is_empty() {
                Err(invalid())
            } else {
                Ok(Verified { user: User::admin(), audiences })
            };
        }
        let claims = self.signer.verify(token, core.now()).ok_or_else(invalid)?;
        let shared = common(&claims.audiences, audiences);
        if shared.is_empty() {
            let (had, asked) = (quoted(&claims.audiences), quoted(audiences));
            return Err(format!("token audiences {had} is invalid for the target audiences {asked}"));
        }
        let user = account_of(core, &claims).ok_or_else(invalid)?;
        Ok(Verified { user, audiences: shared })
    }

    /// The user a request asks to be treated as, if its sender may do that.
    pub(crate) fn impersonated(&self, core: &Core, user: User, headers: &HeaderMap) -> Result<User, Status> {
        let named = |header: &str| -> Vec<String> {
            headers
                .get_all(header)
                .iter()
                .filter_map(|value| value.to_str().ok())
                .map(str::to_owned)
                .collect()
        };
        let (names, mut groups) = (named("impersonate-user"), named("impersonate-group"));
        let Some(name) = names.into_iter().next() else {
            return if groups.is_empty() {
                Ok(user)
            } else {
                Err(Status::bad_request("requested groups without impersonating a user"))
            };
        };
        self.authorize(core, &user, &acting_as("users", "", &name))?;
        for group in &groups {
            self.authorize(core, &user, &acting_as("groups", "", group))?;
        }
        let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        let own = account.map(|(namespace, account)| User::service_account(namespace, account).groups);
        groups.extend(own.unwrap_or_else(|| vec!["system:authenticated".to_owned()]));
        Ok(User { name, uid: String::new(), groups })
    }

    pub(crate) fn sign(&self, claims: &Claims) -> Result<String, Status> {
        self.signer.sign(claims).ok_or_else(|| Status::internal("the token could not be signed"))
    }

    pub(crate) fn authorize(&self, core: &Core, user: &User, attributes: &Attributes) -> Result<(), Status> {
        if self.allows(core, user, attributes) {
            return Ok(());
        }
        if user == &User::anonymous() && !self.rbac {
            return Err(Status::unauthorized());
        }
        Err(attributes.refusal(user))
    }

    pub(crate) fn allows(&self, core: &Core, user: &User, attributes: &Attributes) -> bool {
        let is_public = attributes.path.as_deref().is_some_and(|path| {
            ["/healthz", "/livez", "/readyz", "/version"].iter().any(|public| path.starts_with(public))
        });
        let is_known = user != &User::anonymous();
        let is_master = user.groups.iter().any(|group| group == "system:masters");
        is_public || is_master || (is_known && !self.rbac) || rbac::allows(core, user, attributes)
    }
}
