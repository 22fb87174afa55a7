// SPDX-License-Identifier: MIT OR Apache-2.0
//! `results/baselines/<scenario>/{baseline.yaml, samples.csv}`: committed virtual-time
//! samples, with what they were made of and a checksum.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::files::write_whole;
use crate::core::{compare::Identity, fault::Fault};

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

/// Writes the baseline of `scenario`, replacing an earlier one.
pub fn save(folder: &Path, scenario: &str, identity: &Identity, samples: &str) -> Result<()> {
    let dir = folder.join(scenario);
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
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
    folder.join(scenario).join("baseline.yaml").is_file()
}

/// Reads the baseline of `scenario`.
///
/// # Errors
/// Usage: there is none, it is of another schema, or its samples were edited by hand.
pub fn load(folder: &Path, scenario: &str) -> Result<Baseline> {
    let dir = folder.join(scenario);
    let path = dir.join("baseline.yaml");
    if !path.is_file() {
        return Err(Fault::usage(format!(
            "there is no baseline of {scenario}; make one with: cargo xtask baseline save RUN"
        ))
        .into());
    }
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
    };
    let file: File = serde_yaml::from_str(&read(&path)?)
        .map_err(|e| Fault::usage(format!("{}: {e}", path.display())))?;
    if file.schema != SCHEMA {
        return Err(Fault::usage(format!(
            "{} has schema {}, this program reads {SCHEMA}",
            path.display(),
            file.schema
        ))
        .into());
    }
    let samples = read(&dir.join("samples.csv"))?;
    let sum = blake3::hash(samples.as_bytes()).to_hex();
    if sum.as_str() != file.samples {
        let why = format!(
            "{} has checksum {sum}, its baseline.yaml says {}: it was edited by hand or cut; restore it, or save a new baseline",
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
