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
        fault::{Exit, Fault, exit_of},
        machine::RawBoot,
        measure::{Ended, Options, RETRIES, Sink, measure},
        plan::Trial,
        trace::{growth, record::Record, table::MOST_ROWS},
    },
    edge::{process::Stopped, terminal},
    rig::{
        Rig, traces,
        tracing::{Seen, Tracing},
        wish::{TraceArgs, Wish},
    },
};

/// Boots that can be traced as wished.
pub struct Prepared<'a> {
    tracing: Tracing<'a>,
    wish: Wish,
    once: Vec<Trial>,
}

/// Makes ready to trace the boots of `plan`, before the first of them is made: what cannot be
/// marked is refused. `None`: nothing is to be traced, or cannot be, which is said.
pub fn prepare<'a>(
    args: &TraceArgs,
    root: &Path,
    rig: &'a Rig,
    plan: &[Trial],
) -> Result<Option<Prepared<'a>>> {
    let Some(wish) = args.wish() else {
        return Ok(None);
    };
    let once: Vec<Trial> = plan.iter().filter(|t| t.repeat == 0).cloned().collect();
    let say = |line: &str| terminal::say(line);
    match Tracing::new(root, rig, &once, wish.clone(), &say)? {
        Ok(tracing) => Ok(Some(Prepared {
            tracing,
            wish,
            once,
        })),
        Err(why) => {
            say(&format!("note: not traced: {why}"));
            Ok(None)
        }
    }
}

/// Makes the traced boots, keeps what was seen in the run's folder `dir`, and prints it, unless
/// `quiet`.
pub fn run(prepared: &Prepared, jobs: NonZeroUsize, dir: &Path, quiet: bool) -> Result<Exit> {
    let Prepared {
        tracing,
        wish,
        once,
    } = prepared;
    let say = |line: &str| terminal::say(line);
    let mut sink = Keep {
        take: &|trial| tracing.take(trial),
        progress: Progress::new(once.len(), 0),
        dir: dir.to_owned(),
        wish,
        texts: Vec::new(),
        sizes: Vec::new(),
        worst: Exit::Done,
    };
    let options = Options {
        jobs,
        keep_going: true,
        retries: RETRIES,
    };
    let ended = measure(once, tracing, options, &mut sink)?;
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
    /// What was seen of a boot.
    take: &'a dyn Fn(&Trial) -> Option<Result<Seen, String>>,
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
        let seen = match (self.take)(trial) {
            None => return Ok(()),
            // What QEMU or the guest did not come to says nothing of how it was traced.
            Some(Err(why)) if result.outcome.is_failure() => {
                self.progress
                    .say(&format!("note: no trace of {}: {why}", trial.id));
                return Ok(());
            }
            Some(Err(why)) => {
                return Err(Fault::usage(format!("trace of {}: {why}", trial.id)).into());
            }
            Some(Ok(seen)) => seen,
        };
        let say = |line: &str| self.progress.say(line);
        match traces::told(&seen, Some(&self.dir), self.wish, MOST_ROWS, &say) {
            Ok(text) => self.texts.push(text),
            // A boot that ended early does not have all windows.
            Err(e) if result.outcome.is_failure() && exit_of(&e) == Exit::Usage => {
                say(&format!("note: {e:#}"));
            }
            Err(e) => return Err(e),
        }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::{
        boot::Outcome,
        fault::Stopped as Stop,
        machine::{End, Machine},
        plan::{Overrides, plan},
        scenario::{self, Known},
    };

    struct Ends(End);
    impl Machine for Ends {
        fn boot(&self, _: &Trial) -> Result<RawBoot, Stop> {
            Ok(RawBoot {
                end: self.0.clone(),
                ..RawBoot::default()
            })
        }
    }

    /// Where the boot itself failed, that is what went wrong, and not that its trace is short.
    #[test]
    fn a_boot_that_failed_is_not_the_users_mistake() {
        let text = "about: One.\nkernel: \"6.1\"\nmachine: {type: microvm, cpus: 1, memory: 256 MiB}\ntimeout: 9 s\ndevices: []\nvariants: {stock: {order: serial}}\nmeasure: [boot]\n";
        let scenario = scenario::parse("one.yaml", text, &Known::default()).unwrap();
        let trials = plan(&[Arc::new(scenario)], Overrides::default());
        let options = || Options {
            jobs: NonZeroUsize::MIN,
            keep_going: true,
            retries: 2,
        };
        let wish = Wish::default();
        let sink = || Keep {
            take: &|_| Some(Err("the kernel hardly ran".into())),
            progress: Progress::new(1, 0),
            dir: PathBuf::from("/nonexistent"),
            wish: &wish,
            texts: Vec::new(),
            sizes: Vec::new(),
            worst: Exit::Done,
        };
        let killed = End::Machine("QEMU was killed by signal 9".into());
        for (end, want) in [
            (killed, Exit::Infrastructure),
            (End::Deadline("after 9 s".into()), Exit::Guest),
        ] {
            let mut sink = sink();
            measure(&trials[..1], &Ends(end), options(), &mut sink).unwrap();
            assert_eq!(sink.worst, want);
        }
        // It was killed before it came to the window.
        let record = serde_json::json!({
            "schema": 2, "boot": "one/stock", "kernel": "6.1", "qemu": "10.0.2", "stacks": true,
            "complete": false, "windows": [], "marks": [],
        });
        let take = |_: &Trial| {
            Some(Ok(Seen {
                record: serde_json::from_value(record.clone()).unwrap(),
                folded: Vec::new(),
                notes: Vec::new(),
            }))
        };
        let dir = tempfile::tempdir().unwrap();
        let mut early = Keep {
            take: &take,
            dir: dir.path().to_owned(),
            wish: &Wish {
                windows: vec!["device_shutdown".into()],
                ..Wish::default()
            },
            ..sink()
        };
        let killed = Ends(End::Machine("QEMU was killed by signal 9".into()));
        measure(&trials[..1], &killed, options(), &mut early).unwrap();
        assert_eq!(early.worst, Exit::Infrastructure);
        // A good boot that cannot be read has other symbols.
        let good = TrialResult {
            id: trials[0].id.clone(),
            outcome: Outcome::Completed,
            times: None,
            oracle: Default::default(),
            log: None,
        };
        let mut sink = sink();
        let error = sink
            .finished(&trials[0], &RawBoot::default(), &good)
            .unwrap_err();
        assert_eq!(exit_of(&error), Exit::Usage);
    }
}
