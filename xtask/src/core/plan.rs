// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns scenarios into the list of boots to make.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    scenario::{Clock, Scenario, Strategy, Variant},
    units::Nanos,
};

/// A kernel that the edges must provide; equal specs are one artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KernelSpec {
    /// Key in images/kernels/sources.yaml.
    pub source: String,
    /// Series under images/kernels/patches/, if patched.
    pub series: Option<String>,
    /// With the kernel's own checks built in (images/kernels/fragments/debug.config): to be
    /// judged, never measured.
    #[serde(default)]
    pub debug: bool,
    /// Its tick rate (images/kernels/fragments/hz-*.config); `None`: the source's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hz: Option<u32>,
    /// Asking user space for firmware (images/kernels/fragments/firmware-fallback.config).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub firmware_fallback: bool,
    /// With the guest's modules as parts of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub built_in: bool,
}

impl fmt::Display for KernelSpec {
    /// `6.1`, `6.1+parallel-shutdown`, `6.1+parallel-shutdown+debug`, `6.1+hz-1000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        self.series
            .iter()
            .try_for_each(|series| write!(f, "+{series}"))?;
        self.hz.iter().try_for_each(|hz| write!(f, "+hz-{hz}"))?;
        for (said, what) in [
            (self.firmware_fallback, "+firmware-fallback"),
            (self.built_in, "+built-in"),
            (self.debug, "+debug"),
        ] {
            f.write_str(if said { what } else { "" })?;
        }
        Ok(())
    }
}

/// One planned boot of one variant.
#[derive(Clone, Debug)]
pub struct Trial {
    /// `<scenario>/<variant>/<repeat>`; unique in the plan; also names its console log.
    pub id: String,
    /// Position in the plan: results are written in this order.
    pub index: usize,
    /// The scenario it belongs to.
    pub scenario: Arc<Scenario>,
    /// Index into the scenario's variants.
    pub variant: usize,
    /// 0-based.
    pub repeat: u32,
    /// The clock in force.
    pub clock: Clock,
    /// Which kernel to boot.
    pub kernel: KernelSpec,
}

impl Trial {
    /// The variant booted.
    pub fn variant(&self) -> &Variant {
        &self.scenario.variants[self.variant]
    }
    /// Its id as the stem of files' names: no two trials of a plan share one, since no name
    /// has a `+`.
    pub fn file_stem(&self) -> String {
        file_stem(&self.id)
    }
    /// Whether the machine ends where its devices are probed.
    pub fn ends_when_probed(&self) -> bool {
        self.scenario.ends_when_probed(self.variant())
    }
    /// Whether the machine goes on to a second PID 1.
    pub fn boots_again(&self) -> bool {
        self.scenario.boots_again(self.variant())
    }
    /// Host time after which the guest counts as hung.
    pub fn timeout(&self) -> Nanos {
        self.scenario.timeout
    }
    /// Seed of everything random in the machine: the same for all variants of a repeat.
    pub fn seed(&self) -> u64 {
        u64::from(self.repeat) + 1
    }
}

/// The id of a trial as the stem of files' names.
pub fn file_stem(id: &str) -> String {
    id.replace('/', "+")
}

/// What the command line changes about every scenario of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overrides {
    /// Instead of the scenario's clock.
    pub clock: Option<Clock>,
    /// Instead of the scenario's number of repeats.
    pub repeats: Option<u32>,
    /// Kernels with their own checks built in.
    pub debug: bool,
}

/// The boots of `scenarios`, scenario by scenario. Variants are interleaved: A B, then
/// B A, so that a drift of the host falls on all alike.
pub fn plan(scenarios: &[Arc<Scenario>], overrides: Overrides) -> Vec<Trial> {
    let mut trials = Vec::new();
    for scenario in scenarios {
        let clock = overrides.clock.unwrap_or(scenario.clock);
        for repeat in 0..overrides
            .repeats
            .unwrap_or_else(|| scenario.repeats_by(clock))
        {
            let mut order: Vec<usize> = (0..scenario.variants.len()).collect();
            if repeat % 2 == 1 {
                order.reverse();
            }
            for variant in order {
                let id = format!(
                    "{}/{}/{repeat}",
                    scenario.name, scenario.variants[variant].name
                );
                let probing = &scenario.variants[variant].probing;
                let kernel = KernelSpec {
                    source: scenario.kernel.clone(),
                    series: scenario.variants[variant].series.clone(),
                    debug: overrides.debug,
                    hz: probing.hz,
                    firmware_fallback: probing.firmware_fallback,
                    built_in: probing.strategy == Strategy::BuiltIn,
                };
                trials.push(Trial {
                    id,
                    index: trials.len(),
                    scenario: scenario.clone(),
                    variant,
                    repeat,
                    clock,
                    kernel,
                });
            }
        }
    }
    trials
}
