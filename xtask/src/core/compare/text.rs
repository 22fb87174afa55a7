// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison as text for people: Markdown.

use std::fmt::Write;

use super::{Comparison, GrowthRow, Row};
use crate::core::{
    grid::table, metric::Kind, scenario::Clock, stats::verdict::Verdict, units::Nanos,
};

/// Rows of devices and parts that somebody still reads.
const MOST_ROWS: usize = 30;

pub(super) fn text(comparison: &Comparison) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "## {} against {}\n",
        comparison.after, comparison.before
    );
    if !comparison.forced.is_empty() {
        let _ = writeln!(
            out,
            "FORCED: these figures are of different things and their verdicts mean little:\n"
        );
        list(&mut out, &comparison.forced);
    }
    list(&mut out, &comparison.notes);
    let failed = comparison.failed.iter().map(|f| {
        let how = |side: &Option<String>| side.clone().unwrap_or_else(|| "completed".into());
        format!(
            "FAILED {}/{}: before: {}; after: {}; not compared",
            f.scenario,
            f.variant,
            how(&f.before),
            how(&f.after)
        )
    });
    list(&mut out, &failed.collect::<Vec<_>>());
    let (main, rest): (Vec<&Row>, Vec<&Row>) =
        comparison.rows.iter().partition(|r| r.kind == Kind::Metric);
    if !main.is_empty() {
        let _ = writeln!(out, "### metrics\n\n{}\n", rows(&main));
    }
    if !comparison.growth.is_empty() {
        let _ = writeln!(out, "### growth\n\n{}\n", growth(&comparison.growth));
    }
    let same = |r: &&&Row| r.judgement.verdict == Verdict::NoChange && r.note.is_none();
    let changed: Vec<&Row> = rest.iter().filter(|r| !same(r)).copied().collect();
    if !changed.is_empty() {
        let shown = &changed[..changed.len().min(MOST_ROWS)];
        let _ = writeln!(
            out,
            "### devices and parts that differ\n\n{}\n",
            rows(shown)
        );
        if changed.len() > MOST_ROWS {
            let _ = writeln!(
                out,
                "The first {MOST_ROWS}; {} more are in --json.\n",
                changed.len() - MOST_ROWS
            );
        }
    }
    one_phase(&mut out, comparison);
    list(&mut out, &comparison.missing);
    let count = |v: Verdict| {
        let rows = comparison.rows.iter();
        rows.filter(|r| r.judgement.verdict == v).count()
    };
    let counts = [
        Verdict::Slower,
        Verdict::Faster,
        Verdict::Inconclusive,
        Verdict::NoChange,
    ]
    .map(|v| format!("{} {}", count(v), v.text()));
    let _ = writeln!(
        out,
        "{}; {} failed",
        counts.join(", "),
        comparison.failed.len()
    );
    out
}

/// One phase each is exact, but it is one phase.
fn one_phase(out: &mut String, comparison: &Comparison) {
    let small = |r: &&Row| {
        r.clock == Clock::Virtual
            && r.samples == [1, 1]
            && matches!(r.judgement.verdict, Verdict::Slower | Verdict::Faster)
    };
    if !comparison.notes.is_empty() && comparison.rows.iter().any(|r| small(&r)) {
        let _ = writeln!(
            out,
            "One boot a side is exact for one phase of the timer's ticks; with other kernels \
             a callback that sleeps may differ by a tick for that alone: --repeats 5 on both \
             sides looks at five phases.\n"
        );
    }
}

fn list(out: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(out, "- {line}");
    }
    if !lines.is_empty() {
        out.push('\n');
    }
}

fn growth(rows: &[GrowthRow]) -> String {
    let header = [
        "sweep", "variant", "metric", "over", "before", "after", "verdict",
    ];
    let exponent = |value: f64, interval: Option<(f64, f64)>| match interval {
        Some((low, high)) => format!("{value:.3} ({low:.3}..{high:.3})"),
        None => format!("{value:.3}"),
    };
    let cells = |row: &GrowthRow| {
        vec![
            row.scenario.clone(),
            row.variant.clone(),
            row.metric.clone(),
            row.over.to_string(),
            exponent(row.exponents[0], row.intervals[0]),
            exponent(row.exponents[1], row.intervals[1]),
            row.verdict.text().into(),
        ]
    };
    table(&header, rows.iter().map(cells).collect()).to_string()
}

fn rows(rows: &[&Row]) -> String {
    let header = [
        "scenario", "variant", "metric", "before", "after", "change", "ratio", "interval",
        "verdict", "",
    ];
    let cells = |row: &&Row| {
        let j = &row.judgement;
        let sign = if j.after >= j.before { '+' } else { '-' };
        vec![
            row.scenario.clone(),
            row.variant.clone(),
            row.metric.clone(),
            Nanos(j.before).to_string(),
            Nanos(j.after).to_string(),
            match j.before.abs_diff(j.after) {
                0 => "0".into(),
                change => format!("{sign}{}", Nanos(change)),
            },
            j.ratio.map_or("-".into(), |r| format!("{r:.4}")),
            j.interval
                .map_or("-".into(), |[low, high]| format!("{low:.4}..{high:.4}")),
            j.verdict.text().into(),
            row.note.clone().unwrap_or_default(),
        ]
    };
    table(&header, rows.iter().map(cells).collect()).to_string()
}
