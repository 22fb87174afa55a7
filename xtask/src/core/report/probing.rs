// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the report says of probing: who probes and how long that takes, the layout of the
//! report of 2014, what became of devices, and which names they got.

use std::{collections::BTreeMap, fmt::Write};

use super::{Grid, ideal_cells, or_dash, table, theirs};
use crate::core::{
    metric::PROBE_TASKS,
    scenario::{Metric, Scenario, Strategy, Variant, group},
    summary::{ScenarioSummary, VariantSummary},
    units::Nanos,
};

/// The metrics that stand in one table, because they are taken for one another.
const TOGETHER: [Metric; 4] = [Metric::Load, Metric::Probe, Metric::Bound, Metric::Ready];

/// Whether `metric` is in the table of [`tables`] and needs none of its own.
pub(super) fn covers(scenario: &Scenario, metric: Metric) -> bool {
    scenario.metrics.contains(&Metric::Bound) && TOGETHER.contains(&metric)
}

/// The tables.
pub(super) fn tables(out: &mut String, scenario: &Scenario, part: &ScenarioSummary) {
    if covers(scenario, Metric::Bound) {
        let _ = writeln!(out, "### probing\n\n{}\n", probing(scenario, part));
        let _ = writeln!(
            out,
            "load: until whoever loads the driver goes on; attach: until its registration \
             returns; bound: from the attach to the last device.\n"
        );
    }
    if let Some(table) = layout_of_2014(scenario, part) {
        let _ = writeln!(out, "### probing, both cards and one\n\n{table}\n");
    }
    if let Some(note) = scenario.reference.as_ref().and_then(|r| r.note.as_ref()) {
        let _ = writeln!(out, "theirs: {note}\n");
    }
    if part.variants.iter().any(|v| !v.became.is_empty()) {
        let _ = writeln!(out, "### what became of devices\n\n{}\n", became(part));
    }
}

/// The same tables, each with what it is of.
pub(super) fn grids(scenario: &Scenario, part: &ScenarioSummary) -> Vec<(&'static str, Grid)> {
    let any = part.variants.iter().any(|v| !v.became.is_empty());
    let own = covers(scenario, Metric::Bound).then(|| ("Probing", probing(scenario, part)));
    let old = layout_of_2014(scenario, part).map(|t| ("Probing, both cards and one", t));
    let lost = any.then(|| ("What became of devices", became(part)));
    [own, old, lost].into_iter().flatten().collect()
}

/// What is no time and not wrong.
pub(super) fn findings(out: &mut String, part: &ScenarioSummary) {
    for finding in &part.findings {
        let _ = writeln!(out, "finding: {finding}\n");
    }
    let named = part.variants.iter().filter(|v| !v.names.is_empty()).count();
    if part.findings.is_empty() && named > 1 {
        let _ = writeln!(
            out,
            "names of devices: the same in all {named} variants that give names\n"
        );
    }
}

fn median(variant: &VariantSummary, metric: &str) -> Option<Nanos> {
    Some(Nanos(variant.metrics.get(metric)?.median))
}

fn variant<'s>(scenario: &'s Scenario, name: &str) -> Option<&'s Variant> {
    scenario.variants.iter().find(|v| v.name == name)
}

fn probing(scenario: &Scenario, part: &ScenarioSummary) -> Grid {
    let metrics: Vec<Metric> = TOGETHER
        .into_iter()
        .filter(|m| scenario.metrics.contains(m))
        .collect();
    let published = |m: Metric| {
        let mut all = part.variants.iter();
        all.any(|v| theirs(scenario, &v.name, m).is_some())
    };
    let mut header = vec!["variant", "probed by"];
    for metric in &metrics {
        header.extend(published(*metric).then_some("theirs"));
        header.push(match metric {
            Metric::Probe => "attach",
            other => other.name(),
        });
    }
    header.extend(["ideal", "efficiency", "bound by", "tasks"]);
    let rows = part.variants.iter().map(|summary| {
        let strategy = variant(scenario, &summary.name).map(|v| v.probing.strategy.name());
        let mut row = vec![summary.name.clone(), or_dash(strategy)];
        for metric in &metrics {
            if published(*metric) {
                row.push(or_dash(theirs(scenario, &summary.name, *metric)));
            }
            row.push(or_dash(median(summary, metric.name())));
        }
        row.extend(ideal_cells(summary.metrics.get(Metric::Bound.name())));
        row.push(or_dash(summary.metrics.get(PROBE_TASKS).map(|t| t.median)));
        row
    });
    table(&header, rows.collect())
}

/// A variant for each of the layout's columns.
#[derive(Default)]
struct Cells<'p> {
    with: Option<&'p VariantSummary>,
    without: Option<&'p VariantSummary>,
}

/// Strategies against firmware or none: all cards, and one of them on the average, as that
/// report has it. `None` where the scenario does not compare these.
fn layout_of_2014(scenario: &Scenario, part: &ScenarioSummary) -> Option<Grid> {
    let mut rows: Vec<(Strategy, Cells<'_>)> = Vec::new();
    for summary in &part.variants {
        let variant = variant(scenario, &summary.name)?;
        let profiles = (0..scenario.devices.len()).map(|d| scenario.profile(variant, d));
        let mut profiles = profiles.flatten();
        let strategy = variant.probing.strategy;
        let place = rows.iter().position(|r| r.0 == strategy);
        let place = place.unwrap_or_else(|| {
            rows.push((strategy, Cells::default()));
            rows.len() - 1
        });
        let cells = &mut rows[place].1;
        let slot = match profiles.any(|p| p.firmware.is_some()) {
            true => &mut cells.with,
            false => &mut cells.without,
        };
        // Variants that differ in something else do not fit the layout.
        if slot.replace(summary).is_some() {
            return None;
        }
    }
    if rows
        .iter()
        .any(|r| r.1.with.is_none() || r.1.without.is_none())
    {
        return None;
    }
    let cards = scenario.devices.iter().filter(|d| d.profile.is_some());
    let cards = cards.count().max(1) as u64;
    let header = [
        "probed by",
        "with firmware: theirs",
        "ours",
        "without: theirs",
        "ours",
        "one card, with: theirs",
        "ours",
        "one card, without: theirs",
        "ours",
    ];
    let rows = rows.iter().map(|(strategy, cells)| {
        let mut row = vec![strategy.name().to_owned()];
        for share in [1, cards] {
            for summary in [cells.with, cells.without].into_iter().flatten() {
                let part = |time: Nanos| Nanos(time.0 / share);
                row.push(or_dash(
                    theirs(scenario, &summary.name, Metric::Probe).map(part),
                ));
                row.push(or_dash(median(summary, Metric::Probe.name()).map(part)));
            }
        }
        row
    });
    Some(table(&header, rows.collect()))
}

/// Devices of a group that came to the same end stand in one line.
fn became(part: &ScenarioSummary) -> Grid {
    let mut rows = Vec::new();
    for variant in &part.variants {
        let mut lines: Vec<(&str, &str, Vec<&str>)> = Vec::new();
        let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for one in &variant.became {
            let key = (group(&one.device), one.became.as_str());
            let place = *places.entry(key).or_insert(lines.len());
            if place == lines.len() {
                lines.push((key.0, key.1, vec![]));
            }
            lines[place].2.push(&one.device);
        }
        rows.extend(lines.into_iter().map(|(group, became, devices)| {
            let device = match devices[..] {
                [one] => one.to_owned(),
                _ => group.to_owned(),
            };
            vec![
                variant.name.clone(),
                device,
                devices.len().to_string(),
                became.to_owned(),
            ]
        }));
    }
    table(&["variant", "device", "count", "became"], rows)
}
