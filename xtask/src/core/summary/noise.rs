// SPDX-License-Identifier: MIT OR Apache-2.0
//! What makes figures by the wall clock doubtful, and how far the host can be trusted.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::ScenarioSummary;
use crate::core::{
    boot::TrialResult,
    metric::{Kind, Unit},
    plan::{Role, Trial},
    samples,
    scenario::{Clock, Scenario},
    stats::{
        drift::drift,
        noise::{Noise, noise},
        outliers::outliers,
        verdict::Limits,
    },
};

/// What boots of one and the same thing (A/A) show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseSummary {
    /// The variant that was booted.
    pub variant: String,
    /// How many of its boots completed.
    pub boots: usize,
    /// By metric; devices are left out.
    pub metrics: BTreeMap<String, Noise>,
}

impl NoiseSummary {
    /// From the boots of the same among `rest`; `None` where there were none.
    pub(super) fn of(
        scenario: &Scenario,
        measured: &[Trial],
        rest: &[Trial],
        results: &BTreeMap<String, TrialResult>,
    ) -> Option<Self> {
        let same = rest
            .iter()
            .filter(|t| t.role == Role::Same && t.scenario.name == scenario.name);
        let found: Vec<_> = same
            .filter_map(|t| Some((t.variant().name.clone(), results.get(&t.id)?)))
            .filter(|(_, result)| result.times.is_some())
            .collect();
        let variant = found.first()?.0.clone();
        let own = measured.iter().filter(|t| t.scenario.name == scenario.name);
        let repeats = own.map(|t| t.repeat as usize + 1).max()?;
        let mut values: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (_, result) in &found {
            for sample in samples::of(scenario, result) {
                if sample.unit == Unit::Ns && Kind::of(&sample.metric) == Kind::Metric {
                    values.entry(sample.metric).or_default().push(sample.value);
                }
            }
        }
        let limits = Limits::by(Clock::Wall);
        let metrics = values.into_iter();
        let metrics = metrics.filter_map(|(m, v)| Some((m, noise(&v, repeats, &limits)?)));
        Some(Self {
            variant,
            boots: found.len(),
            metrics: metrics.collect(),
        })
    }
}

/// What makes figures doubtful; its text says what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Warning {
    /// Boots far from all others.
    Outliers {
        /// Of this variant.
        variant: String,
        /// In this metric.
        metric: String,
        /// Their repeats.
        repeats: Vec<usize>,
    },
    /// Boots that take longer and longer, or shorter and shorter.
    Drift {
        /// Of this variant.
        variant: String,
        /// In this metric.
        metric: String,
        /// From the first to the last, as a part.
        part: f64,
    },
    /// Others used the host.
    BusyHost {
        /// Load average when the run began.
        load: f64,
        /// CPUs of the host.
        cpus: u64,
    },
    /// Small changes cannot be seen here.
    Coarse {
        /// In this metric.
        metric: String,
        /// The smallest change that is found, as a part; `None`: none.
        smallest: Option<f64>,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outliers {
                variant,
                metric,
                repeats,
            } => write!(
                f,
                "{variant}.{metric}: repeat {} far from the others: look at its console, stop what else runs on this host, or measure more --repeats",
                repeats
                    .iter()
                    .map(usize::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            Self::Drift {
                variant,
                metric,
                part,
            } => write!(
                f,
                "{variant}.{metric} drifts by {:+.1} % from the first boot to the last: let the host cool down, fix its clock frequency, stop what else runs, and measure again",
                part * 100.0
            ),
            Self::BusyHost { load, cpus } => write!(
                f,
                "the host was busy when the run began (load {load:.1} on {cpus} CPUs): stop what else runs there, or use virtual time, which does not mind"
            ),
            Self::Coarse {
                metric,
                smallest: Some(part),
            } => write!(
                f,
                "{metric}: a change below {:.1} % is not seen on this host with so few boots: more --repeats, or a quieter host",
                part * 100.0
            ),
            Self::Coarse {
                metric,
                smallest: None,
            } => write!(
                f,
                "{metric}: no change at all is seen on this host with so few boots: more --repeats, or virtual time"
            ),
        }
    }
}

/// A host with more to do than this part of its CPUs is busy.
const BUSY: f64 = 0.5;
/// Whoever cannot see this change is told so.
const COARSE: f64 = 0.05;

impl ScenarioSummary {
    /// With what makes its figures by the wall clock doubtful. `host` is the fingerprint.
    pub(super) fn with_warnings(mut self, host: &serde_json::Value) -> Self {
        if self.variants.iter().all(|v| v.clock != Clock::Wall) {
            return self;
        }
        let load = host.get("load").and_then(serde_json::Value::as_f64);
        let cpus = host.get("cpus").and_then(serde_json::Value::as_u64);
        if let (Some(load), Some(cpus)) = (load, cpus)
            && load > BUSY * cpus as f64
        {
            self.warnings.push(Warning::BusyHost { load, cpus });
        }
        for (metric, noise) in self.noise.iter().flat_map(|n| &n.metrics) {
            if noise.smallest.is_none_or(|s| s > COARSE) {
                self.warnings.push(Warning::Coarse {
                    metric: metric.clone(),
                    smallest: noise.smallest,
                });
            }
        }
        let mut found = Vec::new();
        for variant in &self.variants {
            let main = variant.metrics.iter();
            for (metric, measured) in
                main.filter(|(m, v)| v.unit == Unit::Ns && Kind::of(m) == Kind::Metric)
            {
                let repeats = outliers(&measured.samples);
                let (variant, metric) = (variant.name.clone(), metric.clone());
                if let Some(drift) = drift(&measured.samples) {
                    found.push(Warning::Drift {
                        variant,
                        metric,
                        part: drift.change,
                    });
                } else if !repeats.is_empty() {
                    found.push(Warning::Outliers {
                        variant,
                        metric,
                        repeats,
                    });
                }
            }
        }
        self.warnings.extend(found);
        self
    }
}
