//! The manifests in `deploy/crds` are what the types generate today.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use tombolo_api::crd::{crds, file_name, render};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds")
}

fn committed(crd: &CustomResourceDefinition) -> String {
    let name = file_name(crd);
    fs::read_to_string(folder().join(&name))
        .unwrap_or_else(|error| panic!("deploy/crds/{name}: {error}; run `cargo xtask crds`"))
}

#[test]
fn every_committed_manifest_has_the_text_that_its_type_generates() {
    for crd in crds() {
        let name = file_name(&crd);
        assert!(
            committed(&crd) == render(&crd).unwrap(),
            "deploy/crds/{name} is stale, run `cargo xtask crds`"
        );
    }
}

#[test]
fn every_committed_manifest_reads_back_as_the_crd_it_was_made_from() {
    for crd in crds() {
        let read: CustomResourceDefinition = serde_saphyr::from_str(&committed(&crd)).unwrap();
        assert_eq!(read, crd, "{}", file_name(&crd));
    }
}

#[test]
fn the_folder_holds_no_other_manifest() {
    let expected: BTreeSet<String> = crds().iter().map(file_name).collect();
    let present: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    assert_eq!(present, expected);
}
