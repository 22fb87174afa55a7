// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the names that a user gives to what is compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::Result;

use crate::{
    core::{
        compare::{Basis, Measured, Side, Spans, Values},
        fault::Fault,
        growth,
        metric::{Kind, Unit},
        nearest::hint,
        samples,
        scenario::Clock,
        summary::{ScenarioSummary, VariantSummary},
    },
    edge::{
        baselines,
        store::{Finished, Header, Run},
    },
};

/// What `before` and `after` are. Each is a side as [`side`] takes it, or, where both name a
/// variant behind a colon, `RUN:VARIANT`: then these two variants are compared.
///
/// # Errors
/// Usage: as [`side`]; a variant on one side only, or one that nothing measured.
pub fn pair(results: &Path, before: &str, after: &str) -> Result<(Side, Side)> {
    let (sides, variants) = (split(before), split(after));
    let (Some((a, from)), Some((b, to))) = (sides, variants) else {
        if sides.or(variants).is_some() {
            let why = format!(
                "`{}` against `{}`: name a variant behind a colon on both sides, or on none",
                after.escape_debug(),
                before.escape_debug()
            );
            return Err(Fault::usage(why).into());
        }
        return Ok((side(results, before)?, side(results, after)?));
    };
    // One row each, so both go by one name: that of what is judged.
    let one = |side: Side, variant: &str, label: &str| of_variant(side, variant, to, label);
    Ok((
        one(side(results, a)?, from, before)?,
        one(side(results, b)?, to, after)?,
    ))
}

/// `RUN:VARIANT`; no run and no variant has a colon in its name.
fn split(named: &str) -> Option<(&str, &str)> {
    named
        .rsplit_once(':')
        .filter(|(_, variant)| !variant.contains('/'))
}

/// `side` with nothing but its `variant`, which is called `name` now. Scenarios without it
/// are left out, and so is growth, which is no variant's alone.
///
/// # Errors
/// Usage: nothing measured it.
pub fn of_variant(mut side: Side, variant: &str, name: &str, label: &str) -> Result<Side> {
    let variants = side.scenarios.values().flat_map(|s| s.variants.keys());
    let had: BTreeSet<String> = variants.cloned().collect();
    side.scenarios.retain(|_, measured| {
        let one = measured.variants.remove(variant);
        measured.variants = one.map(|v| (name.to_owned(), v)).into_iter().collect();
        !measured.variants.is_empty()
    });
    if side.scenarios.is_empty() {
        let hint = hint(variant, had.iter().map(String::as_str));
        let why = format!(
            "{label}: nothing measured `{}`{hint}",
            variant.escape_debug()
        );
        return Err(Fault::usage(why).into());
    }
    side.growth.clear();
    side.label = label.to_owned();
    Ok(side)
}

/// What `named` is: a glob of runs, a run, or a baseline.
///
/// # Errors
/// Usage: it is none of these, or cannot be trusted.
pub fn side(results: &Path, named: &str) -> Result<Side> {
    let folder = results.join("baselines");
    let mut side = if named.contains(['*', '?', '[']) {
        glob(results, named)?
    } else {
        let (parent, id) = Run::locate(results, named);
        if parent.join(&id).join("run.yaml").is_file() {
            of_run(&Finished::read(results, named)?)?
        } else if parent.join(&id).join("baseline.yaml").is_file() {
            of_baseline(&parent, &id)?
        } else if baselines::exists(&folder, named) {
            of_baseline(&folder, named)?
        } else {
            let why = format!(
                "`{}` is neither a run in {} nor a baseline in {}, nor the folder of one",
                named.escape_debug(),
                results.display(),
                folder.display()
            );
            return Err(Fault::usage(why).into());
        }
    };
    side.label = named.to_owned();
    Ok(side)
}

/// All runs that fit `pattern`, as one.
fn glob(results: &Path, pattern: &str) -> Result<Side> {
    let mut all: Option<Side> = None;
    let mut growths = Vec::new();
    for dir in Run::matching(results, pattern)? {
        let mut side = of_run(&Finished::read(results, &dir.to_string_lossy())?)?;
        growths.push(std::mem::take(&mut side.growth));
        all = Some(match all {
            None => side,
            Some(all) => pool(all, side, &dir.to_string_lossy())?,
        });
    }
    let mut all = all.ok_or_else(|| {
        let why = format!("no run fits `{}`", pattern.escape_debug());
        Fault::usage(why)
    })?;
    all.growth = growth::pool(&growths);
    Ok(all)
}

/// Adds what a further run of the same measured.
fn pool(mut all: Side, more: Side, run: &str) -> Result<Side> {
    for (name, measured) in more.scenarios {
        let Some(known) = all.scenarios.get_mut(&name) else {
            all.scenarios.insert(name, measured);
            continue;
        };
        let (a, b) = (&known.basis, &measured.basis);
        let differs = [a.obstacles(b), a.subject(b)].concat();
        if !differs.is_empty() {
            let why = format!(
                "run {run} measured {name} with other parts than the runs before it ({}); name runs of one kind",
                differs.join("; ")
            );
            return Err(Fault::usage(why).into());
        }
        for (variant, values) in measured.variants {
            let known_values = known.variants.entry(variant.clone()).or_default();
            pool_values(known_values, values, known.basis.clock).map_err(|metric| {
                Fault::usage(format!(
                    "run {run} has another {name}/{variant}.{metric} than the runs before it, in virtual time and with the same parts: the machine was not deterministic; compare them one by one"
                ))
            })?;
        }
    }
    Ok(all)
}

/// # Errors
/// The metric that differs where it cannot.
fn pool_values(all: &mut Values, more: Values, clock: Clock) -> Result<(), String> {
    all.failed = all.failed.take().or(more.failed);
    for (metric, samples) in more.metrics {
        let known = all.metrics.entry(metric.clone()).or_default();
        match clock {
            Clock::Wall => known.extend(samples),
            Clock::Virtual if known.iter().zip(&samples).any(|(a, b)| a != b) => {
                return Err(metric);
            }
            Clock::Virtual if samples.len() > known.len() => *known = samples,
            Clock::Virtual => {}
        }
    }
    for (metric, floor) in more.noise {
        let known = all.noise.entry(metric).or_default();
        *known = known.max(floor);
    }
    if all.spans.of.is_empty() {
        all.spans = more.spans;
    }
    Ok(())
}

fn of_run(run: &Finished) -> Result<Side> {
    let rows = samples::read(&run.samples)
        .map_err(|why| Fault::usage(format!("{}/samples.csv: {why}", run.dir.display())))?;
    let mut scenarios = BTreeMap::new();
    for scenario in &run.summary.scenarios {
        let basis = basis(&run.header, scenario);
        let mut variants = BTreeMap::new();
        // What neither kernel has a means for is nothing to compare.
        for variant in scenario.variants.iter().filter(|v| !v.is_not_available()) {
            let mut values = values(variant);
            let noise = scenario.noise.iter().flat_map(|n| &n.metrics);
            values.noise = noise.map(|(m, n)| (m.clone(), n.floor)).collect();
            if basis.clock == Clock::Virtual && variant.completed() {
                values.spans = spans(run, &rows, &scenario.name, &variant.name);
            }
            variants.insert(variant.name.clone(), values);
        }
        scenarios.insert(scenario.name.clone(), Measured { basis, variants });
    }
    Ok(Side {
        label: String::new(),
        scenarios,
        growth: run.summary.growth.clone(),
    })
}

fn basis(header: &Header, scenario: &ScenarioSummary) -> Basis {
    let clock = scenario
        .variants
        .first()
        .map_or(Clock::Virtual, |v| v.clock);
    let text = |key: &str| header.host.get(key).and_then(|v| v.as_str());
    let host = format!(
        "{} ({})",
        text("machine").unwrap_or("unknown"),
        text("cpu").unwrap_or("unknown CPU")
    );
    Basis {
        scenario: scenario.hash.clone(),
        clock,
        host: (clock == Clock::Wall).then_some(host),
        debug: scenario.debug,
        parts: header.parts_of(&scenario.variants),
    }
}

fn values(variant: &VariantSummary) -> Values {
    let metrics = variant.metrics.iter();
    Values {
        failed: variant.failed().then(|| variant.outcome_text()),
        metrics: metrics
            .filter(|(_, m)| m.unit == Unit::Ns)
            .map(|(name, m)| (name.clone(), m.samples.clone()))
            .collect(),
        noise: BTreeMap::new(),
        spans: Spans::default(),
    }
}

/// The first repeat's callbacks. Devices are numbered as in samples.csv: those whose
/// callback returned, in the scenario's order.
fn spans(run: &Finished, rows: &[samples::Row], scenario: &str, variant: &str) -> Spans {
    let log = run.trial(scenario, variant, 0).and_then(|t| t.log);
    let Some(log) = log else {
        return Spans::default();
    };
    let of_boot = rows.iter().filter(|r| {
        r.scenario == scenario
            && r.variant == variant
            && r.repeat == 0
            && Kind::of(r.metric) == Kind::Device
    });
    Spans::of(&log, of_boot.map(|r| (r.metric, r.value)))
}

fn of_baseline(folder: &Path, scenario: &str) -> Result<Side> {
    let baseline = baselines::load(folder, scenario)?;
    let rows = samples::read(&baseline.samples)
        .map_err(|why| Fault::usage(format!("baseline of {scenario}: {why}")))?;
    let mut variants: BTreeMap<String, Values> = BTreeMap::new();
    for row in rows.iter().filter(|r| r.unit == Unit::Ns.name()) {
        let values = variants.entry(row.variant.to_owned()).or_default();
        let metric = values.metrics.entry(row.metric.to_owned()).or_default();
        metric.push(row.value);
    }
    let measured = Measured {
        basis: Basis {
            clock: Clock::Virtual,
            host: None,
            debug: false,
            parts: baseline.identity.parts(),
            scenario: baseline.identity.scenario,
        },
        variants,
    };
    Ok(Side {
        label: String::new(),
        scenarios: [(scenario.to_owned(), measured)].into(),
        growth: Vec::new(),
    })
}
