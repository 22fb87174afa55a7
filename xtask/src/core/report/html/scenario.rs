// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scenario's section: what it is, its timeline, its metrics beside the published ones.

use maud::{Markup, html};

use super::{bars, flames, spread, table, trend};
use crate::core::{
    blame::{self, Leg},
    event::Callback,
    grid::{self, Grid},
    report::{
        MOST_GROUPS, blame_table, device_table, expectation_table, heading, left_out_text,
        metric_table, noise, probing, systemd,
        timeline::{Lane, Phase, Timeline, order_text},
        userspace,
        view::{View, pair},
        walk,
    },
    scenario::{Metric, Scenario, Variant, group},
    summary::ScenarioSummary,
    units::Nanos,
};

/// The section; `timeline` with its place in the page's data.
pub fn section(
    view: &View,
    scenario: &Scenario,
    part: &ScenarioSummary,
    timeline: Option<(usize, &Timeline)>,
) -> Markup {
    html! {
        section.scenario id={ "scenario-" (part.name) } {
            h2 { (part.name) }
            p.quiet { (heading(scenario, part)) }
            p.about { (scenario.about.trim()) }
            (headline(scenario, part))
            (failures(part))
            @for warning in &part.warnings { p.note { "Warning: " (warning) } }
            @if let Some((place, timeline)) = timeline {
                (timeline_figure(view, scenario, place, timeline))
            }
            @for metric in ORDER.iter().filter(|m| scenario.metrics.contains(m)) {
                (metric_part(scenario, part, *metric))
            }
            @if let Some(note) = walk::note(scenario, part) { p.quiet { (note) } }
            @if let Some(note) = userspace::note(scenario) { p.quiet { (note) } }
            @if let Some(note) = systemd::note(scenario) { p.quiet { (note) } }
            @for (what, grid) in systemd::grids(part) {
                h3 { (what) }
                (table(what, &grid))
            }
            @for (what, grid) in probing::grids(scenario, part) {
                h3 { (what) }
                (table(what, &grid))
            }
            @for finding in &part.findings { p.note { (finding) } }
            @if let Some(grid) = blame_table(part) {
                h3 { "Beyond the ideal" }
                (table("Where the time beyond the ideal goes", &grid))
            }
            @if !part.expectations.is_empty() {
                h3 { "Expectations" }
                (table("Expectations", &expectation_table(part)))
            }
            @if let Some((of, grid)) = noise::seen(part) {
                h3 { "What this host can see" }
                (table(&of, &grid))
            }
            (trend::section(view, part))
            (flames::section(view, part))
            (oracle(part))
            @if let Some(reference) = &scenario.reference {
                p.quiet { "Published figures: " (reference.source) "." }
                @if let Some(note) = &reference.note { p.quiet { "Theirs: " (note) } }
            }
        }
    }
}

/// What is looked at first comes first.
const ORDER: [Metric; 12] = [
    Metric::DeviceShutdown,
    Metric::Probe,
    Metric::Load,
    Metric::Bound,
    Metric::Ready,
    Metric::Reboot,
    Metric::Boot,
    Metric::Systemd,
    Metric::Hotplug,
    Metric::Coldplug,
    Metric::Walk,
    Metric::Churn,
];

/// The two variants that the scenario is about, in figures.
fn headline(scenario: &Scenario, part: &ScenarioSummary) -> Markup {
    let variants: Vec<&Variant> = scenario.variants.iter().collect();
    let value = |place: Option<usize>| {
        let variant = variants[place?];
        let summary = part.variants.iter().find(|v| v.name == variant.name)?;
        let measured = summary.metrics.get(Metric::DeviceShutdown.name())?;
        summary.completed().then_some((variant, measured))
    };
    let [above, below] = pair(&variants).map(value);
    html! {
        @if let (Some((slow, a)), Some((fast, b))) = (above, below) {
            dl.figures {
                div { dt { "device_shutdown, " (slow.name) } dd { (Nanos(a.median)) } }
                div { dt { "device_shutdown, " (fast.name) } dd { (Nanos(b.median)) } }
                @if b.median > 0 {
                    div { dt { "ratio" } dd { (format!("{:.2}", a.median as f64 / b.median as f64)) } }
                }
                @if let Some(efficiency) = b.efficiency {
                    div { dt { "of the ideal, " (fast.name) } dd { (format!("{:.1} %", efficiency * 100.0)) } }
                }
            }
        }
    }
}

fn failures(part: &ScenarioSummary) -> Markup {
    html! {
        @for variant in part.variants.iter().filter(|v| !v.completed()) {
            p.note { strong { (variant.name) } ": " (variant.outcome_text()) }
        }
    }
}

fn metric_part(scenario: &Scenario, part: &ScenarioSummary, metric: Metric) -> Markup {
    let has = |v: &crate::core::summary::VariantSummary| v.metrics.contains_key(metric.name());
    if !part.variants.iter().any(has) {
        return html! {};
    }
    let picture = match metric {
        Metric::Reboot => bars::reboot(part),
        _ => bars::metric(scenario, part, metric),
    };
    html! {
        h3 { (metric.name()) }
        @if let Some(picture) = picture { (picture) }
        details open { summary { "Table" } (table(metric.name(), &metric_table(scenario, part, metric))) }
        @if let Some(spread) = spread::metric(part, metric) { (spread) }
        @if metric == Metric::DeviceShutdown {
            @let (grid, left_out) = device_table(scenario, part);
            h4 { "device_shutdown by device" }
            (table("The longest of each group of devices", &grid))
            @if left_out > 0 { p.quiet { (left_out_text(left_out)) } }
        }
    }
}

fn oracle(part: &ScenarioSummary) -> Markup {
    let violations = || part.variants.iter().flat_map(|v| &v.oracle.violations);
    let checked: u64 = part.variants.iter().map(|v| v.oracle.checked).sum();
    let count = violations().count();
    html! {
        h3 { "Oracle" }
        p { (checked) " facts checked, " (count) " violated." }
        @if count > 0 {
            ul.violations {
                @for violation in violations().take(20) { li { (violation) } }
                @if count > 20 { li { "and " (count - 20) " more, all in summary.json" } }
            }
        }
    }
}

fn timeline_figure(view: &View, scenario: &Scenario, place: usize, timeline: &Timeline) -> Markup {
    let id = format!("timeline-{place}");
    html! {
        h3 id=(id) { "Timeline" }
        figure.timeline data-timeline=(place) aria-labelledby=(id) {
            div.tools {
                label { "Phase " select data-use="phase" {} }
                label { "above " select data-use="above" {} }
                label { "below " select data-use="below" {} }
                label { "find " input type="search" data-use="find" size="12" placeholder="device" autocomplete="off"; }
                span.buttons role="group" aria-label="Zoom and move" {
                    (button("in", "Zoom in", "+"))
                    (button("out", "Zoom out", "\u{2212}"))
                    (button("left", "Earlier", "\u{2190}"))
                    (button("right", "Later", "\u{2192}"))
                    (button("all", "Show all", "all"))
                }
            }
            canvas tabindex="0" role="img" aria-label={ "Callbacks of " (timeline.devices.len()) " devices over time" } aria-describedby={ (id) "-view " (id) "-readout" } {}
            p.view id={ (id) "-view" } { }
            p.readout id={ (id) "-readout" } aria-live="polite" { }
            ul.legend aria-hidden="true" {
                li { (bars::swatch("path")) "on the critical path" }
                li { (bars::swatch("own")) "other callbacks" }
                li { (bars::swatch("wait")) "waiting for a lock" }
                li { (bars::swatch("ideal")) "ideal" }
            }
            p.help {
                "Wheel or pinch zooms once the picture has the focus (Ctrl + wheel always; with Shift, time only), dragging moves. "
                "Keys: + and \u{2212} zoom, \u{2190} and \u{2192} move, \u{2191} and \u{2193} go from device to device, Enter zooms to one, 0 shows all."
            }
            noscript { p.note { "The picture is drawn by this page's script, which this browser does not run; its numbers are in the tables below." } }
            @if !timeline.left_out.is_empty() {
                p.quiet { "Too many callbacks for one page; in trace.json only: " (timeline.left_out.join(", ")) "." }
            }
            @for phase in &timeline.phases {
                details { summary { "Table of " (phase.name) } (phase_table(timeline, phase)) }
                details {
                    summary { "Critical path of " (phase.name) }
                    (paths(view, scenario, phase.callback))
                }
            }
        }
    }
}

fn button(what: &str, label: &str, sign: &str) -> Markup {
    html! { button type="button" data-do=(what) aria-label=(label) title=(label) { (sign) } }
}

/// What one row of the table below a timeline sums up.
struct Sums {
    first: u64,
    last: u64,
    longest: u64,
    waited: u64,
}

/// A phase's callbacks by device, or by group where there are many.
fn phase_table(timeline: &Timeline, phase: &Phase) -> Markup {
    let by_device = timeline.devices.len() <= MOST_GROUPS;
    let mut names: Vec<String> = Vec::new();
    let mut row_of: Vec<usize> = Vec::new();
    for (at, (group, count)) in timeline.groups.iter().enumerate() {
        row_of.extend(std::iter::repeat_n(at, *count));
        names.push(format!("{group} ({count})"));
    }
    if by_device {
        row_of = (0..timeline.devices.len()).collect();
        names = timeline.devices.iter().map(|d| (*d).to_owned()).collect();
    }
    let left_out = names.len().saturating_sub(MOST_GROUPS);
    let shown: Vec<&Lane> = phase
        .first
        .iter()
        .flatten()
        .map(|l| &phase.lanes[*l])
        .collect();
    let mut header = vec!["device".to_owned()];
    for lane in &shown {
        header
            .extend(["from", "to", "longest", "waited"].map(|h| format!("{}: {h}", lane.variant)));
    }
    let sums: Vec<_> = shown
        .iter()
        .map(|l| sums(l, &row_of, names.len()))
        .collect();
    let rows = names
        .into_iter()
        .take(MOST_GROUPS)
        .enumerate()
        .map(|(at, name)| {
            let mut row = vec![name];
            for lane in &sums {
                row.extend(match &lane[at] {
                    Some(s) => [s.first, s.last, s.longest, s.waited].map(|n| Nanos(n).to_string()),
                    None => std::array::from_fn(|_| "-".to_owned()),
                });
            }
            row
        });
    let grid = Grid {
        rows: rows.collect(),
        header,
    };
    let caption = format!("{}, from its begin", phase.name);
    html! {
        (table(&caption, &grid))
        @if left_out > 0 { p.quiet { "The first " (MOST_GROUPS) " groups; " (left_out) " more are in trace.json." } }
    }
}

fn sums(lane: &Lane, row_of: &[usize], rows: usize) -> Vec<Option<Sums>> {
    let mut all: Vec<Option<Sums>> = (0..rows).map(|_| None).collect();
    let mut at = 0;
    for span in lane.spans.chunks_exact(6) {
        let [row, after, wait, took] =
            [span[0], span[1], span[2], span[3].max(0)].map(|n| n as u64);
        at += after;
        let slot = &mut all[row_of[row as usize]];
        let sums = slot.get_or_insert(Sums {
            first: at,
            last: 0,
            longest: 0,
            waited: 0,
        });
        sums.first = sums.first.min(at);
        sums.last = sums.last.max(at + wait + took);
        sums.longest = sums.longest.max(wait + took);
        sums.waited = sums.waited.max(wait);
    }
    all
}

/// The critical paths of the variants, each as a table.
fn paths(view: &View, scenario: &Scenario, callback: Callback) -> Markup {
    html! {
        @for boot in view.boots(scenario) {
            @let variant = boot.trial.variant();
            @if let Some(way) = blame::way(scenario, variant, boot.log, callback) {
                (table(
                    &format!("{}, {}, first to last", variant.name, order_text(variant, callback)),
                    &path_table(scenario, &way.legs),
                ))
            }
        }
    }
}

/// Legs of one kind and group that follow one another are one row.
fn path_table(scenario: &Scenario, legs: &[Leg]) -> Grid {
    let name = |leg: &Leg| scenario.devices[leg.span.device].name.as_str();
    let mut runs: Vec<Vec<&Leg>> = Vec::new();
    for leg in legs.iter().rev() {
        match runs.last_mut() {
            Some(run) if group(name(run[0])) == group(name(leg)) && run[0].after == leg.after => {
                run.push(leg);
            }
            _ => runs.push(vec![leg]),
        }
    }
    let count = runs.len();
    let rows = runs.into_iter().take(MOST_GROUPS).map(|run| {
        let (first, last) = (run[0], run[run.len() - 1]);
        let who = match run.len() {
            1 => name(first).to_owned(),
            n => format!("{} to {} ({n})", name(first), name(last)),
        };
        let waited: Nanos = run.iter().map(|l| l.waited).sum();
        let took: Nanos = run.iter().map(|l| l.span.end - l.span.locked).sum();
        vec![
            who,
            first.after.text().to_owned(),
            waited.to_string(),
            took.to_string(),
        ]
    });
    let mut rows: Vec<_> = rows.collect();
    if count > rows.len() {
        let more = format!("and {} more", count - rows.len());
        rows.push(vec![more, "-".into(), "-".into(), "-".into()]);
    }
    grid::table(&["device", "waited", "so long", "then took"], rows)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_metric_has_its_place() {
        let all = BTreeSet::from(Metric::ALL);
        assert_eq!(BTreeSet::from(ORDER), all);
        let schema = serde_json::to_value(schemars::schema_for!(Metric)).unwrap();
        assert_eq!(schema["oneOf"].as_array().unwrap().len(), all.len());
    }
}
