//! What every namespace gets: an account for its pods, and the certificate by which they know the API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::{ObjectMeta, Patch};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::json;
use tombolo_runtime::{Cache, Controller, Key, Next, Queue, unless_gone};

use super::{Shared, patch_params, write_params};

pub(super) const ACCOUNT: &str = "default";
pub(super) const AUTHORITY: &str = "kube-root-ca.crt";
const ENTRY: &str = "ca.crt";

pub(super) struct ServiceAccounts {
    client: Client,
    authority: Option<String>,
    namespaces: Arc<Cache<Namespace>>,
    accounts: Arc<Cache<ServiceAccount>>,
    config_maps: Arc<Cache<ConfigMap>>,
    queue: Arc<Queue<String>>,
}

/// What a namespace lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    Account,
    Authority,
    /// The certificate is there but not the right one.
    RightAuthority,
}

impl ServiceAccounts {
    pub(super) fn new(shared: &Shared, authority: Option<String>) -> Self {
        let queue = Arc::new(Queue::new());
        let add = queue.clone();
        shared.namespaces.listen(move |namespace: &Namespace| add.add(namespace.name_any()));
        let add = queue.clone();
        shared
            .accounts
            .listen(move |account: &ServiceAccount| add.add(account.namespace().unwrap_or_default()));
        let add = queue.clone();
        shared.config_maps.listen(move |map: &ConfigMap| add.add(map.namespace().unwrap_or_default()));
        Self {
            client: shared.client.clone(),
            authority,
            namespaces: shared.namespaces.clone(),
            accounts: shared.accounts.clone(),
            config_maps: shared.config_maps.clone(),
            queue,
        }
    }

    async fn provide(&self, namespace: &str, lack: Lack) -> Result<(), Error> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let named = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let data = BTreeMap::from([(ENTRY.to_owned(), self.authority.clone().unwrap_or_default())]);
        match lack {
            Lack::Account => {
                let account = ServiceAccount { metadata: named(ACCOUNT), ..ServiceAccount::default() };
                unless_there(accounts.create(&write_params(), &account).await)
            }
            Lack::Authority => {
                let map = ConfigMap { metadata: named(AUTHORITY), data: Some(data), ..ConfigMap::default() };
                unless_there(maps.create(&write_params(), &map).await)
            }
            Lack::RightAuthority => {
                let patch = Patch::Merge(json!({ "data": data }));
                unless_gone(maps.patch(AUTHORITY, &patch_params(), &patch).await)
            }
        }
    }
}

impl Controller for ServiceAccounts {
    type Item = String;

    const NAME: &'static str = "serviceaccount";

    fn queue(&self) -> &Queue<String> {
        &self.queue
    }

    async fn reconcile(&self, namespace: &String) -> Result<Next, Error> {
        let found = self.namespaces.get(&Key::new("", namespace));
        let account = self.accounts.get(&Key::new(namespace, ACCOUNT));
        let map = self.config_maps.get(&Key::new(namespace, AUTHORITY));
        for lack in lacks(found.as_deref(), account.as_deref(), map.as_deref(), self.authority.as_deref()) {
            self.provide(namespace, lack).await?;
        }
        Ok(Next::Rest)
    }
}

fn lacks(
    namespace: Option<&Namespace>,
    account: Option<&ServiceAccount>,
    map: Option<&ConfigMap>,
    authority: Option<&str>,
) -> Vec<Lack> {
    if namespace.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()) {
        return Vec::new();
    }
    let mut lacks = Vec::new();
    lacks.extend(account.is_none().then_some(Lack::Account));
    if let Some(pem) = authority {
        let published = map.map(|map| map.data.as_ref().and_then(|data| data.get(ENTRY)));
        lacks.extend(match published {
            None => Some(Lack::Authority),
            Some(text) if text.map(String::as_str) != Some(pem) => Some(Lack::RightAuthority),
            Some(_) => None,
        });
    }
    lacks
}

/// The name is fixed: when it is taken, somebody was faster.
fn unless_there<T>(result: Result<T, Error>) -> Result<(), Error> {
    match result {
        Err(Error::Api(status)) if status.is_already_exists() => Ok(()),
        result => result.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::from_value;

    use super::*;

    #[test]
    fn a_namespace_gets_what_it_lacks_while_it_lives() {
        let namespace = Namespace::default();
        let going: Namespace =
            from_value(json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}}))
                .unwrap();
        let account = ServiceAccount::default();
        let map =
            |pem: &str| -> ConfigMap { from_value(json!({"metadata": {}, "data": {ENTRY: pem}})).unwrap() };
        let (right, wrong) = (map("pem"), map("old"));
        let cases = [
            (Some(&namespace), None, None, Some("pem"), vec![Lack::Account, Lack::Authority]),
            (Some(&namespace), None, None, None, vec![Lack::Account]),
            (Some(&namespace), Some(&account), Some(&right), Some("pem"), vec![]),
            (Some(&namespace), Some(&account), Some(&wrong), Some("pem"), vec![Lack::RightAuthority]),
            (Some(&going), None, None, Some("pem"), vec![]),
            (None, None, None, Some("pem"), vec![]),
        ];
        for (namespace, account, map, authority, expected) in cases {
            assert_eq!(lacks(namespace, account, map, authority), expected);
        }
    }
}
