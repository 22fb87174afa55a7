// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the report says of walks over paths in sysfs, and what its clock can and cannot show.

use super::{Grid, or_dash, table};
use crate::core::{
    metric::{CHURN_ANSWERS, CHURN_CERTAIN, WALK_LONGEST, WALK_P50, WALK_P99},
    scenario::{Churn, Clock, Metric, Scenario, Walk},
    summary::{ScenarioSummary, VariantSummary},
    units::Nanos,
};

/// The table of the metric `walk`.
pub(super) fn walk_table(scenario: &Scenario, part: &ScenarioSummary) -> Grid {
    let header = [
        "variant",
        Metric::Walk.name(),
        "per operation",
        "operations a second",
        "half within",
        "99 % within",
        "longest",
    ];
    let operations = scenario.walk.map_or(1, Walk::operations);
    let row = |variant: &VariantSummary| {
        let median = |metric: &str| variant.metrics.get(metric).map(|m| m.median);
        let time = median(Metric::Walk.name());
        let rate = time
            .filter(|t| *t > 0)
            .map(|t| (u128::from(operations) * 1_000_000_000 / u128::from(t)).to_string());
        let mut row = vec![
            variant.name.clone(),
            or_dash(time.map(Nanos)),
            or_dash(time.map(|t| Nanos(t / operations))),
            or_dash(rate),
        ];
        let single = [WALK_P50, WALK_P99, WALK_LONGEST];
        row.extend(single.map(|part| or_dash(median(part).map(Nanos))));
        row
    };
    table(&header, part.variants.iter().map(row).collect())
}

/// The table of the metric `churn`.
pub(super) fn churn_table(scenario: &Scenario, part: &ScenarioSummary) -> Grid {
    let header = ["variant", "churn", "a change", "answers", "certain"];
    let changes = scenario.churn.map_or(1, Churn::changes);
    let row = |variant: &VariantSummary| {
        let median = |metric: &str| variant.metrics.get(metric).map(|m| m.median);
        let time = median(Metric::Churn.name());
        vec![
            variant.name.clone(),
            or_dash(time.map(Nanos)),
            or_dash(time.map(|t| Nanos(t / changes))),
            or_dash(median(CHURN_ANSWERS)),
            or_dash(median(CHURN_CERTAIN)),
        ]
    };
    table(&header, part.variants.iter().map(row).collect())
}

/// What was walked, and how to read it.
pub(super) fn note(scenario: &Scenario, part: &ScenarioSummary) -> Option<String> {
    let walk = scenario.walk?;
    let clock = part.variants.first().map_or(scenario.clock, |v| v.clock);
    let meaning = match clock {
        Clock::Virtual => {
            "In virtual time all CPUs share one core: this is the work that an operation costs, \
             and hardly any of what it waits for others (docs/method.md)."
        }
        Clock::Wall => {
            "By the wall clock operations wait for others. Threads beyond the host's own CPUs \
             (see the environment) take turns on these: what they gain where there are more \
             CPUs, this host cannot show."
        }
    };
    Some(format!("{walk}. {meaning}"))
}
