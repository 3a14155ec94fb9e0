//! The hub as a kubeconfig names it: its address for others, and the way to it with another's token.

use std::path::Path;

use kube::Client;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};
use tombolo_install::HubAddress;

use crate::failure::Failure;
use crate::join::Hub;

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

/// A client of the hub that comes with `token`.
pub(crate) async fn client(hub: &Hub, cluster: Option<&Path>, token: &str) -> Result<Client, Failure> {
    let mut config = load(hub.hub_kubeconfig.as_deref().or(cluster))?;
    for user in &mut config.auth_infos {
        user.auth_info = Some(AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() });
    }
    let options = KubeConfigOptions { context: hub.hub_context.clone(), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(config, &options)
        .await
        .map_err(|cause| cannot(cause.to_string()))?;
    Client::try_from(tombolo_runtime::notice_silence(config)).map_err(|cause| cannot(cause.to_string()))
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
