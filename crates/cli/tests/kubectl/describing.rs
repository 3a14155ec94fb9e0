//! `kubectl describe`: typed reads, events and endpoints put together by kubectl.

use crate::playground::Playground;

#[test]
fn a_service_is_described_with_its_endpoints() {
    let playground = Playground::bare();
    playground
        .apply(
            r#"
apiVersion: v1
kind: Service
metadata: {name: web, labels: {tier: front}}
spec: {clusterIP: 10.96.7.7, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.4], conditions: {ready: true}}, {addresses: [10.1.0.5], conditions: {ready: true}}]
ports: [{name: http, port: 8080}]
"#,
        )
        .succeeds();
    playground.run("describe svc web").mentions(&[
        "Name: web",
        "Labels: tier=front",
        "Selector: app=web",
        "Type: ClusterIP",
        "IP Families: IPv4",
        "IP: 10.96.7.7",
        "Port: http 80/TCP",
        "TargetPort: 8080/TCP",
        "10.1.0.4:8080,10.1.0.5:8080",
        "Events:",
    ]);
    playground.run("describe endpointslice web-1").mentions(&[
        "AddressType: IPv4",
        "http 8080 TCP",
        "10.1.0.4",
        "Ready: true",
    ]);
}

#[test]
fn plain_objects_are_described() {
    let playground = Playground::bare();
    playground.run("create cm settings --from-literal=color=red").succeeds();
    playground.run("describe cm settings").mentions(&["Name: settings", "color:\n----\nred", "BinaryData"]);
    playground.run("create secret generic password --from-literal=word=xyzzy").succeeds();
    playground.run("describe secret password").mentions(&["Type: Opaque", "word: 5 bytes"]);
    playground.run("describe ns default").mentions(&[
        "Status: Active",
        "No resource quota.",
        "No LimitRange resource.",
    ]);
    playground.run("describe cm").mentions(&["Name: settings"]);
    playground.run("describe cm nope").fails(1, &["Error from server (NotFound)"]);
    playground.run("create role reader --verb=get --resource=pods").succeeds();
    playground.run("describe role reader").mentions(&["PolicyRule:", "pods"]);
    playground.run("create deployment idle --image=example").succeeds();
    playground.run("describe deploy idle").mentions(&[
        "Selector: app=idle",
        "Replicas: 1 desired | 0 updated | 0 total | 0 available | 0 unavailable",
        "StrategyType: RollingUpdate",
        "RollingUpdateStrategy: 25% max unavailable, 25% max surge",
        "Image: example",
    ]);
    playground.run("run solo --image=example").succeeds();
    playground.run("describe pod solo").mentions(&["Name: solo", "Status: Pending", "Image: example"]);
}

#[test]
fn events_are_shown_with_the_object_they_are_about() {
    let playground = Playground::bare();
    playground.run("create cm settings").succeeds();
    let uid = playground.run("get cm settings -o jsonpath={.metadata.uid}");
    let event = format!(
        r#"
apiVersion: v1
kind: Event
metadata: {{name: settings.1}}
involvedObject: {{apiVersion: v1, kind: ConfigMap, name: settings, namespace: default, uid: {}}}
reason: Painted
message: it is red now
type: Normal
count: 3
source: {{component: painter}}
firstTimestamp: "2026-11-15T10:00:00Z"
lastTimestamp: "2026-11-15T10:00:00Z"
"#,
        uid.succeeds()
    );
    playground.kubectl.feed("create -f -", &event).prints("event/settings.1 created");
    playground.run("get events").tabulates(&[
        "LAST SEEN TYPE REASON OBJECT MESSAGE",
        "* Normal Painted configmap/settings it is red now",
    ]);
    playground
        .run("get events --field-selector involvedObject.name=settings,reason=Painted -o name")
        .prints("event/settings.1");
    playground.run("get events --field-selector reason=Other -o name").prints("");
    playground.run("get events.events.k8s.io settings.1 -o jsonpath={.note}").prints("it is red now");
    playground.run("events --for cm/settings").shows(&["Painted", "it is red now"]);
    playground.run("describe cm settings").mentions(&["Events:", "Painted", "painter", "it is red now"]);
}
