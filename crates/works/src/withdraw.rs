//! Leaving: takes back everything that Works put into a member, for a member whose Works nobody executes any more.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client, Error, ResourceExt};
use tombolo_api::karmada::MANAGED_LABEL;
use tombolo_api::tombolo::{ADOPTED_ANNOTATION, PRESERVED_ANNOTATION};
use tombolo_model::{ClusterId, names};
use tombolo_runtime::{Kind, delete};

use crate::mark::{Made, maker};
use crate::service::release;

/// Removes what Works for this cluster made, and leaves what they adopted to its owner. What others made, Karmada among
/// them, stays. Returns how many objects that were.
pub async fn withdraw(member: &Client, cluster: &ClusterId) -> Result<usize, Error> {
    let Some(namespace) = names::execution_namespace(cluster) else { return Ok(0) };
    let slices: Vec<EndpointSlice> = made(member, &namespace).await?;
    for slice in &slices {
        delete(&api_of(member, slice), slice).await?;
    }
    let services: Vec<Service> = made(member, &namespace).await?;
    for service in &services {
        let api = api_of(member, service);
        match service.annotations().contains_key(ADOPTED_ANNOTATION) {
            true => release(&api, service).await?,
            false => delete(&api, service).await?,
        }
    }
    Ok(slices.len() + services.len())
}

/// What a Work of the namespace put there and is not to be kept.
async fn made<K: Made>(member: &Client, namespace: &str) -> Result<Vec<K>, Error> {
    let params = ListParams::default().labels(&format!("{MANAGED_LABEL}=true"));
    let found = Api::<K>::all(member.clone()).list(&params).await?.items;
    let is_made = |object: &K| {
        maker(object, namespace).is_some() && !object.annotations().contains_key(PRESERVED_ANNOTATION)
    };
    Ok(found.into_iter().filter(is_made).collect())
}

fn api_of<K: Kind>(member: &Client, object: &K) -> Api<K> {
    Api::namespaced(member.clone(), &object.namespace().unwrap_or_default())
}
