// SPDX-License-Identifier: MIT OR Apache-2.0
//! A boot's callbacks over time as plain text, for mails.

use std::fmt::Write;

use crate::core::{
    blame,
    event::{BootLog, Callback, CallbackEvent, Mark},
    scenario::{Metric, Scenario},
    units::Nanos,
};

/// Columns of time.
const WIDTH: u64 = 60;
/// Rows that somebody still reads; the longest callbacks have them.
const MOST_ROWS: usize = 24;

/// What `log` did in the phase that `metric` is about, a row a device, on a scale of `window`
/// ns; `None`: the phase has no callbacks.
pub fn gantt(scenario: &Scenario, log: &BootLog, metric: Metric, window: u64) -> Option<String> {
    let phase = phase(metric);
    // A boot that hung has a beginning.
    let mark = match phase {
        Callback::Shutdown => Mark::ShutdownBegin,
        _ => Mark::AttachBegin,
    };
    let start = log.marks.get(&mark)?.mono.0;
    let of_phase = log.callbacks.iter().filter(|e| e.callback == phase);
    let spans = of_phase.filter_map(CallbackEvent::span);
    let mut rows: Vec<(String, u64, u64)> = spans
        .filter_map(|span| {
            let name = scenario.devices.get(span.device)?.name.clone();
            let since = |t: Nanos| t.0.saturating_sub(start);
            Some((name, since(span.begin), since(span.end)))
        })
        .collect();
    rows.sort_by_key(|(_, begin, end)| std::cmp::Reverse(end - begin));
    let left_out = rows.len().saturating_sub(MOST_ROWS);
    rows.truncate(MOST_ROWS);
    if rows.is_empty() || window == 0 {
        return None;
    }
    rows.sort_by_key(|row| (row.1, row.2));
    let name_width = rows.iter().map(|r| r.0.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (name, begin, end) in &rows {
        let column = |t: u64| (u128::from(t) * u128::from(WIDTH) / u128::from(window)) as u64;
        let from = column(*begin).min(WIDTH - 1);
        let to = column(*end).clamp(from + 1, WIDTH);
        let bar = "#".repeat((to - from) as usize);
        let _ = writeln!(
            out,
            "{name:name_width$} |{:pad$}{bar:rest$}| {}",
            "",
            Nanos(end - begin),
            pad = from as usize,
            rest = (WIDTH - from) as usize
        );
    }
    if left_out > 0 {
        let _ = writeln!(out, "and {left_out} shorter ones");
    }
    Some(out)
}

/// The phase that [`gantt`] draws, in ns, where it is known.
pub fn window(log: &BootLog, metric: Metric) -> Option<u64> {
    let (begin, end) = blame::window(log, phase(metric))?;
    Some((end - begin).0)
}

/// Whose callbacks a metric is about.
fn phase(metric: Metric) -> Callback {
    match metric {
        Metric::Probe | Metric::Bound | Metric::Ready | Metric::Load => Callback::Probe,
        _ => Callback::Shutdown,
    }
}
