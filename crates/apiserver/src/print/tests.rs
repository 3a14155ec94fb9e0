//! What `kubectl get` shows, kind by kind.

use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-11-15T10:00:00Z".parse().expect("a time")
}

/// The object with a name and an age of five minutes.
fn named(mut object: Value) -> Value {
    object["metadata"]["name"] = "x".into();
    object["metadata"]["creationTimestamp"] = "2026-11-15T09:55:00Z".into();
    object
}

/// The cells of an object, separated as on a screen.
fn line(group: &str, kind: &str, object: Value) -> String {
    let cells = cells(group, kind, &named(object), now());
    assert_eq!(cells.len(), columns(group, kind).len(), "{kind} has a cell for every column");
    let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
    cells.iter().map(text).collect::<Vec<_>>().join(" | ")
}

fn headers(group: &str, kind: &str) -> String {
    let show = |column: &Column| format!("{}{}", column.name, if column.priority > 0 { "*" } else { "" });
    columns(group, kind).iter().map(show).collect::<Vec<_>>().join(" | ")
}

#[test]
fn headers_are_those_that_people_know() {
    let cases = [
        ("", "Service", "Name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector*"),
        (
            "",
            "Pod",
            "Name | Ready | Status | Restarts | Age | IP* | Node* | Nominated Node* | Readiness Gates*",
        ),
        (
            "apps",
            "Deployment",
            "Name | Ready | Up-to-date | Available | Age | Containers* | Images* | Selector*",
        ),
        ("discovery.k8s.io", "EndpointSlice", "Name | AddressType | Ports | Endpoints | Age"),
        (
            "",
            "Event",
            "Last Seen | Type | Reason | Object | Subobject* | Source* | Message | First Seen* | Count* | Name*",
        ),
        ("rbac.authorization.k8s.io", "ClusterRole", "Name | Created At"),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "Name | Scope | Versions | Created At | Group* | Kind* | ShortNames* | Established*",
        ),
    ];
    for (group, kind, expected) in cases {
        assert_eq!(headers(group, kind), expected);
    }
}

#[test]
fn every_table_has_one_name_and_as_many_cells_as_columns() {
    for printer in PRINTERS.iter().copied().flatten() {
        let names = printer.columns.iter().filter(|column| column.format == "name").count();
        assert_eq!(names, 1, "{}", printer.kind);
        for object in [json!({}), json!(null), json!({"spec": 1, "status": [], "metadata": "x"})] {
            assert_eq!((printer.cells)(&object, now()).len(), printer.columns.len(), "{}", printer.kind);
        }
    }
}

#[test]
fn a_column_defines_itself() {
    assert_eq!(
        Column::text("IP", "An address.").wide().definition(),
        json!({"name": "IP", "type": "string", "format": "", "description": "An address.", "priority": 1})
    );
}

#[test]
fn services_show_how_they_are_reached() {
    let port = json!([{"port": 80, "protocol": "TCP"}]);
    let cases = [
        (
            json!({"spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.5"], "ports": port,
                "selector": {"b": "2", "a": "1"}}}),
            "x | ClusterIP | 10.0.0.5 | <none> | 80/TCP | 5m | a=1,b=2",
        ),
        (
            json!({"spec": {"type": "ClusterIP", "clusterIPs": ["None"]}}),
            "x | ClusterIP | None | <none> | <none> | 5m | <none>",
        ),
        (
            json!({"spec": {"type": "NodePort", "clusterIPs": ["10.0.0.5"], "externalIPs": ["192.0.2.1", "192.0.2.2"],
                "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]}}),
            "x | NodePort | 10.0.0.5 | 192.0.2.1,192.0.2.2 | 80:30080/TCP,53/UDP | 5m | <none>",
        ),
        (
            json!({"spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.5"], "ports": port}}),
            "x | LoadBalancer | 10.0.0.5 | <pending> | 80/TCP | 5m | <none>",
        ),
        (
            json!({"spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.5"], "ports": port}, "status": {
                "loadBalancer": {"ingress": [{"ip": "192.0.2.9"}, {"hostname": "lb.example.com"}, {"ip": "192.0.2.1"}]}}}),
            "x | LoadBalancer | 10.0.0.5 | 192.0.2.1,192.0.2.9,lb.example.com | 80/TCP | 5m | <none>",
        ),
        (
            json!({"spec": {"type": "ExternalName", "externalName": "a.example.com"}}),
            "x | ExternalName | <none> | a.example.com | <none> | 5m | <none>",
        ),
    ];
    for (service, expected) in cases {
        assert_eq!(line("", "Service", service), expected);
    }
}

/// A pod with one container, and with what its status says.
fn pod(status: Value) -> Value {
    json!({"spec": {"containers": [{"name": "a"}], "nodeName": "n1"}, "status": status})
}

#[test]
fn pods_show_what_their_containers_do() {
    let running = json!({"ready": true, "restartCount": 0, "state": {"running": {}}});
    let looping = json!({"ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"finishedAt": "2026-11-15T09:59:00Z"}}});
    let done = json!({"ready": false, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    let cases = [
        (pod(json!({"phase": "Pending"})), "0/1 | Pending | 0"),
        (
            pod(json!({"phase": "Running", "containerStatuses": [running], "podIPs": [{"ip": "10.1.0.2"}]})),
            "1/1 | Running | 0",
        ),
        (
            pod(json!({"phase": "Running", "containerStatuses": [looping]})),
            "0/1 | CrashLoopBackOff | 3 (60s ago)",
        ),
        (pod(json!({"phase": "Succeeded", "containerStatuses": [done]})), "0/1 | Completed | 0"),
        (
            pod(
                json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]}),
            ),
            "0/1 | ExitCode:2 | 0",
        ),
        (
            pod(json!({"phase": "Failed", "containerStatuses": [
                    {"state": {"terminated": {"exitCode": 137, "signal": 9}}}]})),
            "0/1 | Signal:9 | 0",
        ),
        (pod(json!({"phase": "Failed", "reason": "Evicted"})), "0/1 | Evicted | 0"),
        (
            pod(
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            ),
            "0/1 | SchedulingGated | 0",
        ),
    ];
    for (object, expected) in cases {
        let line = line("", "Pod", object);
        assert!(line.starts_with(&format!("x | {expected} | 5m | ")), "{line} is not {expected}");
    }
}

#[test]
fn pods_show_how_far_they_have_come() {
    let init = |statuses: Value| {
        json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]},
            "status": {"phase": "Pending", "initContainerStatuses": statuses}})
    };
    let done = json!({"name": "i", "state": {"terminated": {"exitCode": 0}}});
    let cases = [
        (init(json!([{"name": "i", "state": {"running": {}}}])), "0/1 | Init:0/2 | 0"),
        (
            init(json!([done, {"name": "j", "state": {"waiting": {"reason": "PodInitializing"}}}])),
            "0/1 | Init:1/2 | 0",
        ),
        (
            init(
                json!([done, {"name": "j", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]),
            ),
            "0/1 | Init:CrashLoopBackOff | 2",
        ),
        (init(json!([{"name": "i", "state": {"terminated": {"exitCode": 1}}}])), "0/1 | Init:ExitCode:1 | 0"),
        (
            init(json!([{"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}])),
            "0/1 | Init:Error | 0",
        ),
    ];
    for (object, expected) in cases {
        let line = line("", "Pod", object);
        assert!(line.starts_with(&format!("x | {expected} | 5m")), "{line} is not {expected}");
    }
}

#[test]
fn sidecars_count_as_containers() {
    let object = json!({
        "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
        "status": {
            "phase": "Running",
            "initContainerStatuses": [
                {"name": "s", "started": true, "ready": true, "restartCount": 1, "state": {"running": {}}}],
            "containerStatuses": [{"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}}}],
        },
    });
    assert!(line("", "Pod", object).starts_with("x | 2/2 | Running | 3 | 5m"));
}

#[test]
fn a_pod_that_is_deleted_is_terminating() {
    let mut object = pod(json!({"phase": "Running"}));
    object["metadata"] = json!({"deletionTimestamp": "2026-11-15T10:00:00Z"});
    assert_eq!(
        line("", "Pod", object.clone()),
        "x | 0/1 | Terminating | 0 | 5m | <none> | n1 | <none> | <none>"
    );
    object["status"]["phase"] = "Succeeded".into();
    assert!(line("", "Pod", object).starts_with("x | 0/1 | Succeeded"));
}

#[test]
fn wide_columns_of_a_pod_follow_their_order() {
    let mut object = pod(json!({"phase": "Running", "podIPs": [{"ip": "10.1.0.2"}, {"ip": "fd00::2"}],
        "nominatedNodeName": "n2", "conditions": [{"type": "a", "status": "True"}]}));
    object["spec"]["readinessGates"] = json!([{"conditionType": "a"}, {"conditionType": "b"}]);
    assert!(line("", "Pod", object).ends_with("| 10.1.0.2 | n1 | n2 | 1/2"));
}

#[test]
fn finished_pods_mark_their_row() {
    assert_eq!(conditions("", "Pod", &pod(json!({"phase": "Succeeded"})))[0]["reason"], "Succeeded");
    assert_eq!(conditions("", "Pod", &pod(json!({"phase": "Running"}))), Vec::<Value>::new());
    assert_eq!(conditions("", "Node", &json!({"status": {"phase": "Failed"}})), Vec::<Value>::new());
}

#[test]
fn workloads_show_how_many_pods_they_have() {
    let template =
        json!({"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": template});
    let cases = [
        (
            "apps",
            "Deployment",
            json!({"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}),
            "x | 2/3 | 3 | 1 | 5m | a,b | i:1,j | app=a",
        ),
        (
            "apps",
            "ReplicaSet",
            json!({"replicas": 3, "readyReplicas": 2}),
            "x | 3 | 3 | 2 | 5m | a,b | i:1,j | app=a",
        ),
        ("apps", "StatefulSet", json!({"readyReplicas": 1}), "x | 1/3 | 5m | a,b | i:1,j"),
        (
            "apps",
            "DaemonSet",
            json!({"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3,
                "updatedNumberScheduled": 2, "numberAvailable": 1}),
            "x | 5 | 4 | 3 | 2 | 1 | <none> | 5m | a,b | i:1,j | app=a",
        ),
        (
            "batch",
            "Job",
            json!({"succeeded": 1, "startTime": "2026-11-15T09:56:00Z", "completionTime": "2026-11-15T09:56:30Z",
                "conditions": [{"type": "Complete", "status": "True"}]}),
            "x | Complete | 1/1 | 30s | 5m | a,b | i:1,j | app=a",
        ),
    ];
    for (group, kind, status, expected) in cases {
        assert_eq!(line(group, kind, json!({"spec": spec, "status": status})), expected);
    }
}

#[test]
fn slices_show_three_of_their_endpoints() {
    let endpoint = |ip: &str| json!({"addresses": [ip]});
    let five = ["a", "b", "c", "d", "e"].map(endpoint);
    let cases = [
        (
            json!({"addressType": "IPv4", "endpoints": null, "ports": null}),
            "x | IPv4 | <unset> | <unset> | 5m",
        ),
        (
            json!({"addressType": "IPv4", "endpoints": [endpoint("10.1.0.1"), endpoint("10.1.0.2")],
                "ports": [{"port": 80}, {"name": "any"}, {}]}),
            "x | IPv4 | 80,any,* | 10.1.0.1,10.1.0.2 | 5m",
        ),
        (
            json!({"addressType": "IPv6", "endpoints": five, "ports": [{"port": 1}]}),
            "x | IPv6 | 1 | a,b,c + 2 more... | 5m",
        ),
    ];
    for (slice, expected) in cases {
        assert_eq!(line("discovery.k8s.io", "EndpointSlice", slice), expected);
    }
}

#[test]
fn the_other_kinds_read_as_before() {
    let cases = [
        ("", "Namespace", json!({"status": {"phase": "Active"}}), "x | Active | 5m"),
        ("", "ConfigMap", json!({"data": {"a": ""}, "binaryData": {"b": ""}}), "x | 2 | 5m"),
        ("", "Secret", json!({"type": "Opaque", "data": {"a": ""}}), "x | Opaque | 1 | 5m"),
        ("", "ServiceAccount", json!({}), "x | 5m"),
        (
            "",
            "Endpoints",
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}]}]}),
            "x | 10.0.0.1:80,[fd00::1]:80 | 5m",
        ),
        ("", "Endpoints", json!({}), "x | <none> | 5m"),
        (
            "",
            "Event",
            json!({"type": "Normal", "reason": "Pulled", "message": " done \n", "involvedObject": {"kind": "Pod",
                "name": "p", "fieldPath": "spec"}, "source": {"component": "agent", "host": "n1"}, "count": 4,
                "firstTimestamp": "2026-11-15T09:58:00Z", "lastTimestamp": "2026-11-15T09:59:30Z"}),
            "30s | Normal | Pulled | pod/p | spec | agent, n1 | done | 2m | 4 | x",
        ),
        (
            "events.k8s.io",
            "Event",
            json!({"type": "Warning", "reason": "Odd", "note": "n", "regarding": {"kind": "Service", "name": "s"},
                "reportingController": "c", "eventTime": "2026-11-15T09:59:50.123456Z"}),
            "9s | Warning | Odd | service/s |  | c | n | 9s | 1 | x",
        ),
        (
            "",
            "Node",
            json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}, "spec": {"unschedulable": true},
                "status": {"conditions": [{"type": "Ready", "status": "True"}],
                    "addresses": [{"type": "InternalIP", "address": "10.2.0.1"}],
                    "nodeInfo": {"kubeletVersion": "v1.37.0", "kernelVersion": "6.1", "architecture": "amd64"}}}),
            "x | Ready,SchedulingDisabled | worker | 5m | v1.37.0 | 10.2.0.1 | <none> | <unknown> | 6.1 (amd64) | \
             <unknown>",
        ),
        ("coordination.k8s.io", "Lease", json!({"spec": {"holderIdentity": "me"}}), "x | me | 5m"),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"},
                {"kind": "User", "name": "v"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
            "x | Role/r | 5m | u, v |  | n/s",
        ),
        ("rbac.authorization.k8s.io", "Role", json!({}), "x | 2026-11-15T09:55:00Z"),
        (
            "networking.k8s.io",
            "Ingress",
            json!({"spec": {"ingressClassName": "c", "tls": [{}], "rules": [{"host": "a"}, {"host": "b"}, {"host": "c"},
                {"host": "d"}]}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}),
            "x | c | a,b,c + 1 more... | 192.0.2.1 | 80, 443 | 5m",
        ),
        ("networking.k8s.io", "Ingress", json!({"spec": {"rules": [{}]}}), "x | <none> | * |  | 80 | 5m"),
        ("networking.k8s.io", "NetworkPolicy", json!({"spec": {"podSelector": {}}}), "x | <none> | 5m"),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}),
            "x | 50% | N/A | 1 | 5m",
        ),
        (
            "",
            "ResourceQuota",
            json!({"status": {"hard": {"pods": "10", "limits.cpu": "4"}, "used": {"pods": "3", "limits.cpu": "1"}}}),
            "x | pods: 3/10 | limits.cpu: 1/4 | 5m",
        ),
        (
            "scheduling.k8s.io",
            "PriorityClass",
            json!({"value": 7, "preemptionPolicy": "Never"}),
            "x | 7 | false | 5m | Never",
        ),
        (
            "",
            "PersistentVolume",
            json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "n", "name": "c"},
                "storageClassName": "fast", "volumeMode": "Filesystem"}, "status": {"phase": "Bound"}}),
            "x | 1Gi | RWO,RWX | Retain | Bound | n/c | fast | <unset> |  | 5m | Filesystem",
        ),
        (
            "",
            "PersistentVolumeClaim",
            json!({"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}}),
            "x | Pending |  |  |  | fast | <unset> | 5m | <unset>",
        ),
        (
            "batch",
            "CronJob",
            json!({"spec": {"schedule": "* * * * *", "suspend": false}, "status": {"active": [{}]}}),
            "x | * * * * * | <none> | False | 1 | <none> | 5m |  |  | <none>",
        ),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            json!({"spec": {"scope": "Namespaced", "group": "g", "names": {"kind": "K", "shortNames": ["k", "kk"]},
                "versions": [{"name": "v1beta1", "served": true}, {"name": "v1", "served": true, "storage": true},
                    {"name": "v0"}]}, "status": {"conditions": [{"type": "Established", "status": "True"}]}}),
            "x | Namespaced | v1(storage),v1beta1 | 2026-11-15T09:55:00Z | g | K | k,kk | true",
        ),
        ("example.com", "Unknown", json!({}), "x | 2026-11-15T09:55:00Z"),
    ];
    for (group, kind, object, expected) in cases {
        assert_eq!(line(group, kind, object), expected, "{kind}");
    }
}
