//! Files that a command writes: what is committed is exactly what it would write today.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use crate::{Outcome, root};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a file is stale, missing or left over
    #[arg(long)]
    check: bool,
}

/// What a command generates.
pub(crate) struct Generated<'a> {
    /// Below the root of the checkout.
    pub(crate) folder: &'a str,
    /// The folders in it that hold nothing else; the empty name for the folder itself.
    pub(crate) within: &'a [&'a str],
    /// The command that writes it.
    pub(crate) command: &'a str,
    /// Path below the folder to content.
    pub(crate) wanted: BTreeMap<String, String>,
}

/// Something in the folder that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
enum Difference {
    Missing,
    Stale,
    LeftOver,
}

type Files = BTreeMap<String, String>;

impl Generated<'_> {
    pub(crate) fn run(&self, args: &Args) -> Outcome {
        let folder = root().join(self.folder);
        let mut present = Files::new();
        for within in self.within {
            collect(&folder, within, &mut present)?;
        }
        let differences = compare(&self.wanted, &present);
        match args.check {
            true => self.check(&differences),
            false => self.write(&folder, &differences),
        }
    }

    fn check(&self, differences: &BTreeMap<String, Difference>) -> Outcome {
        if differences.is_empty() {
            return Ok(());
        }
        let lines = differences.iter().map(|(name, difference)| {
            let what = match difference {
                Difference::Missing => "is missing",
                Difference::Stale => "is stale",
                Difference::LeftOver => "is left over",
            };
            format!("\n  {}/{name} {what}", self.folder)
        });
        let lines: String = lines.collect();
        Err(format!("generated files are not current, run `cargo xtask {}`:{lines}", self.command).into())
    }

    fn write(&self, folder: &Path, differences: &BTreeMap<String, Difference>) -> Outcome {
        for name in differences.keys() {
            let path = folder.join(name);
            match self.wanted.get(name) {
                Some(text) => {
                    path.parent().map(fs::create_dir_all).transpose()?;
                    fs::write(path, text)?;
                }
                None => fs::remove_file(path)?,
            }
            println!("{}/{name}", self.folder);
        }
        Ok(())
    }
}

/// Adds all manifests in a folder and below it.
fn collect(folder: &Path, within: &str, found: &mut Files) -> Result<(), io::Error> {
    let entries = match fs::read_dir(folder.join(within)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = if within.is_empty() { name.into_owned() } else { format!("{within}/{name}") };
        if path.is_dir() {
            collect(folder, &name, found)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.insert(name, fs::read_to_string(path)?);
        }
    }
    Ok(())
}

fn compare(wanted: &Files, present: &Files) -> BTreeMap<String, Difference> {
    let outdated = wanted.iter().filter_map(|(name, text)| match present.get(name) {
        None => Some((name.clone(), Difference::Missing)),
        Some(old) if old != text => Some((name.clone(), Difference::Stale)),
        Some(_) => None,
    });
    let left_over = present.keys().filter(|name| !wanted.contains_key(*name));
    outdated.chain(left_over.map(|name| (name.clone(), Difference::LeftOver))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, &str)]) -> Files {
        entries.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
    }

    fn generated(wanted: Files) -> Generated<'static> {
        Generated { folder: "deploy/crds", within: &["", "deep"], command: "crds", wanted }
    }

    #[test]
    fn every_way_to_be_out_of_date_is_named() {
        let wanted = files(&[("new.yaml", "a"), ("same.yaml", "b"), ("changed.yaml", "c")]);
        let present = files(&[("same.yaml", "b"), ("changed.yaml", "old"), ("gone.yaml", "d")]);
        let differences = compare(&wanted, &present);
        assert_eq!(
            generated(wanted).check(&differences).unwrap_err().to_string(),
            "generated files are not current, run `cargo xtask crds`:\n  deploy/crds/changed.yaml is stale\n  \
             deploy/crds/gone.yaml is left over\n  deploy/crds/new.yaml is missing"
        );
    }

    #[test]
    fn current_files_pass_the_check() {
        let wanted = files(&[("same.yaml", "b")]);
        assert!(generated(wanted.clone()).check(&compare(&wanted, &wanted)).is_ok());
    }

    #[test]
    fn writing_leaves_exactly_the_wanted_files_and_then_nothing_to_do() {
        let folder = std::env::temp_dir().join(format!("tombolo-xtask-generated-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("gone.yaml"), "old").unwrap();
        let wanted = files(&[("new.yaml", "a"), ("deep/down/new.yaml", "b")]);
        let look = || {
            let mut present = Files::new();
            collect(&folder, "", &mut present).unwrap();
            present
        };
        generated(wanted.clone()).write(&folder, &compare(&wanted, &look())).unwrap();
        assert_eq!(look(), wanted);
        fs::remove_dir_all(&folder).unwrap();
    }
}
