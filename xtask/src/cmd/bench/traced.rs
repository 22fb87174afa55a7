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
        measure::{Ended, Options, Sink, measure},
        plan::Trial,
        scenario::hint,
        trace::{growth, record::Record, table},
    },
    edge::{process::Stopped, terminal},
    rig::{
        Rig, traces,
        tracing::{Tracing, Wish},
    },
};

/// Windows that are shown and drawn where none is named.
const WINDOWS: [&str; 2] = ["boot", "device_shutdown"];
/// Functions and waits shown of each.
const MOST: usize = 20;

/// Options of `bench` for the tracer.
#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    /// Boot each variant once more and count its kernel's instructions by function, in the
    /// window WINDOW (boot, device_shutdown, memory_dev_init, initcall:NAME, ...; default:
    /// boot and device_shutdown). Virtual time only.
    #[arg(
        long,
        value_name = "WINDOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "dry_run"
    )]
    profile: Option<String>,
    /// Mark entry and return of this kernel function, beside the usual ones.
    #[arg(long, value_name = "FUNCTION", conflicts_with = "dry_run")]
    mark: Vec<String>,
    /// The kernel's symbols (its vmlinux or System.map), where its build has none.
    #[arg(long, value_name = "FILE")]
    symbols: Option<PathBuf>,
}

impl TraceArgs {
    fn wish(&self) -> Option<Wish> {
        if self.profile.is_none() && self.mark.is_empty() {
            return None;
        }
        let windows = match self.profile.as_deref() {
            Some("") => WINDOWS.map(str::to_owned).into(),
            Some(window) => vec![window.to_owned()],
            None => Vec::new(),
        };
        Some(Wish {
            profile: self.profile.is_some(),
            windows,
            marks: self.mark.clone(),
            symbols: self.symbols.clone(),
        })
    }

    /// Whether anything is.
    pub fn wanted(&self) -> bool {
        self.wish().is_some()
    }

    /// Checks, before anything is measured, that what is asked for can be had.
    pub fn check(&self) -> Result<()> {
        if let (Some(symbols), None) = (&self.symbols, self.wish()) {
            let why = format!(
                "--symbols {}: nothing is traced; add --profile or --mark",
                symbols.display()
            );
            return Err(Fault::usage(why).into());
        }
        Ok(())
    }
}

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
        retries: super::RETRIES,
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
            Ok(all) => texts.extend(all.iter().map(|g| format!("## {}", growth::text(g, MOST)))),
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
        for note in &seen.notes {
            self.progress.say(&format!("note: {}: {note}", trial.id));
        }
        for path in traces::keep(&seen, &self.dir)? {
            self.progress.say(&format!("kept {}", path.display()));
        }
        let text = text(&seen.record, self.wish);
        self.texts.push(text.map_err(Fault::usage)?);
        if seen.record.point.is_some() && result.outcome == Outcome::Completed {
            let mut record = seen.record;
            record.marks.clear();
            let wanted = |name: &String| self.wish.windows.contains(name);
            record.windows.retain(|w| wanted(&w.window));
            self.sizes.push(record);
        }
        Ok(())
    }
}

fn text(record: &Record, wish: &Wish) -> Result<String, String> {
    let mut out = format!("## trace of {}: kernel {}\n\n", record.boot, record.kernel);
    for name in &wish.windows {
        let Some(window) = record.window(name) else {
            let known: Vec<_> = record.windows.iter().map(|w| w.window.as_str()).collect();
            let hint = hint(name, known.iter().copied());
            return Err(format!(
                "{} has no window `{}`{hint}",
                record.boot,
                name.escape_debug()
            ));
        };
        out += &format!("### {}\n", table::profile(window, MOST));
    }
    if !wish.marks.is_empty() || !wish.profile {
        out += &format!("### marks\n\n{}\n\n", table::marks(record, &wish.marks));
    }
    Ok(out)
}
