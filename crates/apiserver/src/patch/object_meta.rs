//! The shape of `metadata`, which all kinds share.
//!
//! Labels and annotations have an owner per key, owner references one per referenced object, finalizers one per name.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::shape::{Keyed, Member, Merge, Record, Shape, Strategy};

/// The shape of an `ObjectMeta`; cheap to call.
pub(crate) fn shape() -> Shape {
    static SHAPE: LazyLock<Shape> = LazyLock::new(build);
    SHAPE.clone()
}

/// The shape of a whole object of which only `metadata` is known: what a kind without a schema has.
pub(crate) fn untyped_object() -> Shape {
    let fields = BTreeMap::from([("metadata".to_owned(), Member { shape: shape(), strategy: None })]);
    Shape::Record(Arc::new(Record { fields, others: Some(Shape::Open) }))
}

fn build() -> Shape {
    let scalars = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "clusterName",
    ];
    let mut fields: BTreeMap<String, Member> =
        scalars.into_iter().map(|name| (name.to_owned(), plain(Shape::Scalar))).collect();
    for name in ["labels", "annotations"] {
        fields.insert(name.to_owned(), plain(Shape::Map(Arc::new(Shape::Scalar))));
    }
    fields.insert("managedFields".to_owned(), plain(Shape::Atomic));
    fields.insert("ownerReferences".to_owned(), merged(owner_references(), Merge::ByKey("uid".to_owned())));
    fields.insert("finalizers".to_owned(), merged(Shape::Set, Merge::Set));
    Shape::Record(Arc::new(Record { fields, others: None }))
}

fn owner_references() -> Shape {
    Shape::Keyed(Arc::new(Keyed { keys: vec![("uid".to_owned(), None)], element: Shape::Atomic }))
}

fn plain(shape: Shape) -> Member {
    Member { shape, strategy: None }
}

fn merged(shape: Shape, merge: Merge) -> Member {
    Member { shape, strategy: Some(Strategy { merge: Some(merge), retain_keys: false }) }
}
