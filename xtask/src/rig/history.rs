// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kept runs, as series of their metrics.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{
    core::{
        fault::{Fault, text},
        metric::{Kind, Unit},
        scenario::{Clock, Scenario},
        stats::verdict::Limits,
        summary::{ScenarioSummary, Summary, VariantSummary},
        trend::{History, Key, Point, RunInfo, Series, trend},
    },
    edge::store::{Finished, Header, Run},
};

/// The most runs that a report's trend has.
const MOST_RUNS: usize = 60;
/// The most that is read for it: a report is written at once, however large its runs are.
const MOST_BYTES: u64 = 24 << 20;

/// Runs that were read, the oldest first.
#[derive(Debug, Default)]
pub struct Kept {
    /// Those that can be read.
    pub runs: Vec<Finished>,
    /// Why others cannot, and what of those that can is no number.
    pub left_out: Vec<String>,
}

impl Kept {
    /// Reads the runs in `dirs`. One that cannot be read does not hide the others.
    pub fn read(results: &Path, dirs: &[PathBuf]) -> Self {
        let mut kept = Self::default();
        for dir in dirs {
            match Finished::read(results, &dir.to_string_lossy()) {
                Ok(run) => match &run.header.shard {
                    None => kept.runs.push(run),
                    Some(cut) => kept.left_out.push(format!(
                        "run {} is shard {} of another: `cargo xtask merge` makes that",
                        run.header.id,
                        cut.shard()
                    )),
                },
                Err(error) => kept.left_out.push(text(&error)),
            }
        }
        let place = |run: &Finished| (run.header.begun.clone(), run.header.id.clone());
        kept.runs.sort_by_key(place);
        kept
    }

    /// Their values by what they are of.
    pub fn series(&mut self) -> Series {
        let mut series = Series::new();
        for run in &self.runs {
            add(&run.header, &run.summary, &mut series, &mut self.left_out);
        }
        series
    }
}

/// What a report says of other runs than its own: of those `named`, or, where none is, of the
/// earlier ones in `results` that booted one of its scenarios.
///
/// # Errors
/// Usage: a name is no pattern.
pub fn history(
    results: &Path,
    header: &Header,
    summary: &Summary,
    named: &[String],
) -> Result<History> {
    let mut kept = match named {
        [] => Kept::read(results, &earlier(results, header)?),
        named => Kept::read(results, &dirs(results, named)?),
    };
    if !named.is_empty() && kept.runs.is_empty() {
        return Err(none(results, named, &kept.left_out).into());
    }
    kept.runs.retain(|run| run.header.id != header.id);
    let (begun, id) = (header.begun.clone(), header.id.clone());
    let later = |run: &Finished| (&run.header.begun, &run.header.id) > (&begun, &id);
    let mut series = Series::new();
    let mut left_out = kept.left_out;
    let own = kept.runs.iter().position(later).unwrap_or(kept.runs.len());
    let others = kept.runs.iter().map(|run| (&run.header, &run.summary));
    let mut runs: Vec<_> = others.collect();
    runs.insert(own, (header, summary));
    for (header, summary) in &runs {
        add(header, summary, &mut series, &mut left_out);
    }
    // What this run has no value of is another experiment.
    series.retain(|_, points| points.iter().any(|p| p.run.id == header.id));
    let trend = trend(&series, runs.len(), left_out, &Limits::by);
    Ok(History { series, trend })
}

/// The runs in `results` that booted one of the scenarios with these `hashes`, the oldest
/// first; not shards, which are parts of runs.
fn of_scenarios(results: &Path, hashes: &BTreeSet<&str>) -> Result<Vec<(Header, PathBuf)>> {
    let mut found = Vec::new();
    for dir in Run::matching(results, "*")? {
        let id = dir.file_name().unwrap_or_default().to_string_lossy();
        // What is of another version has other figures too.
        let Ok(other) = Header::read(results, &id) else {
            continue;
        };
        let mut theirs = other.scenarios.iter();
        let same = theirs.any(|s| hashes.contains(s.hash.as_str()));
        if same && other.shard.is_none() {
            found.push((other, dir));
        }
    }
    found.sort_by(|(a, _), (b, _)| (&a.begun, &a.id).cmp(&(&b.begun, &b.id)));
    Ok(found)
}

/// What boots of these scenarios took in the runs in `results`, in ms, by id: the latest.
///
/// # Errors
/// Usage: `results` is no place to look in.
pub fn took(results: &Path, scenarios: &[Scenario]) -> Result<BTreeMap<String, u64>> {
    let hashes = scenarios.iter().map(|s| s.hash.as_str()).collect();
    let mut took = BTreeMap::new();
    for (_, dir) in of_scenarios(results, &hashes)? {
        took.extend(Run::times(&dir));
    }
    Ok(took)
}

/// The folders of earlier runs of `header`'s scenarios, the latest that are not too much.
fn earlier(results: &Path, header: &Header) -> Result<Vec<PathBuf>> {
    let own = header.scenarios.iter().map(|s| s.hash.as_str()).collect();
    let mut room = MOST_BYTES;
    let size = |dir: &Path| fs::metadata(dir.join("summary.json")).map_or(0, |m| m.len());
    let mut fits = |dir: &PathBuf| {
        let takes = size(dir);
        let fits = takes <= room;
        room = room.saturating_sub(takes);
        fits
    };
    let before = |(other, dir): &(Header, PathBuf)| {
        (&other.begun, &other.id) < (&header.begun, &header.id)
            && dir.join("summary.json").is_file()
    };
    let found = of_scenarios(results, &own)?.into_iter().rev();
    let latest = found.filter(before).take(MOST_RUNS - 1);
    Ok(latest.map(|(_, dir)| dir).take_while(|d| fits(d)).collect())
}

/// Why there is nothing to draw a trend from: none of the runs that are `named` (all in
/// `results` where none is) is there or can be read.
pub fn none(results: &Path, named: &[String], left_out: &[String]) -> Fault {
    Fault::usage(match (left_out, named) {
        ([], []) => format!("there is no run in {}", results.display()),
        ([], named) => format!("no run fits {}", named.join(" ")),
        (why, _) => format!("no run can be read:\n- {}", why.join("\n- ")),
    })
}

/// The folders of the runs that are named.
///
/// # Errors
/// Usage: a name is no pattern.
pub fn dirs(results: &Path, named: &[String]) -> Result<Vec<PathBuf>> {
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

fn add(header: &Header, summary: &Summary, series: &mut Series, left_out: &mut Vec<String>) {
    for scenario in summary.scenarios.iter().filter(|s| !s.debug) {
        for variant in &scenario.variants {
            if variant.is_not_available() {
                continue;
            }
            if !variant.completed() {
                left_out.push(format!(
                    "{}/{} of run {}: {}",
                    scenario.name,
                    variant.name,
                    header.id,
                    variant.outcome_text()
                ));
                continue;
            }
            let info = info(header, variant);
            for (metric, measured) in &variant.metrics {
                if Kind::of(metric) == Kind::Metric && measured.unit == Unit::Ns {
                    let key = key(header, scenario, variant, metric);
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
    let parts = header.parts_of(std::slice::from_ref(variant));
    let sources: BTreeSet<_> = parts.kernels.values().map(|k| k.source.clone()).collect();
    RunInfo {
        id: header.id.clone(),
        begun: header.begun.clone(),
        source: sources.into_iter().collect::<Vec<_>>().join(", "),
        parts,
    }
}
