// SPDX-License-Identifier: MIT OR Apache-2.0
//! What PID 1 of a scripted guest tells, and what becomes of it.

use std::sync::Arc;

use bootrig::core::{
    boot::{Outcome, TrialResult, interpret},
    event::Encoder,
    machine::{End, RawBoot},
    oracle::Rule,
    plan::{Overrides, Trial, plan},
    scenario::{Known, Scenario, parse},
};

/// The scenario `x` of this text.
pub fn written(text: &str) -> Scenario {
    parse("x.yaml", text, &Known::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// The first boot of the scenario of this text.
pub fn first(text: &str) -> Trial {
    plan(&[Arc::new(written(text))], Overrides::default()).remove(0)
}

/// What becomes of the first boot of the scenario of this text in which PID 1 wrote `lines`.
pub fn told(text: &str, lines: &[&str]) -> TrialResult {
    interpret(&first(text), &raw(lines))
}

/// What a boot leaves in which PID 1 wrote `lines`.
pub fn raw(lines: &[&str]) -> RawBoot {
    let mut channel = Encoder::default();
    channel.line('i', "hello boot=1 release=6.1.0 cpus=2 mono=280 tsc=300");
    lines.iter().for_each(|line| channel.line('i', line));
    channel.end('i');
    channel.line('k', "config hz=250 tsc_khz=1000000");
    channel.end('k');
    let gave_up = lines.iter().any(|l| l.starts_with("error "));
    RawBoot {
        channel: channel.bytes,
        end: match gave_up {
            true => End::Early("PID 1 gave up".into()),
            false => End::Finished,
        },
        ..RawBoot::default()
    }
}

/// Why a result is lost.
pub fn lost(result: TrialResult) -> String {
    match result.outcome {
        Outcome::LostResult(why) => why,
        other => panic!("{other}"),
    }
}

/// The only violation of a boot that completed.
pub fn violation(result: TrialResult) -> (Rule, String) {
    assert_eq!(result.outcome, Outcome::Completed);
    let [violation] = &result.oracle.violations[..] else {
        panic!("{:?}", result.oracle.violations)
    };
    (violation.rule, violation.what.clone())
}
