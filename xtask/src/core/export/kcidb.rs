// SPDX-License-Identifier: MIT OR Apache-2.0
//! KCIDB's submission format, version 5.3: a checkout and a build for each kernel, a test for
//! each variant's boots and one for each of its times.

use serde_json::{Value, json};

use super::{Kernel, Measured, Run, seconds, times};
use crate::core::{boot::Outcome, summary::VariantSummary};

pub(super) fn report(run: &Run) -> Value {
    let (mut checkouts, mut builds, mut tests) = (vec![], vec![], vec![]);
    for kernel in run.kernels {
        let id = id(run, &kernel.key);
        checkouts.push(json!({
            "id": id,
            "origin": run.origin,
            "comment": text(&kernel.source),
            "start_time": run.begun,
            "valid": true,
        }));
        builds.push(json!({
            "id": id,
            "checkout_id": id,
            "origin": run.origin,
            "architecture": "x86_64",
            "compiler": text(&kernel.compiler),
            "config_name": "bootrig",
            "status": "PASS",
            "comment": text(&kernel.name),
        }));
    }
    for scenario in &run.summary.scenarios {
        for variant in &scenario.variants {
            let place = format!("{}/{}", scenario.name, variant.name);
            let Some(kernel) = booted(run, &place) else {
                continue;
            };
            tests.push(boots(run, kernel, &place, variant));
        }
    }
    for measured in times(run) {
        let place = format!("{}/{}", measured.scenario.name, measured.variant.name);
        if let Some(kernel) = booted(run, &place) {
            tests.push(time(run, kernel, &measured));
        }
    }
    json!({
        "version": {"major": 5, "minor": 3},
        "checkouts": checkouts,
        "builds": builds,
        "tests": tests,
    })
}

fn booted<'a>(run: &Run<'a>, place: &str) -> Option<&'a Kernel> {
    let booted = |k: &&Kernel| k.booted.iter().any(|b| b == place);
    run.kernels.iter().find(booted)
}

fn boots(run: &Run, kernel: &Kernel, place: &str, variant: &VariantSummary) -> Value {
    let status = match &variant.outcome {
        Some(Outcome::Completed) if variant.oracle.violations.is_empty() => "PASS",
        Some(Outcome::Infrastructure(_)) | None => "MISS",
        Some(Outcome::NotAvailable(_)) => "SKIP",
        Some(_) => "FAIL",
    };
    json!({
        "id": id(run, place),
        "build_id": id(run, &kernel.key),
        "origin": run.origin,
        "path": path(place),
        "status": status,
        "start_time": run.begun,
        "comment": text(&variant.outcome_text()),
        "misc": {"clock": variant.clock, "oracle": variant.oracle},
    })
}

fn time(run: &Run, kernel: &Kernel, measured: &Measured) -> Value {
    let m = measured.metric;
    let mut misc = json!({"clock": measured.variant.clock, "samples_ns": m.samples});
    if let Some(ideal) = m.ideal {
        misc["ideal_ns"] = ideal.into();
    }
    json!({
        "id": id(run, &measured.path()),
        "build_id": id(run, &kernel.key),
        "origin": run.origin,
        "path": path(&measured.path()),
        "status": "DONE",
        "start_time": run.begun,
        "number": {"value": seconds(m.median), "unit": "s", "prefix": "metric"},
        "misc": misc,
    })
}

fn id(run: &Run, what: &str) -> String {
    format!("{}:{}:{what}", run.origin, run.summary.run)
}

/// A path's parts are joined by dots, so that none is within one.
fn path(place: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let part = |p: &str| p.replace(|c| !plain(c), "_");
    let parts: Vec<String> = place.split('/').map(part).collect();
    format!("bootrig.{}", parts.join("."))
}

/// Without the one character that the schema forbids.
fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
