//! The shipped RBAC rules are enough for an agent, and keep it out of other members' namespaces.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Error};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tombolo_agent::{Agent, Config, Metrics};
use tombolo_api::tombolo::{Membership, POD_CIDRS_ANNOTATION, STATEMENT, ServiceOffer};
use tombolo_api::{kep, mcs};
use tombolo_apiserver::{Clock, Entropy, Options, User};
use tombolo_runtime::{Candidate, request_token};
use tombolo_testkit::witness::{Rights, Witness, granted};
use tombolo_testkit::{Cluster, EDITIONS, embedded_only, exported_echo, linger, real_only, until};

const EPOCH: &str = "2026-01-01T00:00:00Z";
const HUB_RULES: &str = concat!(
    include_str!("../../../deploy/hub/member-roles.yaml"),
    "---\n",
    include_str!("../../../deploy/hub/member-rbac.yaml")
);
const MEMBER_RULES: &str = include_str!("../../../deploy/member/agent-rbac.yaml");
const NO_EXPORTS: &str = include_str!("../../../deploy/policy/no-exports.yaml");

async fn cluster(name: &str, seed: u64) -> Cluster {
    Cluster::with_definitions(Options {
        rbac: true,
        clock: Clock::starting_at(EPOCH.parse().unwrap()),
        entropy: Entropy::seeded(seed),
        ..Options::named(name)
    })
    .await
}

/// Applies a manifest as an administrator would.
async fn apply(cluster: &Cluster, manifest: &str) {
    for document in manifest.split("\n---\n") {
        let value: Value = serde_saphyr::from_str(document).unwrap();
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let (group, version) = match value["apiVersion"].as_str().unwrap().split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", "v1"),
        };
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &text(&value["kind"])));
        let api: Api<DynamicObject> = match value["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(cluster.client(), namespace, &kind),
            None => Api::all_with(cluster.client(), &kind),
        };
        let name = text(&value["metadata"]["name"]);
        api.patch(&name, &PatchParams::apply("admin").force(), &Patch::Apply(&value)).await.unwrap();
    }
}

fn hub_account(hub: &Cluster, member: &str) -> Client {
    hub.client_as(User::service_account(&format!("tombolo-{member}"), "agent"))
}

fn member_account(member: &Cluster) -> Client {
    member.client_as(User::service_account("tombolo-system", "tombolo-agent"))
}

async fn join(hub: &Cluster, name: &str, seed: u64) -> Cluster {
    apply(
        hub,
        &HUB_RULES.replace("NAMESPACE", &format!("tombolo-{name}")).replace("POD_CIDRS", "0.0.0.0/0,::/0"),
    )
    .await;
    let member = cluster(name, seed).await;
    apply(&member, MEMBER_RULES).await;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("demo".to_owned());
    Api::all(member.client()).create(&PostParams::default(), &namespace).await.unwrap();
    member
}

/// Those who see what agents do in their clusters and at the hub.
#[derive(Clone, Default)]
struct Witnesses {
    member: Witness,
    hub: Witness,
}

/// Starts an agent with nothing but the shipped rules, led as in production.
async fn start(hub: &Cluster, name: &str, member: &Cluster) -> Metrics {
    start_before(&Witnesses::default(), hub, name, member, Duration::ZERO).await
}

/// The same, by a clock that is fast.
async fn start_before(
    witnesses: &Witnesses,
    hub: &Cluster,
    name: &str,
    member: &Cluster,
    fast: Duration,
) -> Metrics {
    let metrics = Metrics::default();
    let clock = Clock::starting_at(member.clock(EPOCH).now() + fast);
    let config = Config {
        clock,
        token_secret: Some("tombolo-hub".to_owned()),
        ..Config::new(name.parse().unwrap(), format!("identity-{name}"))
    };
    let own = witnesses.member.client(member, User::service_account("tombolo-system", "tombolo-agent"));
    let there = witnesses.hub.client(hub, User::service_account(&format!("tombolo-{name}"), "agent"));
    let agent = Agent::new(config, own.clone(), there).with_metrics(&metrics);
    agent.rehearse().await.unwrap();
    let candidate = Candidate::new("tombolo-system", "tombolo-agent", name);
    tokio::spawn(async move { candidate.lead(own, agent.run(std::future::pending())).await });
    metrics
}

/// A token for the hub in the member, as `tombolo join` leaves it.
async fn give_token(hub: &Cluster, name: &str, member: &Cluster, seconds: i64) -> String {
    let token = request_token(&hub.client(), &format!("tombolo-{name}"), "agent", seconds).await.unwrap();
    let secret = json!({"metadata": {"name": "tombolo-hub"}, "stringData": {"token": token}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    Api::namespaced(member.client(), "tombolo-system").create(&PostParams::default(), &secret).await.unwrap();
    token
}

async fn imported(member: &Cluster) -> usize {
    let api: Api<EndpointSlice> = Api::namespaced(member.client(), "demo");
    let imported = ListParams::default().labels(mcs::SOURCE_CLUSTER_LABEL);
    api.list(&imported).await.unwrap().items.len()
}

/// How many endpoints the imported slices have.
async fn reached(member: &Cluster) -> usize {
    let api: Api<EndpointSlice> = Api::namespaced(member.client(), "demo");
    let imported = ListParams::default().labels(mcs::SOURCE_CLUSTER_LABEL);
    let slices = api.list(&imported).await.unwrap().items;
    slices.iter().map(|slice| slice.endpoints.as_ref().map_or(0, Vec::len)).sum()
}

async fn is_ready(member: &Cluster) -> bool {
    let export: mcs::ServiceExport = Api::namespaced(member.client(), "demo").get("echo").await.unwrap();
    let conditions = export.status.map(|status| status.conditions).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[tokio::test(start_paused = true)]
async fn agents_with_the_shipped_rules_export_import_and_take_back() {
    let hub = cluster("hub", 1).await;
    let (a, b) = (join(&hub, "a", 2).await, join(&hub, "b", 3).await);
    let all = [start(&hub, "a", &a).await, start(&hub, "b", &b).await];
    apply(&a, &exported_echo(&EDITIONS)).await;
    until("imported in both editions", || async { imported(&b).await == 2 }).await;
    until("acknowledged", || async { is_ready(&a).await }).await;
    assert!(
        Api::<kep::ImportedService>::namespaced(b.client(), "demo").get_opt("echo").await.unwrap().is_some()
    );
    let leases =
        Api::<Lease>::namespaced(b.client(), "tombolo-system").list(&ListParams::default()).await.unwrap();
    assert_eq!(leases.items.len(), 3, "of two sources and of the leader");

    Api::<kep::ServiceExport>::namespaced(a.client(), "demo")
        .delete("echo", &DeleteParams::default())
        .await
        .unwrap();
    Api::<mcs::ServiceExport>::namespaced(a.client(), "demo")
        .delete("echo", &DeleteParams::default())
        .await
        .unwrap();
    until("gone", || async {
        let services =
            Api::<Service>::namespaced(b.client(), "demo").list(&ListParams::default()).await.unwrap();
        let offers = Api::<ServiceOffer>::all(hub.client()).list(&ListParams::default()).await.unwrap();
        imported(&b).await == 0 && services.items.is_empty() && offers.items.is_empty()
    })
    .await;
    all_allowed(&all);
}

/// No write of these agents was refused for want of rights.
fn all_allowed(all: &[Metrics]) {
    for metrics in all {
        let (mut registry, mut text) = (Registry::default(), String::new());
        metrics.register(&mut registry);
        encode(&mut text, &registry).unwrap();
        assert!(text.contains("result=\"ok\"") && !text.contains("result=\"forbidden\""), "{text}");
    }
}

fn rules(manifest: &str) -> Rights {
    let documents: Vec<Value> =
        manifest.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
    granted(&documents)
}

/// Everything that agents do, once.
async fn do_everything(a: &Cluster, b: &Cluster) {
    apply(b, LOCAL).await;
    apply(a, &exported_echo(&EDITIONS)).await;
    let services: Api<Service> = Api::namespaced(b.client(), "demo");
    let made = async |name: &str| services.get_opt(name).await.unwrap().is_some();
    until("imported", || async { imported(b).await > 1 && made("other").await }).await;
    until("acknowledged", || async { is_ready(a).await }).await;
    let label = |value: Value| json!({"metadata": {"labels": {"tombolo.dev/auto-export": value}}});
    let today: Api<mcs::ServiceExport> = Api::namespaced(b.client(), "demo");
    let first: Api<kep::ServiceExport> = Api::namespaced(b.client(), "demo");
    for (value, expected) in
        [(json!("mcs"), (true, false)), (json!("kep"), (false, true)), (Value::Null, (false, false))]
    {
        services.patch("echo", &PatchParams::default(), &Patch::Merge(label(value))).await.unwrap();
        let exported = || async {
            let of_today = today.get_opt("echo").await.unwrap().is_some();
            (of_today, first.get_opt("echo").await.unwrap().is_some()) == expected
        };
        until("exported as the label asks for", exported).await;
    }
    let imports: Api<mcs::ServiceImport> = Api::namespaced(b.client(), "demo");
    for name in ["echo", "other"] {
        imports.delete(name, &DeleteParams::default()).await.unwrap();
    }
    until("given back", || async { !made("other").await }).await;
    // Otherwise there is none to be deleted with its last export.
    let derived = async || {
        imports
            .get_opt("echo")
            .await
            .unwrap()
            .is_some_and(|found| found.metadata.deletion_timestamp.is_none())
    };
    until("derived again", || async { derived().await }).await;
    let (first, today): (Api<kep::ServiceExport>, Api<mcs::ServiceExport>) =
        (Api::namespaced(a.client(), "demo"), Api::namespaced(a.client(), "demo"));
    first.delete("echo", &DeleteParams::default()).await.unwrap();
    today.delete("echo", &DeleteParams::default()).await.unwrap();
    until("gone", || async { imported(b).await == 0 }).await;
    until("the import, too", || async { imports.get_opt("echo").await.unwrap().is_none() }).await;
}

/// Of the life of a token for an hour.
const A_THIRD: Duration = Duration::from_secs(1200);

/// What the process asks before there is an agent.
const BEFORE: [&str; 2] = ["get /namespaces", "get about.k8s.io/clusterproperties"];

/// What only a heartbeat that met a conflict asks for; what is refused where there is no hub part, and tried again.
const AT_TIMES: [&str; 2] = ["get coordination.k8s.io/leases", "list work.karmada.io/works"];

#[tokio::test(start_paused = true)]
async fn what_the_shipped_rules_grant_is_what_agents_use() {
    let witnesses = Witnesses::default();
    let hub = cluster("hub", 1).await;
    let (a, b) = (join(&hub, "a", 2).await, join(&hub, "b", 3).await);
    for (name, member) in [("a", &a), ("b", &b)] {
        give_token(&hub, name, member, 3600).await;
        // Thus the token is renewed at once.
        start_before(&witnesses, &hub, name, member, A_THIRD).await;
    }
    do_everything(&a, &b).await;
    let renewed = "create /serviceaccounts/token".to_owned();
    until("renewed", || async { witnesses.hub.used().contains(&renewed) }).await;
    until("stored", || async { witnesses.member.used().contains("patch /secrets") }).await;
    leave_a_lease(&a).await;
    let forgotten = "delete coordination.k8s.io/leases";
    until("forgotten", || async { witnesses.member.used().contains(forgotten) }).await;
    let led_on = "update coordination.k8s.io/leases";
    until("led on", || async { witnesses.member.used().contains(led_on) }).await;
    witnesses.member.used_exactly(&rules(MEMBER_RULES), &BEFORE);
    witnesses.hub.used_exactly(&rules(HUB_RULES), &AT_TIMES);
}

/// What a cluster leaves behind in another one.
async fn leave_a_lease(member: &Cluster) {
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {
            "name": "one-that-left",
            "labels": {mcs::SOURCE_CLUSTER_LABEL: "gone", "app.kubernetes.io/managed-by": "tombolo"},
        },
        "spec": {"holderIdentity": ""},
    }))
    .unwrap();
    let leases: Api<Lease> = Api::namespaced(member.client(), "tombolo-system");
    leases.create(&PostParams::default(), &lease).await.unwrap();
}

async fn an_agent_is_refused_without(verb: &str) {
    let witnesses = Witnesses::default();
    let hub = cluster("hub", 1).await;
    let member = join(&hub, "a", 2).await;
    let roles: Api<ClusterRole> = Api::all(hub.client());
    let mut role = roles.get("tombolo-member-writer").await.unwrap();
    let rules = role.rules.get_or_insert_default();
    let is_statement = |rule: &PolicyRule| rule.resources.iter().flatten().any(|one| one == "memberships");
    rules.iter_mut().filter(|rule| !is_statement(rule)).for_each(|rule| rule.verbs.retain(|one| one != verb));
    rules.retain(|rule| !rule.verbs.is_empty());
    roles.replace("tombolo-member-writer", &PostParams::default(), &role).await.unwrap();
    start_before(&witnesses, &hub, "a", &member, Duration::ZERO).await;
    until("refused", || async { !witnesses.hub.refused().is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_create_an_agent_is_refused() {
    an_agent_is_refused_without("create").await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_change_an_agent_is_refused() {
    an_agent_is_refused_without("patch").await;
}

#[tokio::test(start_paused = true)]
async fn the_token_for_the_hub_is_good_for_as_long_as_an_agent_lives() {
    embedded_only!("time cannot be paused for as long as tokens live; cargo xtask soak waits for it");
    let hub = cluster("hub", 1).await;
    let member = join(&hub, "a", 2).await;
    let first = give_token(&hub, "a", &member, 3600).await;
    start(&hub, "a", &member).await;
    let secrets: Api<Secret> = Api::namespaced(member.client(), "tombolo-system");
    let held = async || {
        let data = secrets.get("tombolo-hub").await.unwrap().data.unwrap();
        String::from_utf8(data["token"].0.clone()).unwrap()
    };
    tokio::time::sleep(A_THIRD).await;
    until("replaced after a third of its life", || async { held().await != first }).await;
    // Longer than such a token lives.
    for _ in 0..4 {
        tokio::time::sleep(A_THIRD).await;
        assert!(is_good(&hub, &held().await).await);
    }
    assert!(!is_good(&hub, &first).await, "and what was replaced runs out");
}

/// Whether the hub takes a token for that of the member.
async fn is_good(hub: &Cluster, token: &str) -> bool {
    let review = json!({"metadata": {}, "spec": {"token": token}});
    let review: TokenReview = serde_json::from_value(review).unwrap();
    let answer = Api::<TokenReview>::all(hub.client()).create(&PostParams::default(), &review).await.unwrap();
    let status = answer.status.unwrap();
    status.user.and_then(|user| user.username).as_deref() == Some("system:serviceaccount:tombolo-a:agent")
}

const LOCAL: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: demo}
spec: {selector: {app: echo}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: echo, namespace: demo, annotations: {discovery.karmada.io/strategy: RemoteOnly}}
spec: {type: ClusterSetIP, ports: [{port: 80, protocol: TCP}]}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: other, namespace: demo}
spec: {type: ClusterSetIP, ports: [{port: 80, protocol: TCP}]}
"#;

#[tokio::test(start_paused = true)]
async fn agents_with_the_shipped_rules_give_native_names_and_put_selectors_aside() {
    let hub = cluster("hub", 1).await;
    let (a, b) = (join(&hub, "a", 2).await, join(&hub, "b", 3).await);
    let metrics = [start(&hub, "a", &a).await, start(&hub, "b", &b).await];
    apply(&b, LOCAL).await;
    apply(&a, &exported_echo(&EDITIONS)).await;
    let services: Api<Service> = Api::namespaced(b.client(), "demo");
    let selector = async |service: &str| {
        let spec = services.get_opt(service).await.unwrap().and_then(|service| service.spec);
        spec.map(|spec| spec.selector.unwrap_or_default().len())
    };
    until("put aside", || async { selector("echo").await == Some(2) }).await;
    until("made", || async { selector("other").await == Some(0) }).await;
    until("imported", || async { imported(&b).await > 0 }).await;
    let imports: Api<mcs::ServiceImport> = Api::namespaced(b.client(), "demo");
    for name in ["echo", "other"] {
        imports.delete(name, &DeleteParams::default()).await.unwrap();
    }
    until("given back", || async { selector("echo").await == Some(1) }).await;
    until("gone", || async { selector("other").await.is_none() }).await;
    all_allowed(&metrics);
}

fn is_forbidden<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Api(status)) if status.code == 403)
}

#[tokio::test(start_paused = true)]
async fn a_member_can_write_nowhere_but_in_its_own_namespace_at_the_hub() {
    let hub = cluster("hub", 1).await;
    let (_a, _b) = (join(&hub, "a", 2).await, join(&hub, "b", 3).await);
    let as_a = hub_account(&hub, "a");
    let objects = [
        ("coordination.k8s.io", "v1", "Lease", json!({"spec": {"holderIdentity": "forged"}})),
        ("discovery.k8s.io", "v1", "EndpointSlice", json!({"addressType": "IPv4", "endpoints": []})),
        ("tombolo.dev", "v1alpha1", "Membership", json!({"spec": {"cluster": "b", "identity": "forged"}})),
    ];
    for (group, version, kind, mut object) in objects {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        object["apiVersion"] = format!("{group}/{version}").into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": "member"});
        for (namespace, allowed) in [("tombolo-a", true), ("tombolo-b", false), ("default", false)] {
            let api: Api<DynamicObject> = Api::namespaced_with(as_a.clone(), namespace, &resource);
            let outcome = api.patch("member", &PatchParams::apply("a").force(), &Patch::Apply(&object)).await;
            assert_eq!(is_forbidden(outcome), !allowed, "{kind} in {namespace}");
        }
    }
    let offers: Api<ServiceOffer> = Api::namespaced(as_a.clone(), "tombolo-b");
    assert!(is_forbidden(offers.delete("any", &DeleteParams::default()).await));
    let statements: Api<Membership> = Api::namespaced(as_a.clone(), "tombolo-b");
    let status = json!({"status": {"watermark": "999"}});
    assert!(is_forbidden(
        statements.patch_status("member", &PatchParams::default(), &Patch::Merge(&status)).await
    ));
    assert!(is_forbidden(Api::<Secret>::all(as_a.clone()).list(&ListParams::default()).await));
    assert!(offers.list(&ListParams::default()).await.is_ok(), "what others offer can be read");
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_believed_only_where_the_namespace_at_the_hub_says_which_its_member_cannot_change() {
    let hub = cluster("hub", 1).await;
    let (a, b) = (join(&hub, "a", 2).await, join(&hub, "b", 3).await);
    start(&hub, "a", &a).await;
    start(&hub, "b", &b).await;
    apply(&a, &exported_echo(&EDITIONS)).await;
    until("nobody said where its pods are", || async { reached(&b).await == 2 }).await;
    let grant =
        |ranges: &str| Patch::Merge(json!({"metadata": {"annotations": {POD_CIDRS_ANNOTATION: ranges}}}));
    let namespaces: Api<Namespace> = Api::all(hub.client());
    namespaces.patch("tombolo-a", &PatchParams::default(), &grant("10.9.0.0/16")).await.unwrap();
    until("what is elsewhere goes", || async { reached(&b).await == 0 }).await;

    let as_a = hub_account(&hub, "a");
    let everywhere = json!({"spec": {"podCIDRs": ["0.0.0.0/0"]}});
    let statements: Api<Membership> = Api::namespaced(as_a.clone(), "tombolo-a");
    statements.patch(STATEMENT, &PatchParams::default(), &Patch::Merge(&everywhere)).await.unwrap();
    let own: Api<Namespace> = Api::all(as_a);
    assert!(is_forbidden(own.patch("tombolo-a", &PatchParams::default(), &grant("0.0.0.0/0")).await));
    linger(Duration::from_secs(20)).await;
    assert_eq!(reached(&b).await, 0, "whatever it states");

    let both = grant("10.9.0.0/16,10.1.0.0/16");
    namespaces.patch("tombolo-a", &PatchParams::default(), &both).await.unwrap();
    until("what is there comes", || async { reached(&b).await == 2 }).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_has_no_rights_in_its_cluster_beyond_its_work() {
    let hub = cluster("hub", 1).await;
    let a = join(&hub, "a", 2).await;
    let agent = member_account(&a);
    assert!(is_forbidden(Api::<Secret>::all(agent.clone()).list(&ListParams::default()).await));
    let leases: Api<Lease> = Api::namespaced(agent.clone(), "kube-system");
    assert!(is_forbidden(leases.create(&PostParams::default(), &Lease::default()).await));
    let pods: Api<Pod> = Api::namespaced(agent.clone(), "demo");
    assert!(is_forbidden(pods.delete("echo", &DeleteParams::default()).await));
    let namespaces: Api<Namespace> = Api::all(agent);
    assert!(is_forbidden(namespaces.delete("demo", &DeleteParams::default()).await));
}

const TEAM_RULES: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: exporter, namespace: demo}
rules:
- apiGroups: [multicluster.k8s.io, multicluster.x-k8s.io]
  resources: [serviceexports]
  verbs: [create, delete, get, list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: exporter, namespace: demo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: exporter}
subjects: [{kind: ServiceAccount, name: team, namespace: demo}]
"#;

#[tokio::test(start_paused = true)]
async fn whoever_may_export_in_one_namespace_may_neither_export_elsewhere_nor_write_imports() {
    let hub = cluster("hub", 1).await;
    let a = join(&hub, "a", 2).await;
    apply(&a, TEAM_RULES).await;
    let team = a.client_as(User::service_account("demo", "team"));
    for (group, version, kind, namespace, allowed) in [
        ("multicluster.k8s.io", "v1alpha1", "ServiceExport", "demo", true),
        ("multicluster.x-k8s.io", "v1beta1", "ServiceExport", "demo", true),
        ("multicluster.k8s.io", "v1alpha1", "ServiceExport", "kube-system", false),
        ("multicluster.x-k8s.io", "v1beta1", "ServiceExport", "default", false),
        ("multicluster.k8s.io", "v1alpha1", "ImportedService", "demo", false),
        ("multicluster.x-k8s.io", "v1alpha1", "ServiceImport", "demo", false),
        ("multicluster.x-k8s.io", "v1beta1", "ServiceImport", "demo", false),
    ] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(team.clone(), namespace, &resource);
        let outcome = api.create(&PostParams::default(), &DynamicObject::new("echo", &resource)).await;
        assert_eq!(outcome.is_ok(), allowed, "{group} {kind} in {namespace}: {outcome:?}");
        assert_eq!(is_forbidden(outcome), !allowed, "{group} {kind} in {namespace}");
    }
}

#[tokio::test]
async fn the_shipped_policy_keeps_exports_and_their_label_out_of_chosen_namespaces() {
    real_only!("it evaluates no admission policies");
    let cluster = cluster("a", 1).await;
    apply(&cluster, NO_EXPORTS).await;
    // What a test changes stays so for the next one on this cluster.
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let label = json!({"metadata": {"labels": {"tombolo.dev/auto-export": "true"}}});
    let labelled = async |kind: &str, namespace: Option<&str>, name: &str| {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(cluster.client(), namespace, &resource),
            None => Api::all_with(cluster.client(), &resource),
        };
        api.patch(name, &params, &Patch::Merge(&label)).await
    };
    until("the policy is in force", async || {
        labelled("Service", Some("default"), "kubernetes").await.is_err_and(|error| is_refused(&error))
    })
    .await;
    assert!(labelled("Namespace", None, "kube-system").await.is_err_and(|error| is_refused(&error)));
    for (group, version) in EDITIONS.map(|edition| edition.split_once('/').unwrap()) {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "ServiceExport"));
        for (namespace, allowed) in [("default", false), ("kube-public", true)] {
            let api: Api<DynamicObject> = Api::namespaced_with(cluster.client(), namespace, &resource);
            let outcome = api.create(&PostParams::default(), &DynamicObject::new("echo", &resource)).await;
            assert_eq!(outcome.is_ok(), allowed, "{group} in {namespace}: {outcome:?}");
        }
    }
    labelled("Namespace", None, "kube-public").await.unwrap();
    for kind in ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"] {
        let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(cluster.client(), &ApiResource::from_gvk(&gvk));
        api.delete("tombolo-no-exports", &DeleteParams::default()).await.unwrap();
    }
}

fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.message.contains("are not exported"))
}
