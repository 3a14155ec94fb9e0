//! Exports that disagree, complete each other, or bring along what is only theirs.

use std::time::Duration;

use serde_json::{Value, json};
use tombolo_testkit::until;

use crate::fleet::{Fleet, Member};

fn ports(texts: &[(&str, u16)]) -> Value {
    texts.iter().map(|(name, port)| json!({"name": name, "port": port, "targetPort": 8080})).collect()
}

async fn port_names(member: &Member, source: &str) -> Vec<String> {
    let slices = member.slices().await;
    let of_source = slices.iter().filter(|slice| {
        let labels = slice.metadata.labels.as_ref().unwrap();
        labels["multicluster.kubernetes.io/source-cluster"] == source
    });
    of_source.flat_map(|slice| slice.ports.iter().flatten()).filter_map(|port| port.name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_oldest_export_decides_all_there_is_and_every_export_is_told_each_reason_and_by_whom() {
    let fleet = Fleet::of(3).await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    // The oldest is in the cluster with the last name, so that age and not the name decides.
    c.service(&json!({
        "ports": ports(&[("http", 80)]), "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
        "internalTrafficPolicy": "Cluster", "trafficDistribution": "PreferClose",
    }))
    .await;
    c.endpoints(&["10.3.0.1"]).await;
    c.export_mcs_with(&json!({"exportedLabels": {"team": "red"}, "exportedAnnotations": {"note": "c"}}))
        .await;
    until("imported", || async { a.imported(None).await == ["10.3.0.1"] }).await;
    let address = a.mcs_import().await.unwrap().spec.ips;
    tokio::time::sleep(Duration::from_secs(2)).await;
    b.service(&json!({"ports": ports(&[("http", 8080)]), "internalTrafficPolicy": "Local"})).await;
    b.endpoints(&["10.2.0.1"]).await;
    b.export_mcs_with(&json!({"exportedLabels": {"team": "blue"}})).await;

    let reasons = "PortConflict,SessionAffinityConflict,LabelsConflict,AnnotationsConflict,\
        InternalTrafficPolicyConflict,TrafficDistributionConflict";
    for member in [b, c] {
        until("a conflict", || async {
            member.mcs_condition("Conflict").await.is_some_and(|(status, ..)| status == "True")
        })
        .await;
        let (_, said, message) = member.mcs_condition("Conflict").await.unwrap();
        assert_eq!(said, reasons, "in {}", member.name);
        for part in ["the export of cluster c is the oldest and decides", "ports in 1 of 2 clusters"] {
            assert!(message.contains(part), "{message}");
        }
    }
    for member in [a, b, c] {
        let import = member.mcs_import().await.unwrap();
        let spec = &import.spec;
        assert_eq!(spec.ports.iter().map(|port| port.port).collect::<Vec<_>>(), [80], "in {}", member.name);
        assert_eq!(spec.session_affinity.as_deref(), Some("ClientIP"));
        assert_eq!(
            json!(spec.session_affinity_config),
            json!({"clientIP": {"timeoutSeconds": 10}}),
            "affinity and its timeout are those of the Service"
        );
        assert_eq!(spec.internal_traffic_policy.as_deref(), Some("Cluster"));
        assert_eq!(spec.traffic_distribution.as_deref(), Some("PreferClose"));
        let (labels, annotations) = (import.metadata.labels.unwrap(), import.metadata.annotations.unwrap());
        assert_eq!((labels["team"].as_str(), annotations["note"].as_str()), ("red", "c"));
        let status = import.status.unwrap();
        let clusters: Vec<_> = status.clusters.iter().map(|part| part.cluster.as_str()).collect();
        assert_eq!(clusters, ["b", "c"]);
    }
    assert_eq!(a.mcs_import().await.unwrap().spec.ips, address, "what was there stays as it was");
}

#[tokio::test(start_paused = true)]
async fn when_the_oldest_export_goes_the_next_one_decides_behind_the_same_address() {
    let fleet = Fleet::of(3).await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    until("imported", || async { c.imported(None).await == ["10.1.0.1"] }).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    b.serve(81, &["10.2.0.1"]).await;
    b.export_mcs().await;
    until("said", || async {
        b.mcs_condition("Conflict").await.is_some_and(|(status, ..)| status == "True")
    })
    .await;
    let address = c.mcs_import().await.unwrap().spec.ips;
    a.unexport_mcs().await;
    until("b's port and endpoints", || async {
        let import = c.mcs_import().await.unwrap();
        import.spec.ports[0].port == 81 && c.imported(None).await == ["10.2.0.1"]
    })
    .await;
    assert_eq!(c.mcs_import().await.unwrap().spec.ips, address);
    until("agreed", || async {
        b.mcs_condition("Conflict").await.is_some_and(|(_, reason, _)| reason == "NoConflicts")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn ports_complete_each_other_and_each_leads_only_to_the_clusters_that_have_it() {
    let fleet = Fleet::of(3).await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    for (member, name, port, address) in [(a, "http", 80, "10.1.0.1"), (b, "metrics", 9090, "10.2.0.1")] {
        member.service(&json!({"ports": ports(&[(name, port)])})).await;
        member.slice("echo-1", name, &json!([{"addresses": [address]}])).await;
        member.export_kep().await;
        member.export_mcs().await;
    }
    until("imported", || async { c.imported(None).await.len() == 4 }).await;
    let numbers: Vec<_> = c.kep_import().await.unwrap().spec.ports.iter().map(|port| port.port).collect();
    assert_eq!(numbers, [80, 9090]);
    assert_eq!(c.mcs_import().await.unwrap().spec.ports.len(), 2);
    assert_eq!(port_names(c, "a").await, ["http", "http"]);
    assert_eq!(port_names(c, "b").await, ["metrics", "metrics"]);
    for member in [a, b] {
        until("no conflict in the first edition", || async {
            member.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
        })
        .await;
        assert_eq!(member.kep_condition("Conflict").await.unwrap().0, "False");
        assert_eq!(member.mcs_condition("Conflict").await.unwrap().1, "PortConflict", "sets that differ");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_edition_carries_what_each_cluster_has_of_its_own_side_by_side() {
    let fleet = Fleet::of(3).await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    a.service(&json!({
        "ports": ports(&[("http", 80)]), "publishNotReadyAddresses": true, "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
    }))
    .await;
    a.annotate_service("tombolo.dev/topology-keys", "topology.kubernetes.io/zone,*").await;
    // The endpoint slice controller says so of every address of such a Service.
    let early = json!([{"addresses": ["10.1.0.1"], "conditions": {"ready": true, "serving": false}}]);
    a.slice("echo-1", "http", &early).await;
    a.export_kep().await;
    b.serve(80, &[]).await;
    let unready = json!([{"addresses": ["10.2.0.1"], "conditions": {"ready": false, "serving": false}}]);
    b.slice("echo-1", "http", &unready).await;
    b.export_kep().await;
    until("imported", || async { c.imported(None).await == ["10.1.0.1", "10.2.0.1"] }).await;
    let import = c.kep_import().await.unwrap();
    assert_eq!(
        json!(import.spec.clusters),
        json!([
            {
                "cluster": "a", "topologyKeys": ["topology.kubernetes.io/zone", "*"],
                "publishNotReadyAddresses": true, "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
            },
            {"cluster": "b", "sessionAffinity": "None"},
        ])
    );
    for (source, ready) in [("a", true), ("b", false)] {
        let slices = c.slices().await;
        let of = |slice: &&k8s_openapi::api::discovery::v1::EndpointSlice| {
            slice.metadata.labels.as_ref().unwrap()["multicluster.kubernetes.io/source-cluster"] == source
        };
        let slice = slices.iter().find(of).unwrap();
        let conditions = slice.endpoints.as_ref().unwrap()[0].conditions.clone().unwrap();
        assert_eq!((conditions.ready, conditions.serving), (Some(ready), Some(false)), "from {source}");
    }
    for member in [a, b] {
        until("no conflict", || async {
            member.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn exported_labels_are_on_every_import_and_nothing_of_the_services_own_metadata() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.label_service("app", Some("echo")).await;
    a.annotate_service("secret", "x").await;
    a.export_mcs_with(&json!({"exportedLabels": {"team": "red"}, "exportedAnnotations": {"note": "hi"}}))
        .await;
    for member in [a, b] {
        until("imported", || async { member.mcs_import().await.is_some() }).await;
        let metadata = member.mcs_import().await.unwrap().metadata;
        let (labels, annotations) = (metadata.labels.unwrap(), metadata.annotations.unwrap());
        assert_eq!((labels["team"].as_str(), annotations["note"].as_str()), ("red", "hi"));
        assert!(!labels.contains_key("app") && !annotations.contains_key("secret"));
    }
    a.export_mcs_with(&json!({"exportedLabels": {"team": "blue"}})).await;
    until("changed", || async {
        let metadata = b.mcs_import().await.unwrap().metadata;
        metadata.labels.unwrap()["team"] == "blue" && !metadata.annotations.unwrap().contains_key("note")
    })
    .await;
}
