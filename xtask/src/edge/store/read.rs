// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading runs that are over: whatever lies in their folders is checked before it counts.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;

use super::{Header, MOST_BYTES, MOST_SUMMARY_BYTES, Run, trial_file};
use crate::{
    core::{
        boot::TrialResult,
        fault::Fault,
        summary::{self, Summary},
    },
    edge::files::read_file,
};

/// A run that was finished.
#[derive(Debug)]
pub struct Finished {
    /// Its folder.
    pub dir: PathBuf,
    /// run.yaml.
    pub header: Header,
    /// summary.json.
    pub summary: Summary,
    /// samples.csv.
    pub samples: String,
}

/// What every version of a document has.
#[derive(Deserialize)]
struct Versioned {
    schema: u32,
}

impl Finished {
    /// Reads the run `named`: its id in `results`, or its folder.
    ///
    /// # Errors
    /// Usage: there is none, it was not finished, is of another version, or was cut or
    /// edited.
    pub fn read(results: &Path, named: &str) -> Result<Self> {
        let (results, run) = &Run::locate(results, named);
        let header = Header::read(results, run)?;
        let dir = results.join(run);
        let again = format!("`cargo xtask bench --resume {}` writes it", dir.display());
        let summary = summary(&dir, &again)?;
        if summary.run != header.id {
            let path = dir.join("summary.json");
            let why = format!("{} is of another run; {again} anew", path.display());
            return Err(Fault::usage(why).into());
        }
        let samples = read(&dir, "samples.csv", MOST_BYTES)?;
        // A shard's samples are numbered as in the whole run, which its summary is not of.
        if header.shard.is_none()
            && let Err(why) = summary.confirms(&samples)
        {
            let message = format!(
                "{}: {why}: it was cut or edited; {again} and summary.json anew",
                dir.join("samples.csv").display()
            );
            return Err(Fault::usage(message).into());
        }
        let mut variants = summary.scenarios.iter().flat_map(|s| &s.variants);
        if variants.all(|v| v.metrics.is_empty() && v.completed()) {
            let why = format!(
                "run {} is empty: it has no sample; name another",
                dir.display()
            );
            return Err(Fault::usage(why).into());
        }
        Ok(Self {
            dir,
            header,
            summary,
            samples,
        })
    }

    /// The stored result of the boot `scenario/variant/repeat`; `None` where it is not
    /// there or cannot be read: what it would add is left out.
    pub fn trial(&self, scenario: &str, variant: &str, repeat: u32) -> Option<TrialResult> {
        let id = format!("{scenario}/{variant}/{repeat}");
        let bytes = read_file(&trial_file(&self.dir, &id), MOST_BYTES).ok()?;
        let result: TrialResult = serde_json::from_slice(&bytes).ok()?;
        (result.id == id).then_some(result)
    }
}

/// The text of the file `name` in the run's folder `dir`.
fn read(dir: &Path, name: &str, limit: u64) -> Result<String> {
    let path = dir.join(name);
    let bytes = read_file(&path, limit).map_err(|e| {
        let (path, run) = (path.display(), dir.display());
        Fault::usage(format!(
            "{path}: {e}; if the run was not finished, `cargo xtask bench --resume {run}` goes on"
        ))
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// summary.json of the run in `dir`; `again` says what writes it.
///
/// # Errors
/// Usage: it is not there, is of another version, or was edited.
pub(super) fn summary(dir: &Path, again: &str) -> Result<Summary> {
    let text = read(dir, "summary.json", MOST_SUMMARY_BYTES)?;
    let path = dir.join("summary.json");
    let wrong = |why: String| Fault::usage(format!("{}: {why}", path.display()));
    let version: Versioned =
        serde_json::from_str(&text).map_err(|e| wrong(format!("{e}; {again} anew")))?;
    if version.schema != summary::SCHEMA {
        let (was, now) = (version.schema, summary::SCHEMA);
        let why = format!(
            "has schema {was}, this program reads {now}; {again} anew, or use the program that made it"
        );
        return Err(wrong(why).into());
    }
    let summary: Summary =
        serde_json::from_str(&text).map_err(|e| wrong(format!("{e}; {again} anew")))?;
    let checked = summary.check();
    checked.map_err(|e| wrong(format!("{e}; {again} anew")))?;
    Ok(summary)
}
