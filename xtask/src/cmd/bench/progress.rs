// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress on stderr: a bar with the time left on a terminal, plain lines elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::core::{
    boot::{Outcome, TrialResult},
    plan::Trial,
};

/// Progress of a run.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// For a run of `total` trials, of which `done` are already there.
    pub fn new(total: usize, done: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: None };
        }
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(
            "{bar:30} {pos}/{len} boots, {elapsed} gone, {eta} left  {msg}",
        )
        .expect("a constant template");
        bar.set_style(style);
        bar.inc(done as u64);
        Self { bar: Some(bar) }
    }

    /// `trial` starts.
    pub fn started(&self, trial: &Trial) {
        match &self.bar {
            Some(bar) => bar.set_message(trial.id.clone()),
            None => eprintln!("boot {}", trial.id),
        }
    }

    /// `trial` is over.
    pub fn finished(&self, trial: &Trial, result: &TrialResult) {
        let line = match (&result.outcome, &result.times) {
            (Outcome::Completed, Some(times)) => format!(
                "done {}: device_shutdown {}",
                trial.id, times.device_shutdown
            ),
            (outcome, _) => format!("FAILED {}: {outcome}", trial.id),
        };
        match &self.bar {
            Some(bar) if result.outcome == Outcome::Completed => bar.inc(1),
            Some(bar) => {
                bar.inc(1);
                self.say(&line);
            }
            None => self.say(&line),
        }
    }

    /// A line to be read, above the bar where there is one.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
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
