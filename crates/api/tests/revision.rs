//! Every change of a schema has a number of its own, so that installers can tell which is later.

use tombolo_api::crd::{SCHEMA_REVISION, SCHEMA_REVISION_LABEL, crds, render};

/// What each revision is, by a checksum of all CRDs. Add a line for a new one; never change an old one that was released.
const REVISIONS: [(u32, u64); 1] = [(1, 10_492_465_405_700_942_160)];

/// FNV-1a: the same everywhere and forever.
fn checksum(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn a_schema_that_changed_has_a_new_revision() {
    // The number itself does not count: only what it stands for.
    let without_label = |text: String| {
        text.lines().filter(|line| !line.contains(SCHEMA_REVISION_LABEL)).collect::<Vec<_>>().join("\n")
    };
    let all: String = crds().iter().map(|crd| without_label(render(crd).unwrap())).collect();
    let current = (SCHEMA_REVISION, checksum(&all));
    assert!(
        REVISIONS.last() == Some(&current),
        "the CRDs changed: if revision {SCHEMA_REVISION} was released, raise SCHEMA_REVISION; then let the last line here be \
         {current:?}"
    );
}
