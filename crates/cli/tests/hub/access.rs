//! The shipped RBAC rules are enough for a hub and its agents, and keep members out of each other's namespaces.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Error, ResourceExt as _};
use serde_json::{Value, json};
use tombolo_agent::{Agent, Config};
use tombolo_api::karmada::cluster::Cluster as Registered;
use tombolo_api::karmada::work::Work;
use tombolo_apiserver::controllers::Settings;
use tombolo_apiserver::{Clock, Entropy, Options, User};
use tombolo_hub::Hub;
use tombolo_runtime::Candidate;
use tombolo_testkit::Cluster;
use tombolo_testkit::witness::{Rights, Witness, granted};
use tombolo_testkit::{real_only, until};

use crate::fleet::{EPOCH, Fleet, Member, NAMESPACE};

const HUB_RULES: &str = include_str!("../../../../deploy/hub/hub-rbac.yaml");
const MEMBER_RULES: &str = include_str!("../../../../deploy/hub/member-rbac.yaml");
const AGENT_RULES: &str = include_str!("../../../../deploy/member/agent-rbac.yaml");
const NAMESPACES_POLICY: &str = include_str!("../../../../deploy/policy/hub-namespaces.yaml");

/// Applies a manifest as an administrator would.
async fn apply(client: &Client, manifest: &str) {
    for document in manifest.split("\n---\n") {
        let value: Value = serde_saphyr::from_str(document).unwrap();
        let (group, version) = value["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let kind = GroupVersionKind::gvk(group, version, value["kind"].as_str().unwrap());
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match value["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let name = value["metadata"]["name"].as_str().unwrap().to_owned();
        api.patch(&name, &PatchParams::apply("admin").force(), &Patch::Apply(&value)).await.unwrap();
    }
}

async fn guarded(name: &str, seed: u64) -> Cluster {
    Cluster::with_definitions(Options {
        rbac: true,
        clock: Clock::starting_at(EPOCH.parse().unwrap()),
        entropy: Entropy::seeded(seed),
        ..Options::named(name)
    })
    .await
}

/// A hub and members whose parts have nothing but the shipped rules.
async fn guarded_fleet() -> Fleet {
    guarded_fleet_before(&Witness::default(), &Witness::default()).await
}

/// The same, with those who see what the hub does, and what members do there.
async fn guarded_fleet_before(of_hub: &Witness, of_members: &Witness) -> Fleet {
    let names = ["member1", "member2"];
    // All of them before anything runs: whoever waits for a real one keeps all tasks of the test waiting.
    let (hub, clusters) =
        (guarded("hub", 1).await, [guarded(names[0], 10).await, guarded(names[1], 11).await]);
    apply(&hub.client(), HUB_RULES).await;
    hub.start_controllers(Settings::default());
    let clock = hub.clock(EPOCH);
    let config = tombolo_hub::Config { clock, ..tombolo_hub::Config::new("test") };
    let account = of_hub.client(&hub, User::service_account("tombolo-system", "tombolo-hub"));
    let part = Hub::new(config, account.clone());
    let candidate = Candidate::new("tombolo-system", "tombolo-hub", "test");
    tokio::spawn(async move { candidate.lead(account, part.run(std::future::pending())).await });
    let mut members = Vec::new();
    for (name, cluster) in names.into_iter().zip(clusters) {
        let rules = MEMBER_RULES.replace("NAMESPACE", &format!("tombolo-{name}"));
        apply(&hub.client(), &rules.replace("POD_CIDRS", "0.0.0.0/0,::/0")).await;
        apply(&cluster.client(), AGENT_RULES).await;
        let clock = cluster.clock(EPOCH);
        let config = Config { clock, ..Config::new(name.parse().unwrap(), format!("identity-{name}")) };
        let own = cluster.client_as(User::service_account("tombolo-system", "tombolo-agent"));
        let there = of_members.client(&hub, User::service_account(&format!("tombolo-{name}"), "agent"));
        tokio::spawn(Agent::new(config.clone(), own, there).run(std::future::pending()));
        members.push(Member::of(cluster, config));
    }
    Fleet::with(hub, members)
}

fn agent_account(hub: &Cluster, member: &str) -> Client {
    hub.client_as(User::service_account(&format!("tombolo-{member}"), "agent"))
}

fn is_forbidden<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Api(status)) if status.code == 403)
}

#[tokio::test(start_paused = true)]
async fn with_the_shipped_rules_a_service_is_shared_taken_back_and_a_cluster_leaves() {
    let fleet = guarded_fleet().await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    member1.endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("shared", || async { member2.reached().await == ["10.1.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    fleet.delete_object().await;
    until("taken back", || async {
        fleet.object().await.is_none()
            && member2.slices().await.is_empty()
            && member2.service().await.is_none()
    })
    .await;
    let clusters: Api<Registered> = Api::all(fleet.hub.client());
    clusters.delete("member2", &DeleteParams::default()).await.unwrap();
    until("left", || async { clusters.get_opt("member2").await.unwrap().is_none() }).await;
}

/// The rights that one role of the hub's rules gives.
fn rights_of(role: &str) -> Rights {
    let documents: Vec<Value> =
        HUB_RULES.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
    granted(documents.iter().filter(|document| document["metadata"]["name"] == role))
}

/// For members without an agent, and for a name that comes back as another cluster; what the process asks before there is a
/// hub; and what is no request, but lets the hub make bindings.
const ELSEWHERE: [&str; 4] = [
    "patch work.karmada.io/works/status",
    "delete cluster.karmada.io/clusters",
    "get /namespaces",
    "bind rbac.authorization.k8s.io/clusterroles",
];

#[tokio::test(start_paused = true)]
async fn what_the_shipped_rules_grant_is_what_the_hub_and_its_members_use() {
    let (of_hub, of_members) = (Witness::default(), Witness::default());
    let fleet = guarded_fleet_before(&of_hub, &of_members).await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    member1.endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("shared", || async { member2.reached().await == ["10.1.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let slices: Api<EndpointSlice> = Api::namespaced(member1.cluster.client(), NAMESPACE);
    slices.delete("foo-abc", &DeleteParams::default()).await.unwrap();
    until("no longer reported", || async { of_members.used().contains("delete work.karmada.io/works") })
        .await;
    lose_label(&fleet.hub.client(), "karmada-es-member1").await;
    until("the label is back", || async { of_hub.used().contains("patch /namespaces") }).await;
    fleet.delete_object().await;
    until("taken back", || async { member2.service().await.is_none() }).await;
    let clusters: Api<Registered> = Api::all(fleet.hub.client());
    clusters.delete("member2", &DeleteParams::default()).await.unwrap();
    for last in [
        "delete tombolo.dev/memberships",
        "delete coordination.k8s.io/leases",
        "patch cluster.karmada.io/clusters",
        "update coordination.k8s.io/leases",
    ] {
        until(last, || async { of_hub.used().contains(last) }).await;
    }
    of_hub.used_exactly(&rights_of("tombolo-hub"), &ELSEWHERE);
    let works = rights_of("tombolo-member-works");
    let idle: Vec<String> = works.difference(&of_members.used()).cloned().collect();
    assert!(idle.is_empty(), "granted and never used: {idle:?}");
}

/// Takes the label by which execution namespaces are found from one of them.
async fn lose_label(client: &Client, namespace: &str) {
    let patch = json!({"metadata": {"labels": {"karmada.io/system": null}}});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.patch(namespace, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_execution_namespace_without_its_label_is_taken_into_use() {
    let fleet = guarded_fleet().await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    member1.endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("shared", || async { member2.reached().await == ["10.1.0.1"] }).await;
    lose_label(&fleet.hub.client(), "karmada-es-member1").await;
    let namespaces: Api<Namespace> = Api::all(fleet.hub.client());
    until("it is found again", || async {
        namespaces.get("karmada-es-member1").await.unwrap().labels().contains_key("karmada.io/system")
    })
    .await;
    member1.endpoints(&["10.1.0.2"]).await;
    until("the cluster takes part", || async { member2.reached().await == ["10.1.0.2"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
}

#[tokio::test(start_paused = true)]
async fn the_hub_writes_heartbeats_everywhere_and_other_leases_only_at_home() {
    let hub = guarded("hub", 1).await;
    apply(&hub.client(), HUB_RULES).await;
    let account = hub.client_as(User::service_account("tombolo-system", "tombolo-hub"));
    let put = async |namespace: &str, name: &str| {
        let api: Api<Lease> = Api::namespaced(account.clone(), namespace);
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": "test"},
        });
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&lease)).await
    };
    // Rules are heard of a moment after they are written.
    until("the rules count", || async { put("default", "heartbeat").await.is_ok() }).await;
    until("the rules count at home", || async { put("tombolo-system", "tombolo-hub").await.is_ok() }).await;
    assert!(is_forbidden(put("default", "tombolo-hub").await), "made");
    let others: Api<Lease> = Api::namespaced(hub.client(), "default");
    let lease = json!({"metadata": {"name": "someones"}, "spec": {"holderIdentity": "someone"}});
    others.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    assert!(is_forbidden(put("default", "someones").await), "taken over");
    let as_hub: Api<Lease> = Api::namespaced(account.clone(), "default");
    assert!(is_forbidden(as_hub.get("someones").await));
    assert!(is_forbidden(as_hub.delete("someones", &DeleteParams::default()).await));
    as_hub.delete("heartbeat", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn with_the_shipped_policy_the_hub_changes_no_namespace_but_those_of_clusters() {
    real_only!("it evaluates no admission policies");
    let hub = guarded("hub", 1).await;
    apply(&hub.client(), HUB_RULES).await;
    apply(&hub.client(), NAMESPACES_POLICY).await;
    let account = hub.client_as(User::service_account("tombolo-system", "tombolo-hub"));
    let namespaces: Api<Namespace> = Api::all(account);
    // What a test changes stays so for the next one on this cluster.
    let label = json!({"metadata": {"labels": {"karmada.io/system": "true"}}});
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let label = async |name: &str| namespaces.patch(name, &params, &Patch::Merge(&label)).await;
    let is_refused = |error: &Error| error.to_string().contains("execution namespaces only");
    until("the policy is in force", async || label("default").await.is_err_and(|error| is_refused(&error)))
        .await;
    let delete = DeleteParams { dry_run: true, ..DeleteParams::default() };
    assert!(namespaces.delete("tombolo-system", &delete).await.is_err_and(|error| is_refused(&error)));
    let named = |name: &str| {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        namespace
    };
    let create = PostParams { dry_run: true, ..PostParams::default() };
    assert!(namespaces.create(&create, &named("mine")).await.is_err_and(|error| is_refused(&error)));
    namespaces.create(&PostParams::default(), &named("karmada-es-policy")).await.unwrap();
    label("karmada-es-policy").await.unwrap();
    namespaces.delete("karmada-es-policy", &DeleteParams::default()).await.unwrap();
    // Whoever is not the hub is none of its business.
    let anybody: Api<Namespace> = Api::all(hub.client());
    anybody.create(&create, &named("mine")).await.unwrap();
    for kind in ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"] {
        let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(hub.client(), &ApiResource::from_gvk(&gvk));
        api.delete("tombolo-hub-namespaces", &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_sees_and_writes_no_works_but_its_own() {
    let fleet = guarded_fleet().await;
    fleet.share(json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let as_member1 = agent_account(&fleet.hub, "member1");
    let own: Api<Work> = Api::namespaced(as_member1.clone(), "karmada-es-member1");
    assert!(!own.list(&ListParams::default()).await.unwrap().items.is_empty());
    let others: Api<Work> = Api::namespaced(as_member1.clone(), "karmada-es-member2");
    assert!(is_forbidden(others.list(&ListParams::default()).await));
    assert!(is_forbidden(others.delete("any", &DeleteParams::default()).await));
    let clusters: Api<Registered> = Api::all(as_member1);
    assert!(is_forbidden(clusters.delete("member2", &DeleteParams::default()).await));
}
