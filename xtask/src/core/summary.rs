// SPDX-License-Identifier: MIT OR Apache-2.0
//! summary.json: the machine-readable result of a run. docs/method.md explains the numbers.
//!
//! Here is the document; how it is made of trials' results is in `sum`, how expectations are
//! judged in `judge`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::{
    judge::exit,
    noise::{NoiseSummary, Warning},
    sum::summarise,
};
use super::{
    blame::Share,
    boot::Outcome,
    event::SystemdBoot,
    fault::is_obeyed,
    growth::Growth,
    ideal::Bound,
    metric::Unit,
    samples,
    scenario::{Clock, Point, Scenario},
    stats::median,
};

mod growth;
mod judge;
mod noise;
mod sum;

/// The longest name, in bytes: metrics of devices hold a kind, a place and a name.
const LONGEST_NAME: usize = 512;

/// Version of the document; raised when a field changes its meaning.
pub const SCHEMA: u32 = 1;

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
    /// The image of user space that it boots with, if it does: `udev (bookworm)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
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
    /// The boot of systemd, where there was one, in the first completed repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub systemd: Option<SystemdBoot>,
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
    /// Checks what anybody may have written: names become lines of tables and of files that
    /// others read, and figures must be those of the samples.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        for scenario in &self.scenarios {
            named(&scenario.name)?;
            let mut clocks = scenario.variants.iter().map(|v| v.clock);
            let first = clocks.next();
            if clocks.any(|clock| Some(clock) != first) {
                return Err(format!("{} has variants of both clocks", scenario.name));
            }
            for variant in &scenario.variants {
                named(&variant.name)?;
                let mut units = variant.systemd.iter().flat_map(SystemdBoot::names);
                units.try_for_each(named)?;
                for (name, metric) in &variant.metrics {
                    named(name)?;
                    if metric.samples.is_empty() || metric.median != median(&metric.samples) {
                        let (scenario, variant) = (&scenario.name, &variant.name);
                        let why = "is not the median of its samples";
                        return Err(format!("{name} of {scenario}/{variant} {why}"));
                    }
                }
            }
        }
        Ok(())
    }
    /// Checks that `csv`, a samples.csv, holds exactly the samples that this summary has of the
    /// variants whose boots all completed. Of the others it does not say which boot was which.
    ///
    /// # Errors
    /// What does not fit, with its line.
    pub fn confirms(&self, csv: &str) -> Result<(), String> {
        if csv.contains('\r') {
            return Err(samples::CR_LF.into());
        }
        if !csv.starts_with(samples::HEADER) {
            return Err("line 1 is not the header of samples".into());
        }
        let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
        let mut unsure = Vec::new();
        for scenario in &self.scenarios {
            for variant in &scenario.variants {
                if variant.failed() {
                    unsure.push(format!("{},{},", scenario.name, variant.name));
                    continue;
                }
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
            let value: Option<u64> = value.parse().ok();
            let good = match unsure.iter().any(|of| row.starts_with(of)) {
                true => value.is_some(),
                false => wanted.remove(row).is_some_and(|known| Some(known) == value),
            };
            if !good {
                return Err(format!("line {} is not what summary.json has", index + 1));
            }
        }
        match wanted.len() {
            0 if csv.ends_with('\n') => Ok(()),
            missing => Err(format!("{missing} of {total} samples are missing")),
        }
    }
}

/// Whether `name` can be one.
fn named(name: &str) -> Result<(), String> {
    let good = |c: char| !is_obeyed(c) && c != ',';
    if (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(good) {
        return Ok(());
    }
    let name: String = name.escape_debug().take(80).collect();
    Err(format!("`{name}` is no name"))
}

/// One metric of one variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricSummary {
    /// `ns` or `count`.
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

/// What the oracle says over all repeats.
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
