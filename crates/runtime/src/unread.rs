//! Objects as the server sent them, of which nothing but names and versions has been read.
//!
//! What keeps a cache in step is a watch of these. One that cannot be read, whoever wrote it, does not keep the others from being seen, and
//! what makes a watch is compiled once, not for every kind.

use std::borrow::Cow;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use kube::api::ApiResource;
use kube::core::{DynamicResourceScope, ObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::value::RawValue;

use crate::patience::Patience;

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Unread {
    /// Name, namespace and resource version.
    metadata: ObjectMeta,
    text: Box<RawValue>,
}

/// What is read of each.
#[derive(Deserialize)]
struct Head {
    metadata: Names,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

impl Unread {
    /// The same objects, not to be read yet.
    pub(crate) fn of<K: Resource<DynamicType: Default>>(api: Api<K>) -> Api<Self> {
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        match api.namespace().map(str::to_owned) {
            Some(namespace) => Api::namespaced_with(api.into_client(), &namespace, &resource),
            None => Api::all_with(api.into_client(), &resource),
        }
    }

    pub(crate) fn read<K: DeserializeOwned>(&self) -> Result<K, serde_json::Error> {
        serde_json::from_str(self.text.get())
    }
}

/// What happens to them, for ever.
pub(crate) fn watch(
    api: Api<Unread>,
    config: watcher::Config,
) -> BoxStream<'static, watcher::Result<watcher::Event<Unread>>> {
    watcher(api, config).backoff(Patience::default()).boxed()
}

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let Head { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let metadata = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            resource_version: metadata.resource_version,
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, text })
    }
}

impl Resource for Unread {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt as _;
    use kube::core::{ObjectList, WatchEvent};

    use super::*;

    const OBJECT: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b", "resourceVersion": "7", "labels": {"c": "d"}}, "data": {"e": "f"}}"#;
    const STRANGE: &str = r#"{"metadata": {"name": "a", "namespace": "b"}, "data": 5}"#;

    #[test]
    fn what_a_watch_tells_is_read_later() {
        let event = format!(r#"{{"type":"ADDED","object":{OBJECT}}}"#);
        let Ok(WatchEvent::Added(unread)) = serde_json::from_str::<WatchEvent<Unread>>(&event) else {
            panic!("no event");
        };
        assert_eq!((unread.name_any(), unread.resource_version()), ("a".to_owned(), Some("7".to_owned())));
        assert_eq!(unread.read::<ConfigMap>().unwrap(), serde_json::from_str(OBJECT).unwrap());
    }

    #[test]
    fn one_that_cannot_be_read_does_not_hide_the_others() {
        let list = format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{STRANGE},{OBJECT}]}}"#
        );
        let list: ObjectList<Unread> = serde_json::from_str(&list).unwrap();
        let read: Vec<bool> = list.items.iter().map(|unread| unread.read::<ConfigMap>().is_ok()).collect();
        assert_eq!(read, [false, true]);
    }
}
