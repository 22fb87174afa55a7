// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots what a run lacks, and keeps each result as it comes.

use std::{collections::BTreeMap, num::NonZeroUsize, time::Instant};

use anyhow::Result;

use super::progress::Progress;
use crate::{
    core::{
        boot::TrialResult,
        machine::RawBoot,
        measure::{Ended, Options, RETRIES, Sink, measure},
        plan::Trial,
    },
    edge::{store::Run, terminal},
    rig::Rig,
};

/// Makes the boots of `plan` that `run` does not have, `jobs` side by side.
pub(super) fn boot_missing(
    run: Run,
    rig: &Rig,
    plan: &[Trial],
    jobs: NonZeroUsize,
    keep_going: bool,
) -> Result<(Run, Ended)> {
    let missing: Vec<Trial> = plan
        .iter()
        .filter(|t| !run.results.contains_key(&t.id))
        .cloned()
        .collect();
    if missing.is_empty() {
        terminal::say(&format!("nothing is missing of {}", run.dir().display()));
    }
    let progress = Progress::new(plan.len(), plan.len() - missing.len());
    let mut keep = Keep {
        run,
        progress,
        begun: BTreeMap::new(),
    };
    let options = Options {
        jobs,
        keep_going,
        retries: RETRIES,
    };
    let ended = measure(&missing, rig, options, &mut keep)?;
    Ok((keep.run, ended))
}

/// Keeps each result, and shows the progress.
struct Keep {
    run: Run,
    progress: Progress,
    /// When each boot began.
    begun: BTreeMap<String, Instant>,
}

impl Sink for Keep {
    fn started(&mut self, trial: &Trial) {
        self.begun.insert(trial.id.clone(), Instant::now());
        self.progress.started(trial);
    }
    fn again(&mut self, trial: &Trial, why: &str) {
        self.progress.say(&format!("again {}: {why}", trial.id));
    }
    fn finished(&mut self, trial: &Trial, raw: &RawBoot, result: &TrialResult) -> Result<()> {
        self.run.store(trial, raw, result)?;
        if let Some(begun) = self.begun.remove(&trial.id) {
            self.run.took(&trial.id, begun.elapsed())?;
        }
        self.progress.finished(trial, result);
        Ok(())
    }
}
