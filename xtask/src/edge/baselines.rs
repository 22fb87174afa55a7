// SPDX-License-Identifier: MIT OR Apache-2.0
//! `results/baselines/<scenario>/{baseline.yaml, samples.csv}`: committed virtual-time
//! samples, with what they were made of and a checksum.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::files::{self, read_file, write_whole};
use crate::core::{compare::Identity, fault::Fault, yaml};

/// What to do about one that cannot be read.
const RESTORE: &str =
    "restore it, or save a new baseline with: cargo xtask baseline save RUN --replace";

/// Version of baseline.yaml.
const SCHEMA: u32 = 1;

/// baseline.yaml.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    identity: Identity,
    /// blake3 of samples.csv, hex.
    samples: String,
}

/// A baseline that was read.
#[derive(Debug)]
pub struct Baseline {
    /// What it was made of.
    pub identity: Identity,
    /// Its samples.csv.
    pub samples: String,
}

/// The longest file of a baseline that is read.
const MOST_BYTES: u64 = 1 << 30;

/// Where the baseline of `scenario` is. Its name may come from a run folder that anybody wrote.
fn place(folder: &Path, scenario: &str) -> Result<PathBuf> {
    let mut parts = Path::new(scenario).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) if name == scenario => Ok(folder.join(name)),
        _ => {
            let name = scenario.escape_debug();
            let why =
                format!("`{name}` is no name of a scenario: a baseline is a folder of that name");
            Err(Fault::usage(why).into())
        }
    }
}

/// Writes the baseline of `scenario`, replacing an earlier one.
///
/// # Errors
/// Usage: it is no name; the disk's.
pub fn save(folder: &Path, scenario: &str, identity: &Identity, samples: &str) -> Result<()> {
    let dir = place(folder, scenario)?;
    write(&dir, identity, samples).map_err(|e| {
        // Of one that was not there before nothing stays.
        let _ = fs::remove_dir(&dir);
        const ADVICE: &str = "free some there, or keep baselines elsewhere with --results DIR";
        files::explain(e, folder, files::free_space(folder), ADVICE)
    })
}

fn write(dir: &Path, identity: &Identity, samples: &str) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    let file = File {
        schema: SCHEMA,
        identity: identity.clone(),
        samples: blake3::hash(samples.as_bytes()).to_hex().to_string(),
    };
    write_whole(&dir.join("samples.csv"), samples.as_bytes())?;
    write_whole(
        &dir.join("baseline.yaml"),
        serde_yaml::to_string(&file)?.as_bytes(),
    )
}

/// Whether there is a baseline of `scenario`.
pub fn exists(folder: &Path, scenario: &str) -> bool {
    place(folder, scenario).is_ok_and(|dir| dir.join("baseline.yaml").is_file())
}

/// Reads the baseline of `scenario`.
///
/// # Errors
/// Usage: there is none, it is of another schema, or its samples were edited by hand.
pub fn load(folder: &Path, scenario: &str) -> Result<Baseline> {
    let dir = place(folder, scenario)?;
    let path = dir.join("baseline.yaml");
    if !path.is_file() {
        return Err(Fault::usage(format!(
            "there is no baseline of {scenario}; make one with: cargo xtask baseline save RUN"
        ))
        .into());
    }
    let read = |path: &Path| {
        let bytes = read_file(path, MOST_BYTES)
            .map_err(|e| Fault::usage(format!("{}: {e}; {RESTORE}", path.display())))?;
        String::from_utf8(bytes)
            .map_err(|e| Fault::usage(format!("{}: {e}; {RESTORE}", path.display())))
    };
    let file: File = yaml::read(&read(&path)?)
        .map_err(|e| Fault::usage(format!("{}: {e}; {RESTORE}", path.display())))?;
    if file.schema != SCHEMA {
        return Err(Fault::usage(format!(
            "{} has schema {}, this program reads {SCHEMA}; {RESTORE}",
            path.display(),
            file.schema
        ))
        .into());
    }
    let samples = read(&dir.join("samples.csv"))?;
    let sum = blake3::hash(samples.as_bytes()).to_hex();
    if sum.as_str() != file.samples {
        let why = format!(
            "{} has checksum {sum}, its baseline.yaml says {}: it was edited by hand or cut; {RESTORE}",
            dir.join("samples.csv").display(),
            file.samples
        );
        return Err(Fault::usage(why).into());
    }
    Ok(Baseline {
        identity: file.identity,
        samples,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        for bad in ["..", "../out", "a/b", "/etc", "", ".", "a/", "./a"] {
            assert!(place(dir.path(), bad).is_err(), "{bad}");
            assert!(
                !exists(dir.path(), bad) && load(dir.path(), bad).is_err(),
                "{bad}"
            );
        }
        assert!(place(dir.path(), "guest-10000@100").is_ok());
    }

    /// A pipe would be waited for.
    #[test]
    fn what_is_no_file_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("s");
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.join("baseline.yaml")).unwrap();
        assert!(load(dir.path(), "s").is_err());
    }
}
