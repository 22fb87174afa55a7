// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask compare A B`: what was measured before against what was measured after.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    core::{
        compare::{Wishes, compare},
        fault::{Exit, Fault},
        units::{Fraction, Nanos},
    },
    edge::terminal,
    rig::{self, sides},
};

/// Options of `compare`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What was before: a run (its folder, or its name in results/), a baseline (its
    /// scenario's name), or a glob of runs (`'2026*'`). With `:VARIANT` behind both, these two
    /// variants are compared, of one run or of two.
    before: String,
    /// What is now: the same kinds.
    after: String,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Compare what was measured otherwise (clock, machine, toolchain, scenario); the output
    /// says so.
    #[arg(long)]
    force: bool,
    /// Wall time: how improbable a difference must be by chance. Default: 0.01.
    #[arg(long, value_name = "P", value_parser = probability)]
    alpha: Option<f64>,
    /// The smallest change that matters. Default: 1 ms in wall time, 100 us in virtual time.
    #[arg(long, value_name = "TIME")]
    absolute: Option<Nanos>,
    /// The smallest change that matters, as a part. Default: 2 % in wall time, or what the
    /// A/A boots say if that is more; 0.01 % in virtual time.
    #[arg(long, value_name = "PART")]
    relative: Option<Fraction>,
    /// Where runs and baselines are kept.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

fn probability(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(p) if p > 0.0 && p < 1.0 => Ok(p),
        _ => Err("a probability lies between 0 and 1".into()),
    }
}

/// Compares; exits with 1 where something became slower or fails now, 3 where nothing can
/// be told.
///
/// # Errors
/// Usage: a name that is nothing, a run or baseline that was edited, sides that are not
/// comparable.
pub fn run(args: &Args) -> Result<Exit> {
    let results = rig::results(args.results.as_deref())?;
    let wishes = Wishes {
        alpha: args.alpha,
        absolute: args.absolute.map(|n| n.0),
        relative: args.relative.map(Fraction::factor),
        force: args.force,
    };
    let (before, after) = sides::pair(&results, &args.before, &args.after)?;
    let comparison = compare(&before, &after, &wishes).map_err(|reasons| {
        Fault::usage(format!(
            "{} cannot be compared with {}:\n- {}\nmeasure both with the same, or compare all the same with --force",
            args.after,
            args.before,
            reasons.join("\n- ")
        ))
    })?;
    if args.json {
        terminal::out_line(&serde_json::to_string_pretty(&comparison)?)?;
    } else {
        terminal::out_report(&comparison.text())?;
    }
    Ok(comparison.exit())
}
