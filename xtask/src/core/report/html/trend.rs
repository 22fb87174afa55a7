// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scenario's metrics over the runs that were made of it, each variant against its own
//! value in the oldest of them, so that they share a scale.

use maud::{Markup, PreEscaped, html};
use plotters::{
    element::Circle,
    prelude::{ChartBuilder, Color, IntoDrawingArea, LineSeries, SVGBackend, WHITE},
};

use super::{
    lines::{Area, Drawn, LINES, SIZE, swatch},
    table,
};
use crate::core::{
    grid::{self, Grid},
    report::{MOST_GROUPS, or_dash, view::View},
    stats::change::SHORTEST,
    summary::ScenarioSummary,
    trend::{self, Change, Point, RunInfo},
    units::Nanos,
};

/// The least that the scale of changes shows, in percent to either side: below it a plot
/// would blow up what nobody can see.
const LEAST: f64 = 0.5;

/// One metric over runs.
struct Metric<'a> {
    name: &'a str,
    /// The runs that any variant has a value in, the oldest first.
    runs: Vec<&'a RunInfo>,
    /// By variant.
    lines: Vec<(&'a str, &'a [Point])>,
    changes: Vec<&'a Change>,
}

/// The section; empty where there is no other run.
pub fn section(view: &View, part: &ScenarioSummary) -> Markup {
    let metrics = metrics(view, part);
    let most = metrics.iter().map(|m| m.runs.len()).max().unwrap_or(0);
    let changes = || metrics.iter().flat_map(|m| &m.changes).copied();
    let none = changes().next().is_none();
    html! {
        @if most > 1 {
            h3 { "Trend" }
            p.quiet {
                "Over " (most) " runs of this scenario. "
                @if most < SHORTEST { "A change that stays can be told from " (SHORTEST) " runs on." }
                @else if none { "No change that stayed." }
            }
            @if !none { (table("Changes that stayed", &trend::grid(changes()))) }
            @for metric in &metrics { (one(metric)) }
            @for line in &view.history.trend.left_out { p.quiet { "Left out: " (line) } }
        }
    }
}

fn metrics<'a>(view: &'a View, part: &ScenarioSummary) -> Vec<Metric<'a>> {
    let mut metrics: Vec<Metric> = Vec::new();
    // In the variants' order, which the keys do not have.
    for variant in &part.variants {
        for ((key, _), points) in &view.history.series {
            if key.scenario != part.name || key.variant != variant.name {
                continue;
            }
            let place = metrics.iter().position(|m| m.name == key.metric);
            let place = place.unwrap_or_else(|| {
                let all = view.history.trend.changes.iter();
                let own = |c: &&Change| c.scenario == part.name && c.metric == key.metric;
                metrics.push(Metric {
                    name: &key.metric,
                    runs: Vec::new(),
                    lines: Vec::new(),
                    changes: all.filter(own).collect(),
                });
                metrics.len() - 1
            });
            let metric = &mut metrics[place];
            metric.lines.push((&key.variant, points));
            metric.runs.extend(points.iter().map(|p| &p.run));
        }
    }
    for metric in &mut metrics {
        metric.runs.sort_by_key(|r| (&r.begun, &r.id));
        metric.runs.dedup_by_key(|r| &r.id);
    }
    metrics.retain(|m| m.runs.len() > 1);
    metrics
}

fn one(metric: &Metric) -> Markup {
    let same = |points: &[Point]| points.iter().all(|p| p.value == points[0].value);
    html! {
        h4 { (metric.name) ": trend" }
        @if metric.lines.iter().all(|(_, points)| same(points)) {
            p { "Each variant has the same value in all " (metric.runs.len()) " runs, to the nanosecond." }
        } @else if let Some(svg) = plot(metric) {
            figure {
                div.plot role="img" aria-label=(said(metric)) { (PreEscaped(svg)) }
                ul.legend aria-hidden="true" {
                    @for (at, (variant, _)) in metric.lines.iter().enumerate() {
                        li { (swatch(at)) (variant) }
                    }
                    @if !metric.changes.is_empty() { li { "ring: the first run after a change that stayed" } }
                }
            }
        }
        details { summary { "Table" } (values(metric)) }
    }
}

fn said(metric: &Metric) -> String {
    let mut said = format!("{} over {} runs", metric.name, metric.runs.len());
    for (variant, points) in &metric.lines {
        if let ([first, ..], [.., last]) = (points, points) {
            let (from, to) = (Nanos(first.value), Nanos(last.value));
            said += &format!("; {variant}: {from} at first, {to} at last");
        }
    }
    for change in &metric.changes {
        said += &format!(
            "; {} is {} from run {} on",
            change.variant,
            change.verdict.text(),
            change.first_after.id
        );
    }
    said
}

/// The latest runs, with each variant's value.
fn values(metric: &Metric) -> Markup {
    let mut header = vec!["run", "name", "begun", "kernel's source"];
    header.extend(metric.lines.iter().map(|(variant, _)| *variant));
    let left_out = metric.runs.len().saturating_sub(MOST_GROUPS);
    let rows = metric.runs.iter().enumerate().skip(left_out);
    let rows = rows.map(|(at, run)| {
        let mut row = vec![(at + 1).to_string(), run.id.clone(), run.begun.clone()];
        row.push(run.source.clone());
        row.extend(metric.lines.iter().map(|(_, points)| {
            let point = points.iter().find(|p| p.run.id == run.id);
            or_dash(point.map(|p| Nanos(p.value)))
        }));
        row
    });
    let grid: Grid = grid::table(&header, rows.collect());
    html! {
        (table(&format!("{} by run", metric.name), &grid))
        @if left_out > 0 { p.quiet { "The latest " (MOST_GROUPS) "; " (left_out) " older ones are not listed." } }
    }
}

/// Where a variant's values lie: the run's number, and the change since the first, in percent.
fn places(metric: &Metric, points: &[Point]) -> Vec<(f64, f64)> {
    let first = points.first().map_or(1, |p| p.value.max(1)) as f64;
    let place = |point: &Point| {
        let run = metric.runs.iter().position(|r| r.id == point.run.id)?;
        Some(((run + 1) as f64, (point.value as f64 / first - 1.0) * 100.0))
    };
    points.iter().filter_map(place).collect()
}

/// The plot as SVG.
fn plot(metric: &Metric) -> Option<String> {
    let lines: Vec<_> = metric
        .lines
        .iter()
        .map(|(_, p)| places(metric, p))
        .collect();
    let mut svg = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(&area, metric, &lines)
    };
    // A string takes all that is drawn on it.
    drawn.ok()?;
    Some(svg)
}

fn draw<'a>(area: &Area<'a>, metric: &Metric, lines: &[Vec<(f64, f64)>]) -> Drawn<'a> {
    let all = || lines.iter().flatten().map(|p| p.1);
    let low = all().fold(-LEAST, f64::min);
    let high = all().fold(LEAST, f64::max);
    let room = (high - low) * 0.08;
    let runs = metric.runs.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(64)
        .build_cartesian_2d(0.5..runs + 0.5, low - room..high + room)?;
    let whole = |x: &f64| match x.fract() == 0.0 {
        true => format!("{x:.0}"),
        false => String::new(),
    };
    chart
        .configure_mesh()
        .x_desc("run")
        .x_labels(8)
        .y_labels(6)
        .x_label_formatter(&whole)
        .y_label_formatter(&|y| format!("{:+.1} %", y + 0.0))
        .bold_line_style(WHITE)
        .light_line_style(WHITE.mix(0.0))
        .draw()?;
    for ((places, (variant, points)), color) in
        lines.iter().zip(&metric.lines).zip(LINES.iter().cycle())
    {
        chart.draw_series(LineSeries::new(
            places.iter().copied(),
            color.stroke_width(2),
        ))?;
        chart.draw_series(places.iter().map(|p| Circle::new(*p, 3, color.filled())))?;
        let changed = metric.changes.iter().filter(|c| c.variant == *variant);
        let rings = changed.filter_map(|c| {
            let at = points.iter().position(|p| p.run.id == c.first_after.id)?;
            Some(Circle::new(*places.get(at)?, 7, color.stroke_width(2)))
        });
        chart.draw_series(rings)?;
    }
    area.present()
}
