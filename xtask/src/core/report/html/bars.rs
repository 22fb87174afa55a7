// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bars whose places are parts of their width: they fit a page of any width, and their words
//! stay words.

use maud::{Markup, html};

use crate::core::{
    metric::REBOOT_PARTS,
    report::theirs,
    scenario::{Metric, Scenario},
    summary::{MetricSummary, ScenarioSummary, VariantSummary},
    units::Nanos,
};

/// A part of a whole as SVG writes it.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.3}%", part as f64 / whole.max(1) as f64 * 100.0)
}

/// Each variant's value of a metric as a bar, with its ideal and the published value;
/// `None`: nobody has one.
pub fn metric(scenario: &Scenario, part: &ScenarioSummary, metric: Metric) -> Option<Markup> {
    let rows: Vec<_> = part
        .variants
        .iter()
        .filter_map(|v| {
            let measured = v.metrics.get(metric.name())?;
            Some((v, measured, theirs(scenario, &v.name, metric)))
        })
        .collect();
    let values = rows
        .iter()
        .flat_map(|(_, m, theirs)| [Some(m.median), m.ideal, theirs.map(|t| t.0)]);
    let whole = values.flatten().max().filter(|w| *w > 0)?;
    let (ideal, published) = (
        rows.iter().any(|r| r.1.ideal.is_some()),
        rows.iter().any(|r| r.2.is_some()),
    );
    Some(html! {
        figure {
            @for (variant, measured, theirs) in &rows {
                (bar(variant, measured, *theirs, whole))
            }
            ul.legend aria-hidden="true" {
                li { (swatch("own")) "measured" }
                @if ideal { li { (swatch("ideal")) "ideal" } }
                @if published { li { (swatch("theirs")) "published" } }
            }
        }
    })
}

fn bar(
    variant: &VariantSummary,
    measured: &MetricSummary,
    theirs: Option<Nanos>,
    whole: u64,
) -> Markup {
    let mut said = format!("{}: {}", variant.name, Nanos(measured.median));
    if let Some(ideal) = measured.ideal {
        said += &format!(", ideal {}", Nanos(ideal));
    }
    if let Some(theirs) = theirs {
        said += &format!(", published {theirs}");
    }
    html! {
        div.bar {
            span.name aria-hidden="true" { (variant.name) }
            svg role="img" aria-label=(said) {
                rect.ground width="100%" height="100%" {}
                rect.own width=(percent(measured.median, whole)) height="100%" {}
                @if let Some(ideal) = measured.ideal { (tick("ideal", ideal, whole)) }
                @if let Some(theirs) = theirs { (tick("theirs", theirs.0, whole)) }
            }
            span.value aria-hidden="true" { (Nanos(measured.median)) }
        }
    }
}

fn tick(class: &str, at: u64, whole: u64) -> Markup {
    let x = percent(at, whole);
    html! { line class=(class) x1=(x) x2=(x) y1="0" y2="100%" {} }
}

/// What a legend shows of a class.
pub fn swatch(class: &str) -> Markup {
    html! {
        svg.swatch width="14" height="10" {
            @if ["ideal", "theirs", "path-line"].contains(&class) {
                line class=(class) x1="7" x2="7" y1="0" y2="10" {}
            } @else {
                rect class=(class) width="14" height="10" {}
            }
        }
    }
}

/// Each variant's reboot, cut into its parts; `None`: it was not measured.
pub fn reboot(part: &ScenarioSummary) -> Option<Markup> {
    let total = |v: &VariantSummary| v.metrics.get("reboot").map(|m| m.median);
    let whole = part.variants.iter().filter_map(total).max();
    let whole = whole.filter(|w| *w > 0)?;
    let rows = part.variants.iter().filter(|v| total(v).is_some());
    Some(html! {
        figure {
            @for variant in rows {
                (stack(variant, total(variant).unwrap_or(0), whole))
            }
            ul.legend aria-hidden="true" {
                @for (part, name) in REBOOT_PARTS { li { (swatch(part)) (name) } }
            }
        }
    })
}

fn stack(variant: &VariantSummary, total: u64, whole: u64) -> Markup {
    let mut said = format!("{}: {}", variant.name, Nanos(total));
    let mut from = 0u64;
    let mut parts = Vec::new();
    for (part, name) in REBOOT_PARTS {
        let long = variant.metrics.get(&format!("reboot/{part}"));
        let long = long.map_or(0, |m| m.median);
        said += &format!(", {name} {}", Nanos(long));
        parts.push((part, from, long));
        // A file that somebody edited may say any time.
        from = from.saturating_add(long);
    }
    html! {
        div.bar {
            span.name aria-hidden="true" { (variant.name) }
            svg role="img" aria-label=(said) {
                rect.ground width="100%" height="100%" {}
                @for (part, from, long) in parts {
                    rect class=(part) x=(percent(from, whole)) width=(percent(long, whole)) height="100%" {}
                }
            }
            span.value aria-hidden="true" { (Nanos(total)) }
        }
    }
}
