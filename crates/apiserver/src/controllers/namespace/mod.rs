//! Namespaces: emptied before they go.

mod condition;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client, Error, ResourceExt};
use tombolo_runtime::{Cache, Clock, Controller, Key, Next, Queue, is_conflict, unless_gone};

use self::condition::Remains;
use super::catalogue::{self, Kind, Meta};
use super::{Shared, write_params};

const FINALIZER: &str = "kubernetes";
/// How often a namespace is looked at while something in it takes its time.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Namespaces {
    client: Client,
    clock: Clock,
    namespaces: Arc<Cache<Namespace>>,
    queue: Arc<Queue<String>>,
}

impl Namespaces {
    pub(super) fn new(shared: &Shared) -> Self {
        let queue = Arc::new(Queue::new());
        let add = queue.clone();
        shared.namespaces.listen(move |namespace: &Namespace| {
            if namespace.metadata.deletion_timestamp.is_some() {
                add.add(namespace.name_any());
            }
        });
        Self {
            client: shared.client.clone(),
            clock: shared.clock.clone(),
            namespaces: shared.namespaces.clone(),
            queue,
        }
    }

    /// Deletes everything in the namespace that is not being deleted yet, and counts what is left. The kinds are asked
    /// for every time: one that is missing would leave its objects behind in a place that is gone.
    async fn empty(&self, namespace: &str) -> Result<Remains, Error> {
        let mut remains = Remains::default();
        for (name, kind) in catalogue::discover(&self.client).await? {
            if !kind.namespaced {
                continue;
            }
            let failed = self.empty_kind(namespace, &kind).await;
            match failed {
                Ok(left) => left.iter().for_each(|object| remains.note(&name, object)),
                Err(error) => remains.failures.push(error.to_string()),
            }
        }
        Ok(remains)
    }

    async fn empty_kind(&self, namespace: &str, kind: &Kind) -> Result<Vec<Meta>, Error> {
        let api = kind.within(&self.client, namespace);
        let found = api.list_metadata(&ListParams::default()).await?.items;
        let alive: Vec<&Meta> =
            found.iter().filter(|object| object.metadata.deletion_timestamp.is_none()).collect();
        if alive.is_empty() {
            return Ok(found);
        }
        for object in alive {
            let preconditions = Preconditions { uid: object.uid(), resource_version: None };
            let parameters =
                DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
            match api.delete(&object.name_any(), &parameters).await {
                Err(error) if is_conflict(&error) => {}
                result => unless_gone(result)?,
            }
        }
        Ok(api.list_metadata(&ListParams::default()).await?.items)
    }

    async fn finalize(&self, namespace: &Namespace) -> Result<(), Error> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let mut next = namespace.clone();
        if let Some(finalizers) = next.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
            finalizers.retain(|name| name != FINALIZER);
        }
        let name = namespace.name_any();
        unless_gone(api.replace_subresource("finalize", &name, &write_params(), &next).await)
    }

    async fn write_status(&self, namespace: &Namespace, remains: &Remains) -> Result<(), Error> {
        let status = condition::status(namespace, remains, self.clock.now());
        if namespace.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let api: Api<Namespace> = Api::all(self.client.clone());
        let next = Namespace { status: Some(status), ..namespace.clone() };
        unless_gone(api.replace_status(&namespace.name_any(), &write_params(), &next).await)
    }
}

impl Controller for Namespaces {
    type Item = String;

    const NAME: &'static str = "namespace";

    fn queue(&self) -> &Queue<String> {
        &self.queue
    }

    async fn reconcile(&self, name: &String) -> Result<Next, Error> {
        let Some(namespace) = self.namespaces.get(&Key::new("", name)).filter(|found| is_ours(found)) else {
            return Ok(Next::Rest);
        };
        let remains = self.empty(name).await?;
        if remains.is_empty() {
            self.finalize(&namespace).await?;
            return Ok(Next::Rest);
        }
        self.write_status(&namespace, &remains).await?;
        Ok(Next::Again(PATIENCE))
    }
}

/// Whether the namespace is on its way out and still waits for this controller.
fn is_ours(namespace: &Namespace) -> bool {
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    let waits = finalizers.is_some_and(|finalizers| finalizers.iter().any(|name| name == FINALIZER));
    waits && namespace.metadata.deletion_timestamp.is_some()
}
