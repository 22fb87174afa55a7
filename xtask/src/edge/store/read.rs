// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading runs that are over: whatever lies in their folders is checked before it counts.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;

use super::{Header, MOST_BYTES, Run, trial_file};
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
        let read = |name: &str| {
            let path = dir.join(name);
            let bytes = read_file(&path, MOST_BYTES);
            let bytes = bytes.map_err(|e| {
                Fault::usage(format!("{}: {e}; was the run finished?", path.display()))
            })?;
            anyhow::Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let again = format!("`cargo xtask bench --resume {}` writes it", dir.display());
        let text = read("summary.json")?;
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
        if summary.run != header.id {
            return Err(wrong(format!("it is of another run; {again} anew")).into());
        }
        let named = summary.has_names();
        named.map_err(|e| wrong(format!("{e}; {again} anew")))?;
        let samples = read("samples.csv")?;
        // With a failed boot the places of the others are not in the summary.
        let variants = || summary.scenarios.iter().flat_map(|s| &s.variants);
        if variants().all(|v| !v.failed())
            && let Err(why) = summary.confirms(&samples)
        {
            let message = format!(
                "{}: {why}: it was cut or edited; {again} and summary.json anew",
                dir.join("samples.csv").display()
            );
            return Err(Fault::usage(message).into());
        }
        if variants().all(|v| v.metrics.is_empty() && v.completed()) {
            let why = format!("run {} is empty: it has no sample", dir.display());
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
