//! `LocalFirst`: endpoints of other clusters stand behind a Service only while too few of its own are ready.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tombolo_api::karmada::work::Work;
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_model::strategy::ready_endpoints;
use tombolo_testkit::{Outage, embedded_only, linger, timely, until, within};

use crate::fleet::{Fleet, Member, NAMESPACE, apply, is_imported, template};
use crate::watchman::{Seen, Watchman};

const LOCAL: &str = "10.2.0.1";
const REMOTE: &str = "10.1.0.1";
/// Longer than anything but the time that local endpoints have to prove themselves.
const SOON: Duration = Duration::from_secs(1);

fn local_first() -> Value {
    json!({"discovery.karmada.io/strategy": "LocalFirst"})
}

fn with_threshold(count: &str) -> Value {
    json!({"discovery.karmada.io/strategy": "LocalFirst", "tombolo.dev/local-first-min-ready": count})
}

/// `member1` has a ready endpoint, `member2` the given ones.
async fn shared(annotations: Value, local: &[(&str, bool)]) -> Fleet {
    let fleet = Fleet::of(2).await;
    fleet.members[0].endpoints(&[REMOTE]).await;
    fleet.members[1].some_endpoints("foo-abc", local).await;
    apply::<Service>(&fleet.hub.client(), NAMESPACE, &template()).await;
    fleet.apply_annotated(annotations, json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    fleet
}

impl Member {
    async fn is_attached(&self) -> bool {
        !self.imported().await.is_empty()
    }

    async fn become_attached(&self, wanted: bool) {
        let what = format!("attached: {wanted}");
        within(SOON, &what, || async { self.is_attached().await == wanted }).await;
    }

    /// For how long remote endpoints stay behind the Service.
    async fn time_attached(&self) -> Duration {
        let since = Instant::now();
        until("detached", || async { !self.is_attached().await }).await;
        since.elapsed()
    }
}

/// What the Work that brings the slice of `member1` to `member2` says.
async fn said(fleet: &Fleet) -> (String, String) {
    let works: Api<Work> = Api::namespaced(fleet.hub.client(), "karmada-es-member2");
    let works = works.list(&Default::default()).await.unwrap().items;
    let key = "endpointslice.karmada.io/work-provision-cluster";
    let work = works.into_iter().find(|work| work.annotations().contains_key(key)).unwrap();
    let applied = work.status.unwrap_or_default().conditions.into_iter().find(|one| one.type_ == "Applied");
    applied.map(|one| (one.status, one.message)).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn remote_endpoints_come_when_the_local_ones_fail_and_go_when_they_have_proved_themselves() {
    let fleet = shared(local_first(), &[(LOCAL, true)]).await;
    let member2 = &fleet.members[1];
    assert_eq!(member2.reached().await, [LOCAL]);
    let (status, message) = said(&fleet).await;
    assert!(status == "True" && message.contains("held back"), "{status}: {message}");
    linger(Duration::from_secs(60)).await;
    assert_eq!(member2.reached().await, [LOCAL], "nothing happens by itself");

    member2.some_endpoints("foo-abc", &[(LOCAL, false)]).await;
    member2.become_attached(true).await;
    within(SOON, "the Work says so", || async { !said(&fleet).await.1.contains("held back") }).await;
    assert!(fleet.all_true().await);
    fleet.members[0].endpoints(&["10.1.0.7"]).await;
    until("they follow their source", || async { member2.reached().await.contains(&"10.1.0.7".to_owned()) })
        .await;

    member2.some_endpoints("foo-abc", &[(LOCAL, true)]).await;
    let stayed = member2.time_attached().await;
    assert!(stayed.as_secs() >= 10 && timely(stayed, Duration::from_millis(10_999)), "{stayed:?}");
    assert!(said(&fleet).await.1.contains("held back"));
    assert!(fleet.all_true().await);
    assert_eq!(fleet.members[0].reached().await.len(), 1, "member1 has its own and needs no other");
}

#[tokio::test(start_paused = true)]
async fn remote_endpoints_of_all_clusters_come_also_while_the_hub_does_not_answer() {
    embedded_only!("only paused time passes as fast on any machine");
    for outage in [Outage::Silent, Outage::Refused] {
        let fleet = Fleet::of(4).await;
        for (place, address) in [(0, REMOTE), (2, "10.3.0.1"), (3, "10.4.0.1")] {
            fleet.members[place].endpoints(&[address]).await;
        }
        let member2 = &fleet.members[1];
        member2.some_endpoints("foo-abc", &[(LOCAL, true)]).await;
        apply::<Service>(&fleet.hub.client(), NAMESPACE, &template()).await;
        fleet.apply_annotated(local_first(), json!({})).await;
        until("the conditions are true", || async { fleet.all_true().await }).await;
        until("three are held back", || async { held_back(&fleet).await == 3 }).await;
        assert_eq!(member2.reached().await, [LOCAL]);

        member2.link.outage(outage);
        member2.some_endpoints("foo-abc", &[(LOCAL, false)]).await;
        within(SOON, "all are there", || async { member2.imported().await.len() == 3 }).await;
        member2.link.heal();
        until("the Works say so", || async { held_back(&fleet).await == 0 }).await;
    }
}

/// How many Works of `member2` say that they are held back.
async fn held_back(fleet: &Fleet) -> usize {
    let works: Api<Work> = Api::namespaced(fleet.hub.client(), "karmada-es-member2");
    let works = works.list(&Default::default()).await.unwrap().items.into_iter();
    let said = works.flat_map(|work| work.status.unwrap_or_default().conditions);
    said.filter(|one| one.type_ == "Applied" && one.message.contains("held back")).count()
}

#[tokio::test(start_paused = true)]
async fn a_readiness_that_flaps_every_second_switches_once_and_the_service_is_never_empty() {
    embedded_only!("only paused time shows what is there a tenth of a second later on any machine");
    let fleet = shared(local_first(), &[(LOCAL, true)]).await;
    let member2 = &fleet.members[1];
    let mut seen = vec![member2.is_attached().await];
    for second in 0..60 {
        member2.some_endpoints("foo-abc", &[(LOCAL, second % 2 == 1)]).await;
        for _ in 0..10 {
            sleep(Duration::from_millis(100)).await;
            let attached = member2.is_attached().await;
            assert!(attached || second % 2 == 1, "second {second}: nothing ready stands behind the Service");
            seen.push(attached);
        }
    }
    let switches = seen.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(switches, 1, "{seen:?}");
}

/// The imported slices whose change left nothing ready behind the Service, in the order in which it all happened.
fn gaps(before: Vec<EndpointSlice>, seen: &[Seen<EndpointSlice>]) -> Vec<String> {
    let mut present: BTreeMap<String, EndpointSlice> =
        before.into_iter().map(|slice| (slice.name_any(), slice)).collect();
    let mut gaps = Vec::new();
    let is_of_foo =
        |slice: &EndpointSlice| slice.labels().get(SERVICE_NAME_LABEL).is_some_and(|name| name == "foo");
    for event in seen.iter().filter(|event| is_of_foo(event.object())) {
        let (name, was_ready) = (event.object().name_any(), ready_endpoints(present.values()) > 0);
        match event {
            Seen::Put(slice) => drop(present.insert(name.clone(), slice.clone())),
            Seen::Gone(_) => drop(present.remove(&name)),
        }
        if is_imported(event.object()) && was_ready && ready_endpoints(present.values()) == 0 {
            gaps.push(format!("{event:?}"));
        }
    }
    gaps
}

/// When the last local endpoint fails, nobody can be faster than the news of it. But nothing that we write, whatever local
/// endpoints do at the time, may be what takes the last ready endpoint away.
#[tokio::test(start_paused = true)]
async fn no_write_of_ours_leaves_the_service_without_a_ready_endpoint() {
    let fleet = shared(local_first(), &[(LOCAL, true)]).await;
    let member2 = &fleet.members[1];
    assert!(!member2.is_attached().await);
    let (before, watchman) = (member2.slices().await, Watchman::post(member2.api()).await);
    for (place, pause) in [300, 1_700, 11_300, 700, 12_100, 2_900, 10_900, 10_100].into_iter().enumerate() {
        member2.some_endpoints("foo-abc", &[(LOCAL, place % 2 == 1)]).await;
        sleep(Duration::from_millis(pause)).await;
    }
    until("remote endpoints go in the end", || async { !member2.is_attached().await }).await;
    assert_eq!(ready_endpoints(&member2.slices().await), 1, "the local one");
    let seen = watchman.dismiss();
    let brings = |event: &Seen<EndpointSlice>| matches!(event, Seen::Put(slice) if is_imported(slice) && ready_endpoints([slice]) > 0);
    assert!(seen.iter().any(brings), "they came in between");
    assert_eq!(gaps(before, &seen), [""; 0]);

    // Somebody else's hand shows that such a gap would have been seen.
    member2.some_endpoints("foo-abc", &[(LOCAL, false)]).await;
    member2.become_attached(true).await;
    let (before, watchman) = (member2.slices().await, Watchman::post(member2.api()).await);
    let api = member2.api::<EndpointSlice>();
    for slice in member2.imported().await {
        api.delete(&slice.name_any(), &DeleteParams::default()).await.unwrap();
    }
    until("it is repaired", || async { member2.is_attached().await }).await;
    assert!(!gaps(before, &watchman.dismiss()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_threshold_counts_and_may_change() {
    let fleet = shared(with_threshold("2"), &[(LOCAL, true)]).await;
    let member2 = &fleet.members[1];
    member2.become_attached(true).await;
    fleet.apply_annotated(local_first(), json!({})).await;
    assert!(member2.time_attached().await >= Duration::from_secs(9), "one is enough, after a while");
    sleep(Duration::from_secs(10)).await;
    fleet.apply_annotated(with_threshold("2"), json!({})).await;
    member2.become_attached(true).await;
    member2.some_endpoints("foo-abc", &[(LOCAL, true), ("10.2.0.2", true)]).await;
    member2.time_attached().await;
}

#[tokio::test(start_paused = true)]
async fn a_strategy_that_changes_or_goes_is_followed() {
    let fleet = shared(json!({}), &[(LOCAL, true)]).await;
    let member2 = &fleet.members[1];
    member2.become_attached(true).await;
    for annotations in [json!({}), json!({"discovery.karmada.io/strategy": "RemoteAndLocal"})] {
        fleet.apply_annotated(local_first(), json!({})).await;
        let stayed = member2.time_attached().await;
        assert!(stayed >= Duration::from_secs(10), "{stayed:?}");
        fleet.apply_annotated(annotations, json!({})).await;
        member2.become_attached(true).await;
        linger(Duration::from_secs(60)).await;
        assert!(member2.is_attached().await);
    }
    fleet.apply_annotated(local_first(), json!({})).await;
    member2.time_attached().await;
    fleet.delete_object().await;
    until("everything is taken back", || async {
        fleet.works().await.is_empty() && member2.service().await.is_none()
    })
    .await;
    assert_eq!(member2.reached().await, [LOCAL]);
}

#[tokio::test(start_paused = true)]
async fn words_that_nobody_knows_are_refused_and_change_nothing() {
    let fleet = shared(local_first(), &[(LOCAL, true)]).await;
    let member2 = &fleet.members[1];
    let events: Api<Event> = Api::namespaced(fleet.hub.client(), NAMESPACE);
    let refused = [
        (json!({"discovery.karmada.io/strategy": ""}), "unknown MultiClusterStrategy"),
        (json!({"discovery.karmada.io/strategy": "LocalOnly"}), "\"LocalOnly\""),
        (json!({"discovery.karmada.io/strategy": "localfirst"}), "\"localfirst\""),
        (with_threshold("0"), "expected a number of endpoints"),
        (with_threshold("two"), "\"two\""),
    ];
    for (annotations, expected) in refused {
        fleet.apply_annotated(annotations, json!({})).await;
        for type_ in ["ServiceApplied", "EndpointSliceCollected", "EndpointSliceApplied"] {
            until(&format!("{type_} is refused: {expected}"), || async {
                let (status, _, message) = fleet.condition(type_).await;
                status == "False" && message.contains(expected)
            })
            .await;
        }
        until("an event says so", || async {
            let all = events.list(&Default::default()).await.unwrap().items;
            all.iter().any(|event| {
                event.type_.as_deref() == Some("Warning")
                    && event.message.as_deref().is_some_and(|text| text.contains(expected))
            })
        })
        .await;
        linger(Duration::from_secs(30)).await;
        assert!(!member2.is_attached().await, "what was, stays");
    }
    fleet.apply_annotated(local_first(), json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
}

/// No hub writes such a Work; a member that gets one all the same does not guess.
#[tokio::test(start_paused = true)]
async fn a_work_with_a_word_that_the_member_does_not_know_is_not_applied() {
    let mut fleet = shared(json!({}), &[(LOCAL, true)]).await;
    fleet.kill_hub();
    let works: Api<Work> = Api::namespaced(fleet.hub.client(), "karmada-es-member2");
    let all = works.list(&Default::default()).await.unwrap().items;
    let key = "endpointslice.karmada.io/work-provision-cluster";
    let mut work = all.into_iter().find(|work| work.annotations().contains_key(key)).unwrap();
    work.annotations_mut().insert("discovery.karmada.io/strategy".to_owned(), "Sometimes".to_owned());
    works.replace(&work.name_any(), &PostParams::default(), &work).await.unwrap();
    until("it is refused", || async {
        let (status, message) = said(&fleet).await;
        status == "False" && message.contains("\"Sometimes\"")
    })
    .await;
    assert!(fleet.members[1].is_attached().await, "what is there stays");
    fleet.start_hub();
    until("the conditions are true", || async { fleet.all_true().await }).await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_agent_goes_on_from_what_is_there() {
    let mut fleet = shared(local_first(), &[(LOCAL, true)]).await;
    fleet.restart(1, |_| {});
    for _ in 0..100 {
        sleep(Duration::from_millis(200)).await;
        assert!(!fleet.members[1].is_attached().await, "there is no need for remote endpoints");
    }
    fleet.members[1].some_endpoints("foo-abc", &[(LOCAL, false)]).await;
    fleet.members[1].become_attached(true).await;
    fleet.members[1].some_endpoints("foo-abc", &[(LOCAL, true)]).await;
    sleep(Duration::from_secs(6)).await;
    fleet.restart(1, |_| {});
    let stayed = fleet.members[1].time_attached().await;
    assert!(stayed >= Duration::from_secs(10), "local endpoints have to prove themselves again: {stayed:?}");
    fleet.kill(1);
    fleet.members[1].some_endpoints("foo-abc", &[(LOCAL, false)]).await;
    sleep(Duration::from_secs(20)).await;
    fleet.start(1);
    until("attached", || async { fleet.members[1].is_attached().await }).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_of_the_user_is_not_touched_by_any_of_it() {
    let fleet = Fleet::of(2).await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    let mut own = template();
    own["spec"]["selector"] = json!({"app": "mine"});
    apply::<Service>(&member2.cluster.client(), NAMESPACE, &own).await;
    member1.endpoints(&[REMOTE]).await;
    member2.some_endpoints("mine-1", &[(LOCAL, true)]).await;
    let before = member2.service().await;
    apply::<Service>(&fleet.hub.client(), NAMESPACE, &template()).await;
    fleet.apply_annotated(local_first(), json!({"serviceProvisionClusters": ["member1"]})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    assert_eq!(member2.reached().await, [LOCAL]);
    member2.some_endpoints("mine-1", &[]).await;
    member2.become_attached(true).await;
    assert_eq!(member2.reached().await, [REMOTE]);
    member2.some_endpoints("mine-1", &[(LOCAL, true)]).await;
    member2.time_attached().await;
    assert_eq!(member2.service().await, before, "byte for byte");
}

#[tokio::test(start_paused = true)]
async fn each_family_that_the_service_has_is_judged_by_itself() {
    for (policy, expected) in [("PreferDualStack", &[LOCAL, "fd00:1::1"][..]), ("SingleStack", &[LOCAL])] {
        let mut fleet = Fleet::of(2).await;
        fleet.restart(0, |config| config.pod_cidrs.push("fd00:1::/32".to_owned()));
        let [member1, member2] = &fleet.members[..] else { unreachable!() };
        member1.endpoints(&[REMOTE]).await;
        member1.some_endpoints("foo-six", &[("fd00:1::1", true)]).await;
        member2.some_endpoints("foo-abc", &[(LOCAL, true)]).await;
        let mut service = template();
        service["spec"]["ipFamilyPolicy"] = json!(policy);
        apply::<Service>(&fleet.hub.client(), NAMESPACE, &service).await;
        fleet.apply_annotated(local_first(), json!({})).await;
        until("the conditions are true", || async { fleet.all_true().await }).await;
        until(policy, || async { member2.reached().await == expected }).await;
        linger(Duration::from_secs(30)).await;
        assert_eq!(member2.reached().await, expected, "{policy}");
    }
}
