// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the figures of a sweep grow, as text: one section for all its sizes.

use std::fmt::Write;

use super::{Grid, expectation_table, failures, noise, or_dash, oracle, table, walk};
use crate::core::{
    growth::{Fit, Growth},
    scenario::{Memory, Over, Scenario},
    summary::{ScenarioSummary, Summary},
    units::Nanos,
};

/// The sections of all sweeps of `summary`, which was made from `scenarios`.
pub(super) fn sections(out: &mut String, summary: &Summary, scenarios: &[&Scenario]) {
    for sweep in sweeps(summary) {
        let first = sweep.parts.first().map(|part| part.name.as_str());
        let scenario = scenarios.iter().find(|s| Some(s.name.as_str()) == first);
        section(out, &sweep, scenario.and_then(|s| s.memory), scenarios);
    }
}

/// A sweep as it is shown.
pub(super) struct Grown<'a> {
    /// The scenario.
    pub name: &'a str,
    /// What there is more of.
    pub over: Over,
    /// Its sizes.
    pub parts: Vec<&'a ScenarioSummary>,
    /// By metric, in the order of the growths: how each variant grows.
    pub metrics: Vec<(&'a str, Vec<&'a Growth>)>,
}

/// Whether `part` is shown for itself: it is of no sweep, or the only size of one that was booted.
pub(super) fn is_alone(summary: &Summary, part: &ScenarioSummary) -> bool {
    part.point.as_ref().is_none_or(|point| {
        let points = summary.scenarios.iter().filter_map(|s| s.point.as_ref());
        points.filter(|p| p.of == point.of).count() < 2
    })
}

/// The sweeps of `summary` of which there is more than one size, in the plan's order.
pub(super) fn sweeps(summary: &Summary) -> Vec<Grown<'_>> {
    let mut names: Vec<&str> = Vec::new();
    let sizes = summary.scenarios.iter().filter(|s| !is_alone(summary, s));
    for point in sizes.filter_map(|s| s.point.as_ref()) {
        if !names.contains(&point.of.as_str()) {
            names.push(&point.of);
        }
    }
    names
        .into_iter()
        .filter_map(|n| sweep(summary, n))
        .collect()
}

fn sweep<'a>(summary: &'a Summary, name: &'a str) -> Option<Grown<'a>> {
    let of = |part: &&ScenarioSummary| part.point.as_ref().is_some_and(|p| p.of == name);
    let parts: Vec<_> = summary.scenarios.iter().filter(of).collect();
    let over = parts.first()?.point.as_ref()?.over;
    let mut metrics: Vec<(&str, Vec<&Growth>)> = Vec::new();
    for growth in summary.growth.iter().filter(|g| g.scenario == name) {
        match metrics.iter_mut().find(|(m, _)| *m == growth.metric) {
            Some((_, all)) => all.push(growth),
            None => metrics.push((&growth.metric, vec![growth])),
        }
    }
    metrics.retain(|(_, all)| all.iter().any(|g| !g.points.is_empty()));
    Some(Grown {
        name,
        over,
        parts,
        metrics,
    })
}

fn section(out: &mut String, sweep: &Grown, memory: Option<Memory>, scenarios: &[&Scenario]) {
    let Grown {
        name, over, parts, ..
    } = sweep;
    let _ = writeln!(out, "## {name}: growth over {over}\n");
    if let Some(memory) = memory {
        let _ = writeln!(out, "Memory blocks: {}.\n", memory.how);
    }
    for (metric, of) in &sweep.metrics {
        let _ = writeln!(out, "### {metric}\n\n{}\n", figures(parts, *over, of));
    }
    for (what, grid) in walk::by_threads(sweep, scenarios) {
        let _ = writeln!(out, "### {what}\n\n{grid}\n");
    }
    if let Some(note) = parts
        .first()
        .and_then(|part| walk::sweep_note(part, scenarios))
    {
        let _ = writeln!(out, "{note}\n");
    }
    for part in parts {
        noise::noise(out, part);
        failures(out, part);
        if !part.expectations.is_empty() {
            let table = expectation_table(part);
            let _ = writeln!(out, "### expectations of {}\n\n{table}\n", part.name);
        }
    }
    oracle(out, parts);
}

/// A row a variant, a column a size.
pub(super) fn figures(parts: &[&ScenarioSummary], over: Over, of: &[&Growth]) -> Grid {
    let sizes: Vec<u64> = parts
        .iter()
        .filter_map(|p| Some(p.point.as_ref()?.value))
        .collect();
    let limited = of.iter().any(|g| g.at_most.is_some());
    let mut header = vec![over.to_string()];
    header.extend(sizes.iter().map(|s| size(over, *s)));
    header.extend(["exponent", "95 % interval", "at the end"].map(String::from));
    header.extend(limited.then(|| "at most".into()));
    let rows = of.iter().map(|growth| {
        let figure = |size: &u64| {
            growth
                .points
                .iter()
                .find(|p| p.0 == *size)
                .map(|p| Nanos(p.1))
        };
        let mut row = vec![growth.variant.clone()];
        row.extend(sizes.iter().map(|size| or_dash(figure(size))));
        row.extend(exponent(growth.fit));
        if limited {
            row.push(limit(growth));
        }
        row
    });
    let rows = rows.collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    table(&header, rows)
}

/// An amount of what grows.
pub(super) fn size(over: Over, value: u64) -> String {
    match over {
        Over::Delay => Nanos(value).to_string(),
        Over::Devices | Over::Cpus | Over::Blocks | Over::Threads => value.to_string(),
    }
}

fn exponent(fit: Option<Fit>) -> [String; 3] {
    let interval = fit.and_then(|f| f.interval);
    [
        or_dash(fit.map(|f| format!("{:.2}", f.exponent))),
        or_dash(interval.map(|(low, high)| format!("{low:.2} to {high:.2}"))),
        or_dash(fit.map(|f| format!("{:.2}", f.last))),
    ]
}

fn limit(growth: &Growth) -> String {
    let Some(most) = growth.at_most else {
        return "-".into();
    };
    let verdict = match growth.ok {
        Some(true) => "ok",
        Some(false) => "MISSED",
        None => "no value",
    };
    format!("{most}: {verdict}")
}
