// SPDX-License-Identifier: MIT OR Apache-2.0
//! `results/baselines/<scenario>/{baseline.yaml, samples.csv}`: committed virtual-time
//! samples, with what they were made of and a checksum.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::files::{self, UNFINISHED, list, read_file, write_whole};
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

/// Writes the baseline of `scenario`, replacing an earlier one: there is the one or the other.
///
/// # Errors
/// Usage: it is no name, or something else is in its place; the disk's.
pub fn save(folder: &Path, scenario: &str, identity: &Identity, samples: &str) -> Result<()> {
    let dir = place(folder, scenario)?;
    let known = |name: &str| ["baseline.yaml", "samples.csv"].contains(&name);
    let odd = list(&dir)
        .into_iter()
        .find(|(name, path)| !(path.is_file() && (known(name) || name.starts_with(UNFINISHED))));
    if odd.is_some() || dir.symlink_metadata().is_ok_and(|m| !m.is_dir()) {
        let odd = odd.map_or(dir, |(_, path)| path);
        let why = format!(
            "{} is no part of a baseline: move it away first",
            odd.display()
        );
        return Err(Fault::usage(why).into());
    }
    write(folder, &dir, identity, samples).map_err(|e| {
        const ADVICE: &str = "free some there, or keep baselines elsewhere with --results DIR";
        files::explain(e, folder, files::free_space(folder), ADVICE)
    })
}

fn write(folder: &Path, dir: &Path, identity: &Identity, samples: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    files::sweep(folder);
    let beside = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in(folder)
        .with_context(|| format!("making a folder in {}", folder.display()))?;
    let held = fs::File::open(beside.path())?;
    files::lock(&held);
    let file = File {
        schema: SCHEMA,
        identity: identity.clone(),
        samples: blake3::hash(samples.as_bytes()).to_hex().to_string(),
    };
    write_whole(&beside.path().join("samples.csv"), samples.as_bytes())?;
    write_whole(
        &beside.path().join("baseline.yaml"),
        serde_yaml::to_string(&file)?.as_bytes(),
    )?;
    match dir.exists() {
        true => files::exchange(beside.path(), dir)?,
        false => {
            let moved = fs::rename(beside.path(), dir);
            moved.with_context(|| format!("putting {} in its place", dir.display()))?;
        }
    }
    files::sync_dir(folder)
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

    fn identity(scenario: &str) -> Identity {
        Identity {
            scenario: scenario.into(),
            qemu: "10".into(),
            command: 1,
            init: "i".into(),
            images: Default::default(),
            kernels: Default::default(),
            compilers: Default::default(),
        }
    }

    #[test]
    fn one_is_replaced_at_once_and_nothing_stays_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        for samples in ["one", "two"] {
            save(dir.path(), "s", &identity(samples), samples).unwrap();
            let read = load(dir.path(), "s").unwrap();
            assert_eq!(
                (&*read.samples, &*read.identity.scenario),
                (samples, samples)
            );
            assert_eq!(list(dir.path()).len(), 1);
        }
        // Something that somebody put there is not thrown away.
        for name in ["notes.txt", "samples.csv"] {
            let path = dir.path().join("s").join(name);
            let _ = fs::remove_file(&path);
            fs::create_dir(&path).unwrap();
            let error = save(dir.path(), "s", &identity("x"), "x").unwrap_err();
            assert!(error.to_string().contains(name), "{error:#}");
            assert_eq!(
                crate::core::fault::exit_of(&error),
                crate::core::fault::Exit::Usage
            );
            fs::remove_dir(&path).unwrap();
        }
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
