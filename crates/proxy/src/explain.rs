//! Why a node sends the traffic of a Service where it does, in words. It asks the cluster, not a running proxy: the answer is
//! the same, because the decision is.

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client, Error};
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_api::tombolo::Dialect;
use tombolo_api::{kep, mcs};
use tombolo_model::routing::{self, Imported, Input};
use tombolo_runtime::Key;

use crate::config::Config;
use crate::optional::is_unknown;

/// What the node of `config` does for a Service, line by line; `None` if there is no such Service.
pub async fn explain(config: &Config, client: &Client, key: &Key) -> Result<Option<Vec<String>>, Error> {
    let services: Api<Service> = Api::namespaced(client.clone(), &key.namespace);
    let Some(service) = services.get_opt(&key.name).await? else { return Ok(None) };
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &key.namespace);
    let own = ListParams::default().labels(&format!("{SERVICE_NAME_LABEL}={}", key.name));
    let slices = slices.list(&own).await?.items;
    let found = Api::<Node>::all(client.clone()).get_opt(&config.node).await?;
    let (cluster, region) = (config.cluster.clone(), config.region.clone());
    let unknown =
        || routing::Node { name: config.node.clone(), cluster: config.cluster.clone(), ..Default::default() };
    let node = found.as_ref().map_or_else(unknown, |node| routing::Node::read(node, cluster, region));
    let imported = imported(client, &service).await?;
    let input = Input {
        service: &service,
        slices: slices.iter().collect(),
        node: &node,
        imported: imported.as_ref(),
    };
    let (routes, complaints) = routing::route(&input);
    let mut lines = routing::explain(&input, &routes);
    if found.is_none() {
        lines.push(format!("there is no Node {}: nothing is known about it but its name", config.node));
    }
    lines.extend(complaints.iter().map(|complaint| format!("wrong: {complaint}")));
    Ok(Some(lines))
}

async fn imported(client: &Client, service: &Service) -> Result<Option<Imported>, Error> {
    let Some((dialect, import)) = routing::import_of(service) else { return Ok(None) };
    let imported = match dialect {
        Dialect::Kep => {
            let api: Api<kep::ImportedService> = Api::namespaced(client.clone(), &import.namespace);
            unless_missing(api.get_opt(&import.name).await)?.map(|import| Imported::kep(&import))
        }
        Dialect::Mcs => {
            let api: Api<mcs::ServiceImport> = Api::namespaced(client.clone(), &import.namespace);
            unless_missing(api.get_opt(&import.name).await)?.map(|import| Imported::mcs(&import))
        }
    };
    Ok(imported)
}

fn unless_missing<K>(found: Result<Option<K>, Error>) -> Result<Option<K>, Error> {
    match found {
        Err(error) if is_unknown(&error) => Ok(None),
        found => found,
    }
}
