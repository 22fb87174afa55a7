// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `bisect` and `judge` are asked alike: what is booted, and what it is looked at for.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    core::{
        fault::Fault,
        nearest::hint,
        scenario::{Clock, Known, MOST_CPUS, Scenario, UnderTest},
        search::{Patience, Question, Sought, Symptom, Threshold},
    },
    edge::{
        cache::Cache,
        host::install::{Wishes, ensure},
        kernel::series,
        qemu::AccelChoice,
        scenarios,
    },
};

/// What is looked for where it is no metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shows {
    /// The oracle finds a violation.
    Violation,
    /// The guest's kernel dies.
    Panic,
    /// A deadline passes, or the kernel reports a lockup.
    Hang,
}

/// What is booted, and what it is looked at for.
#[derive(Debug, clap::Args)]
pub struct Asked {
    /// The scenario: a name in scenarios/, or a file.
    scenario: Option<String>,
    /// Which of its variants.
    #[arg(long)]
    variant: Option<String>,
    /// Look at this metric, which is worse where it is larger.
    #[arg(long, conflicts_with = "symptom")]
    metric: Option<String>,
    /// From where on the metric is too large: a time (`2.95 s`), or a part above the better end
    /// (`3 %`). Default: half-way between the ends.
    #[arg(long, value_name = "TIME|PART", requires = "metric")]
    threshold: Option<Threshold>,
    /// Look for this instead of a metric.
    #[arg(long, value_enum)]
    symptom: Option<Shows>,
    /// The clock, instead of the scenario's.
    #[arg(long, value_enum)]
    clock: Option<Clock>,
    /// What runs the guest in wall time.
    #[arg(long, value_enum, default_value = "auto")]
    pub accel: AccelChoice,
    /// Boots of each end, and, in virtual time, of each place. Default: 1, or 20 by the wall
    /// clock, where a place gets as many as it takes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,
    /// Boots in all. Default: 1000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_boots: Option<u32>,
    /// Wall time: how sure the whole search must be. Default: 0.95.
    #[arg(long, value_name = "P", value_parser = confidence)]
    confidence: Option<f64>,
    /// Put this series on every kernel instead of the scenario's: mailboxes, patches or folders.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub series: Vec<PathBuf>,
    /// The kernel (a key of images/kernels/sources.yaml), or the one whose configuration and
    /// patches a tree gets.
    #[arg(long, value_name = "KERNEL")]
    on: Option<String>,
    /// Guest CPUs, instead of the scenario's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_CPUS)))]
    cpus: Option<u32>,
    /// Where results are kept.
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Consent to installing missing packages.
    #[arg(long)]
    yes: bool,
    /// Take QEMU from the distribution's backports where its own is older than 8.1.
    #[arg(long)]
    backports: bool,
}

fn confidence(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(p) if (0.5..1.0).contains(&p) => Ok(p),
        _ => Err("how sure: from 0.5 to below 1".into()),
    }
}

fn usage(message: String) -> anyhow::Error {
    Fault::usage(message).into()
}

impl Asked {
    /// What the user calls the scenario.
    ///
    /// # Errors
    /// Usage: none is named.
    pub fn given(&self) -> Result<&str> {
        let none = || usage("name a scenario (`cargo xtask list` has them)".into());
        self.scenario.as_deref().ok_or_else(none)
    }

    /// The scenario with its one variant, and what else the command line changes.
    ///
    /// # Errors
    /// Usage: there is none, it is a sweep, it has no such variant.
    pub fn scenario(
        &self,
        root: &Path,
        known: &Known,
        cache: &Cache,
        say: &dyn Fn(&str),
    ) -> Result<Scenario> {
        let written = scenarios::load(root, self.given()?, known)?;
        let names = || written.variants.iter().map(|v| v.name.as_str());
        if let Some(sweep) = &written.sweep {
            let one = sweep.points.first().map(|p| p.name.clone());
            return Err(usage(format!(
                "scenario {} is a sweep: name one size of it{}",
                written.name,
                one.map_or(String::new(), |one| format!(", as {one}"))
            )));
        }
        let Some(variant) = &self.variant else {
            return Err(usage(format!(
                "--variant: name one of {} ({})",
                written.name,
                names().collect::<Vec<_>>().join(", ")
            )));
        };
        if let (Some(kernel), Some(kernels)) = (&self.on, &known.kernels)
            && !kernels.contains(kernel)
        {
            let hint = hint(kernel, kernels.iter().map(String::as_str));
            return Err(usage(format!("--on: unknown kernel `{kernel}`{hint}")));
        }
        let series = match self.series[..] {
            [] => None,
            _ => Some(series::import(cache, &self.series, say)?),
        };
        let under_test = UnderTest {
            kernel: self.on.clone(),
            cpus: self.cpus,
            series,
            only: vec![variant.clone()],
            ..UnderTest::default()
        };
        let mut scenario = written.put_under_test(&under_test).map_err(usage)?;
        // A search has expectations of its own.
        scenario.expect.clear();
        Ok(scenario)
    }

    /// The clock of the boots.
    pub fn clock(&self, scenario: &Scenario) -> Clock {
        self.clock.unwrap_or(scenario.clock)
    }

    /// What `scenario`'s boots are looked at for, and how surely.
    ///
    /// # Errors
    /// Usage: nothing is named, or what the scenario does not record.
    pub fn question(&self, scenario: &Scenario, sought: Sought) -> Result<Question> {
        let clock = self.clock(scenario);
        let mut patience = Patience::by(clock);
        patience.repeats = self.repeats.unwrap_or(patience.repeats);
        patience.most_boots = self.max_boots.unwrap_or(patience.most_boots);
        patience.confidence = self.confidence.unwrap_or(patience.confidence);
        Ok(Question {
            symptom: self.symptom(scenario)?,
            sought,
            clock,
            patience,
        })
    }

    fn symptom(&self, scenario: &Scenario) -> Result<Symptom> {
        let measured: Vec<_> = scenario.metrics.iter().map(|m| m.name()).collect();
        let name = match (&self.metric, self.symptom) {
            (_, Some(Shows::Violation)) => return Ok(Symptom::Violation),
            (_, Some(Shows::Panic)) => return Ok(Symptom::Panic),
            (_, Some(Shows::Hang)) => return Ok(Symptom::Hang),
            (Some(name), None) => name,
            (None, None) => {
                return Err(usage(format!(
                    "name what to look for: --metric (scenario {} records {}), or --symptom violation, panic or hang",
                    scenario.name,
                    measured.join(", ")
                )));
            }
        };
        let Some(metric) = scenario.metrics.iter().find(|m| m.name() == name) else {
            return Err(usage(format!(
                "--metric: scenario {} does not record `{}`{}",
                scenario.name,
                name.escape_debug(),
                hint(name, measured)
            )));
        };
        Ok(Symptom::Slow(
            *metric,
            self.threshold.unwrap_or(Threshold::Halfway),
        ))
    }

    /// Sees to it that everything a boot needs is here.
    ///
    /// # Errors
    /// As [`ensure`].
    pub fn ensure(&self) -> Result<()> {
        ensure(Wishes {
            yes: self.yes,
            backports: self.backports,
            ..Wishes::default()
        })
    }
}
