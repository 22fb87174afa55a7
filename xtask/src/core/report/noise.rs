// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the host can see by the wall clock, and what makes its figures doubtful.

use std::fmt::Write;

use super::{Grid, table};
use crate::core::summary::ScenarioSummary;

/// The A/A table and the warnings; nothing where there are none.
pub(super) fn noise(out: &mut String, part: &ScenarioSummary) {
    if let Some((of, grid)) = seen(part) {
        let _ = writeln!(out, "### what this host can see: {of}\n\n{grid}\n");
    }
    for warning in &part.warnings {
        let _ = writeln!(out, "- warning: {}: {warning}", part.name);
    }
    if !part.warnings.is_empty() {
        out.push('\n');
    }
}

/// The A/A table, with what was booted for it; `None`: nothing was.
pub(super) fn seen(part: &ScenarioSummary) -> Option<(String, Grid)> {
    let noise = part.noise.as_ref().filter(|n| !n.metrics.is_empty())?;
    let percent = |part: f64| format!("{:.2} %", part * 100.0);
    let rows = noise.metrics.iter().map(|(metric, n)| {
        vec![
            metric.clone(),
            percent(n.spread),
            percent(n.floor),
            n.smallest.map_or("none".into(), percent),
        ]
    });
    let header = ["metric", "spread", "noise floor", "smallest change seen"];
    let of = format!("{} boots of {}/{}", noise.boots, part.name, noise.variant);
    Some((of, table(&header, rows.collect())))
}
