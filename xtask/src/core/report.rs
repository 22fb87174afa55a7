// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run's summary as text for people: Markdown tables, which read well on a terminal too.

mod growth;
mod hotplug;
mod html;
mod noise;
mod systemd;
mod timeline;
mod trace;
mod userspace;
mod view;
mod walk;

use std::{collections::BTreeMap, fmt::Write};

pub use html::html;
pub use trace::trace;
pub use view::{Made, Profiled, View};

use super::{
    grid::{Grid, table},
    ideal::Bound,
    metric::{REBOOT_PARTS, TASKS},
    scenario::{Metric, Scenario, group},
    summary::{MetricSummary, ScenarioSummary, Summary, VariantSummary},
    units::{Nanos, counted},
};

mod probing;

/// The report of a whole run. `scenarios` are those that the summary was made from.
pub fn text(summary: &Summary, scenarios: &[&Scenario]) -> String {
    let mut out = String::new();
    for note in &summary.notes {
        let _ = writeln!(out, "note: {note}\n");
    }
    let alone = summary
        .scenarios
        .iter()
        .filter(|part| growth::is_alone(summary, part));
    for part in alone {
        if let Some(scenario) = scenarios.iter().find(|s| s.name == part.name) {
            scenario_text(&mut out, scenario, part);
        }
    }
    growth::sections(&mut out, summary, scenarios);
    out
}

/// What was booted, by which clock, on how many CPUs.
fn heading(scenario: &Scenario, part: &ScenarioSummary) -> String {
    let clock = part.variants.first().map_or(scenario.clock, |v| v.clock);
    let asked = scenario.machine.cpus;
    let cpus = match part.cpus {
        Some(had) if had != asked => {
            format!("{} of the {asked} asked for", counted(had as usize, "CPU"))
        }
        _ => counted(asked as usize, "CPU"),
    };
    format!(
        "kernel {}{}, {clock} time, {}, {}",
        scenario.kernel,
        if part.debug {
            " that checks itself (no time is judged)"
        } else {
            ""
        },
        cpus,
        counted(scenario.devices.len(), "device"),
    ) + &blocks(scenario)
}

/// `, 4096 real memory blocks`: how they come to be is said wherever figures are shown.
fn blocks(scenario: &Scenario) -> String {
    scenario.memory.map_or(String::new(), |m| format!(", {m}"))
}

fn scenario_text(out: &mut String, scenario: &Scenario, part: &ScenarioSummary) {
    let _ = writeln!(out, "## {}: {}\n", part.name, heading(scenario, part));
    let own_table = |m: &&Metric| !probing::covers(scenario, **m);
    for metric in scenario.metrics.iter().filter(own_table) {
        if part
            .variants
            .iter()
            .any(|v| v.metrics.contains_key(metric.name()))
        {
            let _ = writeln!(
                out,
                "### {}\n\n{}\n",
                metric.name(),
                metric_table(scenario, part, *metric)
            );
        }
    }
    if scenario.metrics.contains(&Metric::DeviceShutdown) {
        let (devices, left_out) = device_table(scenario, part);
        let _ = writeln!(out, "### device_shutdown by device\n\n{devices}\n");
        if left_out > 0 {
            let _ = writeln!(out, "{}\n", left_out_text(left_out));
        }
    }
    if let Some(note) = walk::note(scenario, part) {
        let _ = writeln!(out, "{note}\n");
    }
    if let Some(note) = userspace::note(scenario) {
        let _ = writeln!(out, "{note}\n");
    }
    if let Some(note) = systemd::note(scenario) {
        let _ = writeln!(out, "{note}\n");
    }
    for (what, grid) in systemd::grids(part) {
        let _ = writeln!(out, "### {what}\n\n{grid}\n");
    }
    probing::tables(out, scenario, part);
    if let Some(blame) = blame_table(part) {
        let _ = writeln!(out, "### beyond the ideal\n\n{blame}\n");
    }
    probing::findings(out, part);
    noise::noise(out, part);
    failures(out, part);
    if !part.expectations.is_empty() {
        let _ = writeln!(out, "### expectations\n\n{}\n", expectation_table(part));
    }
    oracle(out, &[part]);
}

fn theirs(scenario: &Scenario, variant: &str, metric: Metric) -> Option<Nanos> {
    scenario
        .reference
        .as_ref()?
        .values
        .iter()
        .find(|v| v.0 == variant && v.1 == metric)
        .map(|v| v.2)
}

fn or_dash<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |v| v.to_string())
}

fn metric_table(scenario: &Scenario, part: &ScenarioSummary, metric: Metric) -> Grid {
    let value = |v: &VariantSummary| v.metrics.get(metric.name()).cloned();
    match metric {
        Metric::Reboot => return reboot_table(part),
        Metric::Walk => return walk::walk_table(scenario, part),
        Metric::Churn => return walk::churn_table(scenario, part),
        Metric::Hotplug => return hotplug::table(scenario, part),
        Metric::Coldplug => return userspace::coldplug_table(scenario, part),
        Metric::Systemd => return systemd::table_of(scenario, part),
        _ => {}
    }
    let reference = scenario
        .variants
        .iter()
        .any(|v| theirs(scenario, &v.name, metric).is_some());
    let ideal = part
        .variants
        .iter()
        .any(|v| value(v).is_some_and(|m| m.ideal.is_some()));
    let mut header = vec!["variant"];
    header.extend(reference.then_some("theirs"));
    header.push("ours");
    header.extend(
        ideal
            .then_some(["ideal", "efficiency", "bound by"])
            .into_iter()
            .flatten(),
    );
    let tasks = metric == Metric::DeviceShutdown;
    header.extend(tasks.then_some("tasks"));
    let rows = part.variants.iter().map(|variant| {
        let measured = value(variant);
        let mut row = vec![variant.name.clone()];
        if reference {
            row.push(or_dash(theirs(scenario, &variant.name, metric)));
        }
        row.push(or_dash(measured.as_ref().map(|m| Nanos(m.median))));
        if ideal {
            row.extend(ideal_cells(measured.as_ref()));
        }
        if tasks {
            row.push(or_dash(variant.metrics.get(TASKS).map(|t| t.median)));
        }
        row
    });
    table(&header, rows.collect())
}

fn ideal_cells(measured: Option<&MetricSummary>) -> [String; 3] {
    let bound = measured.and_then(|m| m.bound.as_ref()).map(|b| match b {
        Bound::Sum => "sum of all".to_owned(),
        Bound::Path(devices) => devices.join(" > "),
        Bound::Lock(lock) => format!("lock {lock}"),
        Bound::Cpu => "CPU".to_owned(),
    });
    [
        or_dash(measured.and_then(|m| m.ideal).map(Nanos)),
        or_dash(
            measured
                .and_then(|m| m.efficiency)
                .map(|e| format!("{:.1} %", e * 100.0)),
        ),
        or_dash(bound),
    ]
}

fn reboot_table(part: &ScenarioSummary) -> Grid {
    let parts = REBOOT_PARTS.map(|(part, _)| format!("reboot/{part}"));
    let columns: Vec<_> = ["reboot".to_owned()].into_iter().chain(parts).collect();
    let words = REBOOT_PARTS.map(|(_, words)| words);
    let header = [&["variant", "reboot"][..], &words[..]].concat();
    let rows = part.variants.iter().map(|v| {
        let cells = columns
            .iter()
            .map(|c| or_dash(v.metrics.get(c).map(|m| Nanos(m.median))));
        std::iter::once(v.name.clone()).chain(cells).collect()
    });
    table(&header, rows.collect())
}

/// Rows of a table of devices that somebody still reads.
const MOST_GROUPS: usize = 50;

/// A group of devices: `ixgbe.0` .. `ixgbe.3` are `ixgbe`.
struct Group<'a> {
    name: &'a str,
    count: u32,
    /// The slowest of it in each variant.
    slowest: Vec<Option<u64>>,
}

/// The groups of devices that have a profile, in the tree's order.
fn device_groups<'a>(scenario: &'a Scenario, part: &ScenarioSummary) -> Vec<Group<'a>> {
    let mut groups: Vec<Group> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for device in scenario.devices.iter().filter(|d| d.profile.is_some()) {
        let name = group(&device.name);
        let place = *places.entry(name).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group {
                name,
                count: 0,
                slowest: vec![None; part.variants.len()],
            });
        }
        groups[place].count += 1;
    }
    for (variant, summary) in part.variants.iter().enumerate() {
        for (metric, measured) in &summary.metrics {
            let device = metric.strip_prefix("device_shutdown/").map(group);
            if let Some(&place) = device.and_then(|d| places.get(d)) {
                let slowest = &mut groups[place].slowest[variant];
                *slowest = (*slowest).max(Some(measured.median));
            }
        }
    }
    groups
}

/// Devices by group: the slowest of each, by variant; and how many groups were left out.
fn device_table(scenario: &Scenario, part: &ScenarioSummary) -> (Grid, usize) {
    let mut groups = device_groups(scenario, part);
    let left_out = groups.len().saturating_sub(MOST_GROUPS);
    if left_out > 0 {
        groups.sort_by_key(|g| std::cmp::Reverse(g.slowest.iter().max().copied()));
        groups.truncate(MOST_GROUPS);
    }
    let known: BTreeMap<&str, Nanos> = scenario
        .reference
        .iter()
        .flat_map(|r| &r.devices)
        .map(|d| (d.0.as_str(), d.1))
        .collect();
    let mut header = vec!["device", "count"];
    header.extend((!known.is_empty()).then_some("theirs, serial"));
    header.extend(part.variants.iter().map(|v| v.name.as_str()));
    let rows = groups.into_iter().map(|group| {
        let mut row = vec![group.name.to_owned(), group.count.to_string()];
        if !known.is_empty() {
            row.push(or_dash(known.get(group.name)));
        }
        row.extend(group.slowest.iter().map(|s| or_dash(s.map(Nanos))));
        row
    });
    (table(&header, rows.collect()), left_out)
}

/// What stands below a table that leaves out so many groups.
fn left_out_text(left_out: usize) -> String {
    format!("The slowest {MOST_GROUPS}; {left_out} more are in summary.json.")
}

/// Less than this of the window, and less than this time, is not worth a line.
const WORTH_A_LINE: (f64, u64) = (0.001, 100_000);

/// Where the time beyond the ideal goes; `None`: nowhere worth a line.
fn blame_table(part: &ScenarioSummary) -> Option<Grid> {
    let mut rows = Vec::new();
    for variant in &part.variants {
        let window = variant.metrics.get(Metric::DeviceShutdown.name());
        let window = window.map_or(0, |m| m.median);
        for share in &variant.blame {
            let of_window = share.time.0 as f64 / window.max(1) as f64;
            if of_window < WORTH_A_LINE.0 && share.time.0 < WORTH_A_LINE.1 {
                continue;
            }
            rows.push(vec![
                variant.name.clone(),
                share.what.text().to_owned(),
                share.time.to_string(),
                format!("{:.1} %", of_window * 100.0),
                share.times.to_string(),
                or_dash(share.most.as_ref()),
            ]);
        }
    }
    let header = [
        "variant",
        "where device_shutdown goes beyond its devices",
        "time",
        "of it",
        "times",
        "most of it",
    ];
    (!rows.is_empty()).then(|| table(&header, rows))
}

fn failures(out: &mut String, part: &ScenarioSummary) {
    for variant in part.variants.iter().filter(|v| !v.completed()) {
        let _ = writeln!(
            out,
            "- {}/{}: {}",
            part.name,
            variant.name,
            variant.outcome_text()
        );
    }
    if part.variants.iter().any(|v| !v.completed()) {
        out.push('\n');
    }
}

fn expectation_table(part: &ScenarioSummary) -> Grid {
    let rows = part.expectations.iter().map(|e| {
        let ok = match e.ok {
            Some(true) => "ok",
            Some(false) => "MISSED",
            None => "no value",
        };
        vec![e.what.clone(), e.want.clone(), e.got.clone(), ok.to_owned()]
    });
    table(&["what", "want", "got", ""], rows.collect())
}

fn oracle(out: &mut String, parts: &[&ScenarioSummary]) {
    let variants = || parts.iter().flat_map(|p| &p.variants);
    let checked: u64 = variants().map(|v| v.oracle.checked).sum();
    let violations: Vec<_> = variants().flat_map(|v| &v.oracle.violations).collect();
    let _ = writeln!(
        out,
        "oracle: {checked} facts checked, {} violations",
        violations.len()
    );
    for violation in violations.iter().take(20) {
        let _ = writeln!(out, "- {violation}");
    }
    if violations.len() > 20 {
        let _ = writeln!(
            out,
            "- and {} more, all in summary.json",
            violations.len() - 20
        );
    }
    out.push('\n');
}

#[cfg(test)]
mod tests;
