//! StatefulSets in several clusters: each of their pods has a name of its own everywhere.

use std::collections::BTreeSet;

use serde_json::Value;
use tombolo_testkit::eventually;

use crate::world::Playground;

/// A headless Service with two pods, exported.
const DATABASE: &str = "
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: http, port: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: echo, image: tombolo/echo}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: db}
";

/// Cluster and pod that answer under a name, asked in the pod `client` of a cluster; nothing if nobody does.
fn who_answers(playground: &Playground, cluster: &str, host: &str) -> Option<(String, String)> {
    let url = format!("http://{host}.svc.clusterset.local:8080/");
    let outcome = playground.at(cluster).run(&format!("exec client -- curl -sf -m 2 {url}"));
    let said: Value = serde_json::from_str(&outcome.stdout).ok()?;
    let text = |field: &str| said[field].as_str().unwrap_or_default().to_owned();
    Some((text("cluster"), text("pod")))
}

#[test]
fn each_pod_of_a_stateful_set_is_reached_by_its_own_name_from_every_cluster() {
    let playground = Playground::start(2, 1);
    for member in ["member1", "member2"] {
        playground.at(member).feed("apply -f -", DATABASE).succeeds();
        playground.at(member).run("rollout status statefulset/db --timeout=50s").succeeds();
        playground.start_client(member);
    }
    for asking in ["member1", "member2"] {
        for cluster in ["member1", "member2"] {
            for pod in ["db-0", "db-1"] {
                let host = format!("{pod}.{cluster}.db.demo");
                eventually(&format!("{asking} reaches {host}"), || {
                    who_answers(&playground, asking, &host) == Some((cluster.to_owned(), pod.to_owned()))
                });
            }
        }
    }
    let mut answered = BTreeSet::new();
    eventually("all answer under the name of the service", || {
        answered.extend(who_answers(&playground, "member2", "db.demo"));
        answered.len() == 4
    });

    playground.at("member1").run("scale statefulset db --replicas=1").succeeds();
    eventually("a pod that is gone has no name", || {
        who_answers(&playground, "member2", "db-1.member1.db.demo").is_none()
    });
    assert!(who_answers(&playground, "member2", "db-0.member1.db.demo").is_some(), "the other one has");
}
