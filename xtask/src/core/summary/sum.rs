// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums up the results of trials.

use std::collections::BTreeMap;

use super::{
    DeviceBecame, LOADER, MetricSummary, NoiseSummary, OracleSummary, SCHEMA, ScenarioSummary,
    Summary, VariantSummary, judge::judge,
};
use crate::core::{
    boot::{Outcome, TrialResult},
    event::BootLog,
    metric::Unit,
    plan::{Role, Trial},
    probing::{self, Became},
    samples,
    scenario::{Clock, Expectation, Scenario, Target, Variant},
    stats,
};

/// Sums up a run. `results` are those there are, in any order.
pub fn summarise(
    run: &str,
    host: serde_json::Value,
    notes: Vec<String>,
    plan: &[Trial],
    results: &BTreeMap<String, TrialResult>,
) -> Summary {
    let (measured, rest): (Vec<Trial>, Vec<Trial>) =
        plan.iter().cloned().partition(|t| t.role == Role::Measured);
    let plan = &measured[..];
    let mut scenarios: Vec<&Trial> = Vec::new();
    for trial in plan {
        if !scenarios
            .iter()
            .any(|t| t.scenario.name == trial.scenario.name)
        {
            scenarios.push(trial);
        }
    }
    let scenarios = scenarios
        .into_iter()
        .map(|t| ScenarioSummary {
            noise: NoiseSummary::of(&t.scenario, plan, &rest, results),
            ..scenario_summary(&t.scenario, plan, results)
        })
        .map(|s| s.with_warnings(&host))
        .collect();
    Summary {
        schema: SCHEMA,
        run: run.into(),
        host,
        notes,
        scenarios,
        growth: vec![],
    }
}

fn scenario_summary(
    scenario: &Scenario,
    plan: &[Trial],
    results: &BTreeMap<String, TrialResult>,
) -> ScenarioSummary {
    let variants: Vec<_> = scenario
        .variants
        .iter()
        .map(|variant| {
            let trials: Vec<_> = plan
                .iter()
                .filter(|t| t.scenario.name == scenario.name && t.variant().name == variant.name)
                .collect();
            let found: Vec<_> = trials.iter().filter_map(|t| results.get(&t.id)).collect();
            let clock = trials.first().map_or(scenario.clock, |t| t.clock);
            let kernel = trials.first().map(|t| t.kernel.to_string());
            VariantSummary {
                kernel,
                ..variant_summary(scenario, variant, clock, trials.len(), &found)
            }
        })
        .collect();
    let own = || plan.iter().filter(|t| t.scenario.name == scenario.name);
    let logs = own().filter_map(|t| results.get(&t.id)?.log.as_ref());
    let cpus = logs.map(|log| log.cpus).min();
    // What a kernel that checks itself takes says nothing about another.
    let debug = own().any(|t| t.kernel.debug);
    let lacks = |name: &str| {
        let mut all = variants.iter();
        all.any(|v| v.name == name && v.is_not_available())
    };
    let possible = |e: &&Expectation| {
        !lacks(&e.variant) && !matches!(&e.of, Target::Variant(other) if lacks(other))
    };
    let expected = scenario.expect.iter().filter(|_| !debug).filter(possible);
    let expectations = expected.map(|e| judge(e, &variants)).collect();
    ScenarioSummary {
        name: scenario.name.clone(),
        hash: scenario.hash.clone(),
        point: scenario.point.clone(),
        findings: names_that_differ(&variants),
        variants,
        cpus,
        debug,
        noise: None,
        warnings: vec![],
        expectations,
    }
}

fn variant_summary(
    scenario: &Scenario,
    variant: &Variant,
    clock: Clock,
    planned: usize,
    found: &[&TrialResult],
) -> VariantSummary {
    // The first of the worst.
    let worst = found.iter().rev().max_by_key(|r| r.outcome.exit());
    let outcome = worst
        .map(|r| r.outcome.clone())
        .filter(|o| *o != Outcome::Completed || found.len() == planned);
    let mut metrics: BTreeMap<String, MetricSummary> = BTreeMap::new();
    let mut oracle = OracleSummary::default();
    for result in found {
        oracle.checked += result.oracle.checked;
        oracle.violations.extend(
            result
                .oracle
                .violations
                .iter()
                .map(|v| format!("{}: {v}", result.id)),
        );
        for sample in samples::of(scenario, result) {
            metrics
                .entry(sample.metric)
                .or_insert_with(|| MetricSummary::empty(sample.unit))
                .samples
                .push(sample.value);
        }
    }
    for (name, metric) in &mut metrics {
        metric.median = stats::median(&metric.samples);
        let known = scenario.metrics.iter().find(|m| m.name() == name);
        let ideals: Vec<_> = known.map_or(vec![], |m| {
            found.iter().filter_map(|r| r.metric(*m)?.1).collect()
        });
        if let Some(first) = ideals.first() {
            let ideal = stats::median(&ideals.iter().map(|i| i.time.0).collect::<Vec<_>>());
            metric.ideal = Some(ideal);
            metric.bound = Some(first.bound.clone());
            metric.efficiency = (metric.median > 0).then(|| ideal as f64 / metric.median as f64);
        }
    }
    let completed = || found.iter().filter_map(|r| r.log.as_ref());
    VariantSummary {
        name: variant.name.clone(),
        kernel: None,
        image: variant.image().map(|image| image.to_string()),
        clock,
        outcome,
        metrics,
        blame: found
            .iter()
            .find_map(|r| r.times.as_ref())
            .map_or(vec![], |t| t.shutdown_blame.clone()),
        became: completed()
            .next()
            .map_or(vec![], |log| became(scenario, variant, log)),
        systemd: completed().next().and_then(|log| log.systemd.clone()),
        names: completed()
            .next()
            .map_or(BTreeMap::new(), |log| probing::names(scenario, log)),
        oracle,
    }
}

/// What became of the loader and the devices, if anything was done to them or some were not
/// probed as the variant has it.
fn became(scenario: &Scenario, variant: &Variant, log: &BootLog) -> Vec<DeviceBecame> {
    let outcomes = probing::outcomes(scenario, variant, log);
    if !variant.probing.is_disturbed() && !outcomes.contains(&Became::BoundByLoader) {
        return vec![];
    }
    let loader = log.disturbed.iter().map(|d| DeviceBecame {
        device: LOADER.into(),
        became: probing::disturbed(d),
    });
    let bound_for = (0..scenario.devices.len())
        .filter(|d| scenario.profile(variant, *d).is_some() && !scenario.stays_unbound(*d));
    let devices = bound_for.map(|device| DeviceBecame {
        device: scenario.devices[device].name.clone(),
        became: outcomes[device].to_string(),
    });
    loader.chain(devices).collect()
}

/// In which variants a name is another device's than in the first that has names.
fn names_that_differ(variants: &[VariantSummary]) -> Vec<String> {
    let mut named = variants.iter().filter(|v| !v.names.is_empty());
    let Some(first) = named.next() else {
        return vec![];
    };
    let differs = named.filter_map(|other| {
        let moved: Vec<_> = first
            .names
            .iter()
            .filter_map(|(name, device)| {
                let now = other.names.get(name).filter(|now| *now != device)?;
                Some(format!("{name} is {now}, not {device}"))
            })
            .collect();
        let more = match moved.len() {
            0 => return None,
            count if count > MOST_NAMES => format!(" and {} more", count - MOST_NAMES),
            _ => String::new(),
        };
        Some(format!(
            "names of devices: in {} {} of {} are other devices' than in {}: {}{more}",
            other.name,
            moved.len(),
            first.names.len(),
            first.name,
            moved[..moved.len().min(MOST_NAMES)].join(", ")
        ))
    });
    differs.collect()
}

/// Names that are told one by one.
const MOST_NAMES: usize = 8;

impl MetricSummary {
    fn empty(unit: Unit) -> Self {
        Self {
            unit,
            samples: vec![],
            median: 0,
            ideal: None,
            bound: None,
            efficiency: None,
        }
    }
}
