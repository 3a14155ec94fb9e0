//! `cargo xtask deploy`: the files in `deploy/` and the Helm chart, made by `crates/install`.

use tombolo_install::{FOLDERS, deploy_files};

use crate::Outcome;
use crate::generated::{self, Generated};

pub(crate) fn run(args: &generated::Args) -> Outcome {
    let wanted = deploy_files()?;
    Generated { folder: "deploy", within: &FOLDERS, command: "deploy", wanted }.run(args)
}
