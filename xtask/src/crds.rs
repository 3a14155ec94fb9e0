//! `cargo xtask crds`: the manifests in `deploy/crds`, made from the types in `crates/api`.
//!
//! The folder holds exactly these files: one that belongs to no kind any more is removed, or with `--check` reported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use tombolo_api::crd;

use crate::{Outcome, root};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a file is stale, missing or left over
    #[arg(long)]
    check: bool,
}

/// Something in the folder that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
enum Difference {
    Missing,
    Stale,
    LeftOver,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let folder = root().join("deploy/crds");
    let wanted = manifests()?;
    let differences = compare(&wanted, &present(&folder)?);
    if args.check { check(&differences) } else { write(&folder, &wanted, &differences) }
}

/// File name to content, for all kinds.
fn manifests() -> Result<BTreeMap<String, String>, crd::RenderError> {
    crd::crds().iter().map(|crd| Ok((crd::file_name(crd), crd::render(crd)?))).collect()
}

/// File name to content, for what is in the folder now.
fn present(folder: &Path) -> Result<BTreeMap<String, String>, io::Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries?,
    };
    let paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_, io::Error>>()?;
    let yaml = paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    yaml.map(|path| Ok((name_of(path), fs::read_to_string(path)?))).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn compare(
    wanted: &BTreeMap<String, String>,
    present: &BTreeMap<String, String>,
) -> BTreeMap<String, Difference> {
    let outdated = wanted.iter().filter_map(|(name, text)| match present.get(name) {
        None => Some((name.clone(), Difference::Missing)),
        Some(old) if old != text => Some((name.clone(), Difference::Stale)),
        Some(_) => None,
    });
    let left_over = present.keys().filter(|name| !wanted.contains_key(*name));
    outdated.chain(left_over.map(|name| (name.clone(), Difference::LeftOver))).collect()
}

fn check(differences: &BTreeMap<String, Difference>) -> Outcome {
    if differences.is_empty() {
        return Ok(());
    }
    let lines = differences.iter().map(|(name, difference)| {
        let what = match difference {
            Difference::Missing => "is missing",
            Difference::Stale => "is stale",
            Difference::LeftOver => "belongs to no kind",
        };
        format!("\n  deploy/crds/{name} {what}")
    });
    Err(format!("the CRD manifests are not current, run `cargo xtask crds`:{}", lines.collect::<String>())
        .into())
}

fn write(
    folder: &Path,
    wanted: &BTreeMap<String, String>,
    differences: &BTreeMap<String, Difference>,
) -> Outcome {
    fs::create_dir_all(folder)?;
    for name in differences.keys() {
        match wanted.get(name) {
            Some(text) => fs::write(folder.join(name), text)?,
            None => fs::remove_file(folder.join(name))?,
        }
        println!("deploy/crds/{name}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
    }

    #[test]
    fn every_way_to_be_out_of_date_is_named() {
        let wanted = files(&[("new.yaml", "a"), ("same.yaml", "b"), ("changed.yaml", "c")]);
        let present = files(&[("same.yaml", "b"), ("changed.yaml", "old"), ("gone.yaml", "d")]);
        let differences = compare(&wanted, &present);
        assert_eq!(
            check(&differences).unwrap_err().to_string(),
            "the CRD manifests are not current, run `cargo xtask crds`:\n  deploy/crds/changed.yaml is stale\n  \
             deploy/crds/gone.yaml belongs to no kind\n  deploy/crds/new.yaml is missing"
        );
    }

    #[test]
    fn current_files_pass_the_check() {
        let wanted = files(&[("same.yaml", "b")]);
        assert!(check(&compare(&wanted, &wanted)).is_ok());
    }

    #[test]
    fn writing_leaves_exactly_the_wanted_files_and_then_nothing_to_do() {
        let folder = std::env::temp_dir().join(format!("tombolo-xtask-crds-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("gone.yaml"), "old").unwrap();
        let wanted = files(&[("new.yaml", "a")]);
        write(&folder, &wanted, &compare(&wanted, &present(&folder).unwrap())).unwrap();
        assert_eq!(present(&folder).unwrap(), wanted);
        fs::remove_dir_all(&folder).unwrap();
    }
}
