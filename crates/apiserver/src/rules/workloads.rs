//! Workloads: kinds that make pods from a template, and select them by labels.
//!
//! A selector that does not fit its own template would make pods for ever, and one that changes would lose those that
//! exist; so the two are checked against each other on every write, and the selector is for life.

use serde_json::{Value, json};

use super::{field, metadata, not_negative, pod, selector, unchanged};
use crate::invalid::{FieldError, Problem};

const SELECTOR: &str = "spec.selector";
const TEMPLATE: &str = "spec.template";
/// A template of the past: it is among the workloads, but makes no pods.
const REVISION: &str = "ControllerRevision";

/// Fills what may be left out of a Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob.
pub(crate) fn default(kind: &str, object: &mut Value) {
    match kind {
        "Deployment" => deployment(object),
        "ReplicaSet" => field::fill_absent(object, "spec.replicas", 1),
        "StatefulSet" => stateful_set(object),
        "DaemonSet" => daemon_set(object),
        "Job" => job(object, "spec"),
        "CronJob" => cron_job(object),
        _ => return,
    }
    let template = if kind == "CronJob" { "spec.jobTemplate.spec.template" } else { TEMPLATE };
    if let Some(mut spec) = field::at(object, &format!("{template}.spec")).cloned() {
        pod::default_spec(&mut spec);
        field::set(object, &format!("{template}.spec"), spec);
    }
}

/// Settles a new workload: no status yet, and for a Job the labels that tell its pods from those of all others.
pub(crate) fn prepare_create(kind: &str, object: &mut Value) {
    if kind == REVISION {
        return;
    }
    field::set(object, "status", first_status(kind));
    if kind == "Job" && !field::flag(object, "spec.manualSelector") {
        identify_job(object);
    }
}

/// A status that nobody has written yet, with the numbers that are always shown.
fn first_status(kind: &str) -> Value {
    match kind {
        "ReplicaSet" => json!({"replicas": 0}),
        "StatefulSet" => json!({"replicas": 0, "availableReplicas": 0}),
        "DaemonSet" => json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        }),
        _ => json!({}),
    }
}

/// Settles a workload that replaces `old`.
pub(crate) fn prepare_update(old: &Value, new: &mut Value) {
    field::carry(old, new, "status");
}

/// Everything that is wrong with a workload. Metadata is judged elsewhere.
pub(crate) fn validate(kind: &str, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if kind == REVISION {
        return revision_rules(new, old);
    }
    let mut wrong = Vec::new();
    for path in ["spec.replicas", "spec.minReadySeconds", "spec.revisionHistoryLimit", "spec.parallelism"] {
        wrong.extend(not_negative(new, path));
    }
    if kind == "CronJob" {
        wrong.extend(cron_job_rules(new));
        return wrong;
    }
    wrong.extend(selector_rules(kind, new));
    wrong.extend(template_rules(kind, new));
    if kind == "Deployment" {
        wrong.extend(strategy_rules(new));
    }
    if let Some(old) = old {
        wrong.extend(frozen(kind).iter().filter_map(|path| unchanged(new, old, path)));
    }
    wrong
}

fn deployment(object: &mut Value) {
    field::fill_absent(object, "spec.replicas", 1);
    field::fill_absent(object, "spec.revisionHistoryLimit", 10);
    field::fill_absent(object, "spec.progressDeadlineSeconds", 600);
    field::fill(object, "spec.strategy.type", "RollingUpdate");
    if field::text(object, "spec.strategy.type") == "RollingUpdate" {
        field::fill_absent(object, "spec.strategy.rollingUpdate.maxUnavailable", "25%");
        field::fill_absent(object, "spec.strategy.rollingUpdate.maxSurge", "25%");
    }
}

fn stateful_set(object: &mut Value) {
    field::fill_absent(object, "spec.replicas", 1);
    field::fill_absent(object, "spec.revisionHistoryLimit", 10);
    field::fill(object, "spec.podManagementPolicy", "OrderedReady");
    if field::text(object, "spec.updateStrategy.type").is_empty() {
        field::set(object, "spec.updateStrategy.type", "RollingUpdate");
        field::fill_absent(object, "spec.updateStrategy.rollingUpdate", json!({}));
    }
    let is_rolling = field::text(object, "spec.updateStrategy.type") == "RollingUpdate";
    if is_rolling && field::at(object, "spec.updateStrategy.rollingUpdate").is_some() {
        field::fill_absent(object, "spec.updateStrategy.rollingUpdate.partition", 0);
        field::fill_absent(object, "spec.updateStrategy.rollingUpdate.maxUnavailable", 1);
    }
    for key in ["whenDeleted", "whenScaled"] {
        field::fill(object, &format!("spec.persistentVolumeClaimRetentionPolicy.{key}"), "Retain");
    }
}

fn daemon_set(object: &mut Value) {
    field::fill_absent(object, "spec.revisionHistoryLimit", 10);
    field::fill(object, "spec.updateStrategy.type", "RollingUpdate");
    if field::text(object, "spec.updateStrategy.type") == "RollingUpdate" {
        field::fill_absent(object, "spec.updateStrategy.rollingUpdate.maxUnavailable", 1);
        field::fill_absent(object, "spec.updateStrategy.rollingUpdate.maxSurge", 0);
    }
}

fn job(object: &mut Value, spec: &str) {
    let at = |key: &str| format!("{spec}.{key}");
    if field::at(object, &at("completions")).is_none() && field::at(object, &at("parallelism")).is_none() {
        field::set(object, &at("completions"), 1);
    }
    field::fill_absent(object, &at("parallelism"), 1);
    let per_index = field::at(object, &at("backoffLimitPerIndex")).is_some();
    field::fill_absent(object, &at("backoffLimit"), if per_index { i32::MAX } else { 6 });
    field::fill_absent(object, &at("completionMode"), "NonIndexed");
    field::fill_absent(object, &at("suspend"), false);
    field::fill_absent(object, &at("manualSelector"), false);
    let replacement =
        if field::at(object, &at("podFailurePolicy")).is_some() { "Failed" } else { "TerminatingOrFailed" };
    field::fill_absent(object, &at("podReplacementPolicy"), replacement);
    let labels = field::at(object, &at("template.metadata.labels")).cloned();
    if let Some(labels) = labels
        && spec == "spec"
        && field::members(object, "metadata.labels").next().is_none()
    {
        field::set(object, "metadata.labels", labels);
    }
}

fn cron_job(object: &mut Value) {
    field::fill(object, "spec.concurrencyPolicy", "Allow");
    field::fill_absent(object, "spec.suspend", false);
    field::fill_absent(object, "spec.successfulJobsHistoryLimit", 3);
    field::fill_absent(object, "spec.failedJobsHistoryLimit", 1);
}

/// A Job's pods carry its uid, under the old and the new name of the label, and its selector asks for it.
fn identify_job(job: &mut Value) {
    let [name, uid] = ["metadata.name", "metadata.uid"].map(|path| field::text(job, path).to_owned());
    if let Some(labels) = field::section(job, "spec.template.metadata.labels") {
        for prefix in ["", "batch.kubernetes.io/"] {
            labels.entry(format!("{prefix}job-name")).or_insert_with(|| name.clone().into());
            labels.entry(format!("{prefix}controller-uid")).or_insert_with(|| uid.clone().into());
        }
    }
    if let Some(labels) = field::section(job, "spec.selector.matchLabels") {
        labels.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| uid.into());
    }
}

fn selector_rules(kind: &str, object: &Value) -> Vec<FieldError> {
    let Some(found) = field::at(object, SELECTOR) else {
        return vec![FieldError::required(SELECTOR, "")];
    };
    let mut wrong = selector::validate(object, SELECTOR);
    if selector::is_empty(found) && kind != "Job" {
        let what = match kind {
            "StatefulSet" => "statefulset",
            "DaemonSet" => "daemonset",
            _ => "deployment",
        };
        let detail = format!("empty selector is invalid for {what}");
        wrong.push(FieldError::invalid(SELECTOR, found.clone(), detail));
    }
    let labels = field::at(object, "spec.template.metadata.labels");
    if !selector::matches(found, labels) {
        let detail = "`selector` does not match template `labels`";
        let shown = labels.cloned().unwrap_or_default();
        wrong.push(FieldError::invalid("spec.template.metadata.labels", shown, detail));
    }
    wrong
}

fn template_rules(kind: &str, object: &Value) -> Vec<FieldError> {
    let nothing = Value::Null;
    let spec = field::at(object, "spec.template.spec").unwrap_or(&nothing);
    let mut wrong = metadata::labels(object, "spec.template.metadata.labels");
    wrong.extend(pod::validate_spec(spec, "spec.template.spec"));
    let policy = field::text(spec, "restartPolicy");
    let path = "spec.template.spec.restartPolicy";
    if kind == "Job" {
        if policy == "Always" {
            let detail = "supported values: \"OnFailure\", \"Never\"";
            let problem = Problem::NotSupported(policy.into());
            wrong.push(FieldError::new(path, problem, detail));
        }
    } else if matches!(policy, "OnFailure" | "Never") {
        wrong.push(FieldError::not_supported(path, policy, &["Always"]));
    }
    wrong
}

fn strategy_rules(object: &Value) -> Vec<FieldError> {
    let path = "spec.strategy";
    let mut wrong = Vec::new();
    let rolling = field::at(object, "spec.strategy.rollingUpdate");
    match field::text(object, "spec.strategy.type") {
        "Recreate" if rolling.is_some() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            wrong.push(FieldError::forbidden(format!("{path}.rollingUpdate"), detail));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            wrong.extend(standstill(object));
        }
        _ => {
            let shown = field::at(object, path).cloned().unwrap_or_default();
            wrong.push(FieldError::not_supported(path, shown, &["Recreate", "RollingUpdate"]));
        }
    }
    let deadline = "spec.progressDeadlineSeconds";
    if field::at(object, deadline).is_some()
        && field::number(object, deadline) <= field::number(object, "spec.minReadySeconds")
    {
        let shown = field::number(object, deadline);
        wrong.push(FieldError::invalid(deadline, shown, "must be greater than minReadySeconds"));
    }
    wrong
}

/// A rollout that may neither add a pod nor take one away would never get anywhere.
fn standstill(object: &Value) -> Option<FieldError> {
    let path = "spec.strategy.rollingUpdate.maxUnavailable";
    let is_zero = |path: &str| field::at(object, path).is_some_and(|value| *value == 0 || value == "0%");
    let stands = is_zero(path) && is_zero("spec.strategy.rollingUpdate.maxSurge");
    let shown = field::at(object, path).cloned().unwrap_or_default();
    stands.then(|| FieldError::invalid(path, shown, "may not be 0 when `maxSurge` is 0"))
}

/// What was written down stays as it is; only its number may change.
fn revision_rules(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let missing = field::at(new, "data").is_none();
    let missing = missing.then(|| FieldError::required("data", "data is mandatory"));
    let changed = old.and_then(|old| unchanged(new, old, "data"));
    missing.into_iter().chain(not_negative(new, "revision")).chain(changed).collect()
}

fn cron_job_rules(object: &Value) -> Vec<FieldError> {
    let nothing = Value::Null;
    let mut wrong = Vec::new();
    if field::text(object, "spec.schedule").is_empty() {
        wrong.push(FieldError::required("spec.schedule", ""));
    }
    let path = "spec.jobTemplate.spec.template.spec";
    wrong.extend(pod::validate_spec(field::at(object, path).unwrap_or(&nothing), path));
    wrong
}

/// What may not change, by kind.
fn frozen(kind: &str) -> &'static [&'static str] {
    match kind {
        "StatefulSet" => {
            &[SELECTOR, "spec.volumeClaimTemplates", "spec.serviceName", "spec.podManagementPolicy"]
        }
        "Job" => &[SELECTOR, TEMPLATE, "spec.completionMode"],
        _ => &[SELECTOR],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(kind: &str, spec: Value) -> Value {
        let containers = json!([{"name": "a", "image": "b"}]);
        let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}});
        let mut object = json!({"metadata": {"name": "w", "uid": "u-1"}, "spec": {
            "selector": {"matchLabels": {"app": "a"}}, "template": template}});
        for (key, value) in field::members(&json!({ "x": spec }), "x") {
            object["spec"][key] = value.clone();
        }
        default(kind, &mut object);
        object
    }

    fn check(kind: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
        validate(kind, new, old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_revision_is_no_workload_and_what_it_holds_stays() {
        let old = json!({"metadata": {"name": "db-1"}, "data": {"spec": {}, "x": 1}, "revision": 1});
        let mut made = old.clone();
        prepare_create("ControllerRevision", &mut made);
        assert_eq!(made, old);
        let with = |data: Value, revision: i64| json!({"metadata": {"name": "db-1"}, "data": data, "revision": revision});
        assert_eq!(
            check("ControllerRevision", &with(old["data"].clone(), 2), Some(&old)),
            Vec::<String>::new()
        );
        let wrong = check("ControllerRevision", &with(json!({"x": 2}), -1), Some(&old));
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("revision: ") && wrong[1].ends_with("field is immutable"), "{wrong:?}");
        assert_eq!(
            check("ControllerRevision", &json!({}), None),
            ["data: Required value: data is mandatory"]
        );
    }

    #[test]
    fn a_deployment_rolls_by_a_quarter() {
        let deployment = workload("Deployment", json!({}));
        assert_eq!(deployment["spec"]["replicas"], 1);
        assert_eq!(deployment["spec"]["revisionHistoryLimit"], 10);
        assert_eq!(deployment["spec"]["progressDeadlineSeconds"], 600);
        assert_eq!(
            deployment["spec"]["strategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
        );
        assert_eq!(deployment["spec"]["template"]["spec"]["restartPolicy"], "Always");
        assert_eq!(deployment["spec"]["template"]["spec"].get("enableServiceLinks"), None);
    }

    #[test]
    fn the_other_kinds_get_their_defaults() {
        let set = workload("StatefulSet", json!({}));
        assert_eq!(
            set["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}})
        );
        assert_eq!(set["spec"]["podManagementPolicy"], "OrderedReady");
        let daemon = workload("DaemonSet", json!({}));
        assert_eq!(
            daemon["spec"]["updateStrategy"]["rollingUpdate"],
            json!({"maxUnavailable": 1, "maxSurge": 0})
        );
        assert_eq!(daemon["spec"].get("replicas"), None);
        assert_eq!(workload("ReplicaSet", json!({}))["spec"]["replicas"], 1);
        let job = workload("Job", json!({}));
        assert_eq!(job["spec"]["backoffLimit"], 6);
        assert_eq!(job["spec"]["completions"], 1);
        assert_eq!(job["metadata"]["labels"], json!({"app": "a"}));
    }

    #[test]
    fn a_job_selects_its_own_pods_only() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u-1"}, "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}});
        default("Job", &mut job);
        prepare_create("Job", &mut job);
        assert_eq!(
            job["spec"]["selector"],
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}})
        );
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
        assert_eq!(check("Job", &job, None), Vec::<String>::new());
    }

    #[test]
    fn each_mistake_is_named_where_it_is() {
        let cases = [
            ("Deployment", json!({}), vec![]),
            ("Deployment", json!({"selector": null}), vec!["spec.selector: Required value"]),
            (
                "Deployment",
                json!({"selector": {}}),
                vec!["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
            ),
            (
                "ReplicaSet",
                json!({"selector": {"matchLabels": {"app": "b"}}, "replicas": -1}),
                vec![
                    "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match \
                     template `labels`",
                ],
            ),
            (
                "Deployment",
                json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}}),
                vec![
                    "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
                ],
            ),
            (
                "Deployment",
                json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}),
                vec![
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
                ],
            ),
            (
                "Job",
                json!({}),
                vec![
                    "spec.template.spec.restartPolicy: Unsupported value: \"Always\": supported values: \
                     \"OnFailure\", \"Never\"",
                ],
            ),
        ];
        for (kind, spec, expected) in cases {
            assert_eq!(check(kind, &workload(kind, spec), None), expected);
        }
    }

    #[test]
    fn the_selector_is_for_life() {
        let old = workload("Deployment", json!({}));
        let mut new = old.clone();
        new["spec"]["selector"]["matchLabels"] = json!({"app": "a", "tier": "x"});
        new["spec"]["template"]["metadata"]["labels"] = json!({"app": "a", "tier": "x"});
        assert_eq!(
            check("Deployment", &new, Some(&old)),
            [
                "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"a\",\"tier\":\"x\"}}: field is immutable"
            ]
        );
    }
}
