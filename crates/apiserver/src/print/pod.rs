//! The table of pods, whose status column says more than any field of the object.
//!
//! The phase of a pod is nearly always `Running` or `Pending`; what people want to know is what its containers are
//! doing. So the column shows the most telling state among them, the deletion of the pod above all.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plain::text_or;
use super::{Column, Printer, age, plain};
use crate::rules::field;

pub(super) const PRINTERS: &[Printer] = &[Printer {
    group: "",
    kind: "Pod",
    columns: &[
        Column::NAME,
        Column::text("Ready", "How many of the containers are ready."),
        Column::text("Status", "What the containers are doing, taken together."),
        Column::text("Restarts", "How often containers were restarted, and how long ago the last time."),
        Column::AGE,
        Column::text("IP", "The address of the pod.").wide(),
        Column::text("Node", "The node that the pod is on.").wide(),
        Column::text("Nominated Node", "The node on which room is being made for the pod.").wide(),
        Column::text("Readiness Gates", "How many of the extra conditions of readiness hold.").wide(),
    ],
    cells,
}];

/// A row that is marked as completed can be left out by a client.
pub(super) fn conditions(pod: &Value) -> Vec<Value> {
    let (reason, message) = match field::text(pod, "status.phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let ip = field::list(pod, "status.podIPs").first().map_or("", |ip| field::text(ip, "ip"));
    vec![
        plain::name(pod),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.status.into(),
        restarts(summary.restarts, now).into(),
        age::of(pod, now),
        if ip.is_empty() { "<none>" } else { ip }.into(),
        text_or(pod, "spec.nodeName", "<none>"),
        text_or(pod, "status.nominatedNodeName", "<none>"),
        gates(pod).into(),
    ]
}

fn restarts(restarts: Restarts, now: Timestamp) -> String {
    match restarts {
        Restarts { count, last: Some(last) } if count != 0 => {
            format!("{count} ({} ago)", age::elapsed(last, now))
        }
        Restarts { count, .. } => count.to_string(),
    }
}

fn gates(pod: &Value) -> String {
    let gates = field::list(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let holds = |gate: &&Value| has_condition(pod, field::text(gate, "conditionType"));
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len())
}

fn has_condition(pod: &Value, kind: &str) -> bool {
    let mut conditions = field::list(pod, "status.conditions").iter();
    conditions
        .find(|condition| field::text(condition, "type") == kind)
        .is_some_and(|condition| field::text(condition, "status") == "True")
}

/// How often containers were restarted, and when the last one had ended.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += field::number(container, "restartCount");
        self.last = self.last.max(age::time(container, "lastState.terminated.finishedAt"));
    }
}

/// What the containers of a pod are doing, taken together.
struct Summary {
    ready: usize,
    total: usize,
    status: String,
    restarts: Restarts,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let sidecars =
            field::list(pod, "spec.initContainers").iter().filter(|container| is_sidecar(container));
        let mut summary = Self {
            ready: 0,
            total: field::list(pod, "spec.containers").len() + sidecars.count(),
            status: phase(pod),
            restarts: Restarts::default(),
        };
        let sidecar_restarts = summary.initialise(pod);
        if let Some(restarts) = sidecar_restarts {
            summary.restarts = restarts;
            summary.run(pod);
        }
        summary.end(pod);
        summary
    }

    /// Looks at the init containers up to the one that is not done; what the sidecars among them have restarted when
    /// the pod is past them.
    fn initialise(&mut self, pod: &Value) -> Option<Restarts> {
        let mut sidecar_restarts = Restarts::default();
        let total = field::list(pod, "spec.initContainers").len();
        let mut is_initialising = false;
        for (index, container) in field::list(pod, "status.initContainerStatuses").iter().enumerate() {
            self.restarts.add(container);
            let is_sidecar = is_sidecar_of(pod, field::text(container, "name"));
            if is_sidecar {
                sidecar_restarts.add(container);
            }
            if is_sidecar && field::flag(container, "started") && exit_code(container) != Some(0) {
                self.ready += usize::from(field::flag(container, "ready"));
            } else if exit_code(container) != Some(0) {
                self.status = initialising(container, index, total);
                is_initialising = true;
                break;
            }
        }
        (!is_initialising || has_condition(pod, "Initialized")).then_some(sidecar_restarts)
    }

    /// Looks at the containers from the last to the first, whose state counts most.
    fn run(&mut self, pod: &Value) {
        let mut is_any_running = false;
        let mut failure = None;
        for container in field::list(pod, "status.containerStatuses").iter().rev() {
            self.restarts.add(container);
            let waiting = field::text(container, "state.waiting.reason");
            if !waiting.is_empty() {
                self.status = waiting.to_owned();
            } else if let Some(code) = exit_code(container) {
                self.status = terminated(container, "");
                if code != 0 {
                    failure = Some(self.status.clone());
                }
            } else if field::flag(container, "ready") && field::at(container, "state.running").is_some() {
                is_any_running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" {
            self.status = match failure {
                _ if is_any_running && has_condition(pod, "Ready") => "Running".to_owned(),
                Some(failure) => failure,
                None if is_any_running => "NotReady".to_owned(),
                None => return,
            };
        }
    }

    /// A pod that is being deleted is `Terminating`, unless it has ended already.
    fn end(&mut self, pod: &Value) {
        if field::at(pod, "metadata.deletionTimestamp").is_none() {
            return;
        }
        if field::text(pod, "status.reason") == "NodeLost" {
            self.status = "Unknown".to_owned();
        } else if !matches!(field::text(pod, "status.phase"), "Succeeded" | "Failed") {
            self.status = "Terminating".to_owned();
        }
    }
}

fn phase(pod: &Value) -> String {
    let mut conditions = field::list(pod, "status.conditions").iter();
    let is_gated = conditions.any(|condition| {
        field::text(condition, "type") == "PodScheduled"
            && field::text(condition, "reason") == "SchedulingGated"
    });
    match field::text(pod, "status.reason") {
        _ if is_gated => "SchedulingGated",
        "" => field::text(pod, "status.phase"),
        reason => reason,
    }
    .to_owned()
}

fn initialising(container: &Value, index: usize, total: usize) -> String {
    if field::at(container, "state.terminated").is_some() {
        return terminated(container, "Init:");
    }
    match field::text(container, "state.waiting.reason") {
        "" | "PodInitializing" => format!("Init:{index}/{total}"),
        reason => format!("Init:{reason}"),
    }
}

fn terminated(container: &Value, prefix: &str) -> String {
    let reason = field::text(container, "state.terminated.reason");
    let signal = field::number(container, "state.terminated.signal");
    match (reason, signal) {
        ("", 0) => format!("{prefix}ExitCode:{}", field::number(container, "state.terminated.exitCode")),
        ("", signal) => format!("{prefix}Signal:{signal}"),
        (reason, _) => format!("{prefix}{reason}"),
    }
}

fn exit_code(container: &Value) -> Option<i64> {
    field::at(container, "state.terminated").map(|terminated| field::number(terminated, "exitCode"))
}

/// An init container that keeps running beside the others.
fn is_sidecar(container: &Value) -> bool {
    field::text(container, "restartPolicy") == "Always"
}

fn is_sidecar_of(pod: &Value, name: &str) -> bool {
    let mut containers = field::list(pod, "spec.initContainers").iter();
    containers.any(|container| field::text(container, "name") == name && is_sidecar(container))
}
