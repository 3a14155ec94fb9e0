//! Whether the invariants can fail: each is broken on purpose, and exactly it must be reported.
//!
//! The saboteur is the test itself, an administrator who pretends to be a broken agent, or a link that confirms what
//! never happens. The guard is not told.

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tombolo_api::mcs::{self, SOURCE_CLUSTER_LABEL};
use tombolo_api::service::IpFamily;
use tombolo_api::tombolo::{
    AUTO_EXPORT_LABEL, Dialect, MANAGED_BY_LABEL, MANAGER, Membership, NATIVE_IMPORT_LABEL,
    POD_CIDRS_ANNOTATION,
};
use tombolo_model::names;
use tombolo_runtime::Key;
use tombolo_testkit::FaultPlan;

use crate::invariants::{Broken, Foreign, Invariant};
use crate::log::Log;
use crate::schedule::{Run, ms};
use crate::truth::{origin, service};
use crate::users::{TEAM, slice_of};
use crate::with_time;

const A: usize = 0;
/// It has IPv4 only, as `C` has.
const B: usize = 1;
/// The place of `demo/echo` among the services.
const ECHO: usize = 0;
const C: usize = 2;

/// Longer than a source needs to die and every settling.
const LONG: u64 = 60_000;

/// Three members, of which a and b export `demo/echo` in today's edition; all of it has settled.
async fn settled() -> Run {
    let mut run = Run::begin(1, 3, Log::default()).await;
    for place in 0..3 {
        run.start(place);
    }
    run.serve_simply(A).await;
    run.serve_simply(1).await;
    run.converge().await.expect("nothing is wrong yet");
    run.wait(ms(LONG / 2)).await.expect("nothing is wrong yet");
    assert!(run.guard.watched > 0, "endpoints have settled");
    run
}

impl Run {
    pub(crate) async fn serve_simply(&mut self, place: usize) {
        let key = Key::new("demo", "echo");
        self.guard.touch(place, &key);
        let member = &self.world.members[place];
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"},
            "spec": {"ports": [{"name": "http", "port": 80}]},
        });
        member.apply::<Service>(&key, &service).await;
        let export = json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": {"name": "echo"},
        });
        member.apply::<mcs::ServiceExport>(&key, &export).await;
        self.set_address(place, 1).await;
    }

    /// The service has one endpoint.
    pub(crate) async fn set_address(&mut self, place: usize, host: usize) {
        let key = Key::new("demo", "echo");
        self.guard.touch(place, &key);
        let member = &self.world.members[place];
        let family = member.config.ip_families[0];
        let address = match family.as_str() {
            "IPv4" => format!("10.{}.0.{host}", place + 1),
            _ => format!("fd00:{}::{host}", place + 1),
        };
        self.guard.allow(member.name(), &key, &address);
        let slice = slice_of("echo-0", "echo", family, &[address], true);
        member.apply::<EndpointSlice>(&Key::new("demo", "echo-0"), &slice).await;
    }

    /// The slice of `demo/echo` that a member has from another one.
    fn imported(&self, consumer: usize, source: usize) -> EndpointSlice {
        let source = self.world.members[source].name();
        let slices = self.world.members[consumer].sight.slices.within("demo");
        let found = slices
            .iter()
            .find(|slice| origin(slice).is_some_and(|from| from.source == source && !from.native));
        (**found.expect("it was imported")).clone()
    }
}

/// Lets the saboteur loose and expects that the guard names what is wrong.
fn expect(invariant: Invariant, text: &str, sabotage: impl AsyncFnOnce(&mut Run)) {
    let outcome = with_time(async {
        let mut run = settled().await;
        sabotage(&mut run).await;
        run.wait(ms(LONG)).await?;
        run.conclude().await
    });
    let Broken { invariant: found, what } = outcome.expect_err("the guard sees it");
    assert_eq!(found, invariant, "{what}");
    assert!(what.contains(text), "{what}");
}

#[test]
fn without_sabotage_nothing_is_reported() {
    with_time(async {
        let mut run = settled().await;
        run.wait(ms(LONG)).await.unwrap();
        run.conclude().await.unwrap();
    });
}

#[test]
fn a_slice_that_is_gone_for_a_moment_breaks_presence() {
    expect(Invariant::Presence, "blinks", async |run| {
        let slice = Key::of(&run.imported(C, A));
        run.world.members[C].delete::<EndpointSlice>(&slice).await;
    });
}

#[test]
fn an_endpoint_that_is_gone_for_a_moment_breaks_presence() {
    expect(Invariant::Presence, "blinks", async |run| {
        let slice = Key::of(&run.imported(C, A));
        run.world.members[C].edit::<EndpointSlice>(&slice, &json!({"endpoints": []})).await;
    });
}

/// `demo/echo` in c has a Service of its own and gets a strategy, which is carried out.
async fn serve_natively(run: &mut Run, strategy: &str) {
    run.serve(C, ECHO).await;
    run.use_strategy(C, ECHO, Some(strategy)).await;
    run.converge().await.expect("nothing is wrong yet");
    run.wait(ms(LONG / 2)).await.expect("nothing is wrong yet");
}

#[test]
fn a_native_slice_that_is_gone_for_a_moment_breaks_presence() {
    expect(Invariant::Presence, "native: true", async |run| {
        serve_natively(run, "LocalAndRemote").await;
        let slices = run.world.members[C].sight.slices.within("demo");
        let native = slices.iter().find(|slice| origin(slice).is_some_and(|from| from.native));
        run.world.members[C].delete::<EndpointSlice>(&Key::of(&**native.expect("it was imported"))).await;
    });
}

#[test]
fn a_local_endpoint_behind_a_remote_only_service_breaks_the_closure() {
    expect(Invariant::Closure, "demo/echo in c has local endpoints", async |run| {
        serve_natively(run, "RemoteOnly").await;
        let mut slice = slice_of("echo-9", "echo", IpFamily::V4, &["10.3.0.9".to_owned()], true);
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] =
            json!("endpointslice-controller.k8s.io");
        run.world.members[C].apply::<EndpointSlice>(&Key::new("demo", "echo-9"), &slice).await;
    });
}

#[test]
fn a_native_slice_that_is_left_behind_breaks_convergence() {
    expect(Invariant::Convergence, "native: slice demo/import-left", async |run| {
        let mut slice = slice_of("import-left", "echo", IpFamily::V4, &["10.1.0.1".to_owned()], true);
        let labels = [
            (NATIVE_IMPORT_LABEL, "echo"),
            (SOURCE_CLUSTER_LABEL, "a"),
            (MANAGED_BY_LABEL, MANAGER),
            ("kubernetes.io/service-name", "echo"),
        ];
        slice["metadata"]["labels"] = labels.into_iter().collect();
        run.world.members[C].own_link.plan(FaultPlan { forgotten: 1.0, ..FaultPlan::default() });
        run.guard.allow("a", &Key::new("demo", "echo"), "10.1.0.1");
        run.world.members[C].apply::<EndpointSlice>(&Key::new("demo", "import-left"), &slice).await;
    });
}

#[test]
fn the_slices_of_a_dead_source_that_stay_break_expiry() {
    expect(Invariant::Expiry, "outlives its lease in c", async |run| {
        let plan = FaultPlan { forgotten: 1.0, ..FaultPlan::default() };
        run.world.members[C].own_link.plan(plan);
        run.kill(A);
    });
}

#[test]
fn a_changed_object_of_a_user_breaks_ownership() {
    expect(Invariant::Ownership, "Service demo/mine", async |run| {
        let key = Key::new("demo", "mine");
        let value = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "mine"}, "spec": {"ports": [{"port": 1}]},
        });
        run.world.members[C].apply::<Service>(&key, &value).await;
        run.guard.protect(&run.world, C, Foreign::Service, key.clone()).await;
        run.wait(ms(5_000)).await.expect("nobody touched it");
        let labels = json!({"metadata": {"labels": {MANAGED_BY_LABEL: MANAGER}}});
        run.world.members[C].edit::<Service>(&key, &labels).await;
    });
}

#[test]
fn a_deleted_object_of_a_user_breaks_ownership() {
    expect(Invariant::Ownership, "Slice demo/mine", async |run| {
        let key = Key::new("demo", "mine");
        let slice = slice_of("mine", "other", IpFamily::V4, &["10.77.0.1".into()], true);
        run.world.members[C].apply::<EndpointSlice>(&key, &slice).await;
        run.guard.protect(&run.world, C, Foreign::Slice, key.clone()).await;
        run.world.members[C].delete::<EndpointSlice>(&key).await;
    });
}

#[test]
fn an_address_that_nobody_published_breaks_provenance() {
    expect(Invariant::Provenance, "10.66.0.1", async |run| {
        let mut slice = run.imported(C, A);
        slice.metadata.name = Some("forged".to_owned());
        slice.address_type = "IPv4".to_owned();
        let mut value = json!(slice);
        value["metadata"] = json!({"name": "forged", "labels": slice.labels()});
        value["endpoints"] = json!([{"addresses": ["10.66.0.1"]}]);
        run.world.members[C].apply::<EndpointSlice>(&Key::new("demo", "forged"), &value).await;
    });
}

#[test]
fn a_member_that_is_believed_wherever_it_says_breaks_provenance() {
    expect(Invariant::Provenance, "10.98.0.1", async |run| {
        let namespaces: Api<Namespace> = Api::all(run.world.hub.client());
        let unsaid = json!({"metadata": {"annotations": {POD_CIDRS_ANNOTATION: null}}});
        namespaces.patch("tombolo-b", &PatchParams::default(), &Patch::Merge(&unsaid)).await.unwrap();
        run.widen_statement(B).await;
        run.forge_slice(B, B, ECHO, Dialect::Mcs).await;
    });
}

#[test]
fn a_member_that_acknowledges_what_it_does_not_have_breaks_the_truth() {
    expect(Invariant::Truth, "c lacks", async |run| {
        run.world.members[C].own_link.plan(FaultPlan { forgotten: 1.0, ..FaultPlan::default() });
        run.set_address(A, 2).await;
    });
}

#[test]
fn an_export_that_is_called_ready_while_a_live_member_waits_breaks_the_truth() {
    expect(Invariant::Truth, "c lacks", async |run| {
        // The member lives, but its API server takes nothing.
        let refuses = FaultPlan { server_error: 1.0, ..FaultPlan::default() };
        run.world.members[C].own_link.plan(refuses);
        run.set_address(A, 2).await;
        run.wait(ms(16_000)).await.expect("nobody says that it is everywhere");
        // From here on the agent of a may say what it likes: nobody hears it, and somebody else speaks for it.
        run.world.members[A].own_link.plan(FaultPlan { forgotten: 1.0, ..FaultPlan::default() });
        let export = run.world.members[A].get::<mcs::ServiceExport>(&Key::new("demo", "echo")).await;
        let mut conditions = export["status"]["conditions"].clone();
        for condition in conditions.as_array_mut().unwrap().iter_mut().filter(|c| c["type"] == "Ready") {
            assert_eq!(condition["status"], "False", "it waits for c");
            condition["status"] = json!("True");
        }
        let api = run.world.members[A].api::<mcs::ServiceExport>("demo");
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        api.patch_status("echo", &PatchParams::default(), &patch).await.unwrap();
    });
}

#[test]
fn a_watermark_that_goes_back_is_reported() {
    expect(Invariant::Watermark, "tombolo-c went back", async |run| {
        run.set_address(A, 2).await;
        run.wait(ms(2_000)).await.unwrap();
        let api: Api<Membership> = Api::namespaced(run.world.hub.client(), "tombolo-c");
        let patch = Patch::Merge(json!({"status": {"watermark": "1"}}));
        api.patch_status("member", &PatchParams::default(), &patch).await.unwrap();
    });
}

#[test]
fn a_transition_without_a_change_is_reported() {
    expect(Invariant::Transition, "ServiceExport demo/echo in a", async |run| {
        let export = run.world.members[A].get::<mcs::ServiceExport>(&Key::new("demo", "echo")).await;
        let mut conditions = export["status"]["conditions"].clone();
        conditions[0]["lastTransitionTime"] = json!("2027-01-01T00:00:00Z");
        let api = run.world.members[A].api::<mcs::ServiceExport>("demo");
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        api.patch_status("echo", &PatchParams::default(), &patch).await.unwrap();
    });
}

#[test]
fn what_is_left_behind_breaks_convergence() {
    expect(Invariant::Convergence, "service demo/derived-left", async |run| {
        let value = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "derived-left", "labels": {MANAGED_BY_LABEL: MANAGER}},
            "spec": {"ports": [{"port": 1}]},
        });
        run.world.members[C].apply::<Service>(&Key::new("demo", "derived-left"), &value).await;
    });
}

#[test]
fn what_is_missing_breaks_convergence() {
    expect(Invariant::Convergence, "wanted", async |run| {
        // The source's agent believes that it has published a new service; nobody can know better than the model.
        run.world.members[A].hub_link.plan(FaultPlan { forgotten: 1.0, ..FaultPlan::default() });
        let key = Key::new("demo", "web");
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"ports": [{"name": "http", "port": 80}]},
        });
        run.guard.touch(A, &key);
        run.world.members[A].apply::<Service>(&key, &service).await;
        let export = json!({
            "apiVersion": "multicluster.k8s.io/v1alpha1", "kind": "ServiceExport", "metadata": {"name": "web"},
        });
        run.world.members[A].apply::<tombolo_api::kep::ServiceExport>(&key, &export).await;
        assert_eq!(run.world.members[A].sight.kep_imports.all().len(), 0, "{:?}", Dialect::Kep);
    });
}

#[test]
fn what_a_cluster_that_left_still_says_at_the_hub_breaks_convergence() {
    expect(Invariant::Convergence, "at the hub: offer tombolo-b/", async |run| {
        run.guard.touch(1, &Key::new("demo", "echo"));
        run.kill(1);
        run.world.members[1].has_left = true;
    });
}

/// Nothing that the agent of `place` writes in its own cluster happens any more, and it does not notice.
fn paralyse(run: &Run, place: usize) {
    run.world.members[place].own_link.plan(FaultPlan { forgotten: 1.0, ..FaultPlan::default() });
}

#[test]
fn a_derived_service_with_other_manners_breaks_convergence() {
    expect(Invariant::Convergence, r#""affinity":"ClientIP""#, async |run| {
        paralyse(run, C);
        let name = names::derived_service(Dialect::Mcs, &service(&Key::new("demo", "echo")));
        let sticky = json!({"spec": {"sessionAffinity": "ClientIP"}});
        run.world.members[C].edit::<Service>(&Key::new("demo", name), &sticky).await;
    });
}

#[test]
fn an_exported_label_that_never_arrives_breaks_convergence() {
    expect(Invariant::Convergence, r#""exported":["red","red"]"#, async |run| {
        paralyse(run, C);
        let key = Key::new("demo", "echo");
        let export = json!({"spec": {"exportedLabels": {TEAM: "red"}, "exportedAnnotations": {TEAM: "red"}}});
        for place in [A, 1] {
            run.guard.touch(place, &key);
            run.world.members[place].edit::<mcs::ServiceExport>(&key, &export).await;
        }
    });
}

#[test]
fn an_automatic_export_that_is_not_made_breaks_convergence() {
    expect(Invariant::Convergence, "automatic exports are still to be made", async |run| {
        paralyse(run, A);
        let label = json!({"metadata": {"labels": {AUTO_EXPORT_LABEL: "kep"}}});
        run.world.members[A].edit::<Service>(&Key::new("demo", "echo"), &label).await;
    });
}

#[test]
fn writes_without_a_reason_break_the_quiet() {
    let outcome = with_time(async {
        let mut run = settled().await;
        let fidget = run.world.members[C].api::<Service>("demo");
        let fidget = tokio::spawn(async move {
            for count in 0.. {
                tokio::time::sleep(ms(7_000)).await;
                let patch = json!({"metadata": {"annotations": {"count": format!("{count}")}}});
                let all = fidget.list(&Default::default()).await.unwrap();
                let name = all.items[0].name_any();
                fidget.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
            }
        });
        let outcome = run.conclude().await;
        fidget.abort();
        outcome
    });
    assert_eq!(outcome.unwrap_err().invariant, Invariant::Quiet);
}
