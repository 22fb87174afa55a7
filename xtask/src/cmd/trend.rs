// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask trend`: where a metric changed for good over many runs.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    core::{
        fault::Exit,
        stats::verdict::Limits,
        trend::trend,
        units::{Fraction, Nanos},
    },
    edge::terminal,
    rig::{
        self,
        history::{Kept, dirs, none},
    },
};

/// Options of `trend`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Runs (folders, names in results/, globs), or a folder of runs. Default: all in
    /// results/.
    runs: Vec<String>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// The smallest change that matters. Default: 1 ms in wall time, 100 us in virtual time.
    #[arg(long, value_name = "TIME")]
    absolute: Option<Nanos>,
    /// The smallest change that matters, as a part. Default: 2 % in wall time, 0.01 % in
    /// virtual time.
    #[arg(long, value_name = "PART")]
    relative: Option<Fraction>,
    /// Where runs are kept.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// Looks for changes; exits with 1 where the latest of a metric made it slower, 3 where
/// there are too few runs to tell.
///
/// # Errors
/// Usage: no run was found.
pub fn run(args: &Args) -> Result<Exit> {
    let results = rig::results(args.results.as_deref())?;
    let mut kept = Kept::read(&results, &dirs(&results, &args.runs)?);
    if kept.runs.is_empty() {
        return Err(none(&results, &args.runs, &kept.left_out).into());
    }
    let series = kept.series();
    let limits = |clock| {
        let default = Limits::by(clock);
        Limits {
            absolute: args.absolute.map_or(default.absolute, |n| n.0),
            relative: args.relative.map_or(default.relative, Fraction::factor),
            ..default
        }
    };
    let found = trend(&series, kept.runs.len(), kept.left_out, &limits);
    if args.json {
        terminal::out_line(&serde_json::to_string_pretty(&found)?)?;
    } else {
        terminal::out_report(&found.text())?;
    }
    Ok(found.exit())
}
