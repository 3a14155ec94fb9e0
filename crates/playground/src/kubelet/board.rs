//! What is known of a pod while it is here; several tasks write it, one tells the API server.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::sync::Notify;

use super::status::{ContainerState, PodState};

/// What is known of the pod, and who wants to hear when it changes.
#[derive(Clone)]
pub(super) struct Board {
    state: Arc<Mutex<PodState>>,
    changed: Arc<Notify>,
}

impl Board {
    /// A pod of which nothing runs yet.
    pub(super) fn new(pod: &Pod, host: Ipv4Addr) -> Self {
        let spec = pod.spec.as_ref();
        let init = states(spec.and_then(|spec| spec.init_containers.as_ref()));
        let state = PodState {
            address: None,
            host,
            since: Timestamp::now(),
            initialized: init.is_empty(),
            init,
            containers: states(spec.map(|spec| &spec.containers)),
        };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, PodState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut PodState)) {
        change(&mut self.state());
        self.touch();
    }

    /// Lets whoever waits look again.
    pub(super) fn touch(&self) {
        self.changed.notify_one();
    }

    /// Waits for the next change.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn change_container(&self, slot: Slot, change: impl FnOnce(&mut ContainerState)) {
        self.change(|state| {
            let list = if slot.init { &mut state.init } else { &mut state.containers };
            if let Some(found) = list.get_mut(slot.place) {
                change(found);
            }
        });
    }
}

/// Which container of the pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) init: bool,
    pub(super) place: usize,
}

fn states(all: Option<&Vec<Container>>) -> Vec<ContainerState> {
    let new = |container: &Container| {
        ContainerState::new(&container.name, container.image.as_deref().unwrap_or_default())
    };
    all.into_iter().flatten().map(new).collect()
}
