//! The cluster's own DNS: the zones of the supercluster passed on to ours.

use std::net::IpAddr;

use clap::Args;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tombolo_install::{Part, Unfit, blocks, blocks_of_cache, pass_zones_on, reloads, stop_passing_on};

use crate::failure::Failure;
use crate::say::{say, say_all};

/// The key in CoreDNS' ConfigMap.
const COREFILE: &str = "Corefile";

/// Where NodeLocal DNSCache has its Corefile, as its manifest has it.
const CACHE: (&str, &str) = ("kube-system", "node-local-dns");

/// Where CoreDNS has its Corefile.
#[derive(Debug, Args)]
pub(crate) struct CoreDns {
    /// The ConfigMap with CoreDNS' Corefile.
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/coredns", value_parser = crate::service_name::parse)]
    coredns: tombolo_runtime::Key,
}

impl CoreDns {
    fn api(&self, client: &Client) -> Api<ConfigMap> {
        Api::namespaced(client.clone(), &self.coredns.namespace)
    }

    /// Lets CoreDNS pass the zones on.
    pub(crate) async fn configure(&self, client: &Client, namespace: &str) -> Result<(), Failure> {
        let address = address(client, namespace).await?;
        self.change(client, |corefile| pass_zones_on(corefile, address)).await?;
        warn_of_cache(client, address).await
    }

    /// Lets CoreDNS be as it was, if there is one.
    pub(crate) async fn restore(&self, client: &Client) -> Result<(), Failure> {
        match self.api(client).get_opt(&self.coredns.name).await {
            Ok(None) => Ok(()),
            _ => self.change(client, stop_passing_on).await,
        }
    }

    async fn change(
        &self,
        client: &Client,
        change: impl FnOnce(&str) -> Result<String, Unfit>,
    ) -> Result<(), Failure> {
        let place = &self.coredns;
        let cannot = |cause: kube::Error| {
            Failure::new(format!("ConfigMap {place} cannot be changed")).because(cause).hint("see --coredns")
        };
        let api = self.api(client);
        let held = api.get(&place.name).await.map_err(cannot)?;
        let corefile = held.data.as_ref().and_then(|data| data.get(COREFILE)).cloned().unwrap_or_default();
        let wanted = change(&corefile)
            .map_err(|cause| Failure::new(format!("the Corefile in {place} is left alone")).because(cause))?;
        if wanted == corefile {
            say(format_args!("configmap/{} in {} unchanged", place.name, place.namespace));
            return Ok(());
        }
        // Over exactly what was read: somebody else may edit it, too.
        let metadata = json!({"resourceVersion": held.resource_version()});
        let patch = json!({"metadata": metadata, "data": {COREFILE: wanted}});
        let params =
            PatchParams { field_manager: Some("tombolo-install".to_owned()), ..PatchParams::default() };
        api.patch(&place.name, &params, &Patch::Merge(&patch)).await.map_err(cannot)?;
        say(format_args!("configmap/{} in {} configured", place.name, place.namespace));
        if !reloads(&wanted) {
            say("# its Corefile has no `reload`: restart CoreDNS");
        }
        Ok(())
    }
}

/// Says what to add to the Corefile.
pub(crate) async fn tell(client: &Client, namespace: &str) -> Result<(), Failure> {
    let address = address(client, namespace).await?;
    say(
        "# let the cluster's DNS pass the zones on: add this to CoreDNS' Corefile, or let --configure-coredns do it",
    );
    say_all(blocks(address));
    warn_of_cache(client, address).await
}

/// Pods that ask a cache on their node first would not find the zones, whatever CoreDNS does.
async fn warn_of_cache(client: &Client, address: IpAddr) -> Result<(), Failure> {
    let (namespace, name) = CACHE;
    let found = Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(name).await;
    let found = found.map_err(|cause| {
        Failure::new(format!("cannot see whether there is a ConfigMap {namespace}/{name}")).because(cause)
    })?;
    let Some(cache) = found else { return Ok(()) };
    let corefile = cache.data.as_ref().and_then(|data| data.get(COREFILE)).map(String::as_str);
    let missing = blocks_of_cache(corefile.unwrap_or_default(), address);
    if !missing.is_empty() {
        say(format_args!(
            "# pods ask NodeLocal DNSCache first, which asks CoreDNS for no other zones: add this to the Corefile in ConfigMap \
             {namespace}/{name}, too"
        ));
        say_all(missing);
    }
    Ok(())
}

/// The address of our DNS Service.
async fn address(client: &Client, namespace: &str) -> Result<IpAddr, Failure> {
    let name = Part::Dns.object_name();
    let found = Api::<Service>::namespaced(client.clone(), namespace).get(&name).await;
    let found = found
        .map_err(|cause| Failure::new(format!("cannot read Service {namespace}/{name}")).because(cause))?;
    let address = found.spec.and_then(|spec| spec.cluster_ip).and_then(|text| text.parse().ok());
    address.ok_or_else(|| Failure::new(format!("Service {namespace}/{name} has no address")))
}
