//! Joining: a place at the hub, and in the cluster who it is and how to get there.
//!
//! Nothing here decides; [`crate::examine`] has done that before. Every step can be repeated.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Error, ResourceExt as _};
use serde_json::json;
use tombolo_api::tombolo::{HUB_ACCOUNT, TOKEN_KEY};
use tombolo_model::names;

use crate::inspect::Server;
use crate::membership::{HUB_ANNOTATION, HUB_SECRET, Membership};
use crate::part::{INSTALLER, Part};
use crate::settings::Settings;

/// On the pods of agents: for which membership they were started and, behind a dot, with which credential it was renewed.
const MEMBERSHIP_ANNOTATION: &str = "tombolo.dev/membership";

/// On the agents' Deployment of a cluster that left: how many there were.
pub(crate) const REPLICAS_ANNOTATION: &str = "tombolo.dev/replicas";

/// The token that the cluster has, if there is one.
pub async fn held_token(member: &Client, membership: &Membership) -> Result<Option<String>, Error> {
    let api: Api<Secret> = Api::namespaced(member.clone(), &membership.namespace);
    let held = api.get_opt(HUB_SECRET).await?.and_then(|secret| secret.data?.remove(TOKEN_KEY));
    Ok(held
        .map(|token| String::from_utf8_lossy(&token.0).trim().to_owned())
        .filter(|token| !token.is_empty()))
}

/// Whether the hub takes whoever comes with the token for this very member. That of another one lets in, too, but not into
/// the namespace of this one.
pub async fn is_its_token(hub: &Client, membership: &Membership, token: &str) -> bool {
    let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
    let review = TokenReview { spec, ..TokenReview::default() };
    let answer = Api::<TokenReview>::all(hub.clone()).create(&PostParams::default(), &review).await;
    let Some(status) = answer.ok().and_then(|answer| answer.status) else { return false };
    let account =
        format!("system:serviceaccount:{}:{HUB_ACCOUNT}", names::hub_namespace(&membership.cluster));
    status.authenticated == Some(true) && status.user.and_then(|user| user.username) == Some(account)
}

/// Says on the credential which hub it is for: whoever made it by hand did not.
pub async fn name_hub(member: &Client, membership: &Membership, hub: &Server) -> Result<(), Error> {
    let api: Api<Secret> = Api::namespaced(member.clone(), &membership.namespace);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {HUB_ANNOTATION: hub.identity}}}));
    let params = PatchParams { field_manager: Some(INSTALLER.to_owned()), ..PatchParams::default() };
    api.patch(HUB_SECRET, &params, &patch).await.map(|_| ())
}

/// Leaves a token for a hub in the cluster. Returns the version of the credential, which is that of no other token.
pub async fn put_token(
    member: &Client,
    membership: &Membership,
    token: &str,
    hub: &Server,
) -> Result<String, Error> {
    let api: Api<Secret> = Api::namespaced(member.clone(), &membership.namespace);
    let secret = membership.credential(token, &hub.identity);
    let put = api.patch(HUB_SECRET, &PatchParams::apply(INSTALLER).force(), &Patch::Apply(&secret)).await?;
    Ok(put.resource_version().unwrap_or_default())
}

/// Lets agents that are there begin anew, if they were started for something else, or there is a new credential. They would notice
/// by themselves, as proxies do, but those that wait for a membership, or ended for want of a good token, look for it ever more
/// seldom. Returns whether there were any.
pub async fn restart(
    member: &Client,
    membership: &Membership,
    new_credential: Option<&str>,
) -> Result<bool, Error> {
    let api: Api<Deployment> = Api::namespaced(member.clone(), &membership.namespace);
    let name = Part::Member.object_name();
    let Some(found) = api.get_opt(&name).await? else { return Ok(false) };
    let mark = mark(membership);
    let stopped = found.spec.replicas == Some(0);
    let template = found.spec.template.metadata.as_ref();
    let held = template.and_then(|metadata| metadata.annotations.as_ref()?.get(MEMBERSHIP_ANNOTATION));
    let is_current = held.is_some_and(|held| held.split('.').next() == Some(mark.as_str()));
    if is_current && new_credential.is_none() && !stopped {
        return Ok(false);
    }
    let mark = new_credential.map_or(mark.clone(), |version| format!("{mark}.{version}"));
    let mut patch =
        json!({"spec": {"template": {"metadata": {"annotations": {MEMBERSHIP_ANNOTATION: mark}}}}});
    if stopped {
        // A cluster that left has none, and remembers how many it had.
        let before = found.annotations().get(REPLICAS_ANNOTATION).and_then(|count| count.parse().ok());
        let count: i32 = before.unwrap_or(Settings::default().replicas);
        patch["spec"]["replicas"] = json!(count);
        patch["metadata"] = json!({"annotations": {REPLICAS_ANNOTATION: null}});
    }
    let params = PatchParams { field_manager: Some(INSTALLER.to_owned()), ..PatchParams::default() };
    api.patch(&name, &params, &Patch::Merge(patch)).await?;
    Ok(true)
}

/// Not for anybody to understand; it only has to differ where the membership does.
fn mark(membership: &Membership) -> String {
    let mut hasher = DefaultHasher::new();
    for manifest in membership.manifests() {
        manifest.value().to_string().hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}
