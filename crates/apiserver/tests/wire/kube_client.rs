//! kube-rs, as controllers use it: within the process and over TLS.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Client, Config, ResourceExt};
use serde_json::json;
use tombolo_apiserver::{Cluster, Context, Options, kubeconfig};

use crate::client::{Wire, config_map, widgets};

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(config_map(name)).expect("a ConfigMap")
}

#[tokio::test(start_paused = true)]
async fn objects_come_and_go_and_lists_come_in_pages() {
    let api: Api<ConfigMap> = Api::default_namespaced(Wire::new().cluster.client());
    for place in 0..7 {
        api.create(&PostParams::default(), &map(&format!("c{place}"))).await.unwrap();
    }
    let mut params = ListParams::default().limit(3);
    let mut seen = Vec::new();
    loop {
        let page = api.list(&params).await.unwrap();
        seen.extend(page.items.iter().map(ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break,
        }
    }
    assert_eq!(seen, ["c0", "c1", "c2", "c3", "c4", "c5", "c6"]);
    let mut object = api.get("c0").await.unwrap();
    object.data.get_or_insert_default().insert("k".into(), "v".into());
    let updated = api.replace("c0", &PostParams::default(), &object).await.unwrap();
    let stale = api.replace("c0", &PostParams::default(), &object).await.unwrap_err();
    assert!(matches!(&stale, kube::Error::Api(status) if status.is_conflict()), "{stale}");
    assert!(updated.resource_version() > object.resource_version());
    assert!(api.delete("c0", &DeleteParams::default()).await.unwrap().is_right());
    assert!(api.get_opt("c0").await.unwrap().is_none());
    assert!(api.get_metadata("c1").await.unwrap().metadata.uid.is_some());
}

#[tokio::test(start_paused = true)]
async fn reflectors_follow_however_they_start() {
    for streaming in [false, true] {
        let patient = tokio::time::timeout(Duration::from_secs(600), follow(streaming));
        patient.await.expect("every event arrives");
    }
}

async fn follow(streaming: bool) {
    let client = Wire::new().cluster.client();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &map(name)).await.unwrap();
    }
    let config = watcher::Config::default().page_size(1);
    let config = if streaming { watcher::Config::default().streaming_lists() } else { config };
    let (reader, writer) = reflector::store();
    let stream = reflector(writer, watcher(api.clone(), config)).default_backoff().touched_objects();
    pin_mut!(stream);
    for expected in ["a", "b"] {
        assert_eq!(stream.try_next().await.unwrap().unwrap().name_any(), expected);
    }
    api.create(&PostParams::default(), &map("c")).await.unwrap();
    assert_eq!(stream.try_next().await.unwrap().unwrap().name_any(), "c");
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(stream.try_next().await.unwrap().unwrap().name_any(), "a");
    let mut names: Vec<String> = reader.state().iter().map(|object| object.name_any()).collect();
    names.sort();
    assert_eq!(names, ["b", "c"], "streaming: {streaming}");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_outlives_the_end_of_its_watch() {
    let api: Api<ConfigMap> = Api::default_namespaced(Wire::new().cluster.client());
    let stream =
        watcher(api.clone(), watcher::Config::default().timeout(5)).default_backoff().applied_objects();
    pin_mut!(stream);
    for name in ["a", "b", "c"] {
        tokio::time::sleep(Duration::from_secs(7)).await;
        let (_, seen) = tokio::join!(
            async { api.create(&PostParams::default(), &map(name)).await.unwrap() },
            stream.try_next()
        );
        assert_eq!(seen.unwrap().unwrap().name_any(), name);
    }
}

struct Seen {
    client: Client,
    steps: tokio::sync::mpsc::UnboundedSender<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failure(String);

async fn reconcile(object: Arc<ConfigMap>, context: Arc<Seen>) -> Result<Action, Failure> {
    if object.labels().get("watched").is_none() {
        return Ok(Action::await_change());
    }
    let api: Api<ConfigMap> = Api::default_namespaced(context.client.clone());
    let steps = context.steps.clone();
    let done = finalizer(&api, "example.com/test", object, |event| async move {
        let (word, object) = match event {
            Event::Apply(object) => ("applied", object),
            Event::Cleanup(object) => ("cleaned", object),
        };
        steps.send(format!("{word} {}", object.name_any())).expect("somebody listens");
        Ok::<_, Failure>(Action::await_change())
    });
    done.await.map_err(|error| Failure(error.to_string()))
}

#[tokio::test(start_paused = true)]
async fn a_controller_with_a_finalizer_sees_objects_through_their_life() {
    let client = Wire::new().cluster.client();
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let (steps, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let context = Arc::new(Seen { client, steps });
    let controller = Controller::new(api.clone(), watcher::Config::default());
    let policy = |_: Arc<ConfigMap>, _: &Failure, _: Arc<Seen>| Action::requeue(Duration::from_secs(1));
    let running = controller.run(reconcile, policy, context).for_each(|_| async {});
    let story = async {
        let mut object = map("a");
        object.metadata.labels = Some([("watched".to_owned(), "yes".to_owned())].into());
        api.create(&PostParams::default(), &object).await.unwrap();
        assert_eq!(seen.recv().await.unwrap(), "applied a");
        assert_eq!(api.get("a").await.unwrap().finalizers(), ["example.com/test"]);
        api.delete("a", &DeleteParams::default()).await.unwrap();
        while seen.recv().await.unwrap() != "cleaned a" {}
        while api.get_opt("a").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = running => panic!("a controller does not end"),
        done = tokio::time::timeout(Duration::from_secs(600), story) => done.expect("it gets there"),
    }
}

#[tokio::test(start_paused = true)]
async fn custom_objects_are_applied_by_several_managers() {
    let client = Wire::new().cluster.client();
    let definitions = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &definitions);
    let definition: DynamicObject = serde_json::from_value(widgets()).unwrap();
    let ssa = PatchParams::apply("installer").force();
    definitions.patch("widgets.shop.example", &ssa, &Patch::Apply(&definition)).await.unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("shop.example", "v1", "Widget"));
    let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
    let body = |spec| json!({"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
    api.patch("w", &PatchParams::apply("one"), &Patch::Apply(body(json!({"size": 3})))).await.unwrap();
    let both = api
        .patch("w", &PatchParams::apply("two"), &Patch::Apply(body(json!({"colour": "green"}))))
        .await
        .unwrap();
    assert_eq!(both.data["spec"], json!({"size": 3, "colour": "green"}), "a default belongs to nobody");
    let clash = api
        .patch("w", &PatchParams::apply("two"), &Patch::Apply(body(json!({"size": 4}))))
        .await
        .unwrap_err();
    assert_eq!(code(&clash), (409, "Conflict"));
    let status = json!({"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": "w"}, "status": {"replicas": 1}});
    let after = api.patch_status("w", &PatchParams::apply("two"), &Patch::Apply(status)).await.unwrap();
    assert_eq!(after.data["status"]["replicas"], 1);
    let found = kube::discovery::Discovery::new(client).run_aggregated().await.unwrap();
    assert!(found.resolve_gvk(&GroupVersionKind::gvk("shop.example", "v1", "Widget")).is_some());
}

/// Measured on kube-apiserver 1.37: the merge leaves a null, which the definition does not allow.
#[tokio::test(start_paused = true)]
async fn a_spec_that_is_applied_empty_in_the_place_of_a_full_one_is_refused() {
    let client = Wire::new().cluster.client();
    let definitions = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&definitions));
    let mut definition = widgets();
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
        version["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"labels": texts}}}});
        version
            .as_object_mut()
            .unwrap()
            .retain(|field, _| ["name", "served", "storage", "schema"].contains(&field.as_str()));
    }
    let definition: DynamicObject = serde_json::from_value(definition).unwrap();
    definitions.create(&Default::default(), &definition).await.unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("shop.example", "v1", "Widget"));
    let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
    let body = |spec| json!({"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
    let one = PatchParams::apply("one");
    api.patch("w", &one, &Patch::Apply(body(json!({"labels": {"a": "b"}})))).await.unwrap();
    let refused = api.patch("w", &one, &Patch::Apply(body(json!({})))).await.unwrap_err();
    assert_eq!(code(&refused), (422, "Invalid"));
    assert!(refused.to_string().contains("spec in body must be of type object: \"null\""), "{refused}");
    api.patch("w", &one, &Patch::Apply(body(json!({"labels": {"c": "d"}})))).await.unwrap();
    // What somebody sends as null is dropped, as before.
    let sent = json!({"spec": {"labels": null}});
    let merged = api.patch("w", &PatchParams::default(), &Patch::Merge(sent)).await.unwrap();
    assert_eq!(merged.data["spec"], json!({}));
}

/// Runs `story` against a listening server and stops it.
async fn served(story: impl AsyncFnOnce(Cluster, Context)) {
    let cluster = Cluster::new(Options::named("tls"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = cluster.serve(listener).unwrap();
    let context = cluster.context(&server).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async { drop(stopped.await) }));
    let done = tokio::time::timeout(Duration::from_secs(120), story(cluster, context)).await;
    stop.send(()).unwrap();
    running.await.unwrap();
    done.expect("the story ends");
}

async fn connect(context: &Context) -> Client {
    let text = kubeconfig(std::slice::from_ref(context));
    let mut parsed = Kubeconfig::from_yaml(&text).unwrap();
    if context.token.is_empty() {
        parsed
            .auth_infos
            .iter_mut()
            .filter_map(|user| user.auth_info.as_mut())
            .for_each(|user| user.token = None);
    }
    let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn code(error: &kube::Error) -> (u16, &str) {
    match error {
        kube::Error::Api(status) => (status.code, &status.reason),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn over_tls_a_good_token_opens_and_others_do_not() {
    served(async |cluster, context| {
        let namespaces: Api<Namespace> = Api::all(connect(&context).await);
        assert_eq!(namespaces.list(&ListParams::default()).await.unwrap().items.len(), 4);
        for token in ["wrong", ""] {
            let other = Context { token: token.to_owned(), ..context.clone() };
            let namespaces: Api<Namespace> = Api::all(connect(&other).await);
            let refused = namespaces.list(&ListParams::default()).await.unwrap_err();
            assert_eq!(code(&refused), (401, "Unauthorized"), "{token:?}");
        }
        let accounts: Api<ServiceAccount> = Api::default_namespaced(cluster.client());
        let account = serde_json::from_value(json!({"metadata": {"name": "bot"}})).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let request = serde_json::from_value(
            json!({"spec": {"audiences": [], "expirationSeconds": 600}, "metadata": {}}),
        )
        .unwrap();
        let token = accounts.create_token_request("bot", &PostParams::default(), &request).await.unwrap();
        let token = token.status.unwrap().token.unwrap();
        let namespaces: Api<Namespace> = Api::all(connect(&Context { token, ..context.clone() }).await);
        namespaces.list(&ListParams::default()).await.unwrap();
        accounts.delete("bot", &DeleteParams::default()).await.unwrap();
        let refused = namespaces.list(&ListParams::default()).await.unwrap_err();
        assert_eq!(code(&refused), (401, "Unauthorized"), "the account is gone");
    })
    .await;
}

#[tokio::test]
async fn a_watch_over_tls_starts_at_once_and_ends_with_the_server() {
    served(async |cluster, context| {
        let api: Api<ConfigMap> = Api::default_namespaced(connect(&context).await);
        let stream = watcher(api, watcher::Config::default()).default_backoff().applied_objects();
        pin_mut!(stream);
        let local: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        for name in ["a", "b"] {
            local.create(&PostParams::default(), &map(name)).await.unwrap();
            assert_eq!(stream.try_next().await.unwrap().unwrap().name_any(), name);
        }
    })
    .await;
}
