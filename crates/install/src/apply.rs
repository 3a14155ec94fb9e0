//! Applying manifests: server-side, in order, each at most once changed.
//!
//! Doing it again changes nothing, nor does doing it with an earlier version ([`crate::precedence`]). Definitions are applied
//! with care ([`crate::definitions::decide`]) and waited for, since what follows may be of their kinds.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use tombolo_runtime::is_absent;

use crate::definitions::{Verdict, decide};
use crate::manifest::Manifest;
use crate::part::INSTALLER;
use crate::precedence::{beside, later_than};

/// How long a definition may take until it can be used.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The kinds of Prometheus' operator are there only where it is.
const MONITORING: &str = "monitoring.coreos.com";

/// What became of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    Created,
    Changed,
    Unchanged,
    /// It stays as it is, and why.
    Kept(String),
    /// The cluster has no such kind, and can do without.
    NoSuchKind,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{kind} {name} cannot be applied")]
    Refused { kind: String, name: String, source: Box<kube::Error> },
    #[error("definition {0} is of no use: {1}")]
    Unusable(String, String),
    #[error("definition {0} was not established in time")]
    NotEstablished(String),
}

impl Error {
    pub(crate) fn refused(manifest: &Manifest, source: kube::Error) -> Self {
        let (kind, name) = (manifest.kind().to_owned(), manifest.name().to_owned());
        Self::Refused { kind, name, source: Box::new(source) }
    }
}

/// Applies all of them in order, and tells of each.
pub async fn apply(
    client: &Client,
    manifests: &[Manifest],
    mut tell: impl FnMut(&Manifest, Applied),
) -> Result<(), Error> {
    for manifest in manifests {
        let applied = match manifest.kind() {
            "CustomResourceDefinition" => define(client, manifest).await?,
            _ => put(client, manifest).await.map_err(|source| Error::refused(manifest, source))?,
        };
        tell(manifest, applied);
    }
    for name in manifests.iter().filter(|one| one.kind() == "CustomResourceDefinition").map(Manifest::name) {
        established(client, name).await?;
    }
    Ok(())
}

pub(crate) fn api(client: &Client, manifest: &Manifest) -> Api<DynamicObject> {
    match manifest.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &manifest.resource()),
        None => Api::all_with(client.clone(), &manifest.resource()),
    }
}

async fn put(client: &Client, manifest: &Manifest) -> Result<Applied, kube::Error> {
    let api = api(client, manifest);
    let optional = manifest.resource().group == MONITORING;
    let (before, value) = match api.get(manifest.name()).await {
        Err(error) if is_absent(&error) => (None, manifest.value().clone()),
        found => {
            let found = found?;
            if let Some(version) = later_than(found.labels(), manifest) {
                return Ok(Applied::Kept(format!("version {version} made it, which is later than this one")));
            }
            (found.resource_version(), beside(found.labels(), manifest))
        }
    };
    let params = PatchParams::apply(INSTALLER).force();
    let after = match api.patch(manifest.name(), &params, &Patch::Apply(value)).await {
        Err(kube::Error::Api(status)) if status.code == 404 && optional => return Ok(Applied::NoSuchKind),
        outcome => outcome?.resource_version(),
    };
    Ok(match before {
        None => Applied::Created,
        Some(_) if before == after => Applied::Unchanged,
        Some(_) => Applied::Changed,
    })
}

async fn define(client: &Client, manifest: &Manifest) -> Result<Applied, Error> {
    let name = manifest.name().to_owned();
    let refused = |source| Error::refused(manifest, source);
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let present = api.get_opt(&name).await.map_err(refused)?;
    let ours = serde_json::from_value(manifest.value().clone());
    let ours: CustomResourceDefinition = ours.expect("a definition that was made from one");
    match decide(present.as_ref(), &ours) {
        Verdict::Apply => put(client, manifest).await.map_err(refused),
        Verdict::Keep(why) => Ok(Applied::Kept(why)),
        Verdict::Refuse(why) => Err(Error::Unusable(name, why)),
    }
}

async fn established(client: &Client, name: &str) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let looked = tokio::time::timeout(PATIENCE, async {
        while !api.get_opt(name).await.ok().flatten().is_some_and(|one| is_established(&one)) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    });
    looked.await.map_err(|_| Error::NotEstablished(name.to_owned()))
}

pub(crate) fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == "Established" && one.status == "True")
}
