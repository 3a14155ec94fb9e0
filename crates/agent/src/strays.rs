//! Removing slices at the hub whose offer is gone.
//!
//! Offers and slices come through two watches, so whoever takes an offer back may not see all its slices yet: the hub was
//! restored from a backup, or the agent that began it was killed. The hub's garbage collection would remove them, too, where
//! there is one.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Error, ResourceExt};
use tombolo_api::tombolo::{OFFER_LABEL, ServiceOffer};
use tombolo_model::names;
use tombolo_runtime::{Change, Controller, Key, Next, Queue, delete_unchanged};

use crate::shared::Shared;
use crate::write::is_ours;

/// Usually an offer is seen long before, and its slices go right after it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The controller of stray slices. An item is a slice of this cluster at the hub.
pub(crate) struct Strays {
    shared: Arc<Shared>,
    queue: Arc<Queue<Key>>,
}

impl Strays {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let queue: Arc<Queue<Key>> = Arc::default();
        let (add, look) = (queue.clone(), shared.clone());
        shared.hub_slices.listen_to_changes(move |change| {
            if let Change::Put { new, .. } = change
                && is_stray(&look, new)
            {
                add.add_after(Key::of(*new), PATIENCE);
            }
        });
        let (add, look) = (queue.clone(), shared.clone());
        shared.offers.listen_to_changes(move |change| {
            let Change::Gone(offer) = change else { return };
            let cluster = &look.config.cluster;
            if offer.namespace().as_deref() == Some(&names::hub_namespace(cluster)) {
                let slices = look.offered_slices(cluster, &offer.name_any());
                slices.iter().for_each(|slice| add.add_after(Key::of(&**slice), PATIENCE));
            }
        });
        Self { shared: shared.clone(), queue }
    }
}

/// Whether it is a slice of this cluster without its offer, as far as is known here.
fn is_stray(shared: &Shared, slice: &EndpointSlice) -> bool {
    let namespace = names::hub_namespace(&shared.config.cluster);
    let Some(offer) = slice.labels().get(OFFER_LABEL) else { return false };
    slice.namespace().as_deref() == Some(&namespace)
        && is_ours(slice)
        && shared.offers.get(&Key::new(namespace, offer.clone())).is_none()
}

impl Controller for Strays {
    type Item = Key;

    const NAME: &'static str = "stray slices";

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, item: &Key) -> Result<Next, Error> {
        let shared = &self.shared;
        let Some(slice) = shared.hub_slices.get(item).filter(|slice| is_stray(shared, slice)) else {
            return Ok(Next::Rest);
        };
        // The watch of offers may only be late.
        let offers: Api<ServiceOffer> = Api::namespaced(shared.hub.clone(), &item.namespace);
        let name = slice.labels().get(OFFER_LABEL).map(String::as_str).unwrap_or_default();
        let found = offers.list(&ListParams::default().fields(&format!("metadata.name={name}"))).await?;
        if !found.items.is_empty() {
            return Ok(Next::Again(PATIENCE));
        }
        delete_unchanged(&Api::namespaced(shared.hub.clone(), &item.namespace), &*slice).await?;
        Ok(Next::Rest)
    }
}
