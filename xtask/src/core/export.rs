// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run in the forms that other tools read. Each is written after the tool's own schema or
//! reader, and tested with it where it can be had (docs/method.md, xtask/tests/export.rs). A failed boot is a failure, or
//! absent where a form knows only numbers; it is never a number.

use std::fmt;

use super::{
    metric::{Kind, Unit},
    stats::bootstrap,
    summary::{MetricSummary, ScenarioSummary, Summary, VariantSummary},
};

mod csv;
mod junit;
mod kcidb;
mod metrics;

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Format {
    /// JUnit XML: CI systems.
    Junit,
    /// The JSON of hyperfine's --export-json: its scripts, and whatever reads that.
    Hyperfine,
    /// KCIDB's submission format, version 5.3.
    Kcidb,
    /// One line a metric, with a header.
    Csv,
    /// customSmallerIsBetter of github-action-benchmark.
    GithubActionBenchmark,
    /// Bencher Metric Format.
    Bencher,
    /// Prometheus's text format: node_exporter's textfile collector.
    Prometheus,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = clap::ValueEnum::to_possible_value(self);
        f.write_str(value.as_ref().map_or("", |v| v.get_name()))
    }
}

impl Format {
    /// What of a run has no place in the form, with the reason: what did not complete, where
    /// a form knows only numbers.
    pub fn leaves_out(self, summary: &Summary) -> Vec<String> {
        match self {
            Self::Junit | Self::Kcidb | Self::Csv | Self::Prometheus => return Vec::new(),
            Self::Hyperfine | Self::GithubActionBenchmark | Self::Bencher => {}
        }
        let all = summary.scenarios.iter();
        let variants = all.flat_map(|s| s.variants.iter().map(move |v| (&s.name, v)));
        let missing = variants.filter(|(_, v)| !v.completed());
        missing
            .map(|(scenario, v)| format!("{scenario}/{}: {}", v.name, v.outcome_text()))
            .collect()
    }
}

/// A run, for exporting.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What was measured.
    pub summary: &'a Summary,
    /// When it was begun: RFC 3339.
    pub begun: &'a str,
    /// The kernels booted.
    pub kernels: &'a [Kernel],
    /// KCIDB: who submits; `[a-z0-9_]+`.
    pub origin: &'a str,
}

/// A kernel that was booted.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// As asked for: `6.1+parallel-shutdown`.
    pub name: String,
    /// Its source with the exact version.
    pub source: String,
    /// Its artifact's key.
    pub key: String,
    /// Its compiler.
    pub compiler: String,
    /// `scenario/variant` of what booted it.
    pub booted: Vec<String>,
}

/// The run in `format`.
///
/// # Errors
/// When the format's own writer refuses it.
pub fn export(run: &Run, format: Format) -> Result<String, String> {
    Ok(match format {
        Format::Junit => junit::write(run)?,
        Format::Hyperfine => json(&metrics::hyperfine(run)),
        Format::Kcidb => json(&kcidb::report(run)),
        Format::Csv => csv::write(run),
        Format::GithubActionBenchmark => json(&metrics::github_action_benchmark(run)),
        Format::Bencher => json(&metrics::bencher(run)),
        Format::Prometheus => metrics::prometheus(run),
    })
}

fn json(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

/// A metric of a variant that completed.
struct Measured<'a> {
    scenario: &'a ScenarioSummary,
    variant: &'a VariantSummary,
    name: &'a str,
    metric: &'a MetricSummary,
}

impl Measured<'_> {
    /// `shutdown-2018/serial/device_shutdown`.
    fn path(&self) -> String {
        format!("{}/{}/{}", self.scenario.name, self.variant.name, self.name)
    }
    /// Where the median lies; the median itself with one sample.
    fn interval(&self) -> [f64; 2] {
        let median = self.metric.median as f64;
        bootstrap::of_median(&self.metric.samples).unwrap_or([median; 2])
    }
}

/// The times of all variants that completed; devices are left out: there may be thousands.
fn times<'a>(run: &Run<'a>) -> impl Iterator<Item = Measured<'a>> {
    all(run).filter(|m| m.metric.unit == Unit::Ns && !is_device(m.name))
}

/// All metrics of all variants that completed.
fn all<'a>(run: &Run<'a>) -> impl Iterator<Item = Measured<'a>> {
    run.summary.scenarios.iter().flat_map(|scenario| {
        let completed = scenario.variants.iter().filter(|v| v.completed());
        completed.flat_map(move |variant| {
            variant.metrics.iter().map(move |(name, metric)| Measured {
                scenario,
                variant,
                name,
                metric,
            })
        })
    })
}

fn is_device(metric: &str) -> bool {
    Kind::of(metric) == Kind::Device
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
