//! The member that Works are for: its client, and what is known of its objects.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_runtime::{Boxed, Cache, Key, follow};

/// Ends the listening when it is dropped.
struct Listening(Member);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.services.stop_telling();
        self.0.slices.stop_telling();
        self.0.namespaces.stop_telling();
    }
}

/// A member.
#[derive(Clone)]
pub struct Member {
    pub client: Client,
    pub services: Arc<Cache<Service>>,
    /// Grouped by the label `kubernetes.io/service-name`; see [`Key::of_label`].
    pub slices: Arc<Cache<EndpointSlice>>,
    pub namespaces: Arc<Cache<Namespace>>,
}

impl Member {
    /// One that nobody else watches.
    pub fn new(client: Client) -> Self {
        let grouping = |slice: &EndpointSlice| {
            let service = slice.labels().get(SERVICE_NAME_LABEL);
            let namespace = slice.namespace().unwrap_or_default();
            service.map(|name| Key::of_label(namespace, SERVICE_NAME_LABEL, name)).into_iter().collect()
        };
        Self { client, services: Cache::new(), slices: Cache::grouped(grouping), namespaces: Cache::new() }
    }

    /// Keeps its caches in step, for ever; when that ends, nobody listens to them any more.
    pub fn follow(self) -> Boxed<'static> {
        Box::pin(self.keep_in_step())
    }

    async fn keep_in_step(self) {
        let all = watcher::Config::default;
        let _listening = Listening(self.clone());
        tokio::join!(
            follow(self.services, Api::all(self.client.clone()), all()),
            follow(self.slices, Api::all(self.client.clone()), all()),
            follow(self.namespaces, Api::all(self.client), all()),
        );
    }

    pub(crate) async fn synced(&self) {
        self.services.synced().await;
        self.slices.synced().await;
        self.namespaces.synced().await;
    }
}
