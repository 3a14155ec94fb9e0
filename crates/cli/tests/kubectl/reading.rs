//! `kubectl get` in all its shapes.

use crate::playground::Playground;

const SHOP: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: blue}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: alpha, namespace: shop, labels: {tier: front, color: red}}
data: {a: "1", b: "2"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: beta, namespace: shop, labels: {tier: back}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, labels: {tier: front}}
spec:
  clusterIP: 10.96.7.7
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: dns, port: 53, protocol: UDP}]
---
apiVersion: v1
kind: Service
metadata: {name: alias, namespace: shop}
spec: {type: ExternalName, externalName: example.com}
"#;

fn shop() -> Playground {
    let playground = Playground::bare();
    playground.kubectl.feed("create -f -", SHOP).succeeds();
    playground
}

#[test]
fn tables_show_the_columns_of_the_kind() {
    let shop = shop();
    shop.run("get svc -n shop").tabulates(&[
        "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE",
        "alias ExternalName <none> example.com <none> *",
        "web ClusterIP 10.96.7.7 <none> 80/TCP,53/UDP *",
    ]);
    shop.run("get svc web -n shop -o wide").tabulates(&[
        "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR",
        "web ClusterIP 10.96.7.7 <none> 80/TCP,53/UDP * app=web",
    ]);
    shop.run("get cm alpha -n shop --no-headers").tabulates(&["alpha 2 *"]);
    shop.run("get cm alpha beta -n shop").tabulates(&["NAME DATA AGE", "alpha 2 *", "beta 0 *"]);
    shop.run("get cm,svc -n shop").tabulates(&[
        "NAME DATA AGE",
        "configmap/alpha 2 *",
        "configmap/beta 0 *",
        "",
        "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE",
        "service/alias ExternalName <none> example.com <none> *",
        "service/web ClusterIP 10.96.7.7 <none> 80/TCP,53/UDP *",
    ]);
    shop.run("get ns shop --show-labels")
        .tabulates(&["NAME STATUS AGE LABELS", "shop Active * kubernetes.io/metadata.name=shop,team=blue"]);
    shop.run("get cm -n shop -L color,tier").tabulates(&[
        "NAME DATA AGE COLOR TIER",
        "alpha 2 * red front",
        "beta 0 * back",
    ]);
}

#[test]
fn all_namespaces_get_a_column() {
    let shop = shop();
    shop.run("get svc -A").tabulates(&[
        "NAMESPACE NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE",
        "default kubernetes ClusterIP 10.96.0.1 <none> 443/TCP *",
        "shop alias ExternalName <none> example.com <none> *",
        "shop web ClusterIP 10.96.7.7 <none> 80/TCP,53/UDP *",
    ]);
    shop.run("get all -A").shows(&["service/kubernetes", "service/web"]);
}

#[test]
fn selectors_choose_by_label_and_field() {
    let shop = shop();
    let cases = [
        ("cm -n shop -l tier=front", "configmap/alpha"),
        ("cm -n shop -l tier!=front", "configmap/beta"),
        ("cm -n shop -l 'tier in (front,back),!color'", "configmap/beta"),
        ("cm -n shop -l 'tier notin (back)'", "configmap/alpha"),
        ("cm -n shop -l color", "configmap/alpha"),
        ("cm -n shop --field-selector metadata.name=beta", "configmap/beta"),
        ("svc -A --field-selector metadata.namespace!=default,metadata.name!=alias", "service/web"),
        ("svc -A --field-selector spec.type=ExternalName", "service/alias"),
        ("svc -A -l tier=front --field-selector metadata.name=web", "service/web"),
        ("ns --field-selector status.phase=Active -l team", "namespace/shop"),
    ];
    for (query, expected) in cases {
        shop.run(&format!("get {query} -o name")).prints(expected);
    }
    let none = shop.run("get cm -n shop -l tier=middle");
    none.prints("");
    assert!(none.stderr.contains("No resources found in shop namespace."), "{none}");
    shop.run("get cm -n shop -l 'tier in ('").fails(1, &["unable to parse requirement"]);
    shop.run("get svc -n shop --field-selector spec.color=red")
        .fails(1, &["Error from server (BadRequest)", "field label not supported"]);
}

#[test]
fn objects_come_as_yaml_json_names_and_paths() {
    let shop = shop();
    shop.run("get cm alpha -n shop -o yaml").shows(&[
        "apiVersion: v1\ndata:\n  a: \"1\"\n  b: \"2\"\nkind: ConfigMap\n",
        "    color: red\n    tier: front\n  name: alpha\n  namespace: shop\n",
    ]);
    let service = shop.run("get svc web -n shop -o json").json();
    assert_eq!((&service["kind"], &service["apiVersion"]), (&"Service".into(), &"v1".into()));
    assert_eq!(service["spec"]["clusterIPs"], serde_json::json!(["10.96.7.7"]));
    assert_eq!(service["metadata"].get("managedFields"), None, "kubectl hides them");
    let shown = shop.run("get svc web -n shop -o json --show-managed-fields").json();
    assert_eq!(shown["metadata"]["managedFields"][0]["manager"], "kubectl-create");
    let list = shop.run("get cm -n shop -o json").json();
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"][1]["kind"], "ConfigMap");
    shop.run("get svc -n shop -o jsonpath='{.items[*].metadata.name}'").prints("alias web");
    shop.run("get svc web -n shop -o jsonpath='{range .spec.ports[*]}{.name}={.port};{end}'")
        .prints("http=80;dns=53;");
    shop.run("get svc web -n shop -o custom-columns=N:.metadata.name,IP:.spec.clusterIP")
        .tabulates(&["N IP", "web 10.96.7.7"]);
    shop.run("get svc -n shop -o go-template='{{range .items}}{{.metadata.name}} {{end}}'")
        .prints("alias web");
    shop.run("get cm,svc -n shop -o name")
        .prints("configmap/alpha\nconfigmap/beta\nservice/alias\nservice/web");
    shop.run("get svc -A --sort-by=.metadata.name -o name")
        .prints("service/alias\nservice/kubernetes\nservice/web");
}

#[test]
fn what_is_not_there_ends_with_one() {
    let shop = shop();
    shop.run("get svc nope -n shop").fails(1, &["Error from server (NotFound): services \"nope\" not found"]);
    shop.run("get svc web nope -n shop").fails(1, &["services \"nope\" not found"]);
    shop.run("get svc nope -n shop --ignore-not-found").prints("");
    shop.run("get unicorns").fails(1, &["the server doesn't have a resource type \"unicorns\""]);
    shop.run("get svc web -n nowhere").fails(1, &["NotFound"]);
    let empty = shop.run("get svc -n nowhere");
    empty.prints("");
    assert!(empty.stderr.contains("No resources found in nowhere namespace."), "{empty}");
}

#[test]
fn lists_come_in_pages() {
    let playground = Playground::bare();
    let maps: String = (0..7)
        .map(|number| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: page-{number}}}\n"))
        .collect();
    playground.kubectl.feed("create -f -", &maps).succeeds();
    let expected: Vec<String> = (0..7).map(|number| format!("configmap/page-{number}")).collect();
    for size in [1, 2, 3, 7, 8] {
        playground.run(&format!("get cm --chunk-size={size} -o name")).prints(&expected.join("\n"));
    }
    let rows = playground.run("get cm --chunk-size=2");
    assert_eq!(rows.succeeds().lines().count(), 8, "one header, seven rows\n{rows}");
    let page = playground.run("get --raw /api/v1/namespaces/default/configmaps?limit=2").json();
    assert_eq!(page["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(page["metadata"]["remainingItemCount"], 5);
    assert!(page["metadata"]["continue"].is_string(), "{page}");
}

#[test]
fn raw_requests_pass_through() {
    let shop = shop();
    shop.run("get --raw /readyz").prints("ok");
    assert_eq!(shop.run("get --raw /api/v1/namespaces/shop/services/web").json()["metadata"]["name"], "web");
    shop.run("get --raw /api/v1/namespaces/shop/services/nope").fails(1, &["Error from server (NotFound)"]);
    shop.run("get --raw /no/such/path").fails(1, &["NotFound"]);
    let made = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"raw"}}"#;
    let created = shop.kubectl.feed("create --raw /api/v1/namespaces/shop/configmaps -f -", made);
    assert_eq!(created.json()["metadata"]["name"], "raw");
}
