//! One pod on its node, from the first wire to the last process.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container as Spec, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tombolo_runtime::unless_gone;

use super::board::{Board, Slot};
use super::container::{Container, Ended};
use super::launch::{Launch, Place};
use super::probing::Probes;
use super::status::{End, Life, phase, status};
use super::{Host, Running};
use crate::namespace::Namespace;

/// The pause before a container that keeps ending is started again: doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Who has run for so long starts again at once.
const STEADY: Duration = Duration::from_secs(60);
/// The API server may be away.
const RETRY: Duration = Duration::from_millis(500);

/// Everything about a pod that stays the same while it is here.
struct Work {
    host: Arc<Host>,
    pod: Arc<Pod>,
    place: Place,
    network: Namespace,
    board: Board,
}

/// Looks after a pod until it has gone. `latest` is the pod as the API server last told it, nothing once it is gone there.
pub(super) async fn run(host: Arc<Host>, mut latest: watch::Receiver<Option<Arc<Pod>>>) {
    let Some(pod) = latest.borrow_and_update().clone() else { return };
    let board = Board::new(&pod, host.plan.address());
    let (network, place) = loop {
        match host.join(&pod).await {
            Ok(joined) => break joined,
            Err(error) => {
                tracing::warn!(pod = pod.name_any(), %error, "a pod gets no network");
                if tokio::time::timeout(RETRY, ended(&mut latest)).await.is_ok() {
                    return finish(&host, &latest).await;
                }
            }
        }
    };
    board.change(|state| state.address = Some(place.address));
    let work = Arc::new(Work { host: host.clone(), pod: pod.clone(), place, network, board: board.clone() });
    {
        let live = work.live();
        let report = report(&host, &board, latest.clone());
        tokio::pin!(live, report);
        let grace = tokio::select! {
            grace = ended(&mut latest) => grace,
            never = &mut live => match never {},
            never = &mut report => match never {},
        };
        // From here on nothing is started again, since nobody looks; dropped too early, the containers would be killed.
        host.end(&pod, grace).await;
    }
    host.part(&pod).await;
    finish(&host, &latest).await;
}

/// Waits until the pod shall go, and says how long it may take.
async fn ended(latest: &mut watch::Receiver<Option<Arc<Pod>>>) -> Duration {
    let going =
        |pod: &Option<Arc<Pod>>| pod.as_ref().is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
    match latest.wait_for(going).await.ok().and_then(|pod| pod.clone()) {
        Some(pod) => {
            let seconds =
                pod.metadata.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            Duration::from_secs(seconds.unwrap_or(30))
        }
        None => Duration::ZERO,
    }
}

/// Tells the API server that nothing is left.
async fn finish(host: &Host, latest: &watch::Receiver<Option<Arc<Pod>>>) {
    loop {
        let Some(pod) = latest.borrow().clone() else { return };
        let api: Api<Pod> = Api::namespaced(host.client.clone(), &pod.namespace().unwrap_or_default());
        let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        match unless_gone(api.delete(&pod.name_any(), &parameters).await) {
            Ok(()) => return,
            Err(kube::Error::Api(status)) if status.code == 409 => return,
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// Writes the status whenever it changes, for ever.
async fn report(host: &Host, board: &Board, mut pods: watch::Receiver<Option<Arc<Pod>>>) -> Infallible {
    let mut sent = None;
    loop {
        let Some(pod) = pods.borrow_and_update().clone() else { return std::future::pending().await };
        let told = status(&pod, &board.state(), Timestamp::now());
        if sent.as_ref() != Some(&told) {
            let api: Api<Pod> = Api::namespaced(host.client.clone(), &pod.namespace().unwrap_or_default());
            let patch = json!({"metadata": {"uid": pod.uid()}, "status": &told});
            let parameters =
                PatchParams { field_manager: Some("kubelet".to_owned()), ..PatchParams::default() };
            let written = api.patch_status(&pod.name_any(), &parameters, &Patch::Strategic(patch)).await;
            match unless_gone(written) {
                Ok(()) => sent = Some(told),
                Err(error) => {
                    tracing::debug!(pod = pod.name_any(), %error, "a status could not be written");
                    tokio::time::sleep(RETRY).await;
                    board.touch();
                }
            }
        }
        // A change of the pod itself counts, too: a gate may have opened.
        tokio::select! {
            () = board.changed() => {}
            changed = pods.changed() => if changed.is_err() { return std::future::pending().await },
        }
    }
}

impl Work {
    /// Runs all containers. Never returns: a pod that is done waits for its deletion.
    async fn live(self: Arc<Self>) -> Infallible {
        let spec = self.pod.spec.as_ref();
        let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
        let mut tasks = JoinSet::new();
        for (place, container) in init.iter().enumerate() {
            let slot = Slot { init: true, place };
            if container.restart_policy.as_deref() == Some("Always") {
                tasks.spawn(self.clone().supervise(slot, container.clone()));
            } else if !self.clone().supervise(slot, container.clone()).await {
                return std::future::pending().await;
            }
        }
        self.board.change(|state| state.initialized = true);
        for (place, container) in
            spec.map(|spec| spec.containers.as_slice()).unwrap_or_default().iter().enumerate()
        {
            tasks.spawn(self.clone().supervise(Slot { init: false, place }, container.clone()));
        }
        while tasks.join_next().await.is_some() {}
        tracing::debug!(
            pod = self.pod.name_any(),
            phase = phase(&self.board.state()),
            "all containers have ended"
        );
        std::future::pending().await
    }

    /// Whether a container that ended is started again.
    fn starts_again(&self, slot: Slot, container: &Spec, code: i32) -> bool {
        let policy =
            self.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
        if slot.init {
            let sidecar = container.restart_policy.as_deref() == Some("Always");
            return sidecar || (code != 0 && policy != "Never");
        }
        policy == "Always" || (policy == "OnFailure" && code != 0)
    }

    /// Runs a container, again and again if it has to. Returns whether it did its work in the end.
    async fn supervise(self: Arc<Self>, slot: Slot, container: Spec) -> bool {
        let mut pause = Duration::ZERO;
        loop {
            let begun = tokio::time::Instant::now();
            let end = match self.run_once(slot, &container).await {
                Ok(end) => end,
                Err(message) => {
                    let reason = "CreateContainerError";
                    self.board.change_container(slot, |state| state.life = Life::Waiting { reason, message });
                    tokio::time::sleep(LONGEST_PAUSE).await;
                    continue;
                }
            };
            if !self.starts_again(slot, &container, end.code) {
                self.board.change_container(slot, |state| state.life = Life::Ended(end));
                return end.code == 0;
            }
            if begun.elapsed() > STEADY {
                pause = Duration::ZERO;
            }
            // Before anybody is told that it was started again, and may ask.
            self.host.end_life(&self.pod, &container.name);
            self.board.change_container(slot, |state| {
                let message = format!("back-off {}s restarting a container that ended", pause.as_secs());
                state.life = Life::Waiting { reason: "CrashLoopBackOff", message };
                state.before = Some(end);
                state.restarts += 1;
                (state.ready, state.started) = (false, false);
            });
            tokio::time::sleep(pause).await;
            pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        }
    }

    /// One life of a container.
    async fn run_once(&self, slot: Slot, container: &Spec) -> Result<End, String> {
        let launch = Launch::new(&self.pod, container, &self.place)?;
        let log = Arc::default();
        let running =
            Container::start(launch, &self.network, log).await.map_err(|error| error.to_string())?;
        let since = Timestamp::now();
        let running = Arc::new(running);
        self.host.begin_life(&self.pod, &container.name, running.log().clone());
        let _shown = Running::show(&self.host, &self.pod, &container.name, &running);
        let probes = Probes::new(container, self.place.address);
        self.board.change_container(slot, |state| {
            state.life = Life::Running { since };
            (state.started, state.ready) = probes.at_first();
        });
        let watch = probes.watch(&running, &self.board, slot);
        let Ended { code, at } = tokio::select! {
            ended = running.ended() => ended,
            () = watch => self.replace(&running).await,
        };
        Ok(End { code, since, at })
    }

    /// Ends a container that does not live any more.
    async fn replace(&self, running: &Container) -> Ended {
        let grace =
            self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        running.terminate();
        if let Ok(ended) = tokio::time::timeout(grace, running.ended()).await {
            return ended;
        }
        running.kill();
        running.ended().await
    }
}
