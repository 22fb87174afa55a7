// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run's metrics as bars for a terminal: one line a variant, the ideal's part of it full,
//! what goes beyond it light.

use std::fmt::Write;

use super::{
    metric::{Kind, Unit},
    summary::{MetricSummary, ScenarioSummary, Summary},
    units::Nanos,
};

/// Room for a variant's name, at most.
const LONGEST_NAME: usize = 32;
/// Room for a value: ` 139.3 ms`.
const VALUE: usize = 12;

/// Bars of all metrics, at most `width` columns wide.
pub fn bars(summary: &Summary, width: usize, colour: bool) -> String {
    let mut out = String::new();
    for scenario in &summary.scenarios {
        for metric in metrics(scenario) {
            let _ = writeln!(out, "{}: {metric}", scenario.name);
            one(&mut out, scenario, metric, width, colour);
            out.push('\n');
        }
    }
    out
}

/// The metrics that any variant has, in alphabetical order.
fn metrics(scenario: &ScenarioSummary) -> Vec<&str> {
    let all = scenario.variants.iter().flat_map(|v| &v.metrics);
    let main = all.filter(|(name, m)| Kind::of(name) == Kind::Metric && m.unit == Unit::Ns);
    let mut names: Vec<&str> = main.map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn one(out: &mut String, scenario: &ScenarioSummary, metric: &str, width: usize, colour: bool) {
    let measured = |v: &super::summary::VariantSummary| v.metrics.get(metric).cloned();
    let names = scenario.variants.iter().map(|v| v.name.chars().count());
    let name_room = names.max().unwrap_or(0).min(LONGEST_NAME);
    let room = width.saturating_sub(name_room + VALUE + 3).max(8);
    let longest = scenario.variants.iter().filter_map(measured);
    let longest = longest.map(|m| m.median).max().unwrap_or(0).max(1);
    for variant in &scenario.variants {
        let name: String = variant.name.chars().take(name_room).collect();
        let _ = match measured(variant).filter(|_| variant.completed()) {
            None => writeln!(out, "  {name:name_room$} {}", variant.outcome_text()),
            Some(m) => {
                let (full, light) = lengths(&m, longest, room);
                let (on, off) = if colour {
                    ("\u{1b}[32m", "\u{1b}[0m")
                } else {
                    ("", "")
                };
                writeln!(
                    out,
                    "  {name:name_room$} {on}{}{off}{} {}",
                    "\u{2588}".repeat(full),
                    "\u{2591}".repeat(light),
                    Nanos(m.median)
                )
            }
        };
    }
}

/// How many columns are full, and how many light. What is not nothing is seen.
fn lengths(m: &MetricSummary, longest: u64, room: usize) -> (usize, usize) {
    let columns = |ns: u64| (ns as f64 / longest as f64 * room as f64).round() as usize;
    let all = columns(m.median).max(usize::from(m.median > 0));
    let full = m.ideal.map_or(all, |i| columns(i.min(m.median)));
    (full, all - full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No bar is longer than its room, and a longer time has no shorter bar.
        #[test]
        fn bars_fit(a in 1..u64::MAX / 2, b in 1..u64::MAX / 2, part in 0.0..1.5f64, room in 8..200usize) {
            let metric = |median: u64| MetricSummary {
                unit: Unit::Ns,
                samples: vec![median],
                median,
                ideal: Some((median as f64 * part) as u64),
                bound: None,
                efficiency: None,
            };
            let longest = a.max(b);
            let length = |ns| {
                let (full, light) = lengths(&metric(ns), longest, room);
                full + light
            };
            prop_assert_eq!(length(longest), room);
            prop_assert!(length(a.min(b)) >= 1 && length(a.min(b)) <= room);
        }
    }
}
