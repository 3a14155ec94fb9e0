//! What a client may leave out of a pod, and of the template that a workload makes pods from.

use serde_json::{Value, json};

use crate::rules::field;

/// Files of volumes are readable by everybody: 0644.
const FILE_MODE: i64 = 0o644;

/// The default expiry of a projected token, in seconds.
const TOKEN_SECONDS: i64 = 3600;

/// Fills a pod.
pub(crate) fn default(pod: &mut Value) {
    if let Some(spec) = pod.get_mut("spec") {
        default_spec(spec);
    }
    field::fill_absent(pod, "spec.enableServiceLinks", true);
    if field::number(pod, "spec.terminationGracePeriodSeconds") < 0 {
        field::set(pod, "spec.terminationGracePeriodSeconds", 1);
    }
    let is_on_host = field::flag(pod, "spec.hostNetwork");
    for path in ["spec.containers", "spec.initContainers"] {
        for container in field::list_mut(pod, path) {
            requests_from_limits(container);
            if is_on_host {
                host_ports(container);
            }
        }
    }
}

/// Fills what a pod and the template of a workload have in common: the spec, given by itself.
pub(crate) fn default_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    field::fill(spec, "restartPolicy", "Always");
    field::fill(spec, "dnsPolicy", "ClusterFirst");
    field::fill(spec, "schedulerName", "default-scheduler");
    field::fill_absent(spec, "terminationGracePeriodSeconds", 30);
    field::fill_absent(spec, "securityContext", json!({}));
    accounts(spec);
    for path in ["containers", "initContainers", "ephemeralContainers"] {
        for container in field::list_mut(spec, path) {
            default_container(container);
        }
    }
    for volume in field::list_mut(spec, "volumes") {
        default_volume(volume);
    }
}

/// Two names of one field; the younger one wins.
fn accounts(spec: &mut Value) {
    let old = field::text(spec, "serviceAccount").to_owned();
    if !old.is_empty() {
        field::fill(spec, "serviceAccountName", old);
    }
    let name = field::text(spec, "serviceAccountName").to_owned();
    if !name.is_empty() {
        field::set(spec, "serviceAccount", name);
    }
}

fn default_container(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    let policy = if is_latest(field::text(container, "image")) { "Always" } else { "IfNotPresent" };
    field::fill(container, "imagePullPolicy", policy);
    field::fill(container, "terminationMessagePath", "/dev/termination-log");
    field::fill(container, "terminationMessagePolicy", "File");
    field::fill_absent(container, "resources", json!({}));
    for port in field::list_mut(container, "ports") {
        if port.is_object() {
            field::fill(port, "protocol", "TCP");
        }
    }
    for variable in field::list_mut(container, "env") {
        if field::at(variable, "valueFrom.fieldRef").is_some() {
            field::fill(variable, "valueFrom.fieldRef.apiVersion", "v1");
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(key) {
            default_probe(probe);
        }
    }
    for path in ["lifecycle.postStart.httpGet", "lifecycle.preStop.httpGet"] {
        default_request(container, path);
    }
}

fn default_probe(probe: &mut Value) {
    if !probe.is_object() {
        return;
    }
    for (key, number) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        field::fill(probe, key, number);
    }
    default_request(probe, "httpGet");
    if field::at(probe, "grpc").is_some() {
        field::fill_absent(probe, "grpc.service", "");
    }
}

fn default_request(object: &mut Value, path: &str) {
    if field::at(object, path).is_some() {
        field::fill(object, &format!("{path}.path"), "/");
        field::fill(object, &format!("{path}.scheme"), "HTTP");
    }
}

/// A volume without a source is an empty directory; a source of files has a mode.
fn default_volume(volume: &mut Value) {
    let Some(map) = volume.as_object() else { return };
    if !map.iter().any(|(key, value)| key != "name" && !value.is_null()) {
        field::set(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if field::at(volume, source).is_some() {
            field::fill_absent(volume, &format!("{source}.defaultMode"), FILE_MODE);
        }
    }
    if field::at(volume, "hostPath").is_some() {
        field::fill_absent(volume, "hostPath.type", "");
    }
    for source in field::list_mut(volume, "projected.sources") {
        if field::at(source, "serviceAccountToken").is_some() {
            field::fill_absent(source, "serviceAccountToken.expirationSeconds", TOKEN_SECONDS);
        }
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(limits) = field::at(container, "resources.limits").and_then(Value::as_object).cloned() else {
        return;
    };
    if let Some(requests) = field::section(container, "resources.requests") {
        for (resource, quantity) in limits {
            requests.entry(resource).or_insert(quantity);
        }
    }
}

fn host_ports(container: &mut Value) {
    for port in field::list_mut(container, "ports") {
        let number = field::number(port, "containerPort");
        if number != 0 {
            field::fill(port, "hostPort", number);
        }
    }
}

/// Whether the image names the tag `latest`, or neither a tag nor a digest.
fn is_latest(image: &str) -> bool {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => digest.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_pod_gets_what_kubectl_shows() {
        let mut pod = json!({"spec": {"containers": [{
            "name": "a", "image": "example.com:5000/a", "ports": [{"containerPort": 80}],
            "readinessProbe": {"httpGet": {"port": 80}},
        }], "volumes": [{"name": "v"}, {"name": "c", "configMap": {"name": "c"}}]}});
        default(&mut pod);
        assert_eq!(
            pod["spec"],
            json!({
                "containers": [{
                    "name": "a", "image": "example.com:5000/a", "imagePullPolicy": "Always",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "readinessProbe": {
                        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1,
                        "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
                    },
                    "resources": {}, "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }],
                "volumes": [
                    {"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c", "defaultMode": 420}},
                ],
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
                "terminationGracePeriodSeconds": 30, "securityContext": {}, "enableServiceLinks": true,
            })
        );
    }

    #[test]
    fn only_the_latest_image_is_always_pulled() {
        let cases = [
            ("a", true),
            ("a:latest", true),
            ("a:1.2", false),
            ("host:5000/a", true),
            ("host:5000/a:1", false),
            ("a@sha256:0", false),
            ("a:latest@sha256:0", true),
        ];
        for (image, expected) in cases {
            assert_eq!(is_latest(image), expected, "{image}");
        }
    }

    #[test]
    fn requests_follow_limits_in_pods_only() {
        let container = json!({"name": "a", "image": "b", "resources": {"limits": {"cpu": "1"}}});
        let mut pod = json!({"spec": {"containers": [container]}});
        let mut spec = pod["spec"].clone();
        default(&mut pod);
        default_spec(&mut spec);
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "1"}));
        assert_eq!(spec["containers"][0]["resources"].get("requests"), None);
    }

    #[test]
    fn defaulting_twice_changes_nothing() {
        let mut pod = json!({"spec": {"hostNetwork": true, "serviceAccount": "x", "containers": [
            {"name": "a", "image": "b:1", "ports": [{"containerPort": 80}], "livenessProbe": {"grpc": {"port": 1}}}]}});
        default(&mut pod);
        let once = pod.clone();
        default(&mut pod);
        assert_eq!(pod, once);
        assert_eq!(pod["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
        assert_eq!(pod["spec"]["serviceAccountName"], "x");
    }
}
