//! The hub as a kubeconfig names it: its address for others.

use std::path::Path;

use kube::config::{Cluster, Kubeconfig};
use tombolo_install::HubAddress;

use crate::failure::Failure;

/// What a member has to know of the hub that a context means. Nothing of whoever the kubeconfig belongs to.
pub(crate) fn read(file: Option<&Path>, context: Option<&str>) -> Result<HubAddress, Failure> {
    let cluster = cluster(&load(file)?, context)?;
    let server = cluster.server.clone().ok_or_else(|| cannot("it names no server"))?;
    if cluster.insecure_skip_tls_verify == Some(true) {
        return Err(cannot("it does not check the hub's certificate, and a member must"));
    }
    let authority = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) => Some(data.clone()),
        (None, Some(path)) => {
            let bytes =
                std::fs::read(path).map_err(|cause| cannot(format!("cannot read {path}: {cause}")))?;
            Some(encode(&bytes))
        }
        (None, None) => None,
    };
    Ok(HubAddress { server, authority, server_name: cluster.tls_server_name })
}

fn load(file: Option<&Path>) -> Result<Kubeconfig, Failure> {
    let read = match file {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    read.map_err(|cause| cannot(cause.to_string()))
}

fn cluster(config: &Kubeconfig, context: Option<&str>) -> Result<Cluster, Failure> {
    let name = context.or(config.current_context.as_deref()).unwrap_or_default();
    let context = config.contexts.iter().find(|one| one.name == name).and_then(|one| one.context.as_ref());
    let context = context.ok_or_else(|| cannot(format!("there is no context {name:?}")))?;
    let found = config.clusters.iter().find(|one| one.name == context.cluster);
    found
        .and_then(|one| one.cluster.clone())
        .ok_or_else(|| cannot(format!("there is no cluster {:?}", context.cluster)))
}

fn cannot(why: impl Into<String>) -> Failure {
    let why: String = why.into();
    Failure::new("the hub's kubeconfig cannot be used")
        .because(why)
        .hint("see --hub-kubeconfig and --hub-context")
}

fn encode(bytes: &[u8]) -> String {
    serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec()))
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}
