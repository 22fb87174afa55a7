// SPDX-License-Identifier: MIT OR Apache-2.0
//! summary.json: the machine-readable result of a run, and the judgement of its
//! expectations. docs/method.md explains the numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::noise::{NoiseSummary, Warning};
use super::{
    blame::Share,
    boot::{Outcome, TrialResult},
    event::{BootLog, Callback},
    fault::Exit,
    growth::{self, Growth},
    ideal::Bound,
    plan::{Role, Trial},
    probing::{self, Became},
    samples,
    scenario::{Clock, Expectation, Metric, Point, Scenario, Target, Tolerance, Variant},
    stats,
    units::Nanos,
};

mod noise;

/// Version of the document; raised when a field changes its meaning.
pub const SCHEMA: u32 = 1;

/// How many tasks ran shutdown callbacks.
pub const TASKS: &str = "tasks";

/// How many tasks ran probe callbacks.
pub const PROBE_TASKS: &str = "probe_tasks";

/// What half of a walk's operations took at most.
pub const WALK_P50: &str = "walk/p50";
/// What 99 % of them took at most.
pub const WALK_P99: &str = "walk/p99";
/// The longest of them.
pub const WALK_LONGEST: &str = "walk/longest";

/// What walkers saw while blocks came and went.
pub const CHURN_ANSWERS: &str = "churn/answers";
/// Of how much of it it was certain what it had to be.
pub const CHURN_CERTAIN: &str = "churn/certain";
/// From udevd's start until it listens.
pub const COLDPLUG_UDEVD: &str = "coldplug/udevd";
/// Of a coldplug, until all devices are triggered.
pub const COLDPLUG_TRIGGER: &str = "coldplug/trigger";
/// Of a coldplug, from there to its end.
pub const COLDPLUG_SETTLE: &str = "coldplug/settle";
/// The events that the kernel sent in a coldplug.
pub const COLDPLUG_EVENTS: &str = "coldplug/events";

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The run's id; also the name of its folder.
    pub run: String,
    /// What the host is (the fingerprint of run.yaml).
    pub host: serde_json::Value,
    /// What was not as a scenario asked, or is worth knowing of the whole run.
    #[serde(default)]
    pub notes: Vec<String>,
    /// In plan order; each size of a sweep is one.
    pub scenarios: Vec<ScenarioSummary>,
    /// How the figures of sweeps grow.
    #[serde(default)]
    pub growth: Vec<Growth>,
}

/// One scenario's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioSummary {
    /// Its name.
    pub name: String,
    /// Its hash: results of different hashes are not the same experiment.
    pub hash: String,
    /// Which size of a sweep it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<Point>,
    /// In the file's order.
    pub variants: Vec<VariantSummary>,
    /// CPUs that its guests had; `None`: none said.
    pub cpus: Option<u32>,
    /// Whether its kernels checked themselves (`--debug`).
    pub debug: bool,
    /// Wall time: what the host can see, by boots of the same thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseSummary>,
    /// What makes the figures doubtful.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// In the file's order; none where `debug`, nor of variants that are not available.
    pub expectations: Vec<Judged>,
    /// What differs between variants and is neither a time nor wrong: names of devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

/// One variant's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantSummary {
    /// Its name.
    pub name: String,
    /// The kernel that it boots, as asked for: `6.1+parallel-shutdown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The clock of all its numbers.
    pub clock: Clock,
    /// How its boots ended: the worst of them, a failure of the machine above one of the
    /// guest; `None` (null) while none failed and some were not made.
    pub outcome: Option<Outcome>,
    /// By metric name; parts and devices as `reboot/firmware`, `device_shutdown/ixgbe.2`.
    pub metrics: BTreeMap<String, MetricSummary>,
    /// What fills device_shutdown beyond its devices' delays, largest first, in the first
    /// completed repeat.
    #[serde(default)]
    pub blame: Vec<Share>,
    /// What became of the loader and of each device, where that was disturbed, in the first
    /// completed repeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub became: Vec<DeviceBecame>,
    /// The devices by the names that they got, in the first completed repeat.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
    /// The oracle over all repeats.
    pub oracle: OracleSummary,
}

impl VariantSummary {
    /// Whether every boot was made and completed.
    pub fn completed(&self) -> bool {
        self.outcome == Some(Outcome::Completed)
    }
    /// Whether a boot failed or was not made.
    pub fn failed(&self) -> bool {
        self.outcome.as_ref().is_none_or(Outcome::is_failure)
    }
    /// Whether its kernel has no such thing.
    pub fn is_not_available(&self) -> bool {
        matches!(self.outcome, Some(Outcome::NotAvailable(_)))
    }
    /// The outcome for people.
    pub fn outcome_text(&self) -> String {
        self.outcome
            .as_ref()
            .map_or_else(|| "not run".into(), Outcome::to_string)
    }
}

impl Summary {
    /// Adds how the figures of those `scenarios` that are sweeps grow.
    #[must_use]
    pub fn with_growth<'s>(mut self, scenarios: impl IntoIterator<Item = &'s Scenario>) -> Self {
        let of = |scenario| growth::of(scenario, &self.scenarios);
        self.growth = scenarios.into_iter().flat_map(of).collect();
        self
    }
    /// Checks that `csv`, a samples.csv of completed boots, holds exactly the samples that
    /// this summary has.
    ///
    /// # Errors
    /// What does not fit, with its line.
    pub fn confirms(&self, csv: &str) -> Result<(), String> {
        let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
        for scenario in &self.scenarios {
            for variant in &scenario.variants {
                for (name, metric) in &variant.metrics {
                    for (repeat, value) in metric.samples.iter().enumerate() {
                        let row = samples::key(
                            &scenario.name,
                            &variant.name,
                            repeat,
                            variant.clock,
                            name,
                            metric.unit.name(),
                        );
                        wanted.insert(row, *value);
                    }
                }
            }
        }
        let total = wanted.len();
        for (index, line) in csv.lines().enumerate().skip(1) {
            let (row, value) = line.rsplit_once(',').unwrap_or((line, ""));
            let known = wanted.remove(row);
            if known.is_none() || known != value.parse().ok() {
                return Err(format!("line {} is not what summary.json has", index + 1));
            }
        }
        match wanted.len() {
            0 if csv.ends_with('\n') => Ok(()),
            missing => Err(format!("{missing} of {total} samples are missing")),
        }
    }
}

/// One metric of one variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricSummary {
    /// `ns`, `count` or `bytes`.
    pub unit: Unit,
    /// One value a completed repeat, in order.
    pub samples: Vec<u64>,
    /// Their median (the mean of the middle two).
    pub median: u64,
    /// The median of the repeats' ideals, where an ideal is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ideal: Option<u64>,
    /// What sets the ideal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// ideal / median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
}

/// What became of one device, or of the loader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBecame {
    /// Its name; [`LOADER`]: the task that loaded the driver, or what was done to it.
    pub device: String,
    /// In words.
    pub became: String,
}

/// Stands for the task that loads the driver.
pub const LOADER: &str = "(loader)";

/// The unit of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// A plain number.
    Count,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// As samples.csv and summary.json write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Count => "count",
            Self::Bytes => "bytes",
        }
    }
}

/// The oracle's findings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OracleSummary {
    /// Facts checked.
    pub checked: u64,
    /// What did not hold, with the repeat that showed it.
    pub violations: Vec<String>,
}

/// An expectation and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// `parallel.device_shutdown`.
    pub what: String,
    /// `within 2 % of the ideal (1.146 s)`.
    pub want: String,
    /// `1.152 s (+0.5 %)`, or why there is no value.
    pub got: String,
    /// Whether it holds; `None`: one of the values is missing.
    pub ok: Option<bool>,
}

/// One number that a trial yielded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Metric, part or device: see [`VariantSummary::metrics`].
    pub metric: String,
    /// Of `value`.
    pub unit: Unit,
    /// How much.
    pub value: u64,
}

/// All samples of a completed trial, in a fixed order: metrics asked for, parts of the
/// reboot, then devices.
pub fn samples(scenario: &Scenario, result: &TrialResult) -> Vec<Sample> {
    let (Some(times), Some(log)) = (&result.times, &result.log) else {
        return vec![];
    };
    let mut samples = Vec::new();
    let mut push = |metric: String, value: Nanos| {
        samples.push(Sample {
            metric,
            unit: Unit::Ns,
            value: value.0,
        });
    };
    for metric in &scenario.metrics {
        if let Some((value, _)) = result.metric(*metric) {
            push(metric.name().into(), value);
        }
        if let (Metric::Reboot, Some(r)) = (*metric, times.reboot) {
            for (part, value) in [
                ("user_space", r.user_space),
                ("kernel", r.kernel),
                ("device_shutdown", r.device_shutdown),
                ("firmware", r.firmware),
                ("next_boot", r.next_boot),
            ] {
                push(format!("reboot/{part}"), value);
            }
        }
    }
    for metric in &scenario.metrics {
        let callback = match metric {
            Metric::Probe => Callback::Probe,
            Metric::DeviceShutdown => Callback::Shutdown,
            Metric::Boot
            | Metric::Load
            | Metric::Bound
            | Metric::Ready
            | Metric::Reboot
            | Metric::Walk
            | Metric::Churn
            | Metric::Coldplug => continue,
        };
        let mut of_metric: Vec<_> = log
            .callbacks
            .iter()
            .filter(|e| e.callback == callback && e.ret == 0)
            .collect();
        of_metric.sort_by_key(|e| e.device);
        for event in of_metric {
            if let (Some(device), Some(end)) = (scenario.devices.get(event.device), event.end) {
                push(
                    format!("{}/{}", metric.name(), device.name),
                    end - event.begin,
                );
            }
        }
    }
    if let Some(walk) = log.walk.as_ref().filter(|_| scenario.walk.is_some()) {
        for (part, value) in [
            (WALK_P50, walk.p50),
            (WALK_P99, walk.p99),
            (WALK_LONGEST, walk.longest),
        ] {
            samples.push(Sample {
                metric: part.into(),
                unit: Unit::Ns,
                value: value.0,
            });
        }
    }
    if let Some(done) = log.churn.as_ref() {
        for (metric, value) in [(CHURN_ANSWERS, done.answers), (CHURN_CERTAIN, done.certain)] {
            samples.push(Sample {
                metric: metric.into(),
                unit: Unit::Count,
                value,
            });
        }
    }
    if let Some(done) = log.coldplug.as_ref() {
        for (metric, unit, value) in [
            (COLDPLUG_UDEVD, Unit::Ns, (done.begin - done.start).0),
            (COLDPLUG_TRIGGER, Unit::Ns, (done.triggered - done.begin).0),
            (COLDPLUG_SETTLE, Unit::Ns, (done.end - done.triggered).0),
            (COLDPLUG_EVENTS, Unit::Count, done.events),
        ] {
            let metric = metric.into();
            samples.push(Sample {
                metric,
                unit,
                value,
            });
        }
    }
    if scenario.metrics.contains(&Metric::Bound) {
        samples.push(Sample {
            metric: PROBE_TASKS.into(),
            unit: Unit::Count,
            value: probing::tasks(log) as u64,
        });
    }
    if scenario.metrics.contains(&Metric::DeviceShutdown) {
        samples.push(Sample {
            metric: TASKS.into(),
            unit: Unit::Count,
            value: times.tasks,
        });
    }
    samples
}

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
        for sample in samples(scenario, result) {
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

fn judge(expectation: &Expectation, variants: &[VariantSummary]) -> Judged {
    let metric = expectation.metric.name();
    let value = |variant: &str| {
        variants
            .iter()
            .find(|v| v.name == variant && v.completed())?
            .metrics
            .get(metric)
    };
    let own = value(&expectation.variant);
    let (label, target) = match &expectation.of {
        Target::Value(nanos) => (nanos.to_string(), Some(nanos.0)),
        Target::Ideal => {
            let ideal = own.and_then(|m| m.ideal);
            (
                format!(
                    "the ideal{}",
                    ideal.map_or(String::new(), |i| format!(" ({})", Nanos(i)))
                ),
                ideal,
            )
        }
        Target::Variant(name) => {
            let other = value(name).map(|m| m.median);
            (
                format!(
                    "{name}{}",
                    other.map_or(String::new(), |o| format!(" ({})", Nanos(o)))
                ),
                other,
            )
        }
    };
    let (got, ok) = match (own, target) {
        (Some(own), Some(target)) if target > 0 => {
            let off = own.median as f64 / target as f64 - 1.0;
            let good = match expectation.tolerance {
                Tolerance::Within { part, or } => {
                    let limit = (target as f64 * part.factor()).max(or.0 as f64);
                    own.median.abs_diff(target) as f64 <= limit
                }
                Tolerance::AtMost(part) => own.median as f64 <= target as f64 * part.factor(),
            };
            (
                format!("{} ({:+.2} %)", Nanos(own.median), off * 100.0),
                Some(good),
            )
        }
        (None, _) => (
            format!("no value: {} did not complete", expectation.variant),
            None,
        ),
        _ => ("no value to compare with".into(), None),
    };
    Judged {
        what: format!("{}.{metric}", expectation.variant),
        want: format!("{} {label}", expectation.tolerance),
        got,
        ok,
    }
}

/// The exit code that a summary stands for: what could not be measured weighs more than
/// what was measured and found wanting.
pub fn exit(summary: &Summary) -> Exit {
    let variants = || summary.scenarios.iter().flat_map(|s| &s.variants);
    let judged = || {
        let expected = summary
            .scenarios
            .iter()
            .flat_map(|s| &s.expectations)
            .map(|e| e.ok);
        let grown = summary
            .growth
            .iter()
            .filter(|g| g.at_most.is_some())
            .map(|g| g.ok);
        expected.chain(grown)
    };
    let expected = |ok: Option<bool>| judged().any(|judged| judged == ok);
    let outcome = |v: &VariantSummary| v.outcome.as_ref().map_or(Exit::Guest, Outcome::exit);
    let worst = variants().map(outcome).max().unwrap_or(Exit::Done);
    if worst != Exit::Done {
        worst
    } else if variants().any(|v| !v.oracle.violations.is_empty()) || expected(Some(false)) {
        Exit::Failed
    } else if expected(None) {
        Exit::Inconclusive
    } else {
        Exit::Done
    }
}
