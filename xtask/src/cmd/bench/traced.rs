// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--profile` and `--mark`: after the measured boots, one more of each variant with the
//! tracer. Nothing of it becomes a sample.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::progress::Progress;
use crate::{
    core::{
        boot::TrialResult,
        fault::{Exit, Fault},
        machine::RawBoot,
        measure::{Ended, Options, RETRIES, Sink, measure},
        plan::Trial,
        trace::{growth, record::Record, table::MOST_ROWS},
    },
    edge::{process::Stopped, terminal},
    rig::{
        Rig, traces,
        tracing::Tracing,
        wish::{TraceArgs, Wish},
    },
};

/// Makes the traced boots of `plan`, keeps what was seen in the run's folder `dir`, and prints
/// it, unless `quiet`.
pub fn run(
    args: &TraceArgs,
    root: &Path,
    rig: &Rig,
    plan: &[Trial],
    jobs: NonZeroUsize,
    dir: &Path,
    quiet: bool,
) -> Result<Exit> {
    let Some(wish) = args.wish() else {
        return Ok(Exit::Done);
    };
    let once: Vec<Trial> = plan.iter().filter(|t| t.repeat == 0).cloned().collect();
    let say = |line: &str| terminal::say(line);
    let tracing = match Tracing::new(root, rig, &once, wish.clone(), &say)? {
        Ok(tracing) => tracing,
        Err(why) => {
            say(&format!("note: not traced: {why}"));
            return Ok(Exit::Done);
        }
    };
    let mut sink = Keep {
        tracing: &tracing,
        progress: Progress::new(once.len(), 0),
        dir: dir.to_owned(),
        wish: &wish,
        texts: Vec::new(),
        sizes: Vec::new(),
        worst: Exit::Done,
    };
    let options = Options {
        jobs,
        keep_going: true,
        retries: RETRIES,
    };
    let ended = measure(&once, &tracing, options, &mut sink)?;
    let Keep {
        mut texts,
        sizes,
        worst,
        ..
    } = sink;
    for window in wish.windows.iter().filter(|_| !sizes.is_empty()) {
        match growth::growths(&sizes, window) {
            Ok(all) => texts.extend(
                all.iter()
                    .map(|g| format!("## {}", growth::text(g, MOST_ROWS))),
            ),
            Err(why) => say(&format!("note: no growth of functions: {why}")),
        }
    }
    if !quiet {
        for text in &texts {
            terminal::out(text)?;
        }
    }
    match ended {
        Ended::Stopped => Err(Stopped.into()),
        _ => Ok(worst),
    }
}

struct Keep<'a> {
    tracing: &'a Tracing<'a>,
    progress: Progress,
    dir: PathBuf,
    wish: &'a Wish,
    texts: Vec<String>,
    /// Of sweeps: their sizes, with the wanted windows alone.
    sizes: Vec<Record>,
    worst: Exit,
}

impl Sink for Keep<'_> {
    fn started(&mut self, trial: &Trial) {
        self.progress.say(&format!("trace {}", trial.id));
    }
    fn again(&mut self, trial: &Trial, why: &str) {
        self.progress.say(&format!("again {}: {why}", trial.id));
    }
    fn finished(&mut self, trial: &Trial, _: &RawBoot, result: &TrialResult) -> Result<()> {
        if result.outcome.is_failure() {
            self.progress
                .say(&format!("traced boot {}: {}", trial.id, result.outcome));
            self.worst = self.worst.max(result.outcome.exit());
        }
        let seen = match self.tracing.take(trial) {
            None => return Ok(()),
            Some(Err(why)) => {
                return Err(Fault::usage(format!("trace of {}: {why}", trial.id)).into());
            }
            Some(Ok(seen)) => seen,
        };
        let say = |line: &str| self.progress.say(line);
        let text = traces::told(&seen, Some(&self.dir), self.wish, MOST_ROWS, &say)?;
        self.texts.push(text);
        if seen.record.point.is_some() && !result.outcome.is_failure() {
            let mut record = seen.record;
            record.marks.clear();
            let wanted = |name: &String| self.wish.windows.contains(name);
            record.windows.retain(|w| wanted(&w.window));
            self.sizes.push(record);
        }
        Ok(())
    }
}
