//! Tables of the kinds that make pods.

use jiff::Timestamp;
use serde_json::Value;

use super::network::selected;
use super::plain::{self, row, text_or};
use super::{Column, Printer, age};
use crate::rules::{field, selector};

const DESIRED: Column = Column::number("Desired", "How many pods there should be.");
const CURRENT: Column = Column::number("Current", "How many pods there are.");
const READY: Column = Column::number("Ready", "How many pods are ready.");
const READY_OF: Column = Column::text("Ready", "How many of the pods are ready.");
const CONTAINERS: Column = Column::text("Containers", "The names of the containers in the template.").wide();
const IMAGES: Column = Column::text("Images", "The images of the containers in the template.").wide();
const SELECTOR: Column = Column::text("Selector", "The labels of the pods.").wide();

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "apps",
        kind: "Deployment",
        columns: &[
            Column::NAME,
            READY_OF,
            Column::text("Up-to-date", "How many pods are made from the current template."),
            Column::text("Available", "How many pods have been ready for long enough."),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: deployment,
    },
    Printer {
        group: "apps",
        kind: "ReplicaSet",
        columns: &[Column::NAME, DESIRED, CURRENT, READY, Column::AGE, CONTAINERS, IMAGES, SELECTOR],
        cells: replica_set,
    },
    Printer {
        group: "apps",
        kind: "StatefulSet",
        columns: &[Column::NAME, READY_OF, Column::AGE, CONTAINERS, IMAGES],
        cells: stateful_set,
    },
    Printer {
        group: "apps",
        kind: "DaemonSet",
        columns: &[
            Column::NAME,
            DESIRED,
            CURRENT,
            READY,
            Column::number("Up-to-date", "How many pods are made from the current template."),
            Column::number("Available", "How many pods have been ready for long enough."),
            Column::text("Node Selector", "The labels of the nodes that get a pod."),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: daemon_set,
    },
    Printer {
        group: "batch",
        kind: "Job",
        columns: &[
            Column::NAME,
            Column::text("Status", "How the job is doing."),
            Column::text("Completions", "How many pods have succeeded, of how many."),
            Column::text("Duration", "How long the job has been running, or ran."),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: job,
    },
    Printer {
        group: "batch",
        kind: "CronJob",
        columns: &[
            Column::NAME,
            Column::text("Schedule", "When jobs are started, in the notation of cron."),
            Column::text("Timezone", "The time zone of the schedule."),
            Column::flag("Suspend", "Whether no new jobs are started."),
            Column::number("Active", "How many jobs are running."),
            Column::text("Last Schedule", "The time since a job was last started."),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: cron_job,
    },
];

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = ready_of(object);
    let [updated, available] = ["updatedReplicas", "availableReplicas"].map(|key| status(object, key));
    let mut cells = row(object, now, [ready, updated, available]);
    cells.extend(containers(object, "spec.template"));
    cells.push(selector::text(field::at(object, "spec.selector")).into());
    cells
}

fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let desired = field::number(object, "spec.replicas").into();
    let [current, ready] = ["replicas", "readyReplicas"].map(|key| status(object, key));
    let mut cells = row(object, now, [desired, current, ready]);
    cells.extend(containers(object, "spec.template"));
    cells.push(selected(object, "spec.selector"));
    cells
}

fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = row(object, now, [ready_of(object)]);
    cells.extend(containers(object, "spec.template"));
    cells
}

fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [desired, current, ready, updated, available] = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ]
    .map(|key| status(object, key));
    let nodes = plain::labels(object, "spec.template.spec.nodeSelector");
    let mut cells = row(object, now, [desired, current, ready, updated, available, nodes]);
    cells.extend(containers(object, "spec.template"));
    cells.push(selected(object, "spec.selector"));
    cells
}

fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let state = job_state(object).into();
    let mut cells = row(object, now, [state, completions(object).into(), duration(object, now).into()]);
    cells.extend(containers(object, "spec.template"));
    cells.push(selected(object, "spec.selector"));
    cells
}

fn job_state(object: &Value) -> &'static str {
    let holds = |kind: &str| {
        let mut conditions = field::list(object, "status.conditions").iter();
        conditions
            .find(|condition| field::text(condition, "type") == kind)
            .is_some_and(|condition| field::text(condition, "status") == "True")
    };
    let is_terminating = field::at(object, "metadata.deletionTimestamp").is_some();
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if is_terminating => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(object: &Value) -> String {
    let succeeded = field::number(object, "status.succeeded");
    let parallelism = field::number(object, "spec.parallelism");
    match field::at(object, "spec.completions") {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn duration(object: &Value, now: Timestamp) -> String {
    let end = age::time(object, "status.completionTime").unwrap_or(now);
    age::time(object, "status.startTime").map(|start| age::elapsed(start, end)).unwrap_or_default()
}

fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let last = match field::at(object, "status.lastScheduleTime") {
        Some(_) => age::since(object, "status.lastScheduleTime", now),
        None => "<none>".to_owned(),
    };
    // The column is of booleans, the cell a text: so it is upstream.
    let suspend = match field::at(object, "spec.suspend") {
        Some(Value::Bool(true)) => "True",
        Some(_) => "False",
        None => "<unset>",
    };
    let schedule = field::text(object, "spec.schedule").into();
    let zone = text_or(object, "spec.timeZone", "<none>");
    let active = field::list(object, "status.active").len().into();
    let mut cells = row(object, now, [schedule, zone, suspend.into(), active, last.into()]);
    cells.extend(containers(object, "spec.jobTemplate.spec.template"));
    cells.push(selected(object, "spec.jobTemplate.spec.selector"));
    cells
}

fn ready_of(object: &Value) -> Value {
    let ready = field::number(object, "status.readyReplicas");
    format!("{ready}/{}", field::number(object, "spec.replicas")).into()
}

fn status(object: &Value, key: &str) -> Value {
    field::number(object, &format!("status.{key}")).into()
}

/// The names and the images of the containers in a template.
fn containers(object: &Value, template: &str) -> [Value; 2] {
    let containers = field::list(object, &format!("{template}.spec.containers"));
    ["name", "image"].map(|key| {
        let texts: Vec<_> = containers.iter().map(|container| field::text(container, key)).collect();
        texts.join(",").into()
    })
}
