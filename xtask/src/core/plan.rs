// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns scenarios into the list of boots to make.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    scenario::{Clock, MOST_OPTIONS, Memory, Scenario, Strategy, Variant, is_foreign},
    units::Nanos,
};

/// A kernel that the edges must provide; equal specs are one artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KernelSpec {
    /// Key in images/kernels/sources.yaml.
    pub source: String,
    /// Series under images/kernels/patches/, if patched.
    pub series: Option<String>,
    /// Only the first so many patches of the series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patches: Option<u32>,
    /// Of the series not this patch, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<u32>,
    /// Lines of configuration on top of all fragments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// With memory in sections, and so in blocks, of 4 MiB (series `small-sections`, below any
    /// other).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub small_sections: bool,
    /// Taking memory that is plugged in while it runs
    /// (images/kernels/fragments/memory-hotplug.config).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub memory_hotplug: bool,
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
    /// With what systemd needs (images/kernels/fragments/systemd.config).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub systemd: bool,
    /// With the guest's modules as parts of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub built_in: bool,
}

impl KernelSpec {
    /// What it is called where runs are compared: a series that came with `--series` is what is
    /// compared, whatever its name and contents.
    pub fn role(&self) -> String {
        let foreign = self.series.as_ref().filter(|s| is_foreign(s));
        let series = match foreign {
            Some(_) => Some("under test".to_owned()),
            None => self.series.clone(),
        };
        Self {
            series,
            ..self.clone()
        }
        .to_string()
    }
}

impl fmt::Display for KernelSpec {
    /// `6.1`, `6.1+parallel-shutdown`, `6.1+parallel-shutdown+debug`, `6.1+hz-1000`,
    /// `6.1+SLOB=y`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        f.write_str(if self.small_sections {
            "+small-sections"
        } else {
            ""
        })?;
        self.series
            .iter()
            .try_for_each(|series| write!(f, "+{series}"))?;
        self.patches
            .iter()
            .try_for_each(|patches| write!(f, "-{patches}"))?;
        self.without
            .iter()
            .try_for_each(|patch| write!(f, "+without-{patch}"))?;
        match self.options.len() {
            0..=MOST_OPTIONS => self
                .options
                .iter()
                .try_for_each(|option| write!(f, "+{}", option.trim_start_matches("CONFIG_")))?,
            // A search over them adds one to the other.
            many => write!(f, "+options-{many}")?,
        }
        self.hz.iter().try_for_each(|hz| write!(f, "+hz-{hz}"))?;
        for (said, what) in [
            (self.firmware_fallback, "+firmware-fallback"),
            (self.memory_hotplug, "+memory-hotplug"),
            (self.systemd, "+systemd"),
            (self.built_in, "+built-in"),
            (self.debug, "+debug"),
        ] {
            f.write_str(if said { what } else { "" })?;
        }
        Ok(())
    }
}

/// The longest tick that a kernel has, HZ=100, in ns.
const LONGEST_TICK: u64 = 10_000_000;
/// The golden ratio's part of it.
const PHASE_STEP: u64 = 6_180_340;

/// How many times as long a kernel that checks itself may take: it needs some ten times the
/// instructions, and most limits leave that much room already.
const DEBUG_PATIENCE: u64 = 4;

/// What a boot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Its samples count.
    Measured,
    /// It fills the host's caches, and does not count.
    WarmUp,
    /// One of many of the same thing (A/A), which show how far apart such boots are.
    Same,
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
    /// What it is for.
    pub role: Role,
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
        let times = if self.kernel.debug { DEBUG_PATIENCE } else { 1 };
        Nanos(self.scenario.timeout.0 * times)
    }
    /// How long PID 1 waits before it has the driver attach, and again before it restarts:
    /// ns. In virtual time each repeat after the first has a phase of its own against the
    /// timer's ticks, which all variants share; the first has none. The multiples of the
    /// golden ratio are spread evenly over any tick, however many there are (Weyl 1916).
    pub fn phase(&self) -> u64 {
        match self.clock {
            Clock::Virtual => u64::from(self.repeat) * PHASE_STEP % LONGEST_TICK,
            Clock::Wall => 0,
        }
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
                    patches: scenario.variants[variant].patches,
                    without: None,
                    options: scenario.variants[variant].options.clone(),
                    small_sections: scenario.memory.is_some_and(Memory::small_sections),
                    memory_hotplug: scenario.memory.is_some_and(|m| m.hotplug().is_some()),
                    debug: overrides.debug,
                    hz: probing.hz,
                    firmware_fallback: probing.firmware_fallback,
                    systemd: scenario.variants[variant].systemd.is_some(),
                    built_in: probing.strategy == Strategy::BuiltIn,
                };
                trials.push(Trial {
                    id,
                    index: trials.len(),
                    scenario: scenario.clone(),
                    variant,
                    repeat,
                    role: Role::Measured,
                    clock,
                    kernel,
                });
            }
        }
    }
    trials
}

/// Fewer boots a variant can show no significant change, so that there is nothing to know
/// about their noise.
const FEWEST_FOR_SAME: u32 = 5;
/// Boots of the same that are enough, however many are measured.
const MOST_SAME: u32 = 20;

/// The boots of a run of `scenarios`, with those of the same thing (A/A) where `same` is wanted
/// and wall time needs them.
pub fn whole(scenarios: &[Arc<Scenario>], overrides: Overrides, same: bool) -> Vec<Trial> {
    let plan = plan(scenarios, overrides);
    if same { with_same(plan) } else { plan }
}

/// The plan with what wall time needs first: a boot that does not count, and, where there is
/// enough to be measured, twice as many boots of the first variant as each variant has, that
/// show what this host can see.
pub fn with_same(plan: Vec<Trial>) -> Vec<Trial> {
    let mut out: Vec<Trial> = Vec::new();
    for part in plan.chunk_by(|a, b| a.scenario.name == b.scenario.name) {
        let first = &part[0];
        let repeats = part.iter().map(|t| t.repeat + 1).max().unwrap_or(0);
        if first.clock == Clock::Wall && repeats >= FEWEST_FOR_SAME {
            let more = |role, name: String, repeat| Trial {
                id: format!("{}/{}/{name}", first.scenario.name, first.variant().name),
                role,
                repeat,
                ..first.clone()
            };
            out.push(more(Role::WarmUp, "warm-up".into(), 0));
            let same = (2 * repeats).min(MOST_SAME);
            out.extend((0..same).map(|n| more(Role::Same, format!("same-{n}"), n)));
        }
        out.extend_from_slice(part);
    }
    for (index, trial) in out.iter_mut().enumerate() {
        trial.index = index;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However few the phases, no gap between neighbours within a tick is much longer than an
    /// even spread would leave.
    #[test]
    fn phases_fill_every_tick() {
        for tick in [1_000_000, 4_000_000, 10_000_000] {
            for count in [5, 10, 50] {
                let mut phases: Vec<u64> = (0..count)
                    .map(|n| n * PHASE_STEP % LONGEST_TICK % tick)
                    .collect();
                phases.sort_unstable();
                phases.push(phases[0] + tick);
                let gap = phases.windows(2).map(|w| w[1] - w[0]).max().unwrap();
                assert!(gap * count < 3 * tick, "{count} in {tick}: {phases:?}");
            }
        }
    }
}
