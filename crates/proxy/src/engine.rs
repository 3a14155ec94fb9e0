//! From what changed to what the kernel has: the one place that writes.
//!
//! Changes are gathered for a moment, decided, planned and written in one transaction. If that fails, or if somebody else
//! changed the tables, what is loaded is compared with the plan and mended.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tombolo_model::routing::Claim;
use tombolo_nft::CommitError;
use tombolo_runtime::Waiting;

use crate::Settings;
use crate::config::Config;
use crate::health::Health;
use crate::kernel::{Kernel, Written};
use crate::metrics::Metrics;
use crate::plan::{Outcome, Plan, Update};
use crate::watch::{NodeState, Pending, View};

/// After a failure.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The plan, shared with those who tell about it.
pub(crate) type SharedPlan = Arc<Mutex<Plan>>;

pub(crate) fn locked(plan: &SharedPlan) -> MutexGuard<'_, Plan> {
    plan.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What of the node the kernel has to know.
struct Surroundings {
    settings: Settings,
    /// Where pods of the node and the node itself have their addresses.
    here: Vec<IpNet>,
}

/// Why what is loaded was compared with the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Start,
    Failure,
    Settings,
    ForeignChange,
}

impl Cause {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Cause::Start => "start",
            Cause::Failure => "failure",
            Cause::Settings => "settings",
            Cause::ForeignChange => "foreign_change",
        }
    }
}

pub(crate) struct Engine {
    pub(crate) config: Config,
    pub(crate) view: Arc<View>,
    pub(crate) plan: SharedPlan,
    pub(crate) metrics: Metrics,
    pub(crate) health: Arc<Health>,
    /// Rings after each transaction.
    pub(crate) written: watch::Sender<u64>,
    pub(crate) node: NodeState,
    /// `None` while it works elsewhere, or could not be opened.
    pub(crate) kernel: Option<Kernel>,
    pub(crate) resync: Option<Cause>,
    /// When to look at the tables next.
    pub(crate) verify_at: Instant,
}

impl Engine {
    /// Works for ever.
    pub(crate) async fn run(mut self, ready: Option<Waiting>) {
        self.view.synced().await;
        let mut pending = self.view.changed().take();
        pending.services = self.view.all();
        pending.node = true;
        let mut ready = ready;
        loop {
            if self.sync(pending).await {
                ready.take();
            } else {
                sleep(TRY_AGAIN).await;
            }
            pending = self.next().await;
        }
    }

    /// What has to be done next: something changed, or it is time to look at the tables.
    async fn next(&mut self) -> Pending {
        let changed = self.view.changed().clone();
        loop {
            tokio::select! {
                () = sleep_until(self.verify_at) => {}
                () = changed.wait() => {
                    sleep(self.config.gather).await;
                    return changed.take();
                }
            }
            self.look().await;
            self.verify_at = Instant::now() + self.config.verify;
            if self.resync.is_some() {
                return changed.take();
            }
        }
    }

    /// Whether somebody else changed something, and what was counted meanwhile.
    async fn look(&mut self) {
        let Some(mut kernel) = self.kernel.take() else { return };
        let looked = tokio::task::spawn_blocking(move || {
            let seen = (kernel.is_undisturbed(), kernel.refused());
            (kernel, seen)
        });
        let Ok((kernel, (undisturbed, refused))) = looked.await else { return };
        self.kernel = Some(kernel);
        // Without our tables there is nothing to count, which is as good a sign.
        if !matches!(undisturbed, Ok(true)) || refused.is_err() {
            self.resync = Some(Cause::ForeignChange);
        }
        self.metrics.note_refused(refused.unwrap_or_default());
    }

    /// Whether everything is in the kernel now.
    async fn sync(&mut self, pending: Pending) -> bool {
        let begin = Instant::now();
        self.note_node(&pending);
        let keys =
            if self.resync == Some(Cause::Settings) { self.view.all() } else { pending.services.clone() };
        let updates: Vec<Update> =
            keys.union(&pending.services).map(|key| self.view.update(key, &self.node.routing)).collect();
        let (resync, failed_before) = (self.resync, self.resync == Some(Cause::Failure));
        let done = self.write(updates, resync).await;
        match done {
            Ok(written) => {
                self.resync = None;
                self.metrics.note_sync(&pending, &written, resync, begin, self.config.clock.now());
                self.health.note_written();
                self.written.send_modify(|count| *count += 1);
                true
            }
            Err(error) => {
                self.metrics.note_failure();
                if failed_before {
                    tracing::debug!(%error, "will try again");
                } else {
                    tracing::warn!(%error, "the kernel's tables could not be written; trying again");
                }
                self.resync = Some(Cause::Failure);
                self.view.changed().restore(pending);
                false
            }
        }
    }

    /// Other labels or ranges of the node change routes and rules.
    fn note_node(&mut self, pending: &Pending) {
        if !pending.node {
            return;
        }
        let node = self.view.node();
        self.health.note_node(!node.leaving);
        if !node.is_routed_like(&self.node) {
            // At the start everything is new anyway.
            if self.resync != Some(Cause::Start) {
                self.resync = Some(Cause::Settings);
            }
        }
        self.node = node;
    }

    fn surroundings(&self) -> Surroundings {
        let settings = Settings {
            pods: self.node.pod_cidrs.clone(),
            node_port_addresses: self.config.node_port_addresses.clone(),
            masquerade_all: self.config.masquerade_all,
            services: self.node.service_cidrs.clone(),
        };
        let own = self.node.routing.addresses.iter().copied().map(IpNet::from);
        Surroundings { here: settings.pods.iter().copied().chain(own).collect(), settings }
    }

    /// The kernel is spoken to on a thread where waiting hurts nobody.
    async fn write(&mut self, updates: Vec<Update>, resync: Option<Cause>) -> Result<Written, CommitError> {
        let (surroundings, plan) = (self.surroundings(), self.plan.clone());
        let (held, namespace, metrics) =
            (self.kernel.take(), self.config.namespace.clone(), self.metrics.clone());
        let work = move || {
            let mut kernel = match held {
                Some(kernel) => kernel,
                None => match Kernel::open(namespace.as_deref(), &surroundings.settings) {
                    Ok(kernel) => kernel,
                    Err(error) => return (None, Err(CommitError::Socket(error))),
                },
            };
            let written = write(&mut kernel, &plan, updates, &surroundings, resync, &metrics);
            // Answers that were not read might be taken for those to the next question.
            let is_sound = !matches!(written, Err(CommitError::Socket(_)));
            (is_sound.then_some(kernel), written)
        };
        match tokio::task::spawn_blocking(work).await {
            Ok((kernel, written)) => {
                self.kernel = kernel;
                written
            }
            Err(ended) => Err(CommitError::Socket(std::io::Error::other(ended))),
        }
    }
}

fn write(
    kernel: &mut Kernel,
    plan: &SharedPlan,
    updates: Vec<Update>,
    surroundings: &Surroundings,
    resync: Option<Cause>,
    metrics: &Metrics,
) -> Result<Written, CommitError> {
    let mut plan = locked(plan);
    let clashes_before = plan.clashes().count();
    let Outcome { changes, gone } = match resync {
        // Everything is new, and compared as a whole.
        Some(Cause::Start) => {
            plan.load(updates);
            Outcome::default()
        }
        _ => plan.update(updates),
    };
    if plan.clashes().count() > clashes_before {
        report_clashes(&plan);
    }
    let written = match resync {
        // What changed before may not have been written.
        Some(cause) => {
            kernel.configure(&surroundings.settings);
            let written = kernel.adopt(&plan)?;
            tracing::info!(
                cause = cause.as_str(),
                elements = written.elements,
                anew = written.anew,
                "resync"
            );
            // Where nothing differs, nothing was missed.
            if cause != Cause::ForeignChange || written.elements > 0 || written.anew {
                sweep(kernel, &plan, surroundings, metrics);
            }
            written
        }
        None => match kernel.apply(&changes) {
            Err(error) if error.is_full() => {
                tracing::info!(%error, "the tables are made anew, with more room");
                kernel.renew(&plan)?
            }
            outcome => outcome?,
        },
    };
    drop(plan);
    if let Err(error) = kernel.unstick(&changes.unstuck()) {
        tracing::warn!(%error, "clients may stick to backends that are gone");
    }
    if !gone.is_empty() {
        forget(kernel, &gone, metrics);
    }
    Ok(written)
}

/// What clients hold on to from before, and nobody serves any more.
fn sweep(kernel: &mut Kernel, plan: &Plan, surroundings: &Surroundings, metrics: &Metrics) {
    if let Err(error) = kernel.sweep_affinity(plan, &surroundings.here) {
        tracing::warn!(%error, "clients may stick to backends that went before");
    }
    let begin = Instant::now();
    match kernel.sweep_flows(plan, &surroundings.settings.services) {
        Ok(forgotten) => metrics.note_forgotten(forgotten, begin.elapsed()),
        Err(error) => tracing::warn!(%error, "UDP clients may still be sent to servers that went before"),
    }
}

fn forget(kernel: &mut Kernel, gone: &BTreeSet<(Claim, SocketAddr)>, metrics: &Metrics) {
    let begin = Instant::now();
    match kernel.forget(gone) {
        Ok(forgotten) => metrics.note_forgotten(forgotten, begin.elapsed()),
        Err(error) => tracing::warn!(%error, "UDP clients may still be sent to servers that are gone"),
    }
}

fn report_clashes(plan: &Plan) {
    for (claim, services) in plan.clashes().take(10) {
        let names: Vec<String> = services.iter().map(ToString::to_string).collect();
        tracing::warn!(
            ?claim,
            services = names.join(", "),
            "several Services claim one frontend; the first has it"
        );
    }
}
