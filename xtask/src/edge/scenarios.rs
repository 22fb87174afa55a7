// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario files of the checkout: finds them by name or path and has `core` read them.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::core::{
    fault::Fault,
    scenario::{self, Known, Profiles, Scenario},
};

const FOLDER: &str = "scenarios";
const PROFILES: &str = "profiles.yaml";
/// Read no more of a file than shows that it is too large; the parser then says so.
const MAX_READ: u64 = 8 << 20;

/// Loads the scenario called `name_or_path`: a file's path where it has a `/` or ends in
/// `.yaml` or `.yml`, else a name in `root`'s scenarios folder.
///
/// # Errors
/// [`Fault::usage`] for a name that does not exist (with the nearest one) and for anything
/// wrong in the files; untyped where a file cannot be read.
pub fn load(root: &Path, name_or_path: &str) -> Result<Scenario> {
    let known = known(root)?;
    load_with(root, name_or_path, &known)
}

/// [`load`] with the names read once for many.
///
/// # Errors
/// As [`load`].
pub fn load_with(root: &Path, name_or_path: &str, known: &Known) -> Result<Scenario> {
    let (path, shown) = locate(root, name_or_path)?;
    let text = read(&path, &shown)?;
    Ok(scenario::parse(&shown, &text, known).map_err(Fault::from)?)
}

/// Names of all scenarios in `root`, sorted.
///
/// # Errors
/// Where the folder cannot be read.
pub fn names(root: &Path) -> Result<Vec<String>> {
    let folder = root.join(FOLDER);
    let context = || format!("reading the folder {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(context)? {
        let name = entry.with_context(context)?.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(stem) = name.strip_suffix(".yaml")
            && name != PROFILES
            && !stem.starts_with('.')
        {
            names.push(stem.to_string());
        }
    }
    names.sort();
    Ok(names)
}

/// What scenario files may name but not define: profiles, and the patch series there are.
///
/// # Errors
/// [`Fault::usage`] for anything wrong in profiles.yaml.
pub fn known(root: &Path) -> Result<Known> {
    let series = folders(&root.join("images/kernels/patches"))?;
    Ok(Known {
        profiles: profiles(root)?,
        kernels: None,
        series,
    })
}

fn profiles(root: &Path) -> Result<Profiles> {
    let shown = format!("{FOLDER}/{PROFILES}");
    let text = read(&root.join(FOLDER).join(PROFILES), &shown)?;
    Ok(scenario::parse_profiles(&shown, &text).map_err(Fault::from)?)
}

/// Names of the folders in `path`; `None` where there is no such folder.
fn folders(path: &Path) -> Result<Option<BTreeSet<String>>> {
    let context = || format!("reading the folder {}", path.display());
    let entries = match fs::read_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.with_context(context)?,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry.with_context(context)?;
        if entry.path().is_dir() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    Ok(Some(names))
}

/// Where a scenario is, and its name in messages.
fn locate(root: &Path, name_or_path: &str) -> Result<(PathBuf, String)> {
    let is_path = name_or_path.contains('/')
        || name_or_path.ends_with(".yaml")
        || name_or_path.ends_with(".yml");
    if is_path {
        let path = PathBuf::from(name_or_path);
        if !path.is_file() {
            let message = format!(
                "{name_or_path} is no file; name a scenario file, or a scenario that `cargo xtask list` lists"
            );
            return Err(Fault::usage(message).into());
        }
        return Ok((path, name_or_path.into()));
    }
    let names = names(root)?;
    if !names.iter().any(|n| n == name_or_path) {
        let hint = scenario::hint(name_or_path, names.iter().map(String::as_str));
        return Err(Fault::usage(format!("unknown scenario `{name_or_path}`{hint}")).into());
    }
    let shown = format!("{FOLDER}/{name_or_path}.yaml");
    Ok((root.join(&shown), shown))
}

fn read(path: &Path, shown: &str) -> Result<String> {
    use io::Read;
    let file = fs::File::open(path).with_context(|| format!("opening {shown}"))?;
    let mut bytes = Vec::new();
    file.take(MAX_READ)
        .read_to_end(&mut bytes)
        .with_context(|| format!("reading {shown}"))?;
    String::from_utf8(bytes).map_err(|e| {
        let line = e.as_bytes()[..e.utf8_error().valid_up_to()]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
            + 1;
        Fault::usage(format!("{shown}:{line}: not UTF-8 text")).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask lies in the checkout")
            .into()
    }

    #[test]
    fn every_committed_scenario_loads() {
        let names = names(&root()).unwrap();
        assert!(names.iter().any(|n| n == "shutdown-2018"));
        for name in names {
            let scenario = load(&root(), &name).unwrap_or_else(|e| panic!("{e:#}"));
            assert_eq!(scenario.name, name);
        }
    }
}
