// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask report`: draws a kept run again.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    core::fault::Exit,
    edge::{
        store::{Finished, Run},
        terminal,
    },
    rig::{self, Stored, history::history},
};

/// Options of `report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run: its folder, or its name in results/.
    run: String,
    /// Runs (folders, names in results/, globs) that its trend is drawn from. Default: the
    /// earlier runs of its scenarios in its results folder.
    #[arg(long, value_name = "RUN", num_args = 1..)]
    trend: Vec<String>,
    /// Where runs are kept.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// Writes report.html and trace.json of a run anew, from what was measured then, and what was
/// measured before it.
///
/// # Errors
/// Usage: there is no such run, or it is of another version or damaged.
pub fn run(args: &Args) -> Result<Exit> {
    let root = rig::checkout()?;
    let results = rig::results(args.results.as_deref())?;
    let (results, id) = Run::locate(&results, &args.run);
    let stored = Stored::read(&root, &results, &id)?;
    let dir = results.join(&id);
    let summary = stored.summary();
    // It is drawn from the trials; what other commands read may be another thing by now.
    if let Err(error) = Finished::read(&results, &id) {
        terminal::say(&format!("warning: {error:#}"));
    }
    let history = history(&results, &stored.header, &summary, &args.trend)?;
    rig::draw(
        &dir,
        &stored.header,
        &summary,
        &stored.plan,
        &stored.results,
        history,
    )?;
    for name in ["report.html", "trace.json"] {
        terminal::out_line(&dir.join(name).display().to_string())?;
    }
    Ok(Exit::Done)
}
