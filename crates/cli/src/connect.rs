//! The way to a cluster: a kubeconfig, or the pod's own account.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use clap::Args;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tombolo_runtime::{unless_there, with_causes};

use crate::failure::Failure;

/// The flags that say which cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct Way {
    /// The kubeconfig of the cluster; without it the default one, or the pod's own account.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig; without it the current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

impl Way {
    /// A client of the cluster `whose`.
    pub(crate) async fn connect(&self, whose: &str) -> Result<Client, Failure> {
        let (file, context) = (self.kubeconfig.as_deref(), self.context.as_deref());
        connect(whose, "--kubeconfig and --context", file, context).await
    }
}

/// Says at the start what would never work: a kind that is not there or may not be read. A server that is merely out of reach
/// may come back.
pub(crate) async fn check_kind<K>(client: &Client, who: &str, hint: &str) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::all(client.clone());
    match api.list(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 404) => {
            let what = format!("{who} cannot read {}", K::plural(&()));
            Err(Failure::new(what).because(kube::Error::Api(status)).hint(hint.to_owned()))
        }
        Err(error) => {
            tracing::warn!(error = %with_causes(&error), "the API server is out of reach; trying again");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// The namespace of a part's own objects. In a cluster the part runs in it; elsewhere it may have to be made.
pub(crate) async fn make_namespace(client: &Client, place: &str, name: &str) -> Result<(), Failure> {
    let api: Api<Namespace> = Api::all(client.clone());
    let cannot = |cause: kube::Error| {
        Failure::new(format!("there is no namespace {name} {place}, and it cannot be made"))
            .because(cause)
            .hint("create it, or choose another --namespace")
    };
    if api.get_opt(name).await.map_err(cannot)?.is_some() {
        return Ok(());
    }
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    unless_there(api.create(&PostParams::default(), &namespace).await).map_err(cannot)
}

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
    Client::try_from(tombolo_runtime::notice_silence(config)).map_err(|cause| cannot(cause.into()))
}
