// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSV: one line a metric, devices included, and one a variant that did not complete. No
//! field but the last can hold a comma; that one is quoted (RFC 4180).

use std::fmt::Write;

use super::{Run, all};

pub(super) fn write(run: &Run) -> String {
    let mut out = String::from(
        "run,begun,scenario,variant,clock,metric,unit,samples,median,minimum,maximum,ideal,efficiency,outcome\n",
    );
    let (id, begun) = (&run.summary.run, run.begun);
    for m in all(run) {
        let (samples, metric) = (&m.metric.samples, m.metric);
        let number = |value: Option<u64>| value.map_or(String::new(), |v| v.to_string());
        let _ = writeln!(
            out,
            "{id},{begun},{},{},{},{},{},{},{},{},{},{},{},completed",
            m.scenario.name,
            m.variant.name,
            m.variant.clock,
            m.name,
            metric.unit.name(),
            samples.len(),
            metric.median,
            number(samples.iter().min().copied()),
            number(samples.iter().max().copied()),
            number(metric.ideal),
            metric.efficiency.map_or(String::new(), |e| e.to_string()),
        );
    }
    for scenario in &run.summary.scenarios {
        for variant in scenario.variants.iter().filter(|v| !v.completed()) {
            let _ = writeln!(
                out,
                "{id},{begun},{},{},{},,,,,,,,,\"{}\"",
                scenario.name,
                variant.name,
                variant.clock,
                variant.outcome_text().replace('"', "\"\"")
            );
        }
    }
    out
}
