//! `kubectl apply`, on the client's side and on the server's, and `kubectl diff`.

use crate::playground::Playground;

fn config(data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{{data}}}\n")
}

fn service(ports: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\nspec: {{selector: {{app: web}}, ports: [{ports}]}}\n"
    )
}

const DATA: &str = "get cm settings -o jsonpath={.data}";

#[test]
fn apply_creates_then_leaves_alone_then_changes() {
    let playground = Playground::bare();
    playground.apply(&config("color: red, size: big")).prints("configmap/settings created");
    playground.apply(&config("color: red, size: big")).prints("configmap/settings unchanged");
    playground.apply(&config("color: blue, size: big")).prints("configmap/settings configured");
    playground.run(DATA).prints(r#"{"color":"blue","size":"big"}"#);
}

#[test]
fn apply_removes_what_it_once_applied_and_nothing_else() {
    let playground = Playground::bare();
    playground.apply(&config("color: red, size: big")).succeeds();
    playground.run(r#"patch cm settings -p '{"data":{"theirs":"kept"}}'"#).succeeds();
    playground.apply(&config("color: red")).prints("configmap/settings configured");
    playground.run(DATA).prints(r#"{"color":"red","theirs":"kept"}"#);
    playground.run("apply view-last-applied cm settings").shows(&["color: red"]);
}

#[test]
fn apply_merges_lists_by_their_key() {
    let playground = Playground::bare();
    playground.apply(&service("{name: a, port: 1}, {name: b, port: 2}")).succeeds();
    let address = playground.run("get svc web -o jsonpath={.spec.clusterIP}");
    playground.run(r#"patch svc web -p '{"spec":{"ports":[{"name":"theirs","port":9}]}}'"#).succeeds();
    playground.apply(&service("{name: b, port: 2}, {name: c, port: 3}")).prints("service/web configured");
    let ports = playground.run("get svc web -o jsonpath='{.spec.ports[*].name}'");
    let mut ports: Vec<&str> = ports.succeeds().split(' ').collect();
    ports.sort_unstable();
    assert_eq!(ports, ["b", "c", "theirs"]);
    playground.run("get svc web -o jsonpath={.spec.clusterIP}").prints(address.succeeds());
}

#[test]
fn apply_of_many_documents_reports_each() {
    let playground = Playground::bare();
    let both = format!("{}---\n{}", config("a: b"), service("{port: 80}"));
    playground.apply(&both).prints("configmap/settings created\nservice/web created");
    playground.kubectl.file("both.yaml", &both);
    playground.run("apply -f both.yaml").prints("configmap/settings unchanged\nservice/web unchanged");
    let broken = format!("{}---\n{}", config("a: c"), service("{port: 70000}"));
    let outcome = playground.apply(&broken);
    outcome.fails(1, &["The Service \"web\" is invalid", "spec.ports[0].port: Invalid value: 70000"]);
    assert_eq!(outcome.stdout, "configmap/settings configured\n");
}

#[test]
fn apply_can_prune_what_the_manifests_no_longer_name() {
    let playground = Playground::bare();
    let labelled = |name: &str| {
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{app: shop}}}}\n")
    };
    playground.apply(&(labelled("one") + &labelled("two"))).succeeds();
    playground
        .kubectl
        .feed("apply -f - --prune -l app=shop --prune-allowlist=core/v1/ConfigMap", &labelled("one"))
        .prints("configmap/one unchanged\nconfigmap/two pruned");
    playground.run("get cm -o name").prints("configmap/one");
}

#[test]
fn dry_runs_change_nothing() {
    let playground = Playground::bare();
    playground
        .kubectl
        .feed("apply --dry-run=server -f -", &config("a: b"))
        .prints("configmap/settings created (server dry run)");
    playground.run("get cm settings").fails(1, &["NotFound"]);
    let named = playground.run("create deployment web --image=example --dry-run=server -o json").json();
    assert_eq!(named["spec"]["strategy"]["type"], "RollingUpdate", "the server's defaults are in the answer");
    playground.run("get deploy web").fails(1, &["NotFound"]);
}

#[test]
fn unknown_fields_and_wrong_types_are_refused() {
    let playground = Playground::bare();
    let unknown = service("{port: 80, prot: TCP}");
    playground.apply(&unknown).fails(1, &["strict decoding error", "unknown field \"spec.ports[0].prot\""]);
    playground.run("get svc web").fails(1, &["NotFound"]);
    let warned = playground.kubectl.feed("apply --validate=warn -f -", &unknown);
    warned.prints("service/web created");
    assert!(warned.stderr.contains("Warning: unknown field \"spec.ports[0].prot\""), "{warned}");
    let ignored = playground.kubectl.feed("apply --validate=ignore -f -", &unknown);
    assert!(ignored.code() == Some(0) && !ignored.stderr.contains("unknown field"), "{ignored}");
    playground
        .apply(&config("a: 1"))
        .fails(1, &["BadRequest", "ConfigMap in version \"v1\" cannot be handled"]);
    playground
        .apply("kind: ConfigMap\napiVersion: v9\nmetadata: {name: x}\n")
        .fails(1, &["no matches for kind"]);
    playground.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n").fails(
        1,
        &[
            "The ConfigMap \"Not_A_Name\" is invalid: metadata.name: Invalid value: \"Not_A_Name\"",
            "RFC 1123 subdomain",
        ],
    );
}

#[test]
fn server_side_apply_gives_fields_to_their_manager() {
    let playground = Playground::bare();
    let apply = |manager: &str, extra: &str, data: &str| {
        playground
            .kubectl
            .feed(&format!("apply --server-side --field-manager={manager} {extra} -f -"), &config(data))
    };
    apply("first", "", "color: red, size: big").prints("configmap/settings serverside-applied");
    apply("first", "", "color: red, size: big").prints("configmap/settings serverside-applied");
    apply("second", "", "shape: round").prints("configmap/settings serverside-applied");
    apply("second", "", "color: blue").fails(
        1,
        &["Apply failed with 1 conflict: conflict with \"first\": .data.color", "--force-conflicts"],
    );
    playground.run(DATA).prints(r#"{"color":"red","shape":"round","size":"big"}"#);
    apply("second", "--force-conflicts", "color: blue").prints("configmap/settings serverside-applied");
    playground.run(DATA).prints(r#"{"color":"blue","size":"big"}"#);
    apply("first", "", "size: big").succeeds();
    playground.run(DATA).prints(r#"{"color":"blue","size":"big"}"#);
    apply("first", "", "").succeeds();
    playground.run(DATA).prints(r#"{"color":"blue"}"#);
}

#[test]
fn server_side_apply_takes_over_from_the_client_side() {
    let playground = Playground::bare();
    playground.apply(&config("color: red, size: big")).succeeds();
    playground
        .kubectl
        .feed("apply --server-side -f -", &config("color: blue"))
        .prints("configmap/settings serverside-applied");
    playground.run(DATA).prints(r#"{"color":"blue"}"#);
    // The annotation of the client's side lives on, with an owner of its own.
    let managers = "get cm settings --show-managed-fields -o jsonpath='{.metadata.managedFields[*].manager}'";
    let managers = playground.run(managers);
    let mut managers: Vec<&str> = managers.succeeds().split(' ').collect();
    // The older one is first, in whole seconds.
    managers.sort_unstable();
    assert_eq!(managers, ["kubectl", "kubectl-last-applied"]);
}

#[test]
fn diff_ends_with_one_when_something_differs() {
    let playground = Playground::bare();
    let diff = |manifest: &str, extra: &str| playground.kubectl.feed(&format!("diff {extra} -f -"), manifest);
    playground.apply(&config("color: red")).succeeds();
    diff(&config("color: red"), "").prints("");
    let outcome = diff(&config("color: blue"), "");
    assert_eq!(outcome.code(), Some(1), "{outcome}");
    assert!(outcome.stdout.contains("-  color: red\n+  color: blue\n"), "{outcome}");
    let outcome = diff(&config("color: green"), "--server-side --force-conflicts");
    assert_eq!(outcome.code(), Some(1), "{outcome}");
    assert!(outcome.stdout.contains("+  color: green\n"), "{outcome}");
    let outcome = diff(&service("{port: 80}"), "");
    assert_eq!(outcome.code(), Some(1), "{outcome}");
    assert!(outcome.stdout.contains("+kind: Service\n"), "{outcome}");
    playground.run("get svc web").fails(1, &["NotFound"]);
    let broken = diff(&service("{port: 0}"), "");
    assert!(broken.code().is_some_and(|code| code > 0), "{broken}");
    assert!(broken.stderr.contains("is invalid"), "{broken}");
    playground.run(DATA).prints(r#"{"color":"red"}"#);
}
