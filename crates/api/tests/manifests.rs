//! The manifests that the specifications show are read and written back unchanged.

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tombolo_api::condition::{Status, is_true};
use tombolo_api::karmada::networking::{Clusters, ExposureType, MultiClusterService};
use tombolo_api::karmada::strategy::{ImportStrategy, STRATEGY_ANNOTATION};
use tombolo_api::karmada::work::Work;
use tombolo_api::service::{IpFamily, Protocol, SessionAffinity};
use tombolo_api::{about, kep, mcs, tombolo};

/// Reads the manifest as `T` and checks that nothing is lost and nothing added.
fn read<T: DeserializeOwned + Serialize>(manifest: &str) -> T {
    let value: Value = serde_saphyr::from_str(manifest).expect("the manifest is YAML");
    let object: T = serde_json::from_value(value.clone()).expect("the manifest is of this kind");
    assert_eq!(serde_json::to_value(&object).expect("an object is JSON"), value);
    object
}

#[test]
fn the_service_export_of_the_first_edition() {
    let export: kep::ServiceExport = read(
        r#"
apiVersion: multicluster.k8s.io/v1alpha1
kind: ServiceExport
metadata:
  name: my-svc
  namespace: my-ns
status:
  conditions:
  - type: Initialized
    status: "True"
    lastTransitionTime: "2020-03-30T01:33:51Z"
  - type: Exported
    status: "True"
    lastTransitionTime: "2020-03-30T01:33:55Z"
"#,
    );
    let conditions = export.status.unwrap().conditions;
    assert!(is_true(&conditions, kep::ExportCondition::Initialized));
    assert!(is_true(&conditions, kep::ExportCondition::Exported));
    assert_eq!(conditions[0].status, Status::True);
}

#[test]
fn the_imported_service_of_the_first_edition() {
    let import: kep::ImportedService = read(
        "
apiVersion: multicluster.k8s.io/v1alpha1
kind: ImportedService
metadata:
  name: my-svc
  namespace: my-ns
spec:
  ipFamily: IPv4
  ip: 42.42.42.42
  ports:
  - name: http
    protocol: TCP
    port: 80
  clusters:
    - cluster: us-west2-a-my-cluster
      topologyKeys:
      - topology.kubernetes.io/zone
      sessionAffinity: None
",
    );
    assert_eq!(import.spec.ip_family, IpFamily::V4);
    assert_eq!(import.spec.ip.as_deref(), Some("42.42.42.42"));
    assert_eq!((import.spec.ports[0].protocol, import.spec.ports[0].port), (Protocol::Tcp, 80));
    let cluster = &import.spec.clusters[0];
    assert_eq!(cluster.topology_keys, ["topology.kubernetes.io/zone"]);
    assert_eq!(cluster.session_affinity, SessionAffinity::None);
    assert!(!cluster.publish_not_ready_addresses);
}

#[test]
fn an_export_of_todays_api_may_have_no_spec() {
    let export: mcs::ServiceExport = read(
        "
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata:
  name: echo
  namespace: demo
",
    );
    assert_eq!(export.spec.spec, None);
    assert_eq!(export.meta().name.as_deref(), Some("echo"));
}

#[test]
fn an_export_of_todays_api_may_export_labels() {
    let export: mcs::ServiceExport = read(
        "
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata:
  name: echo
  namespace: demo
spec:
  exportedLabels:
    team: blue
",
    );
    assert_eq!(export.spec.spec.unwrap().exported_labels["team"], "blue");
}

#[test]
fn an_import_with_everything_todays_api_knows() {
    let import: mcs::ServiceImport = read(
        r#"
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata:
  name: echo
  namespace: demo
spec:
  type: ClusterSetIP
  ips: [10.42.0.7, "fd00::7"]
  ipFamilies: [IPv4, IPv6]
  ports:
  - name: http
    protocol: TCP
    appProtocol: kubernetes.io/h2c
    port: 80
  sessionAffinity: ClientIP
  sessionAffinityConfig:
    clientIP:
      timeoutSeconds: 10
  internalTrafficPolicy: Cluster
  trafficDistribution: PreferClose
status:
  endpointSliceObjects: Present
  clusters:
  - cluster: member1
  conditions:
  - type: Ready
    status: "True"
    reason: Ready
    message: ""
    lastTransitionTime: "2026-05-05T00:00:00Z"
"#,
    );
    assert_eq!(import.spec.type_, mcs::ServiceImportType::ClusterSetIp);
    let status = import.status.unwrap();
    assert_eq!(status.endpoint_slice_objects, Some(mcs::EndpointSliceObjects::Present));
    assert!(is_true(&status.conditions, mcs::ImportCondition::Ready));
}

#[test]
fn the_service_import_of_the_first_native_naming_proposal() {
    // The proposal writes v1alpha1; the server converts it to the version that is asked for.
    let import: mcs::ServiceImport = read(
        "
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata:
  name: serve
  namespace: demo
  annotations:
    discovery.karmada.io/strategy: LocalAndRemote
spec:
  type: ClusterSetIP
  ports:
  - port: 80
    protocol: TCP
",
    );
    let strategy = &import.metadata.annotations.unwrap()[STRATEGY_ANNOTATION];
    assert_eq!(strategy.parse(), Ok(ImportStrategy::LocalAndRemote));
    assert_eq!(strategy.parse(), Ok(ImportStrategy::default()));
}

#[test]
fn both_multi_cluster_services_of_the_accepted_proposal() {
    let cases = [
        (
            "
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata:
  name: foo
spec:
  types:
    - CrossCluster
  serviceProvisionClusters:
    - member2
  serviceConsumptionClusters:
    - member3
",
            &["member2"][..],
            &["member3"][..],
        ),
        (
            "
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata:
  name: foo
spec:
  types:
    - CrossCluster
  serviceProvisionClusters:
    - member1
    - member2
  serviceConsumptionClusters:
    - member2
",
            &["member1", "member2"],
            &["member2"],
        ),
    ];
    for (manifest, provision, consumption) in cases {
        let service: MultiClusterService = read(manifest);
        assert_eq!(service.spec.types, [ExposureType::CrossCluster]);
        assert_eq!(service.spec.provision(), Ok(Clusters::Named(provision.iter().copied().collect())));
        assert_eq!(service.spec.consumption(), Ok(Clusters::Named(consumption.iter().copied().collect())));
    }
}

#[test]
fn the_conditions_of_the_accepted_proposal() {
    let service: MultiClusterService = read(
        r#"
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata:
  name: foo
spec:
  types: [CrossCluster]
status:
  conditions:
  - lastTransitionTime: "2023-11-20T02:30:49Z"
    message: Service is propagated to target clusters.
    reason: ServiceAppliedSuccess
    status: "True"
    type: ServiceApplied
  loadBalancer:
    ingress:
    - ip: 192.0.2.1
"#,
    );
    assert_eq!(service.status.unwrap().conditions.len(), 1);
}

#[test]
fn a_work_keeps_its_manifests_as_they_are() {
    let work: Work = read(
        r#"
apiVersion: work.karmada.io/v1alpha1
kind: Work
metadata:
  name: foo
  namespace: karmada-es-member1
spec:
  suspendDispatching: true
  workload:
    manifests:
    - apiVersion: example.com/v1
      kind: Anything
      metadata: {name: foo}
      unknown: [1, {two: "three"}, null]
status:
  manifestStatuses:
  - identifier: {ordinal: 0, version: v1, kind: Anything, resource: anythings, name: foo}
    status: {phase: fine}
    health: Healthy
"#,
    );
    assert_eq!(work.spec.workload.unwrap().manifests[0]["unknown"][1]["two"], "three");
}

#[test]
fn the_cluster_id_property() {
    let property: about::ClusterProperty = read(
        "
apiVersion: about.k8s.io/v1beta1
kind: ClusterProperty
metadata:
  name: cluster.clusterset.k8s.io
spec:
  value: member1
",
    );
    assert_eq!(property.metadata.name.as_deref(), Some(about::CLUSTER_ID_PROPERTY));
}

#[test]
fn an_offer_with_all_its_fields() {
    let offer: tombolo::ServiceOffer = read(
        r#"
apiVersion: tombolo.dev/v1alpha1
kind: ServiceOffer
metadata:
  name: echo
  namespace: tombolo-member1
spec:
  dialect: mcs
  cluster: member1
  service: {namespace: demo, name: echo}
  exportedAt: "2026-05-05T00:00:00Z"
  type: ClusterIP
  ports:
  - {name: http, protocol: TCP, port: 80}
  ipFamilies: [IPv6, IPv4]
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 10}}
  topologyKeys: ["topology.kubernetes.io/zone", "*"]
  publishNotReadyAddresses: true
  internalTrafficPolicy: Local
  trafficDistribution: PreferClose
  prefer: [zone, region, cluster, any]
  exportedLabels: {team: blue}
  exportedAnnotations: {note: hello}
"#,
    );
    assert_eq!(offer.spec.dialect, tombolo::Dialect::Mcs);
    assert_eq!(offer.spec.prefer, tombolo::Tier::ALL);
}

#[test]
fn an_address_pool_assigns_by_itself_unless_told_otherwise() {
    let manifest = r#"{"apiVersion":"tombolo.dev/v1alpha1","kind":"AddressPool","metadata":{"name":"lan"},
        "spec":{"addresses":["192.0.2.0/28","2001:db8::1-2001:db8::9"]}}"#;
    let pool: tombolo::AddressPool = serde_json::from_str(manifest).unwrap();
    assert!(pool.spec.auto_assign);
    assert_eq!(pool.spec.ranges().unwrap().len(), 2);
}
