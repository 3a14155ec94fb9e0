//! Leaving: takes back everything that Works put into a member, for a member whose Works nobody executes any more.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client, Error, ResourceExt};
use tombolo_api::karmada::MANAGED_LABEL;
use tombolo_api::karmada::work::{NAME_ANNOTATION, NAMESPACE_ANNOTATION};
use tombolo_runtime::{Kind, delete};

use crate::execute::{ADOPTED_ANNOTATION, PRESERVED_ANNOTATION, release};

/// Removes what Works made, and leaves what they adopted to its owner. Returns how many objects that were.
pub async fn withdraw(member: &Client) -> Result<usize, Error> {
    let slices: Vec<EndpointSlice> = marked(member).await?;
    for slice in &slices {
        delete(&api_of(member, slice), slice).await?;
    }
    let services: Vec<Service> = marked(member).await?;
    for service in &services {
        let api = api_of(member, service);
        match service.annotations().contains_key(ADOPTED_ANNOTATION) {
            true => release(&api, service).await?,
            false => delete(&api, service).await?,
        }
    }
    Ok(slices.len() + services.len())
}

/// What a Work put there and is not to be kept.
async fn marked<K: Kind>(member: &Client) -> Result<Vec<K>, Error> {
    let params = ListParams::default().labels(&format!("{MANAGED_LABEL}=true"));
    let found = Api::<K>::all(member.clone()).list(&params).await?.items;
    let is_made = |object: &K| {
        let annotations = object.annotations();
        [NAMESPACE_ANNOTATION, NAME_ANNOTATION].iter().all(|key| annotations.contains_key(*key))
            && !annotations.contains_key(PRESERVED_ANNOTATION)
    };
    Ok(found.into_iter().filter(is_made).collect())
}

fn api_of<K: Kind>(member: &Client, object: &K) -> Api<K> {
    Api::namespaced(member.clone(), &object.namespace().unwrap_or_default())
}
