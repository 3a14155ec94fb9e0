//! When a container's probes are asked, and what follows from their answers.

use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container as Spec;

use super::board::{Board, Slot};
use super::container::{Container, Door};
use super::probe::Prober;

/// The probes of a container.
pub(super) struct Probes {
    startup: Option<Prober>,
    readiness: Option<Prober>,
    liveness: Option<Prober>,
}

impl Probes {
    pub(super) fn new(container: &Spec, address: Ipv4Addr) -> Self {
        let prober = |probe: &Option<_>| Prober::new(probe.as_ref(), container, address);
        Self {
            startup: prober(&container.startup_probe),
            readiness: prober(&container.readiness_probe),
            liveness: prober(&container.liveness_probe),
        }
    }

    /// Whether a container that has just begun has started and is ready.
    pub(super) fn at_first(&self) -> (bool, bool) {
        let started = self.startup.is_none();
        (started, started && self.readiness.is_none())
    }

    /// Asks all of them; returns when the container has to be replaced.
    pub(super) async fn watch(&self, running: &Container, board: &Board, slot: Slot) {
        let door = running.door();
        if let Some(startup) = &self.startup {
            if !settle(startup, &door).await {
                return;
            }
            board.change_container(slot, |state| {
                state.started = true;
                state.ready = self.readiness.is_none();
            });
        }
        let readiness = async {
            let Some(prober) = &self.readiness else { return std::future::pending().await };
            loop {
                until_good(prober, &door).await;
                board.change_container(slot, |state| state.ready = true);
                until_bad(prober, &door).await;
                board.change_container(slot, |state| state.ready = false);
            }
        };
        let liveness = async {
            let Some(prober) = &self.liveness else { return std::future::pending().await };
            tokio::time::sleep(prober.delay).await;
            until_bad(prober, &door).await;
        };
        tokio::select! {
            never = readiness => never,
            () = liveness => {}
        }
    }
}

/// Asks until either threshold is reached, and says whether it was that of success.
async fn settle(prober: &Prober, door: &Door) -> bool {
    tokio::time::sleep(prober.delay).await;
    let (mut good, mut bad) = (0, 0);
    loop {
        (good, bad) = if prober.ask(door).await { (good + 1, 0) } else { (0, bad + 1) };
        if good >= prober.successes || bad >= prober.failures {
            return bad == 0;
        }
        tokio::time::sleep(prober.period).await;
    }
}

/// Asks until it has failed often enough.
async fn until_bad(prober: &Prober, door: &Door) {
    let mut bad = 0;
    while bad < prober.failures {
        tokio::time::sleep(prober.period).await;
        bad = if prober.ask(door).await { 0 } else { bad + 1 };
    }
}

/// Asks until it has succeeded often enough. At first more often than later: who waits wants to know soon.
async fn until_good(prober: &Prober, door: &Door) {
    tokio::time::sleep(prober.delay).await;
    let (mut good, mut pause) = (0, Duration::from_millis(100));
    loop {
        good = if prober.ask(door).await { good + 1 } else { 0 };
        if good >= prober.successes {
            return;
        }
        tokio::time::sleep(pause.min(prober.period)).await;
        pause *= 2;
    }
}
