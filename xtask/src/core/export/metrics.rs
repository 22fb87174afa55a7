// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forms that hold numbers only: what did not complete is not in them.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::{Measured, Run, seconds, times};

/// hyperfine's: seconds; each metric of each variant is a command.
pub(super) fn hyperfine(run: &Run) -> Value {
    let result = |m: Measured| {
        let times: Vec<f64> = m.metric.samples.iter().map(|s| seconds(*s)).collect();
        let n = times.len() as f64;
        let mean = times.iter().sum::<f64>() / n;
        let squares: f64 = times.iter().map(|t| (t - mean).powi(2)).sum();
        let deviation = (times.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
        json!({
            "command": m.path(),
            "mean": mean,
            "stddev": deviation,
            "median": seconds(m.metric.median),
            "user": 0.0,
            "system": 0.0,
            "min": times.iter().copied().fold(f64::INFINITY, f64::min),
            "max": times.iter().copied().fold(0.0, f64::max),
            "exit_codes": vec![0; times.len()],
            "times": times,
            "parameters": {
                "scenario": m.scenario.name,
                "variant": m.variant.name,
                "metric": m.name,
                "clock": m.variant.clock.to_string(),
            },
        })
    };
    json!({"results": times(run).map(result).collect::<Vec<_>>()})
}

/// customSmallerIsBetter: name, unit, value, range, extra.
pub(super) fn github_action_benchmark(run: &Run) -> Value {
    let entry = |m: Measured| {
        let [low, high] = m.interval();
        json!({
            "name": m.path(),
            "unit": "ms",
            "value": m.metric.median as f64 / 1e6,
            "range": format!("± {}", ((high - low) / 2.0).round() / 1e6),
            "extra": format!(
                "run {}, {} time, {} samples",
                run.summary.run,
                m.variant.clock,
                m.metric.samples.len()
            ),
        })
    };
    times(run).map(entry).collect()
}

/// Bencher's: benchmark, then measure; its `latency` is in ns.
pub(super) fn bencher(run: &Run) -> Value {
    let entry = |m: Measured| {
        let [low, high] = m.interval();
        let latency = json!({
            "value": m.metric.median,
            "lower_value": low,
            "upper_value": high,
        });
        (m.path(), json!({"latency": latency}))
    };
    Value::Object(times(run).map(entry).collect::<Map<_, _>>())
}

/// Gauges in seconds, and whether each variant completed.
pub(super) fn prometheus(run: &Run) -> String {
    let mut out = String::new();
    type Value = fn(&Measured) -> Option<f64>;
    let families: [(&str, &str, Value); 4] = [
        ("bootrig_seconds", "Median over the boots.", |m| {
            Some(seconds(m.metric.median))
        }),
        (
            "bootrig_seconds_lower",
            "Lower end of the median's 95 % interval.",
            |m| Some(m.interval()[0] / 1e9),
        ),
        (
            "bootrig_seconds_upper",
            "Upper end of the median's 95 % interval.",
            |m| Some(m.interval()[1] / 1e9),
        ),
        (
            "bootrig_ideal_seconds",
            "The best possible time, where it is known.",
            |m| m.metric.ideal.map(seconds),
        ),
    ];
    for (name, help, value) in families {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
        for m in times(run) {
            if let Some(value) = value(&m) {
                let _ = writeln!(
                    out,
                    "{name}{{scenario=\"{}\",variant=\"{}\",metric=\"{}\",clock=\"{}\"}} {value}",
                    label(&m.scenario.name),
                    label(&m.variant.name),
                    label(m.name),
                    m.variant.clock
                );
            }
        }
    }
    let name = "bootrig_completed";
    let _ = writeln!(
        out,
        "# HELP {name} Whether all boots of a variant completed.\n# TYPE {name} gauge"
    );
    for scenario in &run.summary.scenarios {
        for variant in scenario.variants.iter().filter(|v| !v.is_not_available()) {
            let _ = writeln!(
                out,
                "{name}{{scenario=\"{}\",variant=\"{}\"}} {}",
                label(&scenario.name),
                label(&variant.name),
                u8::from(variant.completed())
            );
        }
    }
    out
}

fn label(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
