//! What the server says about itself, and that it says the same in every form.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::*;

/// Group, version, resource (with its subresource) and verbs, from the aggregated form.
async fn aggregated(wire: &Wire) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in ["/api", "/apis"] {
        let reply = wire.get_as(AGGREGATED, path).await;
        assert_eq!(reply.headers["content-type"], AGGREGATED);
        assert_eq!(
            (&reply.json["kind"], &reply.json["apiVersion"]),
            (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2"))
        );
        for group in reply.json["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().unwrap() {
                let place = format!("{name}/{}", version["version"].as_str().unwrap());
                for resource in version["resources"].as_array().unwrap() {
                    let plural = resource["resource"].as_str().unwrap();
                    let namespaced = resource["scope"] == "Namespaced";
                    found.insert(format!(
                        "{place} {plural} {namespaced} {} {}",
                        resource["responseKind"]["kind"], resource["verbs"]
                    ));
                    for part in resource["subresources"].as_array().into_iter().flatten() {
                        let part_name = part["subresource"].as_str().unwrap();
                        let kind = &part["responseKind"]["kind"];
                        found.insert(format!(
                            "{place} {plural}/{part_name} {namespaced} {kind} {}",
                            part["verbs"]
                        ));
                    }
                }
            }
        }
    }
    found
}

/// The same from the form with one document per group version.
async fn plain(wire: &Wire) -> BTreeSet<String> {
    let mut places = vec![("/api/v1".to_owned(), "/v1".to_owned())];
    let groups = wire.get("/apis").await.ok(200);
    assert_eq!(groups["kind"], "APIGroupList");
    for group in groups["groups"].as_array().unwrap() {
        let name = group["name"].as_str().unwrap();
        let alone = wire.get(&format!("/apis/{name}")).await.ok(200);
        assert_eq!((&alone["kind"], &alone["versions"]), (&json!("APIGroup"), &group["versions"]));
        assert_eq!(group["preferredVersion"], group["versions"][0]);
        for version in group["versions"].as_array().unwrap() {
            let version = version["groupVersion"].as_str().unwrap();
            places.push((format!("/apis/{version}"), version.to_owned()));
        }
    }
    let mut found = BTreeSet::new();
    for (path, place) in places {
        let list = wire.get(&path).await.ok(200);
        assert_eq!(
            (&list["kind"], &list["groupVersion"]),
            (&json!("APIResourceList"), &json!(place.trim_start_matches('/')))
        );
        for resource in list["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            found.insert(format!(
                "{place} {name} {} {} {}",
                resource["namespaced"], resource["kind"], resource["verbs"]
            ));
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn both_forms_of_discovery_agree_also_about_custom_resources() {
    let wire = Wire::new();
    let before = aggregated(&wire).await;
    assert_eq!(before, plain(&wire).await);
    wire.create(DEFINITIONS, &widgets()).await;
    let after = aggregated(&wire).await;
    assert_eq!(after, plain(&wire).await);
    let new: Vec<&String> = after.difference(&before).collect();
    assert_eq!(new.len(), 6, "two versions, each with status and scale: {new:?}");
    assert!(
        new.iter().any(|line| line.starts_with("shop.example/v1 widgets/scale true \"Scale\" ")),
        "{new:?}"
    );
    let group = wire.get("/apis/shop.example").await.ok(200);
    let versions: Vec<&str> =
        group["versions"].as_array().unwrap().iter().map(|v| v["version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["v1", "v1beta1"], "the stable one comes first");
}

#[tokio::test(start_paused = true)]
async fn names_that_people_type_are_announced() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let find = |list: &Value, name: &str| -> Value {
        list["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap().clone()
    };
    let core = wire.get("/api/v1").await.ok(200);
    let services = find(&core, "services");
    assert_eq!(
        (&services["shortNames"], &services["categories"], &services["singularName"]),
        (&json!(["svc"]), &json!(["all"]), &json!("service"))
    );
    let shop = wire.get("/apis/shop.example/v1").await.ok(200);
    let widgets = find(&shop, "widgets");
    assert_eq!(
        (&widgets["shortNames"], &widgets["categories"], &widgets["singularName"]),
        (&json!(["wd"]), &json!(["all"]), &json!("widget"))
    );
    let scale = find(&wire.get("/apis/apps/v1").await.json, "deployments/scale");
    assert_eq!(
        (&scale["group"], &scale["version"], &scale["kind"]),
        (&json!("autoscaling"), &json!("v1"), &json!("Scale"))
    );
}

#[tokio::test(start_paused = true)]
async fn the_tag_of_discovery_is_a_hash_of_its_content() {
    let (wire, twin) = (Wire::new(), Wire::new());
    let tag = |reply: &Reply| reply.headers["etag"].to_str().unwrap().to_owned();
    let before = wire.get_as(AGGREGATED, "/apis").await;
    assert_eq!(tag(&before), tag(&twin.get_as(AGGREGATED, "/apis").await), "the same content, the same tag");
    assert_eq!(before.headers["vary"], "Accept");
    wire.create(DEFINITIONS, &widgets()).await;
    let after = wire.get_as(AGGREGATED, "/apis").await;
    assert_ne!(tag(&before), tag(&after));
    let fresh = wire
        .send("GET", "/apis", &[("accept", AGGREGATED), ("if-none-match", &tag(&after))], Vec::new())
        .await;
    assert_eq!((fresh.code, fresh.body.len()), (304, 0));
    wire.delete(&format!("{DEFINITIONS}/widgets.shop.example")).await.ok(200);
    assert_eq!(tag(&before), tag(&wire.get_as(AGGREGATED, "/apis").await));
}

#[tokio::test(start_paused = true)]
async fn openapi_has_an_index_of_hashed_documents_that_may_be_kept_forever() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let index = wire.get("/openapi/v3").await.ok(200);
    let paths = index["paths"].as_object().unwrap();
    assert!(["api/v1", "apis/apps/v1", "apis/shop.example/v1"].iter().all(|path| paths.contains_key(*path)));
    for (path, entry) in paths {
        let url = entry["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with(&format!("/openapi/v3/{path}?hash=")), "{url}");
        let document = wire.get(url).await;
        assert_eq!(document.headers["cache-control"], "public, immutable", "{url}");
        assert!(document.headers.contains_key("etag"));
        assert!(document.headers.contains_key("expires"), "{url}");
        assert_eq!(document.json["openapi"], "3.0.0");
        let unhashed = wire.get(&format!("/openapi/v3/{path}")).await;
        assert_eq!((unhashed.code, &unhashed.body), (200, &document.body));
        assert!(unhashed.headers["cache-control"].to_str().unwrap().contains("no-cache"));
    }
    let document = wire.get("/openapi/v3/apis/shop.example/v1").await.json;
    let patch = &document["paths"]["/apis/shop.example/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "shop.example", "version": "v1", "kind": "Widget"})
    );
    let parameters: Vec<&str> =
        patch["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(parameters.contains(&"fieldValidation") && parameters.contains(&"dryRun"), "{parameters:?}");
}

#[tokio::test(start_paused = true)]
async fn health_version_and_the_root_answer() {
    let wire = Wire::new();
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        let reply = wire.get(path).await;
        assert_eq!((reply.code, &reply.body[..]), (200, &b"ok"[..]), "{path}");
    }
    let version = wire.get("/version").await.ok(200);
    assert_eq!(version["major"], "1");
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1."));
    assert!(wire.get("/").await.ok(200)["paths"].as_array().unwrap().contains(&json!("/apis/apps/v1")));
}
