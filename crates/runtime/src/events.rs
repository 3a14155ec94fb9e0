//! Events: what happened, beside the objects it happened to.
//!
//! They help people and nothing depends on them, so one that cannot be written is let go.

use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};

use crate::clock::Clock;
use crate::write::Kind;

/// How long a sentence an event may hold.
const LONGEST_NOTE: usize = 1024;

/// Something to be told.
#[derive(Clone, Copy, Debug)]
pub struct News<'a> {
    /// `Normal` or `Warning`.
    pub severity: &'a str,
    pub reason: &'a str,
    pub note: &'a str,
}

/// Where events are written.
pub struct Events {
    client: Client,
    clock: Clock,
    controller: String,
    instance: String,
    written: AtomicU64,
}

impl Events {
    /// Events of a part, such as `tombolo-agent`, of which `instance` is one.
    pub fn new(client: Client, clock: Clock, part: &str, instance: &str) -> Self {
        let controller = format!("tombolo.dev/{part}");
        Self { client, clock, controller, instance: instance.to_owned(), written: AtomicU64::default() }
    }

    /// Writes that something happened to an object.
    pub async fn tell<K: Kind>(&self, object: &K, news: &News<'_>) {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let event = self.event(object, news);
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            tracing::debug!(%error, reason = news.reason, "an event was not written");
        }
    }

    fn event<K: Kind>(&self, object: &K, news: &News<'_>) -> Event {
        let now = self.clock.now();
        // Several in one instant must not share a name.
        let count = self.written.fetch_add(1, Ordering::Relaxed);
        let stamp = now.as_nanosecond().wrapping_add(i128::from(count));
        let name: String = object.name_any().chars().take(200).collect();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{stamp:x}", name.trim_end_matches(['-', '.']))),
                namespace: object.namespace(),
                ..ObjectMeta::default()
            },
            action: Some("Reconcile".to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(news.note.chars().take(LONGEST_NOTE).collect()),
            reason: Some(news.reason.to_owned()),
            regarding: Some(ObjectReference {
                api_version: Some(K::api_version(&()).into_owned()),
                kind: Some(K::kind(&()).into_owned()),
                name: object.meta().name.clone(),
                namespace: object.namespace(),
                resource_version: object.resource_version(),
                uid: object.uid(),
                ..ObjectReference::default()
            }),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.chars().take(128).collect()),
            type_: Some(news.severity.to_owned()),
            ..Event::default()
        }
    }
}
