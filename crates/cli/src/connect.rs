//! The way to a cluster: a kubeconfig, or the pod's own account.

use std::path::Path;

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::failure::Failure;

/// A client of the cluster `whose`; `flags` are what a person can do about it when there is none.
pub(crate) async fn connect(
    whose: &str,
    flags: &str,
    file: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, Failure> {
    let cannot = |cause: Box<dyn std::error::Error + Send + Sync>| {
        Failure::new(format!("there is no way to the {whose}")).because(cause).hint(format!("see {flags}"))
    };
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match (file, context) {
        (Some(file), _) => {
            let kubeconfig = Kubeconfig::read_from(file).map_err(|cause| cannot(cause.into()))?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(|cause| cannot(cause.into()))?
        }
        (None, Some(_)) => {
            kube::Config::from_kubeconfig(&options).await.map_err(|cause| cannot(cause.into()))?
        }
        (None, None) => kube::Config::infer().await.map_err(|cause| cannot(cause.into()))?,
    };
    Client::try_from(config).map_err(|cause| cannot(cause.into()))
}
