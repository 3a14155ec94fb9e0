//! `kubectl delete`: what goes, what waits, what takes others along.

use crate::playground::Playground;

const GUARDED: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: guarded, finalizers: [example.com/guard]}\n";

#[test]
fn delete_waits_until_it_is_gone() {
    let playground = Playground::bare();
    playground.run("create cm one").succeeds();
    playground.run("delete cm one").shows(&["configmap \"one\" deleted"]);
    playground.run("get cm one").fails(1, &["NotFound"]);
    playground.run("delete cm one").fails(1, &["Error from server (NotFound): configmaps \"one\" not found"]);
    playground.run("delete cm one --ignore-not-found").prints("");
    playground.run("create service clusterip web --tcp=80").succeeds();
    playground.run("delete svc web").shows(&["service \"web\" deleted"]);
}

#[test]
fn finalizers_hold_an_object_until_they_are_removed() {
    let playground = Playground::bare();
    playground.apply(GUARDED).succeeds();
    playground.run("delete cm guarded --wait=false").shows(&["configmap \"guarded\" deleted"]);
    assert!(playground.run("get cm guarded -o json").json()["metadata"]["deletionTimestamp"].is_string());
    playground.run("delete cm guarded --timeout=1s").fails(1, &["timed out waiting for the condition"]);
    let waiting = playground.kubectl.start_watching("delete cm guarded");
    let gone = playground.kubectl.start_watching("wait cm/guarded --for=delete --timeout=50s");
    playground
        .run(r#"patch cm guarded --type=merge -p '{"metadata":{"finalizers":null}}'"#)
        .prints("configmap/guarded patched");
    waiting.finish().shows(&["configmap \"guarded\" deleted"]);
    gone.finish().shows(&["configmap/guarded condition met"]);
    playground.run("get cm guarded").fails(1, &["NotFound"]);
}

#[test]
fn delete_takes_selectors_files_and_everything() {
    let playground = Playground::bare();
    let maps: String = [("a", "red"), ("b", "red"), ("c", "blue"), ("d", "blue")]
        .map(|(name, color)| {
            format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{color: {color}}}}}\n")
        })
        .concat();
    playground.kubectl.file("maps.yaml", &maps);
    playground.run("create -f maps.yaml").succeeds();
    playground.run("delete cm -l color=red").shows(&["configmap \"a\" deleted", "configmap \"b\" deleted"]);
    playground.run("get cm -o name").prints("configmap/c\nconfigmap/d");
    playground.run("delete cm --all").shows(&["configmap \"c\" deleted", "configmap \"d\" deleted"]);
    playground.run("get cm -o name").prints("");
    playground.run("create -f maps.yaml").succeeds();
    playground.run("delete -f maps.yaml --dry-run=server").succeeds();
    assert_eq!(playground.run("get cm -o name").succeeds().lines().count(), 4);
    playground.run("delete cm a b").succeeds();
    playground.run("delete cm --field-selector=metadata.name=c").shows(&["configmap \"c\" deleted"]);
    playground.run("delete -f maps.yaml --ignore-not-found").shows(&["configmap \"d\" deleted"]);
    playground.run("get cm -o name").prints("");
}

/// An owner and what it owns, two levels deep.
fn family(playground: &Playground) {
    playground.run("create cm owner").succeeds();
    for (child, parent) in [("child", "owner"), ("grandchild", "child")] {
        let uid = playground.run(&format!("get cm {parent} -o jsonpath={{.metadata.uid}}"));
        let reference = format!(
            "{{apiVersion: v1, kind: ConfigMap, name: {parent}, uid: {}, blockOwnerDeletion: true}}",
            uid.succeeds()
        );
        playground
            .apply(&format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {child}, ownerReferences: [{reference}]}}\n"
            ))
            .succeeds();
    }
}

#[test]
fn dependents_go_with_their_owner() {
    for cascade in ["background", "foreground"] {
        let playground = Playground::new();
        family(&playground);
        playground.run(&format!("delete cm owner --cascade={cascade}")).succeeds();
        if cascade == "background" {
            playground.run("wait cm/grandchild --for=delete --timeout=50s").succeeds();
        }
        playground.run("get cm owner child grandchild --ignore-not-found").prints("");
    }
}

#[test]
fn orphans_stay() {
    let playground = Playground::new();
    family(&playground);
    playground.run("delete cm owner --cascade=orphan").succeeds();
    playground.run("get cm child -o jsonpath={.metadata.ownerReferences}").prints("");
    playground.run("get cm grandchild -o jsonpath={.metadata.ownerReferences[0].name}").prints("child");
}

#[test]
fn a_namespace_goes_with_its_content() {
    let playground = Playground::new();
    playground.run("create ns shop").succeeds();
    playground.run("create deployment web --image=example -n shop --replicas=2").succeeds();
    playground.run("create service clusterip web --tcp=80 -n shop").succeeds();
    playground.apply(&GUARDED.replace("name: guarded", "name: guarded, namespace: shop")).succeeds();
    let deletion = playground.kubectl.start_watching("delete ns shop");
    playground.run("wait svc/web -n shop --for=delete --timeout=50s").succeeds();
    playground.run("get ns shop").tabulates(&["NAME STATUS AGE", "shop Terminating *"]);
    playground.run("create cm late -n shop").fails(1, &["because it is being terminated"]);
    playground
        .run(r#"patch cm guarded -n shop --type=merge -p '{"metadata":{"finalizers":null}}'"#)
        .succeeds();
    deletion.finish().shows(&["namespace \"shop\" deleted"]);
    playground.run("get ns shop").fails(1, &["NotFound"]);
    playground.run("get all,cm,sa -n shop -o name").prints("");
    playground.run("delete ns default").fails(1, &["Forbidden", "this namespace may not be deleted"]);
}

#[test]
fn pods_are_deleted_gracefully_or_by_force() {
    let playground = Playground::new();
    playground.run("run gentle --image=example").succeeds();
    playground.run("run forced --image=example").succeeds();
    playground.run("wait pod/gentle pod/forced --for=condition=Ready --timeout=50s").succeeds();
    playground.run("delete pod forced --force --grace-period=0").shows(&["pod \"forced\" force deleted"]);
    playground.run("delete pod gentle").shows(&["pod \"gentle\" deleted"]);
    playground.run("get pods -o name").prints("");
}
