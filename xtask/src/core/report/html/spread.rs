// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the repeats of a boot spread.

use maud::{Markup, html};

use super::{bars::percent, table};
use crate::core::{
    grid,
    scenario::Metric,
    summary::{MetricSummary, ScenarioSummary, VariantSummary},
    units::Nanos,
};

/// The spread of a metric's repeats; `None`: nothing was repeated.
pub fn metric(part: &ScenarioSummary, metric: Metric) -> Option<Markup> {
    let rows: Vec<(&VariantSummary, &MetricSummary)> = part
        .variants
        .iter()
        .filter_map(|v| Some((v, v.metrics.get(metric.name())?)))
        .filter(|(_, m)| m.samples.len() > 1)
        .collect();
    let all = || rows.iter().flat_map(|(_, m)| &m.samples).copied();
    let (least, most) = (all().min()?, all().max()?);
    let same = |m: &MetricSummary| m.samples.iter().all(|s| *s == m.samples[0]);
    let what = format!("{}: spread of the repeats", metric.name());
    Some(html! {
        h4 { (what) }
        @if rows.iter().all(|(_, m)| same(m)) {
            p { "All repeats of each variant are the same, to the nanosecond." }
        } @else {
            figure {
                @for (variant, measured) in &rows {
                    (strip(variant, measured, least, most))
                }
                p.scale aria-hidden="true" { span { (Nanos(least)) } span { (Nanos(most)) } }
            }
            details { summary { "Table" } (samples(&what, &rows)) }
        }
    })
}

fn strip(variant: &VariantSummary, measured: &MetricSummary, least: u64, most: u64) -> Markup {
    let said = format!(
        "{}: {} repeats around {}",
        variant.name,
        measured.samples.len(),
        Nanos(measured.median)
    );
    // Within the picture, so that those at its edges are whole.
    let place = |value: u64| {
        let part = percent(value.saturating_sub(least), most - least);
        let part: f64 = part.trim_end_matches('%').parse().unwrap_or(0.0);
        format!("{:.3}%", 2.0 + part * 0.96)
    };
    html! {
        div.bar {
            span.name aria-hidden="true" { (variant.name) }
            svg role="img" aria-label=(said) {
                rect.ground width="100%" height="100%" {}
                @for sample in &measured.samples {
                    circle.sample cx=(place(*sample)) cy="50%" r="4" {}
                }
                @let x = place(measured.median);
                line.median x1=(x) x2=(x) y1="0" y2="100%" {}
            }
            span.value aria-hidden="true" { (Nanos(measured.median)) }
        }
    }
}

fn samples(what: &str, rows: &[(&VariantSummary, &MetricSummary)]) -> Markup {
    let rows = rows.iter().map(|(variant, measured)| {
        let samples = || measured.samples.iter().copied();
        vec![
            variant.name.clone(),
            measured.samples.len().to_string(),
            Nanos(samples().min().unwrap_or(0)).to_string(),
            Nanos(measured.median).to_string(),
            Nanos(samples().max().unwrap_or(0)).to_string(),
        ]
    });
    let header = ["variant", "repeats", "least", "median", "most"];
    table(what, &grid::table(&header, rows.collect()))
}
