//! `tombolo export` and `unexport`: a ServiceExport, without writing one.

use std::time::Duration;

use clap::{Args, ValueEnum};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, Client, Error, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tombolo_api::{kep, mcs};
use tombolo_runtime::{Key, is_already_there, is_not_found};

use crate::connect::Way;
use crate::failure::Failure;
use crate::say::say;
use crate::service_name::parse;
use crate::span;

/// How often `--wait` looks.
const EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The Service.
    #[arg(value_name = "NAMESPACE/NAME", value_parser = parse)]
    service: Key,
    #[command(flatten)]
    way: Way,
    /// The edition of the API.
    #[arg(long, value_enum, default_value_t = Edition::Mcs)]
    edition: Edition,
    /// Wait until every live member has it (or nobody any more), at most so long.
    #[arg(long, value_name = "SPAN", value_parser = span::parse, num_args = 0..=1, default_missing_value = "30s")]
    wait: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Edition {
    /// Today's: multicluster.x-k8s.io, clusterset.local.
    Mcs,
    /// The first: multicluster.k8s.io, supercluster.local.
    Kep,
}

pub(crate) async fn export(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.way.connect("member").await?;
    let key = &arguments.service;
    let services: Api<Service> = Api::namespaced(client.clone(), &key.namespace);
    let found = services.get_opt(&key.name).await.map_err(|cause| cannot("look for", key, cause))?;
    if found.is_none() {
        let hint = "an export of a Service that is not there does nothing; create the Service first";
        return Err(Failure::new(format!("there is no Service {key}")).hint(hint));
    }
    let metadata = ObjectMeta { name: Some(key.name.clone()), ..ObjectMeta::default() };
    let made = match arguments.edition {
        Edition::Mcs => create(&client, key, &mcs::ServiceExport { metadata, ..Default::default() }).await?,
        Edition::Kep => create(&client, key, &kep::ServiceExport { metadata, ..Default::default() }).await?,
    };
    say(format_args!("{key} {}", if made { "is exported" } else { "was exported already" }));
    match arguments.wait {
        Some(patience) => wait_until(&arguments, &client, patience, is_everywhere, "not everywhere").await,
        None => Ok(()),
    }
}

pub(crate) async fn unexport(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.way.connect("member").await?;
    let key = &arguments.service;
    let gone = match arguments.edition {
        Edition::Mcs => delete::<mcs::ServiceExport>(&client, key).await?,
        Edition::Kep => delete::<kep::ServiceExport>(&client, key).await?,
    };
    if !gone {
        let hint = "`tombolo status` lists what is exported; see --context and --edition";
        return Err(Failure::new(format!("{key} is not exported")).hint(hint));
    }
    say(format_args!("{key} is exported no more"));
    match arguments.wait {
        Some(patience) => {
            wait_until(&arguments, &client, patience, |conditions| conditions.is_none(), "still there").await
        }
        None => Ok(()),
    }
}

fn cannot(what: &str, key: &Key, cause: Error) -> Failure {
    let hint = match &cause {
        Error::Api(status) if status.code == 404 => "install deploy/crds in the cluster",
        Error::Api(status) if status.code == 403 => "you need rights on serviceexports in that namespace",
        _ => "is this the right cluster? See --kubeconfig and --context",
    };
    Failure::new(format!("cannot {what} {key}")).because(cause).hint(hint)
}

/// Returns whether it was not there before.
async fn create<K>(client: &Client, key: &Key, export: &K) -> Result<bool, Failure>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &key.namespace);
    match api.create(&PostParams::default(), export).await {
        Ok(_) => Ok(true),
        Err(error) if is_already_there(&error) => Ok(false),
        Err(error) => Err(cannot("export", key, error)),
    }
}

/// Returns whether it was there.
async fn delete<K>(client: &Client, key: &Key) -> Result<bool, Failure>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &key.namespace);
    match api.delete(&key.name, &DeleteParams::default()).await {
        Ok(_) => Ok(true),
        Err(error) if is_not_found(&error) => Ok(false),
        Err(error) => Err(cannot("unexport", key, error)),
    }
}

/// Types and statuses of an export's conditions; nothing when the export is gone.
type Conditions = Option<Vec<(String, String)>>;

fn is_everywhere(conditions: &Conditions) -> bool {
    let good = |(type_, status): &(String, String)| {
        status == "True" && matches!(type_.as_str(), "Ready" | "Exported")
    };
    conditions.iter().flatten().any(good)
}

async fn conditions(client: &Client, arguments: &Arguments) -> Result<Conditions, Error> {
    let Key { namespace, name } = &arguments.service;
    let pair = |type_: &String, status: String| (type_.clone(), status);
    Ok(match arguments.edition {
        Edition::Mcs => {
            let api: Api<mcs::ServiceExport> = Api::namespaced(client.clone(), namespace);
            let found = api.get_opt(name).await?.map(|export| export.status.unwrap_or_default().conditions);
            found.map(|all| all.into_iter().map(|one| pair(&one.type_, one.status)).collect())
        }
        Edition::Kep => {
            let api: Api<kep::ServiceExport> = Api::namespaced(client.clone(), namespace);
            let found = api.get_opt(name).await?.map(|export| export.status.unwrap_or_default().conditions);
            found.map(|all| all.into_iter().map(|one| pair(&one.type_, one.status.to_string())).collect())
        }
    })
}

async fn wait_until(
    arguments: &Arguments,
    client: &Client,
    patience: Duration,
    holds: impl Fn(&Conditions) -> bool,
    otherwise: &str,
) -> Result<(), Failure> {
    let wait = async {
        while !holds(&conditions(client, arguments).await?) {
            tokio::time::sleep(EVERY).await;
        }
        Ok::<(), Error>(())
    };
    let key = &arguments.service;
    match tokio::time::timeout(patience, wait).await {
        Ok(ended) => ended.map_err(|cause| cannot("look at", key, cause)),
        Err(_) => Err(Failure::new(format!("{key} is {otherwise} after {} s", patience.as_secs()))
            .hint(format!("`tombolo explain {key}` says which hop is broken"))),
    }
}
