//! A part that runs as a process: it leads or stands by, answers at its admin endpoint, and ends in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tombolo_runtime::{Admin, Candidate, Clock, Readiness, Waiting};

use crate::failure::Failure;
use crate::interrupt::interrupted;

/// Who does not lead by then stands by, which is what a second process is for: it is ready.
const STANDBY_AFTER: Duration = Duration::from_secs(5);
/// How long the end may take before it is forced.
const DRAIN: Duration = Duration::from_secs(10);

/// What tells this process from others that compete for the same lease.
pub(crate) fn identity(part: &str, clock: &Clock) -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| part.to_owned());
    format!("{host}_{}_{}", std::process::id(), clock.now().as_nanosecond())
}

/// Whether this process leads, or is content to stand by.
#[derive(Clone)]
pub(crate) struct Leading {
    waiting: Arc<Mutex<Option<Waiting>>>,
    working: Arc<AtomicBool>,
}

impl Leading {
    pub(crate) fn wait_in(readiness: &Readiness) -> Self {
        let waiting = Some(readiness.wait_for("leadership"));
        Self { waiting: Arc::new(Mutex::new(waiting)), working: Arc::default() }
    }

    fn decided(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Everything that runs beside the part itself.
pub(crate) struct Process {
    /// What the part is called.
    pub(crate) name: &'static str,
    pub(crate) admin: Admin,
    pub(crate) leading: Leading,
    /// Who competes for leadership; without one the part works at once.
    pub(crate) candidate: Option<Candidate>,
    /// Where the lease is.
    pub(crate) client: Client,
}

impl Process {
    /// Runs the part that `start` makes until somebody interrupts the process.
    pub(crate) async fn run<F>(self, start: impl FnOnce(Stopped) -> F) -> Result<(), Failure>
    where
        F: Future<Output = ()>,
    {
        self.run_until(interrupted(), start).await
    }

    /// Runs the part that `start` makes, which ends when the future it is given resolves, until `ended` does.
    pub(crate) async fn run_until<F>(
        self,
        ended: impl Future<Output = Result<(), Failure>>,
        start: impl FnOnce(Stopped) -> F,
    ) -> Result<(), Failure>
    where
        F: Future<Output = ()>,
    {
        let (stop, stopping) = watch::channel(false);
        let leading = self.leading.clone();
        let work = async move {
            self.leading.working.store(true, Ordering::Relaxed);
            self.leading.decided();
            start(Box::pin(stopped(stopping))).await;
        };
        let led = async move {
            match self.candidate {
                Some(candidate) => candidate.lead(self.client, work).await,
                None => work.await,
            }
        };
        let standby = async {
            tokio::time::sleep(STANDBY_AFTER).await;
            leading.decided();
            std::future::pending::<()>().await;
        };
        tokio::pin!(led);
        tokio::select! {
            () = &mut led => {
                return Err(Failure::new(format!("the {} ended by itself, or does not lead any more", self.name)));
            }
            () = standby => {}
            () = self.admin.run(std::future::pending()) => {}
            asked = ended => asked?,
        }
        tracing::info!("stopping");
        let _ = stop.send(true);
        // Who never led has nothing to finish.
        if leading.working.load(Ordering::Relaxed) && tokio::time::timeout(DRAIN, led).await.is_err() {
            tracing::warn!("not everything ended in time");
        }
        Ok(())
    }
}

/// Resolves when the process is asked to end.
pub(crate) type Stopped = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

async fn stopped(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}
