// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask trend`: where a metric changed for good over many runs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{
    core::{
        compare::Kind,
        fault::{Exit, Fault, text},
        scenario::Clock,
        stats::verdict::Limits,
        summary::{ScenarioSummary, Unit, VariantSummary},
        trend::{Key, Point, RunInfo, trend},
        units::{Fraction, Nanos},
    },
    edge::{
        store::{Finished, Header, Run},
        terminal,
    },
    rig::checkout,
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
    let results = match &args.results {
        Some(results) => results.clone(),
        None => checkout()?.join("results"),
    };
    let mut runs = Vec::new();
    // One run that cannot be read does not hide the others.
    let mut left_out = Vec::new();
    for dir in dirs(&results, &args.runs)? {
        match Finished::read(&results, &dir.to_string_lossy()) {
            Ok(run) => runs.push(run),
            Err(error) => left_out.push(text(&error)),
        }
    }
    if runs.is_empty() {
        let why = match left_out.is_empty() {
            true => format!("there is no run in {}", results.display()),
            false => format!("no run can be read:\n- {}", left_out.join("\n- ")),
        };
        return Err(Fault::usage(why).into());
    }
    runs.sort_by(|a, b| (&a.header.begun, &a.header.id).cmp(&(&b.header.begun, &b.header.id)));
    let mut series = BTreeMap::new();
    for run in &runs {
        add(run, &mut series, &mut left_out);
    }
    let limits = |clock| {
        let default = Limits::by(clock);
        Limits {
            absolute: args.absolute.map_or(default.absolute, |n| n.0),
            relative: args.relative.map_or(default.relative, Fraction::factor),
            ..default
        }
    };
    let found = trend(&series, runs.len(), left_out, &limits);
    if args.json {
        terminal::out_line(&serde_json::to_string_pretty(&found)?)?;
    } else {
        terminal::out(&terminal::look().painted(&found.text()))?;
    }
    Ok(found.exit())
}

/// The folders of the runs that are named.
fn dirs(results: &Path, named: &[String]) -> Result<Vec<PathBuf>> {
    if named.is_empty() {
        return Run::matching(results, "*");
    }
    let mut dirs = Vec::new();
    for name in named {
        let path = Path::new(name);
        if name.contains(['*', '?', '[']) {
            dirs.extend(Run::matching(results, name)?);
        } else if path.is_dir() && !path.join("run.yaml").is_file() {
            dirs.extend(Run::matching(path, "*")?);
        } else {
            let (results, id) = Run::locate(results, name);
            dirs.push(results.join(id));
        }
    }
    dirs.sort();
    dirs.dedup();
    Ok(dirs)
}

fn add(
    run: &Finished,
    series: &mut BTreeMap<(Key, Clock), Vec<Point>>,
    left_out: &mut Vec<String>,
) {
    for scenario in run.summary.scenarios.iter().filter(|s| !s.debug) {
        for variant in &scenario.variants {
            if !variant.completed() {
                left_out.push(format!(
                    "{}/{} of run {}: {}",
                    scenario.name,
                    variant.name,
                    run.header.id,
                    variant.outcome_text()
                ));
                continue;
            }
            let info = info(&run.header, variant);
            for (metric, measured) in &variant.metrics {
                if Kind::of(metric) == Kind::Metric && measured.unit == Unit::Ns {
                    let key = key(&run.header, scenario, variant, metric);
                    let points: &mut Vec<Point> = series.entry(key).or_default();
                    points.push(Point {
                        run: info.clone(),
                        value: measured.median,
                    });
                }
            }
        }
    }
}

fn key(
    header: &Header,
    scenario: &ScenarioSummary,
    variant: &VariantSummary,
    metric: &str,
) -> (Key, Clock) {
    let machine = header.host.get("machine").and_then(|m| m.as_str());
    let host = match variant.clock {
        Clock::Virtual => String::new(),
        Clock::Wall => format!(
            "{} {}",
            machine.unwrap_or("unknown"),
            header.machine.accelerator
        ),
    };
    let key = Key {
        scenario: scenario.name.clone(),
        hash: scenario.hash.clone(),
        host,
        variant: variant.name.clone(),
        metric: metric.into(),
    };
    (key, variant.clock)
}

fn info(header: &Header, variant: &VariantSummary) -> RunInfo {
    let mut parts = BTreeMap::from([
        ("QEMU".to_owned(), header.machine.qemu.clone()),
        (
            "QEMU's command line".to_owned(),
            header.machine.command.to_string(),
        ),
        ("PID 1".to_owned(), header.machine.init.clone()),
    ]);
    let own = |k: &&crate::edge::store::KernelRecord| {
        variant
            .kernel
            .as_ref()
            .is_none_or(|name| *name == k.spec.to_string())
    };
    let mut sources = Vec::new();
    for kernel in header.kernels.iter().filter(own) {
        let mut put = |what: &str, value: &str| {
            parts.insert(format!("{what} {}", kernel.spec), value.to_owned());
        };
        put("kernel", &kernel.key);
        put("compiler of", &kernel.compiler);
        sources.push(kernel.source.clone());
    }
    sources.sort();
    sources.dedup();
    RunInfo {
        id: header.id.clone(),
        begun: header.begun.clone(),
        source: sources.join(", "),
        parts,
    }
}
