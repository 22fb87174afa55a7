// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the figures of a sweep grow: a line a variant, both scales logarithmic, so that the
//! exponent is the slope.

use maud::{Markup, PreEscaped, html};
use plotters::{
    element::Circle,
    prelude::{ChartBuilder, Color, IntoDrawingArea, IntoLogRange, LineSeries, SVGBackend, WHITE},
};

use super::{
    lines::{Area, Drawn, LINES, SIZE, swatch},
    table,
};
use crate::core::{
    growth::Growth,
    report::{
        growth::{Grown, figures, size},
        walk,
    },
    scenario::Scenario,
    units::Nanos,
};

/// A sweep's section.
pub fn section(sweep: &Grown, scenarios: &[&Scenario]) -> Markup {
    html! {
        section.scenario id={ "growth-" (sweep.name) } {
            h2 { (sweep.name) ": growth over " (sweep.over) }
            @for (metric, of) in &sweep.metrics {
                h3 { (metric) }
                @if let Some(svg) = plot(sweep, of) {
                    figure {
                        div.plot role="img" aria-label=(said(metric, sweep, of)) { (PreEscaped(svg)) }
                        ul.legend aria-hidden="true" {
                            @for (at, growth) in of.iter().enumerate() {
                                li { (swatch(at)) (growth.variant) (exponent(growth)) }
                            }
                        }
                    }
                }
                details open { summary { "Table" } (table(metric, &figures(&sweep.parts, sweep.over, of))) }
            }
            @for (what, grid) in walk::by_threads(sweep, scenarios) {
                h3 { (what) }
                (table(what, &grid))
            }
        }
    }
}

fn exponent(growth: &Growth) -> String {
    let fit = growth.fit.map(|f| format!(", exponent {:.2}", f.exponent));
    fit.unwrap_or_default()
}

fn said(metric: &str, sweep: &Grown, of: &[&Growth]) -> String {
    let mut said = format!("{metric} over {}", sweep.over);
    for growth in of {
        if let ([first, ..], [.., last]) = (&growth.points[..], &growth.points[..]) {
            said += &format!(
                "; {}: from {} at {} to {} at {}{}",
                growth.variant,
                Nanos(first.1),
                size(sweep.over, first.0),
                Nanos(last.1),
                size(sweep.over, last.0),
                exponent(growth)
            );
        }
    }
    said
}

/// The plot as SVG; `None`: there are no two points to draw between.
fn plot(sweep: &Grown, of: &[&Growth]) -> Option<String> {
    let points = || of.iter().flat_map(|g| &g.points);
    let low = |pick: fn(&(u64, u64)) -> u64| points().map(pick).min();
    let high = |pick: fn(&(u64, u64)) -> u64| points().map(pick).max();
    let (x0, x1) = (low(|p| p.0)?, high(|p| p.0)?);
    let (y0, y1) = (low(|p| p.1)?, high(|p| p.1)?);
    if x0 >= x1 || x0 == 0 || y0 == 0 {
        return None;
    }
    // Room at the edges.
    let x = (x0 as f64 / 1.15, x1 as f64 * 1.15);
    let y = decades((y0 as f64 / 1.6, y1 as f64 * 1.6));
    let mut svg = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(&area, sweep, of, x, y)
    };
    // A string takes all that is drawn on it.
    drawn.ok()?;
    Some(svg)
}

/// A scale that has a power of ten or more in it, since those are what it is labelled with:
/// whole decades where it would have none.
fn decades((low, high): (f64, f64)) -> (f64, f64) {
    if low.log10().ceil() <= high.log10().floor() {
        return (low, high);
    }
    let (from, to) = (low.log10().floor(), high.log10().ceil());
    (10f64.powf(from), 10f64.powf(to))
}

fn draw<'a>(
    area: &Area<'a>,
    sweep: &Grown,
    of: &[&Growth],
    x: (f64, f64),
    y: (f64, f64),
) -> Drawn<'a> {
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(64)
        .build_cartesian_2d((x.0..x.1).log_scale(), (y.0..y.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(sweep.over.to_string())
        .x_labels(5)
        .y_labels(6)
        .x_label_formatter(&|x| size(sweep.over, x.round() as u64))
        .y_label_formatter(&|y| Nanos(y.round() as u64).to_string())
        .bold_line_style(WHITE)
        .light_line_style(WHITE.mix(0.0))
        .draw()?;
    for (growth, color) in of.iter().zip(LINES.iter().cycle()) {
        let points = || growth.points.iter().map(|p| (p.0 as f64, p.1 as f64));
        chart.draw_series(LineSeries::new(points(), color.stroke_width(2)))?;
        chart.draw_series(points().map(|p| Circle::new(p, 4, color.filled())))?;
    }
    area.present()
}
