//! Tables of persistent volumes and the claims to them.

use jiff::Timestamp;
use serde_json::Value;

use super::plain::text_or;
use super::{Column, Printer, age, plain};
use crate::rules::field;

const CAPACITY: Column = Column::text("Capacity", "How much the volume holds.");
const ACCESS_MODES: Column = Column::text("Access Modes", "How the volume can be mounted.");
const STATUS: Column = Column::text("Status", "The phase.");
const STORAGE_CLASS: Column = Column::text("StorageClass", "The class of storage.");
const ATTRIBUTES_CLASS: Column = Column::text("VolumeAttributesClass", "The class of changeable attributes.");
const VOLUME_MODE: Column =
    Column::text("VolumeMode", "Whether it is a file system or a block device.").wide();
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "",
        kind: "PersistentVolume",
        columns: &[
            Column::NAME,
            CAPACITY,
            ACCESS_MODES,
            Column::text("Reclaim Policy", "What happens to the volume when its claim is gone."),
            STATUS,
            Column::text("Claim", "The claim that the volume is bound to."),
            STORAGE_CLASS,
            ATTRIBUTES_CLASS,
            Column::text("Reason", "Why the volume is in its phase."),
            Column::AGE,
            VOLUME_MODE,
        ],
        cells: volume,
    },
    Printer {
        group: "",
        kind: "PersistentVolumeClaim",
        columns: &[
            Column::NAME,
            STATUS,
            Column::text("Volume", "The volume that the claim is bound to."),
            CAPACITY,
            ACCESS_MODES,
            STORAGE_CLASS,
            ATTRIBUTES_CLASS,
            Column::AGE,
            VOLUME_MODE,
        ],
        cells: claim,
    },
];

fn volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let claim = match field::at(volume, "spec.claimRef") {
        Some(claim) => format!("{}/{}", field::text(claim, "namespace"), field::text(claim, "name")),
        None => String::new(),
    };
    vec![
        plain::name(volume),
        text_or(volume, "spec.capacity.storage", "0"),
        modes(volume, "spec.accessModes").into(),
        field::text(volume, "spec.persistentVolumeReclaimPolicy").into(),
        phase(volume).into(),
        claim.into(),
        class(volume).into(),
        text_or(volume, "spec.volumeAttributesClassName", "<unset>"),
        field::text(volume, "status.reason").into(),
        age::of(volume, now),
        text_or(volume, "spec.volumeMode", "<unset>"),
    ]
}

fn claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let bound = field::text(claim, "spec.volumeName");
    let (capacity, modes) = match bound {
        "" => ("".into(), String::new()),
        _ => (text_or(claim, "status.capacity.storage", "0"), modes(claim, "status.accessModes")),
    };
    vec![
        plain::name(claim),
        phase(claim).into(),
        bound.into(),
        capacity,
        modes.into(),
        class(claim).into(),
        text_or(claim, "spec.volumeAttributesClassName", "<unset>"),
        age::of(claim, now),
        text_or(claim, "spec.volumeMode", "<unset>"),
    ]
}

fn phase(object: &Value) -> &str {
    match field::at(object, "metadata.deletionTimestamp") {
        Some(_) => "Terminating",
        None => field::text(object, "status.phase"),
    }
}

fn class(object: &Value) -> &str {
    let annotated = field::member(object, "metadata.annotations", BETA_CLASS);
    annotated.unwrap_or_else(|| field::text(object, "spec.storageClassName"))
}

fn modes(object: &Value, path: &str) -> String {
    let given = field::texts(object, path);
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let found: Vec<_> =
        known.iter().filter(|(mode, _)| given.contains(mode)).map(|(_, short)| *short).collect();
    found.join(",")
}
