//! Leaving: takes back the load balancers of all Services.
//!
//! Only for a cluster whose balancers have ended: a provider would make them again. Without it no Service that has one could be
//! deleted any more, because its finalizer waits for a provider. Doing it again changes nothing.

use kube::api::ListParams;
use kube::{Api, Client, Error, ResourceExt as _};
use tombolo_api::loadbalancer::Service;
use tombolo_model::balancer::{forget, is_marked};
use tombolo_runtime::{Boxed, is_absent, is_conflict};

use crate::provider::patch;

/// Takes everything that providers of any class left off all Services; how many had something.
pub fn retire(client: &Client) -> Boxed<'_, Result<usize, Error>> {
    Box::pin(async {
        let services: Api<Service> = Api::all(client.clone());
        let mut count = 0;
        for service in services.list(&ListParams::default()).await? {
            count += usize::from(give_up(client, service).await?);
        }
        Ok(count)
    })
}

/// Whether there was anything to take off. One that others change meanwhile is read again.
async fn give_up(client: &Client, mut service: Service) -> Result<bool, Error> {
    while is_marked(&service) {
        match patch(client, &forget(&service)).await {
            Ok(()) => return Ok(true),
            Err(error) if is_conflict(&error) => {}
            Err(error) if is_absent(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        let api: Api<Service> = Api::namespaced(client.clone(), &service.namespace().unwrap_or_default());
        match api.get_opt(&service.name_any()).await? {
            Some(found) => service = found,
            None => return Ok(false),
        }
    }
    Ok(false)
}
