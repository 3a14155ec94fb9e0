//! Events of the agent: what happened, beside the objects it happened to.

use kube::Client;
use tombolo_model::happening::Happening;
use tombolo_runtime::{Clock, News};

use crate::edition::Kind;
use crate::write::MANAGER;

/// Where events are written.
pub(crate) struct Events(tombolo_runtime::Events);

impl Events {
    pub(crate) fn new(client: Client, clock: Clock, instance: &str) -> Self {
        Self(tombolo_runtime::Events::new(client, clock, MANAGER, instance))
    }

    /// Writes that something happened to an object.
    pub(crate) async fn tell<K: Kind>(&self, object: &K, happening: &Happening) {
        let Happening { severity, reason, note } = happening;
        self.0.tell(object, &News { severity: severity.as_str(), reason, note }).await;
    }
}
