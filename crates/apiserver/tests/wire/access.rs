//! Who may do what: tokens, roles, reviews.

use std::time::Duration;

use serde_json::{Value, json};
use tombolo_apiserver::{Options, User};

use crate::client::*;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

fn guarded() -> Wire {
    Wire::with(Options { rbac: true, ..repeatable() })
}

fn someone(name: &str) -> User {
    User { name: name.to_owned(), uid: String::new(), groups: vec!["system:authenticated".to_owned()] }
}

async fn token_for(wire: &Wire, account: &str, seconds: i64) -> String {
    let request = json!({"spec": {"expirationSeconds": seconds, "audiences": []}});
    let reply = wire.post(&format!("{ACCOUNTS}/{account}/token"), &request).await.ok(201);
    assert_eq!(
        (&reply["kind"], &reply["spec"]["expirationSeconds"]),
        (&json!("TokenRequest"), &json!(seconds))
    );
    reply["status"]["token"].as_str().unwrap().to_owned()
}

async fn is_good(wire: &Wire, token: &str) -> Option<String> {
    let review = json!({"spec": {"token": token}});
    let reply = wire.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.ok(201);
    let status = &reply["status"];
    (status["authenticated"] == true).then(|| status["user"]["username"].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_token_lives_as_long_as_it_says_and_its_account_does() {
    let wire = Wire::new();
    wire.create(ACCOUNTS, &json!({"metadata": {"name": "bot"}})).await;
    let token = token_for(&wire, "bot", 600).await;
    let name = Some("system:serviceaccount:default:bot".to_owned());
    assert_eq!(is_good(&wire, &token).await, name);
    tokio::time::advance(Duration::from_secs(599)).await;
    assert_eq!(is_good(&wire, &token).await, name);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(is_good(&wire, &token).await, None, "expired");

    let token = token_for(&wire, "bot", 3600).await;
    wire.delete(&format!("{ACCOUNTS}/bot")).await.ok(200);
    assert_eq!(is_good(&wire, &token).await, None, "the account is gone");
    wire.create(ACCOUNTS, &json!({"metadata": {"name": "bot"}})).await;
    assert_eq!(is_good(&wire, &token).await, None, "another account of that name is another account");
    assert_eq!(is_good(&wire, "rubbish").await, None);
    let reply =
        wire.post(&format!("{ACCOUNTS}/bot/token"), &json!({"spec": {"expirationSeconds": 599}})).await;
    assert_eq!((reply.code, reply.causes()), (422, vec![("spec.expirationSeconds", "FieldValueInvalid")]));
    assert_eq!(wire.post(&format!("{ACCOUNTS}/nobody/token"), &json!({"spec": {}})).await.code, 404);
    assert_eq!(
        is_good(&Wire::new(), &token_for(&wire, "bot", 600).await).await,
        None,
        "another cluster's token"
    );
}

#[tokio::test(start_paused = true)]
async fn with_roles_on_everyone_may_do_exactly_what_their_roles_name() {
    let wire = guarded();
    let alice = wire.acting_as(someone("alice"));
    let forbidden = |verb: &str, resource: &str, group: &str, place: &str| {
        format!("User \"alice\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}")
    };
    let here = "in the namespace \"default\"";
    let reply = alice.get(CONFIG_MAPS).await;
    reply.refuses(
        403,
        "Forbidden",
        &format!("configmaps is forbidden: {}", forbidden("list", "configmaps", "", here)),
    );
    assert_eq!(reply.json["details"], json!({"kind": "configmaps"}));
    let reply = alice.get(&format!("{DEPLOYMENTS}/web")).await;
    let message =
        format!("deployments.apps \"web\" is forbidden: {}", forbidden("get", "deployments", "apps", here));
    reply.refuses(403, "Forbidden", &message);
    let reply = alice.get("/api/v1/nodes").await;
    let message = format!("nodes is forbidden: {}", forbidden("list", "nodes", "", "at the cluster scope"));
    reply.refuses(403, "Forbidden", &message);
    let reply = alice.patch(&format!("{SERVICES}/a/status"), MERGE, &json!({})).await;
    let message = format!("services \"a\" is forbidden: {}", forbidden("patch", "services/status", "", here));
    reply.refuses(403, "Forbidden", &message);
    let reply = alice.get("/metrics").await;
    reply.refuses(403, "Forbidden", "forbidden: User \"alice\" cannot get path \"/metrics\"");

    let role = json!({"metadata": {"name": "reader"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["services/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["get"]},
    ]});
    wire.create(&format!("{RBAC}/namespaces/default/roles"), &role).await;
    let binding = json!({"metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}]});
    wire.create(&format!("{RBAC}/namespaces/default/rolebindings"), &binding).await;
    wire.create(SERVICES, &service("a")).await;
    let secret = |name: &str| format!("/api/v1/namespaces/default/secrets/{name}");
    let cases = [
        ("GET", CONFIG_MAPS.to_owned(), 200),
        ("GET", format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1"), 200),
        ("GET", format!("{CONFIG_MAPS}/none"), 404),
        ("GET", "/api/v1/configmaps".to_owned(), 403),
        ("GET", "/api/v1/namespaces/kube-system/configmaps".to_owned(), 403),
        ("DELETE", format!("{CONFIG_MAPS}/none"), 403),
        ("DELETE", CONFIG_MAPS.to_owned(), 403),
        ("GET", format!("{SERVICES}/a"), 403),
        ("GET", secret("one"), 404),
        ("GET", secret("two"), 403),
        ("GET", "/api/v1/namespaces/default/secrets".to_owned(), 403),
        ("GET", "/apis".to_owned(), 200),
        ("GET", "/openapi/v3".to_owned(), 200),
    ];
    for (method, path, code) in cases {
        assert_eq!(alice.call(method, &path, "", "").await.code, code, "{method} {path}");
    }
    assert_eq!(alice.patch(&format!("{SERVICES}/a/status"), MERGE, &json!({})).await.code, 200);
    assert_eq!(alice.patch(&format!("{SERVICES}/a"), MERGE, &json!({})).await.code, 403);
    assert_eq!(alice.post(CONFIG_MAPS, &config_map("x")).await.code, 403);
    let bob = wire.acting_as(someone("bob"));
    assert_eq!(bob.get(CONFIG_MAPS).await.code, 403);
    wire.delete(&format!("{RBAC}/namespaces/default/rolebindings/alice")).await.ok(200);
    assert_eq!(alice.get(CONFIG_MAPS).await.code, 403, "revoked at once");
}

#[tokio::test(start_paused = true)]
async fn a_service_account_is_bound_by_name_group_or_cluster_role() {
    let wire = guarded();
    let bot = wire.acting_as(User::service_account("default", "bot"));
    let bind = |name: &str, subject: Value| {
        json!({"metadata": {"name": name}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}})
    };
    let subjects = [
        json!({"kind": "ServiceAccount", "name": "bot", "namespace": "default"}),
        json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts:default"}),
    ];
    for subject in subjects {
        assert_eq!(bot.get("/api/v1/nodes").await.code, 403);
        wire.create(&format!("{RBAC}/clusterrolebindings"), &bind("bots", subject)).await;
        assert_eq!(bot.get("/api/v1/nodes").await.code, 200);
        wire.delete(&format!("{RBAC}/clusterrolebindings/bots")).await.ok(200);
    }
}

#[tokio::test(start_paused = true)]
async fn reviews_answer_as_the_requests_would() {
    let wire = guarded();
    let alice = wire.acting_as(someone("alice"));
    let ask = |verb: &str, resource: &str| json!({"spec": {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": "default"}}});
    let review =
        alice.post(&format!("{REVIEWS}/selfsubjectaccessreviews"), &ask("list", "configmaps")).await.ok(201);
    assert_eq!(
        (&review["kind"], &review["status"]["allowed"]),
        (&json!("SelfSubjectAccessReview"), &json!(false))
    );
    let review =
        wire.post(&format!("{REVIEWS}/selfsubjectaccessreviews"), &ask("list", "configmaps")).await.ok(201);
    assert_eq!(review["status"]["allowed"], true);
    let mut other = ask("get", "configmaps");
    other["spec"]["user"] = json!("alice");
    let review = wire.post(&format!("{REVIEWS}/subjectaccessreviews"), &other).await.ok(201);
    assert_eq!(review["status"]["allowed"], false);
    assert_eq!(alice.post(&format!("{REVIEWS}/subjectaccessreviews"), &other).await.code, 403);
    let path = json!({"spec": {"nonResourceAttributes": {"path": "/apis", "verb": "get"}}});
    let review = alice.post(&format!("{REVIEWS}/selfsubjectaccessreviews"), &path).await.ok(201);
    assert_eq!(review["status"]["allowed"], true);
    let me = alice.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.ok(201);
    assert_eq!(me["status"]["userInfo"]["username"], "alice");
    assert_eq!(alice.get(&format!("{REVIEWS}/selfsubjectaccessreviews")).await.code, 403);
    assert_eq!(wire.get(&format!("{REVIEWS}/selfsubjectaccessreviews")).await.code, 405);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_good_for_those_it_was_made_for() {
    let wire = Wire::new();
    wire.create(ACCOUNTS, &json!({"metadata": {"name": "bot"}})).await;
    let request = json!({"spec": {"audiences": ["vault", "store"]}});
    let made = wire.post(&format!("{ACCOUNTS}/bot/token"), &request).await.ok(201);
    let token = made["status"]["token"].as_str().unwrap();
    assert_eq!(is_good(&wire, token).await, None, "it is not for this server");
    let review = json!({"spec": {"token": token, "audiences": ["store", "other"]}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let status = wire.post(reviews, &review).await.ok(201)["status"].clone();
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["store"])));
    let plain = token_for(&wire, "bot", 600).await;
    let status = wire.post(reviews, &json!({"spec": {"token": plain}})).await.ok(201)["status"].clone();
    assert_eq!(status["audiences"], json!(["https://kubernetes.default.svc.cluster.local"]));
    assert_eq!(wire.post(reviews, &json!({"spec": {}})).await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_a_watch_however_it_is_spelled_and_one_object_can_be_listed_by_its_name() {
    let wire = guarded();
    let alice = wire.acting_as(someone("alice"));
    let role = json!({"metadata": {"name": "reader"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["list", "watch", "get"]},
    ]});
    wire.create(&format!("{RBAC}/namespaces/default/roles"), &role).await;
    let binding = json!({"metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}]});
    wire.create(&format!("{RBAC}/namespaces/default/rolebindings"), &binding).await;
    for (query, code) in [("watch=false", 200), ("watch=0", 200), ("watch=FALSE", 200), ("", 200)] {
        assert_eq!(alice.get(&format!("{CONFIG_MAPS}?{query}")).await.code, code, "{query}");
    }
    for query in ["watch=true", "watch=1", "watch=True", "watch=t", "watch=T", "watch=yes", "watch=", "watch"]
    {
        let reply = alice.get(&format!("{CONFIG_MAPS}?{query}&timeoutSeconds=1")).await;
        assert_eq!(reply.code, 403, "{query}");
        assert!(reply.message().contains("cannot watch resource"), "{query}: {}", reply.message());
    }
    let secrets = "/api/v1/namespaces/default/secrets";
    for (query, code) in [
        ("fieldSelector=metadata.name%3Done", 200),
        ("fieldSelector=metadata.name%3Done&watch=1&timeoutSeconds=1", 200),
        ("fieldSelector=metadata.name%3Dtwo", 403),
        ("fieldSelector=metadata.name%21%3Done", 403),
        ("", 403),
    ] {
        assert_eq!(alice.get(&format!("{secrets}?{query}")).await.code, code, "{query}");
    }
    wire.create(secrets, &json!({"metadata": {"name": "one"}})).await;
    let one = alice.get(&format!("{secrets}/one?watch=true")).await.ok(200);
    assert_eq!(one["kind"], "Secret", "one object is read, whatever is said about watching");
}
