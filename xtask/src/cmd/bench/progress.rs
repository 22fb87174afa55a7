// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress on stderr: a bar with the time left on a terminal, plain lines elsewhere.

use std::{cell::Cell, io::IsTerminal, time::Duration};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{
    core::{
        boot::{Outcome, TrialResult},
        plan::Trial,
    },
    edge::terminal,
};

/// Progress of a run.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: Cell<usize>,
}

impl Progress {
    /// For a run of `total` trials, of which `done` are already there.
    pub fn new(total: usize, done: usize) -> Self {
        let (total, done) = (total, Cell::new(done));
        if !std::io::stderr().is_terminal() {
            let bar = None;
            return Self { bar, total, done };
        }
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(
            "{bar:30} {pos}/{len} boots, {elapsed} gone{prefix}  {msg}",
        )
        .expect("a constant template");
        bar.set_style(style);
        bar.inc(done.get() as u64);
        bar.reset_eta();
        bar.enable_steady_tick(Duration::from_secs(1));
        let bar = Some(bar);
        Self { bar, total, done }
    }

    /// `trial` starts.
    pub fn started(&self, trial: &Trial) {
        match &self.bar {
            Some(bar) => bar.set_message(trial.id.clone()),
            None => terminal::say(&format!("boot {}", trial.id)),
        }
    }

    /// `trial` is over.
    pub fn finished(&self, trial: &Trial, result: &TrialResult) {
        let line = match (&result.outcome, &result.times) {
            (Outcome::Completed, Some(times)) => match (times.device_shutdown, times.bound) {
                (Some(time), _) => format!("done {}: device_shutdown {time}", trial.id),
                (None, Some(time)) => format!("done {}: devices bound in {time}", trial.id),
                (None, None) => format!("done {}", trial.id),
            },
            (Outcome::NotAvailable(why), _) => {
                format!("left out {}: not available: {why}", trial.id)
            }
            (outcome, _) => format!("FAILED {}: {outcome}", trial.id),
        };
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                // Before the first boot is over nothing is known.
                let left = HumanDuration(bar.eta());
                bar.set_prefix(format!(", about {left} left"));
                if result.outcome != Outcome::Completed {
                    self.say(&line);
                }
            }
            None => {
                self.done.update(|done| done + 1);
                self.say(&format!("{line} ({} of {})", self.done.get(), self.total));
            }
        }
    }

    /// A line to be read, above the bar where there is one.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => terminal::say(line),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
