//! Native names: what stands behind a Service of the own name, for every strategy, on the objects.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json, to_value};
use tokio::task::JoinHandle;
use tombolo_api::mcs::ServiceImport;
use tombolo_apiserver::controllers::Settings;
use tombolo_runtime::{Cache, follow};
use tombolo_testkit::{FaultPlan, linger, until};

use crate::events::{events, pairs};
use crate::fleet::{Fleet, Member};

const STRATEGY: &str = "discovery.karmada.io/strategy";
const ASIDE: &str = "tombolo.dev/selector-set-aside";
const REMOTE: &str = "10.1.0.1";
/// The first addresses of pods in the cluster with controllers.
const LOCAL: &str = "10.244.1.2";

fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(member: &Member) -> Api<K> {
    Api::namespaced(member.cluster.client(), "demo")
}

async fn create<K>(member: &Member, value: Value) -> K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let object: K = serde_json::from_value(value).unwrap();
    api::<K>(member).create(&PostParams::default(), &object).await.unwrap()
}

async fn patch<K>(member: &Member, value: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let _: K = api::<K>(member).patch("echo", &PatchParams::default(), &Patch::Merge(&value)).await.unwrap();
}

/// A ServiceImport as a user writes it (Karmada's native naming proposal).
async fn write_import(member: &Member, strategy: Option<&str>) {
    let annotations = strategy.map(|word| json!({ STRATEGY: word }));
    let import = json!({
        "metadata": {"name": "echo", "annotations": annotations},
        "spec": {"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]},
    });
    create::<ServiceImport>(member, import).await;
}

async fn annotate(member: &Member, strategy: Option<&str>) {
    patch::<ServiceImport>(member, json!({"metadata": {"annotations": {STRATEGY: strategy}}})).await;
}

async fn delete_import(member: &Member) {
    api::<ServiceImport>(member).delete("echo", &DeleteParams::default()).await.unwrap();
}

fn local_service() -> Value {
    json!({
        "metadata": {"name": "echo", "annotations": {"owner": "team-b"}},
        "spec": {"selector": {"app": "echo", "tier": "web"}, "ports": [{"name": "web", "port": 80, "targetPort": 8080}]},
    })
}

/// A Service of the cluster's own, with one pod behind it.
async fn serve_locally(member: &Member) {
    create::<Service>(member, local_service()).await;
    add_pod(member, "echo-0").await;
}

async fn add_pod(member: &Member, name: &str) {
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "echo", "tier": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    create::<Pod>(member, pod).await;
}

/// Starts controllers and a node in a member.
fn control(member: &Member) -> JoinHandle<()> {
    let clock = member.cluster.clock("2026-01-01T00:00:00Z");
    member.cluster.start_controllers(Settings { phantom_nodes: 1, clock, ..Settings::default() })
}

/// Waits until the controllers have made slices for a Service of this name.
async fn are_at_work(member: &Member, name: &str) {
    let spec = json!({"selector": {"app": name}, "ports": [{"port": 80}]});
    create::<Service>(member, json!({"metadata": {"name": name}, "spec": spec})).await;
    let labels = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    until(&format!("controllers make slices of {name}"), || async {
        !api::<EndpointSlice>(member).list(&labels).await.unwrap().items.is_empty()
    })
    .await;
}

async fn service(member: &Member) -> Option<Service> {
    api(member).get_opt("echo").await.unwrap()
}

async fn slices(member: &Member) -> Vec<EndpointSlice> {
    let labels = ListParams::default().labels("kubernetes.io/service-name=echo");
    api::<EndpointSlice>(member).list(&labels).await.unwrap().items
}

/// The addresses that a connection to the Service may reach, sorted.
async fn behind(member: &Member) -> Vec<String> {
    let endpoints = slices(member).await.into_iter().flat_map(|slice| slice.endpoints.unwrap_or_default());
    let ready =
        endpoints.filter(|endpoint| endpoint.conditions.as_ref().is_none_or(|is| is.ready != Some(false)));
    let mut addresses: Vec<String> = ready.flat_map(|endpoint| endpoint.addresses).collect();
    addresses.sort();
    addresses
}

async fn reaches(member: &Member, expected: &[&str]) {
    let what = format!("echo in {} reaches {expected:?}", member.name);
    until(&what, || async { behind(member).await == expected }).await;
}

/// Waits until the import says this about its strategy.
async fn says(member: &Member, status: &str, reason: &str) {
    until(&format!("{status} {reason}"), || async {
        let import: Option<ServiceImport> = api(member).get_opt("echo").await.unwrap();
        let conditions = import.and_then(|import| import.status).map(|status| status.conditions);
        let found = conditions.unwrap_or_default().into_iter().find(|one| one.type_ == "StrategyApplied");
        found.is_some_and(|found| (found.status.as_str(), found.reason.as_str()) == (status, reason))
    })
    .await;
}

async fn is_gone(member: &Member) {
    until("no Service of the own name", || async { service(member).await.is_none() }).await;
    until("no slices of it", || async { slices(member).await.is_empty() }).await;
}

/// Lets everybody come to rest.
async fn settle() {
    linger(Duration::from_secs(20)).await;
}

/// All of an object but what tells who wrote it and when.
fn bare(service: &Service) -> Value {
    let mut service = service.clone();
    service.metadata.managed_fields = None;
    service.metadata.resource_version = None;
    to_value(service).unwrap()
}

/// Cluster a exports echo; b, with controllers, does not.
async fn exported(size: usize) -> (Fleet, JoinHandle<()>) {
    let fleet = Fleet::of(size).await;
    fleet.members[0].serve(80, &[REMOTE]).await;
    fleet.members[0].export_mcs().await;
    let controllers = control(&fleet.members[1]);
    (fleet, controllers)
}

#[tokio::test(start_paused = true)]
async fn story_1_an_imported_service_has_its_own_name_where_there_was_none() {
    let fleet = Fleet::of(3).await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    write_import(b, None).await;
    says(b, "False", "NoRemoteEndpoints").await;
    a.serve(80, &[REMOTE]).await;
    a.export_mcs().await;
    reaches(b, &[REMOTE]).await;
    says(b, "True", "Applied").await;
    let made = service(b).await.unwrap();
    assert!(made.spec.as_ref().unwrap().cluster_ip.is_some(), "it has an address");
    assert_eq!(made.spec.unwrap().selector, None);
    let slice = slices(b).await.remove(0);
    assert!(slice.name_any().starts_with("import-echo-a-"), "{}", slice.name_any());
    assert_eq!(slice.ports.unwrap()[0].name.as_deref(), Some(""), "the name that the port has here");
    assert_eq!(slice.metadata.labels.unwrap()["multicluster.kubernetes.io/source-cluster"], "a");
    assert!(b.derived().await.is_empty(), "a user wrote this import");
    let import = b.mcs_import().await.unwrap();
    assert_eq!((import.metadata.finalizers, import.metadata.labels), (None, None), "what a user wrote stays");
    until("imported in c", || async { c.mcs_import().await.is_some() }).await;
    assert_eq!(service(c).await, None, "nobody asked for the name there");

    a.endpoints(&["10.1.0.7", "10.1.0.8"]).await;
    reaches(b, &["10.1.0.7", "10.1.0.8"]).await;
    delete_import(b).await;
    is_gone(b).await;
    until("derived now", || async { !b.derived().await.is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn story_2_local_and_remote_endpoints_stand_behind_one_service_that_is_not_touched() {
    let (fleet, _controllers) = exported(2).await;
    let b = &fleet.members[1];
    serve_locally(b).await;
    reaches(b, &[LOCAL]).await;
    let before = service(b).await;
    until("derived", || async { b.mcs_import().await.is_some() }).await;
    settle().await;
    assert_eq!(behind(b).await, [LOCAL], "cluster.local stays as it is until somebody asks");
    annotate(b, Some("LocalAndRemote")).await;
    reaches(b, &[REMOTE, LOCAL]).await;
    says(b, "True", "Applied").await;
    let remote = slices(b).await.into_iter().find(|slice| slice.name_any().starts_with("import-")).unwrap();
    assert_eq!(remote.ports.unwrap()[0].name.as_deref(), Some("web"), "the Service here calls port 80 so");
    b.export_mcs().await;
    settle().await;
    assert_eq!(behind(b).await, [REMOTE, LOCAL], "what b exports itself is not imported into b");
    annotate(b, None).await;
    reaches(b, &[LOCAL]).await;
    until("nothing is said any more", || async {
        let conditions = b.mcs_import().await.unwrap().status.unwrap().conditions;
        conditions.iter().all(|condition| condition.type_ != "StrategyApplied")
    })
    .await;
    assert_eq!(service(b).await, before, "the Service is what it was, to the resource version");
}

#[tokio::test(start_paused = true)]
async fn local_only_imports_while_there_is_no_local_service() {
    let (fleet, _controllers) = exported(2).await;
    let b = &fleet.members[1];
    serve_locally(b).await;
    until("derived", || async { b.mcs_import().await.is_some() }).await;
    annotate(b, Some("LocalOnly")).await;
    says(b, "True", "LocalServicePresent").await;
    assert_eq!(behind(b).await, [LOCAL]);
    api::<Service>(b).delete("echo", &DeleteParams::default()).await.unwrap();
    reaches(b, &[REMOTE]).await;
    says(b, "True", "Applied").await;
    assert!(service(b).await.is_some());

    // A user writes a Service over the one that was made.
    let mut theirs = local_service();
    (theirs["apiVersion"], theirs["kind"]) = ("v1".into(), "Service".into());
    let params = PatchParams::apply("user").force();
    api::<Service>(b).patch("echo", &params, &Patch::Apply(&theirs)).await.unwrap();
    reaches(b, &[LOCAL]).await;
    says(b, "True", "LocalServicePresent").await;
    until("our labels are gone", || async { service(b).await.unwrap().labels().is_empty() }).await;
    annotate(b, None).await;
    settle().await;
    assert_eq!(behind(b).await, [LOCAL], "it is the user's and stays");
}

#[tokio::test(start_paused = true)]
async fn a_user_takes_the_name_over_by_replacing_the_service_that_was_made() {
    let (fleet, _controllers) = exported(2).await;
    let b = &fleet.members[1];
    until("derived", || async { b.mcs_import().await.is_some() }).await;
    annotate(b, Some("LocalAndRemote")).await;
    reaches(b, &[REMOTE]).await;
    until("the Service is made", || async { service(b).await.is_some() }).await;
    let address = service(b).await.unwrap().spec.unwrap().cluster_ip;
    let mut theirs = local_service();
    theirs["spec"]["ports"] = json!([{"port": 8080}]);
    let theirs: Service = serde_json::from_value(theirs).unwrap();
    api::<Service>(b).replace("echo", &PostParams::default(), &theirs).await.unwrap();
    add_pod(b, "echo-0").await;
    reaches(b, &[LOCAL]).await;
    says(b, "False", "NoRemoteEndpoints").await;
    let spec = service(b).await.unwrap().spec.unwrap();
    let ports: Vec<i32> = spec.ports.unwrap().iter().map(|port| port.port).collect();
    assert_eq!((spec.cluster_ip, ports), (address, vec![8080]), "the address stays, the ports are theirs");
    delete_import(b).await;
    settle().await;
    assert_eq!(behind(b).await, [LOCAL]);
}

/// Watches, from now on, whether a slice of the stock controller ever leads anywhere.
struct Watchman {
    seen: Arc<Mutex<Vec<EndpointSlice>>>,
    task: JoinHandle<()>,
}

impl Watchman {
    async fn post(member: &Member) -> Self {
        let (cache, seen) = (Cache::<EndpointSlice>::new(), Arc::default());
        let log: Arc<Mutex<Vec<EndpointSlice>>> = Arc::clone(&seen);
        cache.listen(move |slice| log.lock().unwrap().push(slice.clone()));
        let stock = "kubernetes.io/service-name=echo,endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io";
        let config = watcher::Config::default().labels(stock);
        let task = tokio::spawn(follow(cache.clone(), api(member), config));
        cache.synced().await;
        Self { seen, task }
    }

    /// Every state of those slices was seen, and there were some, but none with an endpoint.
    fn dismiss(self) {
        self.task.abort();
        let seen = self.seen.lock().unwrap();
        assert!(!seen.is_empty(), "the stock controller was at work");
        for slice in seen.iter() {
            let endpoints = slice.endpoints.as_deref().unwrap_or_default();
            assert!(endpoints.is_empty(), "a connection may have reached a local endpoint: {endpoints:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn remote_only_lets_no_connection_reach_a_local_endpoint_until_it_ends() {
    let (fleet, controllers) = exported(2).await;
    let b = &fleet.members[1];
    serve_locally(b).await;
    reaches(b, &[LOCAL]).await;
    let before = service(b).await.unwrap();
    until("derived", || async { b.mcs_import().await.is_some() }).await;
    annotate(b, Some("RemoteOnly")).await;
    reaches(b, &[REMOTE]).await;
    says(b, "True", "Applied").await;
    let kept = service(b).await.unwrap().annotations()["tombolo.dev/set-aside-selector"].clone();
    assert_eq!(kept, r#"{"app":"echo","tier":"web"}"#);

    let watchman = Watchman::post(b).await;
    b.cluster.kill_controllers(controllers).await;
    let controllers = control(b);
    are_at_work(b, "after-a-restart").await;
    add_pod(b, "echo-1").await;
    settle().await;
    // What `kubectl apply` sends for a Service whose selector and ports were edited.
    patch::<Service>(
        b,
        json!({"spec": {"selector": {"tier": "api"}, "ports": [{"name": "www", "port": 80}]}}),
    )
    .await;
    until("the edit is kept", || async {
        service(b).await.unwrap().annotations()["tombolo.dev/set-aside-selector"]
            == r#"{"app":"echo","tier":"api"}"#
    })
    .await;
    patch::<Service>(b, json!({"spec": {"selector": {"tier": "web"}, "ports": [{"name": "web", "port": 80, "targetPort": 8080}]}})).await;
    b.cluster.kill_controllers(controllers).await;
    let _controllers = control(b);
    are_at_work(b, "after-another").await;
    settle().await;
    watchman.dismiss();
    assert_eq!(behind(b).await, [REMOTE]);

    annotate(b, Some("LocalAndRemote")).await;
    reaches(b, &[REMOTE, LOCAL, "10.244.1.3"]).await;
    assert_eq!(bare(&service(b).await.unwrap()), bare(&before), "the selector is back");
    let import = b.mcs_import().await.unwrap();
    assert!(import.metadata.finalizers.unwrap_or_default().is_empty(), "nothing is left to undo");
}

#[tokio::test(start_paused = true)]
async fn remote_only_works_while_no_controller_does_and_takes_back_what_is_forced_on_it() {
    let (fleet, controllers) = exported(2).await;
    let b = &fleet.members[1];
    serve_locally(b).await;
    reaches(b, &[LOCAL]).await;
    b.cluster.kill_controllers(controllers).await;
    until("derived", || async { b.mcs_import().await.is_some() }).await;
    annotate(b, Some("RemoteOnly")).await;
    reaches(b, &[REMOTE]).await;
    let watchman = Watchman::post(b).await;
    let _controllers = control(b);
    are_at_work(b, "after-the-start").await;
    settle().await;
    watchman.dismiss();
    // The owner forces a whole new selector: there is no key of ours in it for a moment.
    let forced = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"}, "spec": {
        "selector": {"app": "echo"}, "ports": [{"name": "web", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
    }});
    let params = PatchParams::apply("owner").force();
    api::<Service>(b).patch("echo", &params, &Patch::Apply(&forced)).await.unwrap();
    until("put aside again", || async {
        service(b).await.unwrap().annotations()["tombolo.dev/set-aside-selector"] == r#"{"app":"echo"}"#
    })
    .await;
    reaches(b, &[REMOTE]).await;
    annotate(b, Some("LocalOnly")).await;
    reaches(b, &[LOCAL]).await;
    let selector = service(b).await.unwrap().spec.unwrap().selector.unwrap();
    assert_eq!(selector, [("app".to_owned(), "echo".to_owned())].into());
}

#[tokio::test(start_paused = true)]
async fn remote_only_fails_closed_says_so_and_ends_with_the_import_even_if_the_agent_was_away() {
    let mut fleet = Fleet::of(2).await;
    let _controllers = control(&fleet.members[1]);
    let before = {
        let b = &fleet.members[1];
        serve_locally(b).await;
        reaches(b, &[LOCAL]).await;
        let before = service(b).await.unwrap();
        write_import(b, Some("RemoteOnly")).await;
        reaches(b, &[]).await;
        says(b, "False", "NoRemoteEndpoints").await;
        assert_eq!(events(b, "ServiceImport").await, pairs(&[("Warning", "NoRemoteEndpoints")]));
        let import = b.mcs_import().await.unwrap();
        assert_eq!(import.metadata.finalizers.unwrap(), ["tombolo.dev/native-naming"]);
        before
    };
    fleet.kill(1);
    delete_import(&fleet.members[1]).await;
    settle().await;
    assert!(fleet.members[1].mcs_import().await.is_some(), "it waits for the selector to come back");
    assert!(behind(&fleet.members[1]).await.is_empty());
    fleet.start(1);
    let b = &fleet.members[1];
    reaches(b, &[LOCAL]).await;
    until("the import goes", || async { b.mcs_import().await.is_none() }).await;
    assert_eq!(bare(&service(b).await.unwrap()), bare(&before));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_was_away_while_the_strategy_changed_catches_up() {
    let (mut fleet, _controllers) = exported(2).await;
    serve_locally(&fleet.members[1]).await;
    until("derived", || async { fleet.members[1].mcs_import().await.is_some() }).await;
    let reach: [(Option<&str>, &[&str]); 6] = [
        (Some("RemoteOnly"), &[REMOTE]),
        (Some("LocalOnly"), &[LOCAL]),
        (Some("LocalAndRemote"), &[REMOTE, LOCAL]),
        (Some("RemoteOnly"), &[REMOTE]),
        (Some("nonsense"), &[LOCAL]),
        (None, &[LOCAL]),
    ];
    for (strategy, expected) in reach {
        fleet.kill(1);
        annotate(&fleet.members[1], strategy).await;
        fleet.start(1);
        reaches(&fleet.members[1], expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_strategy_is_refused_and_never_read_as_another_one() {
    let (fleet, _controllers) = exported(2).await;
    let b = &fleet.members[1];
    until("derived", || async { b.mcs_import().await.is_some() }).await;
    for word in ["", "LocalFirst", "remoteonly"] {
        annotate(b, Some(word)).await;
        says(b, "False", "UnknownStrategy").await;
        settle().await;
        assert_eq!((service(b).await, slices(b).await.len()), (None, 0), "{word:?}");
    }
    assert_eq!(events(b, "ServiceImport").await, pairs(&[("Warning", "UnknownStrategy")]));
    annotate(b, Some("RemoteOnly")).await;
    reaches(b, &[REMOTE]).await;
    let expected = pairs(&[("Warning", "UnknownStrategy"), ("Normal", "Applied")]);
    until("told", || async { events(b, "ServiceImport").await == expected }).await;

    let made = service(b).await;
    annotate(b, Some("nonsense")).await;
    says(b, "False", "UnknownStrategy").await;
    settle().await;
    assert_eq!(behind(b).await, [REMOTE], "a slip of the pen takes nothing down");
    assert_eq!(service(b).await, made);
}

#[tokio::test(start_paused = true)]
async fn the_endpoints_of_a_dead_source_go_from_native_names_too_and_return_with_it() {
    let (mut fleet, _controllers) = exported(2).await;
    {
        let b = &fleet.members[1];
        serve_locally(b).await;
        until("derived", || async { b.mcs_import().await.is_some() }).await;
        annotate(b, Some("RemoteOnly")).await;
        reaches(b, &[REMOTE]).await;
    }
    fleet.kill(0);
    reaches(&fleet.members[1], &[]).await;
    says(&fleet.members[1], "False", "NoRemoteEndpoints").await;
    fleet.start(0);
    reaches(&fleet.members[1], &[REMOTE]).await;
    says(&fleet.members[1], "True", "Applied").await;
}

#[tokio::test(start_paused = true)]
async fn slices_that_somebody_wrote_stay_and_remote_only_says_that_they_do() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &[REMOTE]).await;
    a.export_mcs().await;
    b.serve(80, &["10.2.0.1"]).await;
    until("derived", || async { b.mcs_import().await.is_some() }).await;
    annotate(b, Some("RemoteOnly")).await;
    says(b, "False", "LocalEndpointsRemain").await;
    assert_eq!(behind(b).await, [REMOTE, "10.2.0.1"]);
    b.endpoints(&[]).await;
    says(b, "True", "Applied").await;
}

#[tokio::test(start_paused = true)]
async fn native_names_write_nothing_when_nothing_changes() {
    let (mut fleet, _controllers) = exported(2).await;
    serve_locally(&fleet.members[1]).await;
    until("derived", || async { fleet.members[1].mcs_import().await.is_some() }).await;
    for strategy in ["RemoteOnly", "LocalAndRemote"] {
        annotate(&fleet.members[1], Some(strategy)).await;
        settle().await;
        let b = &fleet.members[1];
        let picture = async |b: &Member| (service(b).await, slices(b).await, b.mcs_import().await);
        let before = picture(b).await;
        assert_eq!(
            service(b).await.unwrap().spec.unwrap().selector.unwrap().contains_key(ASIDE),
            strategy == "RemoteOnly"
        );
        fleet.kill(1);
        fleet.start(1);
        linger(Duration::from_secs(120)).await;
        assert_eq!(picture(&fleet.members[1]).await, before, "{strategy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_native_name_that_cannot_be_made_is_told_to_the_exporter() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &[REMOTE]).await;
    a.export_mcs().await;
    until("derived", || async { b.mcs_import().await.is_some() }).await;
    annotate(b, Some("LocalAndRemote")).await;
    reaches(b, &[REMOTE]).await;
    let name = slices(b).await[0].name_any();
    annotate(b, None).await;
    reaches(b, &[]).await;
    let theirs = json!({"metadata": {"name": name}, "addressType": "IPv4", "endpoints": []});
    create::<EndpointSlice>(b, theirs).await;
    annotate(b, Some("LocalAndRemote")).await;
    let ready = || async { a.mcs_condition("Ready").await.unwrap_or_default() };
    until("the export names the cluster and the object", || async {
        let (status, _, message) = ready().await;
        status == "False" && message.contains(" b") && message.contains(&name)
    })
    .await;
    says(b, "False", "SlicesRefused").await;
    api::<EndpointSlice>(b).delete(&name, &DeleteParams::default()).await.unwrap();
    reaches(b, &[REMOTE]).await;
    says(b, "True", "Applied").await;
    until("it is ready", || async { ready().await.0 == "True" }).await;

    let not_answered = Some("/endpointslices/import-");
    b.own_link.plan(FaultPlan { not_answered, ..FaultPlan::default() });
    a.endpoints(&["10.1.0.7"]).await;
    until("a write that is never answered is named, too", || async {
        let (status, _, message) = ready().await;
        status == "False" && message.contains("there was no answer in time")
    })
    .await;
    b.own_link.heal();
    reaches(b, &["10.1.0.7"]).await;
    until("it is ready again", || async { ready().await.0 == "True" }).await;
}
