//! `kubectl create`: the typed commands send protobuf, so every kind they know is a decoder's test.

use serde_json::{Value, json};

use crate::playground::Playground;

/// A JSON pointer and what it points to.
type Expected = (&'static str, fn() -> Value);

/// What a create command must leave behind, at some paths of the object.
struct Case {
    command: &'static str,
    holds: &'static [Expected],
}

const CASES: &[Case] = &[
    Case {
        command: "namespace shop",
        holds: &[("/status/phase", || json!("Active")), ("/spec/finalizers", || json!(["kubernetes"]))],
    },
    Case {
        command: "deployment web --image=example:1 --replicas=3 --port=8080 -- sleep 1000",
        holds: &[
            ("/spec/replicas", || json!(3)),
            ("/spec/selector/matchLabels", || json!({"app": "web"})),
            ("/spec/strategy/rollingUpdate", || json!({"maxSurge": "25%", "maxUnavailable": "25%"})),
            ("/spec/template/spec/containers/0/image", || json!("example:1")),
            ("/spec/template/spec/containers/0/command", || json!(["sleep", "1000"])),
            (
                "/spec/template/spec/containers/0/ports",
                || json!([{"containerPort": 8080, "protocol": "TCP"}]),
            ),
            ("/spec/template/spec/restartPolicy", || json!("Always")),
        ],
    },
    Case {
        command: "service clusterip inside --tcp=80:8080 --tcp=53",
        holds: &[
            ("/spec/type", || json!("ClusterIP")),
            ("/spec/selector", || json!({"app": "inside"})),
            (
                "/spec/ports/0",
                || json!({"name": "80-8080", "port": 80, "protocol": "TCP", "targetPort": 8080}),
            ),
            ("/spec/ports/1/targetPort", || json!(53)),
            ("/spec/internalTrafficPolicy", || json!("Cluster")),
        ],
    },
    Case {
        command: "service clusterip headless --clusterip=None",
        holds: &[("/spec/clusterIP", || json!("None")), ("/spec/clusterIPs", || json!(["None"]))],
    },
    Case {
        command: "service nodeport outside --tcp=80:web --node-port=30123",
        holds: &[
            ("/spec/type", || json!("NodePort")),
            ("/spec/ports/0/nodePort", || json!(30123)),
            ("/spec/ports/0/targetPort", || json!("web")),
            ("/spec/externalTrafficPolicy", || json!("Cluster")),
        ],
    },
    Case {
        command: "service loadbalancer public --tcp=80",
        holds: &[
            ("/spec/type", || json!("LoadBalancer")),
            ("/spec/allocateLoadBalancerNodePorts", || json!(true)),
        ],
    },
    Case {
        command: "service externalname alias --external-name=example.com",
        holds: &[("/spec/type", || json!("ExternalName")), ("/spec/externalName", || json!("example.com"))],
    },
    Case {
        command: "configmap settings --from-literal=color=red --from-file=file.txt",
        holds: &[("/data", || json!({"color": "red", "file.txt": "content\n"}))],
    },
    Case {
        command: "secret generic password --from-literal=word=xyzzy",
        holds: &[("/data", || json!({"word": "eHl6enk="})), ("/type", || json!("Opaque"))],
    },
    Case {
        command: "secret docker-registry registry --docker-username=me --docker-password=xyzzy",
        holds: &[("/type", || json!("kubernetes.io/dockerconfigjson"))],
    },
    Case { command: "serviceaccount robot", holds: &[("/metadata/namespace", || json!("default"))] },
    Case {
        command: "role reader --verb=get,list --resource=services,endpointslices.discovery.k8s.io",
        holds: &[
            ("/rules/0", || json!({"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list"]})),
            ("/rules/1/apiGroups", || json!(["discovery.k8s.io"])),
        ],
    },
    Case {
        command: "rolebinding readers --role=reader --serviceaccount=default:robot --user=ada",
        holds: &[
            (
                "/roleRef",
                || json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}),
            ),
            ("/subjects/0/name", || json!("ada")),
            ("/subjects/1", || json!({"kind": "ServiceAccount", "name": "robot", "namespace": "default"})),
        ],
    },
    Case {
        command: "clusterrole watcher --verb=get --resource=nodes --non-resource-url=/metrics",
        holds: &[("/rules/1/nonResourceURLs", || json!(["/metrics"]))],
    },
    Case {
        command: "clusterrolebinding watchers --clusterrole=watcher --group=ops",
        holds: &[("/subjects/0/kind", || json!("Group"))],
    },
    Case {
        command: "job once --image=example -- true",
        holds: &[
            ("/spec/template/spec/restartPolicy", || json!("Never")),
            ("/spec/backoffLimit", || json!(6)),
        ],
    },
    Case {
        command: "cronjob hourly --image=example --schedule='0 * * * *'",
        holds: &[("/spec/schedule", || json!("0 * * * *")), ("/spec/concurrencyPolicy", || json!("Allow"))],
    },
    Case {
        command: "ingress door --rule=example.com/shop*=web:80",
        holds: &[(
            "/spec/rules/0/http/paths/0/backend/service",
            || json!({"name": "web", "port": {"number": 80}}),
        )],
    },
    Case {
        command: "quota small --hard=pods=3,cpu=500m",
        holds: &[("/spec/hard", || json!({"cpu": "500m", "pods": "3"}))],
    },
    Case {
        command: "pdb some --selector=app=web --min-available=50%",
        holds: &[("/spec/minAvailable", || json!("50%"))],
    },
    Case { command: "priorityclass high --value=1000", holds: &[("/value", || json!(1000))] },
];

#[test]
fn every_create_command_leaves_what_it_said() {
    let playground = Playground::bare();
    playground.kubectl.file("file.txt", "content\n");
    for case in CASES {
        // Options go first, because what follows `--` belongs to a container.
        let object = playground.run(&format!("create -o json {}", case.command)).json();
        assert!(object["metadata"]["uid"].is_string(), "{}: {object:#}", case.command);
        for (path, expected) in case.holds {
            assert_eq!(
                object.pointer(path),
                Some(&expected()),
                "{path} after create {}: {object:#}",
                case.command
            );
        }
    }
}

#[test]
fn what_exists_is_not_created_twice() {
    let playground = Playground::bare();
    playground.run("create cm settings").prints("configmap/settings created");
    playground.run("create cm settings").fails(1, &["configmaps \"settings\" already exists"]);
    playground
        .run("create ns default")
        .fails(1, &["Error from server (AlreadyExists): namespaces \"default\""]);
    playground.run("create cm settings -n nowhere").fails(1, &["namespaces \"nowhere\" not found"]);
    playground.run("create service nodeport one --tcp=80 --node-port=31000").succeeds();
    playground
        .run("create service nodeport two --tcp=80 --node-port=31000")
        .fails(1, &["spec.ports[0].nodePort: Invalid value: 31000: provided port is already allocated"]);
    playground
        .run("create deployment Web --image=x")
        .fails(1, &["Deployment", "is invalid", "metadata.name"]);
}

#[test]
fn several_documents_are_created_in_order() {
    let playground = Playground::bare();
    let manifest = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "json", "namespace": "shop"}}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: listed, namespace: shop}}
- {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: slice, namespace: shop}, addressType: IPv4, endpoints: [], ports: []}
"#;
    playground.kubectl.feed("create -f -", manifest).prints(
        "namespace/shop created\nconfigmap/json created\nconfigmap/listed created\n\
         endpointslice.discovery.k8s.io/slice created",
    );
    let again = playground.kubectl.feed("create -f -", manifest);
    again.fails(
        1,
        &["namespaces \"shop\" already exists", "endpointslices.discovery.k8s.io \"slice\" already exists"],
    );
    let generated = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-, namespace: shop}\n";
    playground.kubectl.feed("create -f - -o jsonpath={.metadata.generateName}", generated).prints("made-");
}

#[test]
fn replace_swaps_the_whole_object() {
    let playground = Playground::bare();
    playground.run("create cm settings --from-literal=a=1").succeeds();
    let next = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {b: \"2\"}\n";
    playground.kubectl.feed("replace -f -", next).prints("configmap/settings replaced");
    playground.run("get cm settings -o jsonpath={.data}").prints(r#"{"b":"2"}"#);
    let stale = next.replace("name: settings", "name: settings, resourceVersion: \"1\"");
    playground.kubectl.feed("replace -f -", &stale).fails(
        1,
        &[
            "Error from server (Conflict)",
            "Operation cannot be fulfilled on configmaps \"settings\"",
            "modified",
        ],
    );
    playground.kubectl.feed("replace -f -", &next.replace("settings", "nope")).fails(1, &["NotFound"]);
    let uid = playground.run("get cm settings -o jsonpath={.metadata.uid}");
    playground.kubectl.feed("replace --force -f -", next).shows(&["deleted", "replaced"]);
    assert_ne!(playground.run("get cm settings -o jsonpath={.metadata.uid}").stdout, uid.stdout);
}
