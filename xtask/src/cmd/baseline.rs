// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask baseline`: keeps a run's virtual-time samples, and compares runs with
//! them exactly.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{
    core::{
        compare::{self, Identity},
        fault::{Exit, Fault},
        samples,
        scenario::Clock,
    },
    edge::{baselines, store::Finished, terminal},
    rig,
};

/// Options of `baseline`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    /// Where runs and baselines are kept.
    #[arg(long, value_name = "DIR", global = true)]
    results: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Keep the samples of RUN as the baseline of its scenarios.
    Save {
        /// A run: its folder, or its name in results/.
        run: String,
        /// Replace baselines made of other parts (another QEMU, kernel or scenario).
        #[arg(long)]
        replace: bool,
    },
    /// Compare RUN with the baselines of its scenarios: 0 identical, 1 different, 3 made of
    /// other parts and so not comparable.
    Check {
        /// A run: its folder, or its name in results/.
        run: String,
    },
}

/// Saves or checks baselines.
pub fn run(args: &Args) -> Result<Exit> {
    let results = rig::results(args.results.as_deref())?;
    let folder = results.join("baselines");
    match &args.action {
        Action::Save { run, replace } => {
            let parts = parts(&results, run)?;
            for part in &parts {
                if !replace {
                    refuse_to_replace(&folder, part)?;
                }
            }
            for part in &parts {
                baselines::save(&folder, &part.scenario, &part.identity, &part.samples)?;
                terminal::out_line(&format!(
                    "baseline of {} saved in {}",
                    part.scenario,
                    folder.join(&part.scenario).display()
                ))?;
            }
            Ok(Exit::Done)
        }
        Action::Check { run } => {
            let mut worst = Exit::Done;
            for part in parts(&results, run)? {
                worst = worst.and(check(&folder, &part)?);
            }
            Ok(worst)
        }
    }
}

/// One scenario of a run.
struct Part {
    scenario: String,
    identity: Identity,
    samples: String,
}

fn parts(results: &Path, run: &str) -> Result<Vec<Part>> {
    let Finished {
        header,
        summary,
        samples: csv,
        ..
    } = Finished::read(results, run)?;
    let by_scenario = samples::by_scenario(&csv);
    let mut parts = Vec::new();
    for scenario in summary.scenarios {
        for variant in &scenario.variants {
            if variant.clock != Clock::Virtual || variant.failed() || scenario.debug {
                return Err(Fault::usage(format!("{}/{} of run {run} ran in {} time{} and ended: {}; a baseline needs completed virtual-time boots of kernels that do not check themselves", scenario.name, variant.name, variant.clock, if scenario.debug { " with --debug" } else { "" }, variant.outcome_text())).into());
            }
        }
        let identity = Identity::of(scenario.hash, header.parts_of(&scenario.variants));
        let samples = by_scenario.get(&scenario.name).cloned().unwrap_or_default();
        parts.push(Part {
            scenario: scenario.name,
            identity,
            samples,
        });
    }
    Ok(parts)
}

/// A baseline that this run could not be compared with is somebody's reference: it goes
/// only when that is said.
fn refuse_to_replace(folder: &Path, part: &Part) -> Result<()> {
    if !baselines::exists(folder, &part.scenario) {
        return Ok(());
    }
    let before = baselines::load(folder, &part.scenario)?;
    let other = before.identity.differs(&part.identity);
    if other.is_empty() {
        return Ok(());
    }
    let message = format!(
        "there is a baseline of {} made of other parts ({}): --replace puts this run in its place",
        part.scenario,
        other.join("; ")
    );
    Err(Fault::usage(message).into())
}

fn check(folder: &Path, part: &Part) -> Result<Exit> {
    let baseline = baselines::load(folder, &part.scenario)?;
    let name = &part.scenario;
    let other = baseline.identity.differs(&part.identity);
    if !other.is_empty() {
        terminal::out_line(&format!(
            "{name}: not comparable with the baseline: {}; compare where these are the same, or keep one of your own with `cargo xtask baseline save`",
            other.join("; ")
        ))?;
        return Ok(Exit::Inconclusive);
    }
    let differences = compare::differences(&baseline.samples, &part.samples)
        .map_err(anyhow::Error::msg)
        .context("comparing samples")?;
    if differences.is_empty() {
        terminal::out_line(&format!(
            "{name}: identical to the baseline, {} samples",
            part.samples.lines().count().saturating_sub(1)
        ))?;
        return Ok(Exit::Done);
    }
    terminal::out_line(&format!(
        "{name}: {} samples differ from the baseline",
        differences.len()
    ))?;
    for difference in differences.iter().take(20) {
        terminal::out_line(&format!("- {difference}"))?;
    }
    Ok(Exit::Failed)
}
