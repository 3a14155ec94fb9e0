//! `cargo xtask crds`: the manifests in `deploy/crds`, made from the types in `crates/api`.
//!
//! The folder holds exactly these files: one that belongs to no kind any more is removed, or with `--check` reported.

use std::collections::BTreeMap;

use tombolo_api::crd;

use crate::Outcome;
use crate::generated::{self, Generated};

pub(crate) fn run(args: &generated::Args) -> Outcome {
    let wanted = manifests()?;
    Generated { folder: "deploy/crds", within: &[""], command: "crds", wanted }.run(args)
}

/// File name to content, for all kinds.
fn manifests() -> Result<BTreeMap<String, String>, crd::RenderError> {
    crd::crds().iter().map(|crd| Ok((crd::file_name(crd), crd::render(crd)?))).collect()
}
