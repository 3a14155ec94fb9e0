//! Shapes of a few built-in kinds, as far as the tests need them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::object_meta;
use crate::shape::{Keyed, Member, Merge, Record, Shape, Strategy};

use Shape::{Atomic, Scalar};

fn record<const N: usize>(fields: [(&str, Member); N]) -> Shape {
    let fields = fields.into_iter().map(|(name, member)| (name.to_owned(), member)).collect();
    Shape::Record(Arc::new(Record { fields, others: None }))
}

fn plain(shape: Shape) -> Member {
    Member { shape, strategy: None }
}

fn map(shape: Shape) -> Member {
    plain(Shape::Map(Arc::new(shape)))
}

fn by_key(key: &str, shape: Shape) -> Member {
    let merge = Some(Merge::ByKey(key.to_owned()));
    Member { shape, strategy: Some(Strategy { merge, retain_keys: false }) }
}

fn retaining(mut member: Member) -> Member {
    let strategy = member.strategy.take().unwrap_or(Strategy { merge: None, retain_keys: false });
    Member { strategy: Some(Strategy { retain_keys: true, ..strategy }), ..member }
}

fn keyed<const N: usize>(keys: [(&str, Option<Value>); N], element: Shape) -> Shape {
    let keys = keys.into_iter().map(|(name, default)| (name.to_owned(), default)).collect();
    Shape::Keyed(Arc::new(Keyed { keys, element }))
}

fn by_name(element: Shape) -> Member {
    by_key("name", keyed([("name", None)], element))
}

fn object<const N: usize>(fields: [(&str, Member); N]) -> Shape {
    let Shape::Record(record) = record(fields) else { unreachable!() };
    let mut record = Arc::unwrap_or_clone(record);
    for name in ["apiVersion", "kind"] {
        record.fields.insert(name.to_owned(), plain(Scalar));
    }
    record.fields.insert("metadata".to_owned(), plain(object_meta::shape()));
    Shape::Record(Arc::new(record))
}

fn conditions() -> Member {
    let condition = record([("type", plain(Scalar)), ("status", plain(Scalar))]);
    by_key("type", keyed([("type", None)], condition))
}

fn service() -> Shape {
    let port =
        record(["name", "port", "protocol", "targetPort", "nodePort"].map(|name| (name, plain(Scalar))));
    let ports = keyed([("port", None), ("protocol", Some(json!("TCP")))], port);
    let spec = record([
        ("ports", by_key("port", ports)),
        ("selector", plain(Atomic)),
        ("type", plain(Scalar)),
        ("externalIPs", plain(Atomic)),
        ("clusterIPs", plain(Atomic)),
    ]);
    let status =
        record([("loadBalancer", plain(record([("ingress", plain(Atomic))]))), ("conditions", conditions())]);
    object([("spec", plain(spec)), ("status", plain(status))])
}

fn container() -> Shape {
    let variable = record(["name", "value"].map(|name| (name, plain(Scalar))));
    let port = record(["name", "containerPort", "protocol"].map(|name| (name, plain(Scalar))));
    let ports = keyed([("containerPort", None), ("protocol", Some(json!("TCP")))], port);
    record([
        ("name", plain(Scalar)),
        ("image", plain(Scalar)),
        ("args", plain(Atomic)),
        ("command", plain(Atomic)),
        ("env", by_name(variable)),
        ("ports", by_key("containerPort", ports)),
        ("resources", plain(record([("limits", map(Scalar)), ("requests", map(Scalar))]))),
    ])
}

fn pod_spec() -> Shape {
    let volume = record([
        ("name", plain(Scalar)),
        ("emptyDir", plain(record([("medium", plain(Scalar))]))),
        ("configMap", plain(record([("name", plain(Scalar))]))),
    ]);
    let security = record(["runAsUser", "runAsGroup"].map(|name| (name, plain(Scalar))));
    record([
        ("containers", by_name(container())),
        ("volumes", retaining(by_name(volume))),
        ("nodeName", plain(Scalar)),
        ("securityContext", plain(security)),
    ])
}

fn deployment() -> Shape {
    let template = record([("metadata", plain(object_meta::shape())), ("spec", plain(pod_spec()))]);
    let rolling = record(["maxSurge", "maxUnavailable"].map(|name| (name, plain(Scalar))));
    let strategy = record([("type", plain(Scalar)), ("rollingUpdate", plain(rolling))]);
    let spec = record([
        ("replicas", plain(Scalar)),
        ("selector", plain(Atomic)),
        ("strategy", retaining(plain(strategy))),
        ("template", plain(template)),
    ]);
    object([("spec", plain(spec))])
}

/// The shape of a built-in kind.
pub(super) fn shape(kind: &str) -> Shape {
    match kind {
        "ConfigMap" => object([("data", map(Scalar)), ("immutable", plain(Scalar))]),
        "Service" => service(),
        "Pod" => object([("spec", plain(pod_spec())), ("status", plain(Shape::Open))]),
        "Deployment" => deployment(),
        "ServiceAccount" => {
            let reference = record([("name", plain(Scalar))]);
            object([("secrets", by_name(reference)), ("imagePullSecrets", plain(Atomic))])
        }
        other => panic!("no shape for {other}"),
    }
}
