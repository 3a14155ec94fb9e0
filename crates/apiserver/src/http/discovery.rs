//! What the server can do, told in the two forms clients ask for: one document with everything, or one per group.

use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderValue, VARY};
use http::{HeaderMap, Response};
use ring::digest;
use serde_json::{Value, json};

use super::Body;
use crate::registry::{GroupVersion, Registry, Resource, api_version};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// All paths, for `GET /`.
pub(super) fn paths(registry: &Registry) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in registry.groups().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{}", version.version)));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    json!({"paths": paths})
}

/// `GET /api`.
pub(super) fn core(registry: &Registry, headers: &HeaderMap) -> Response<Body> {
    if wants_aggregated(headers) {
        return aggregated(registry.groups().filter(|(group, _)| group.is_empty()));
    }
    let value = json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []});
    super::reply(http::StatusCode::OK, &value)
}

/// `GET /apis`.
pub(super) fn groups(registry: &Registry, headers: &HeaderMap) -> Response<Body> {
    let named = registry.groups().filter(|(group, _)| !group.is_empty());
    if wants_aggregated(headers) {
        return aggregated(named);
    }
    let groups: Vec<Value> = named.map(|(group, versions)| group_value(group, versions)).collect();
    let value = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
    super::reply(http::StatusCode::OK, &value)
}

/// `GET /apis/<group>`.
pub(super) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let mut value = group_value(name, registry.group(name)?);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    Some(value)
}

fn group_value(group: &str, versions: &[GroupVersion]) -> Value {
    let entry = |version: &GroupVersion| json!({"groupVersion": api_version(group, &version.version), "version": version.version});
    let versions: Vec<Value> = versions.iter().map(entry).collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

/// `GET /apis/<group>/<version>` and `/api/v1`.
pub(super) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let found = registry.group_version(group, version)?;
    let entries: Vec<Value> = found.resources.values().flat_map(|resource| listed(resource)).collect();
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group, version),
        "resources": entries,
    }))
}

fn listed(resource: &Resource) -> Vec<Value> {
    let mut own = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs(),
    });
    if !resource.short_names.is_empty() {
        own["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        own["categories"] = resource.categories.clone().into();
    }
    let parts = resource.subresources().into_iter().map(|part| {
        let mut value = json!({
            "name": format!("{}/{}", resource.plural, part.name),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": part.kind.map_or(resource.kind.as_str(), |(_, _, kind)| kind),
            "verbs": part.verbs,
        });
        if let Some((group, version, _)) = part.kind {
            value["group"] = group.into();
            value["version"] = version.into();
        }
        value
    });
    std::iter::once(own).chain(parts).collect()
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accept.flat_map(|value| value.split(',')).any(|range| {
        let has = |part: &str| range.split(';').any(|found| found.trim() == part);
        has("as=APIGroupDiscoveryList") && has("v=v2") && has("g=apidiscovery.k8s.io")
    })
}

fn aggregated<'a>(groups: impl Iterator<Item = (&'a str, &'a [GroupVersion])>) -> Response<Body> {
    let items: Vec<Value> = groups.map(|(group, versions)| aggregated_group(group, versions)).collect();
    let value = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let bytes = serde_json::to_vec(&value).expect("a JSON value encodes");
    let tag = format!("\"{}\"", fingerprint(&bytes));
    let mut response = Response::new(Body::whole(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(ETAG, HeaderValue::from_str(&tag).expect("hexadecimal digits"));
    response
}

fn aggregated_group(group: &str, versions: &[GroupVersion]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> =
                version.resources.values().map(|found| aggregated_resource(found)).collect();
            json!({"version": version.version, "freshness": "Current", "resources": resources})
        })
        .collect();
    json!({"metadata": {"name": group}, "versions": versions})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let own = kind(&resource.group, &resource.version, &resource.kind);
    let parts: Vec<Value> = resource
        .subresources()
        .into_iter()
        .map(|part| {
            let answer =
                part.kind.map_or_else(|| own.clone(), |(group, version, name)| kind(group, version, name));
            json!({"subresource": part.name, "responseKind": answer, "verbs": part.verbs})
        })
        .collect();
    let mut value = json!({
        "resource": resource.plural,
        "responseKind": own,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs(),
    });
    for (field, list) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !list.is_empty() {
            value[field] = list.clone().into();
        }
    }
    if !parts.is_empty() {
        value["subresources"] = parts.into();
    }
    value
}

/// A hash of the content, so that a client's cache is right even when another cluster answers on the same port.
pub(super) fn fingerprint(bytes: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, bytes);
    hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}
