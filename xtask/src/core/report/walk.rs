// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the report says of walks over paths in sysfs, and what its clock can and cannot show.

use super::{
    Grid,
    growth::{Grown, size},
    or_dash, table,
};
use crate::core::{
    metric::{CHURN_ANSWERS, CHURN_CERTAIN, WALK_LONGEST, WALK_P50, WALK_P99},
    scenario::{Churn, Clock, Metric, Over, Scenario, Walk},
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
        let mut row = vec![
            variant.name.clone(),
            or_dash(time.map(Nanos)),
            or_dash(time.map(|t| Nanos(t / operations))),
            or_dash(rate(scenario, variant).map(|r| format!("{r:.0}"))),
        ];
        let single = [WALK_P50, WALK_P99, WALK_LONGEST];
        row.extend(single.map(|part| or_dash(median(part).map(Nanos))));
        row
    };
    table(&header, part.variants.iter().map(row).collect())
}

fn found<'s>(part: &'s ScenarioSummary, name: &str) -> Option<&'s VariantSummary> {
    part.variants.iter().find(|v| v.name == name)
}

/// Operations a second.
fn rate(scenario: &Scenario, variant: &VariantSummary) -> Option<f64> {
    let time = variant.metrics.get(Metric::Walk.name())?.median;
    let operations = scenario.walk?.operations();
    (time > 0).then(|| operations as f64 * 1e9 / time as f64)
}

/// What more threads bring: tables with a row a variant and a column a number of threads.
/// Nothing where `sweep` is not one of a walk over threads.
pub(super) fn by_threads(sweep: &Grown, scenarios: &[&Scenario]) -> Vec<(&'static str, Grid)> {
    let of = |part: &ScenarioSummary| scenarios.iter().find(|s| s.name == part.name).copied();
    let sizes: Option<Vec<_>> = sweep.parts.iter().map(|p| Some((*p, of(p)?))).collect();
    let sizes = sizes.unwrap_or_default();
    let Some((first, of_first)) = sizes.first().copied() else {
        return Vec::new();
    };
    if sweep.over != Over::Threads || of_first.walk.is_none() {
        return Vec::new();
    }
    let value = |part: &ScenarioSummary| part.point.as_ref().map_or(0, |p| p.value);
    let grid = |cell: &dyn Fn(&ScenarioSummary, &Scenario, &str) -> Option<String>| {
        let mut header = vec!["threads".to_owned()];
        header.extend(sizes.iter().map(|(p, _)| size(sweep.over, value(p))));
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let row = |variant: &VariantSummary| {
            let cells = sizes
                .iter()
                .map(|(p, s)| or_dash(cell(p, s, &variant.name)));
            [variant.name.clone()].into_iter().chain(cells).collect()
        };
        table(&header, first.variants.iter().map(row).collect())
    };
    let figure = |metric: &'static str| {
        grid(&move |part, _, name| {
            let measured = found(part, name)?.metrics.get(metric)?;
            Some(Nanos(measured.median).to_string())
        })
    };
    let of_one = |name: &str| {
        let alone = value(first) == 1;
        rate(of_first, found(first, name)?).filter(|_| alone)
    };
    let rates = grid(&|part, scenario, name| {
        let rate = rate(scenario, found(part, name)?)?;
        let times = of_one(name).map(|one| format!(" ({:.2})", rate / one));
        Some(format!("{rate:.0}{}", times.unwrap_or_default()))
    });
    vec![
        ("operations a second (T(n)/T(1))", rates),
        ("half of the operations within", figure(WALK_P50)),
        ("99 % of the operations within", figure(WALK_P99)),
        ("the longest operation", figure(WALK_LONGEST)),
    ]
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
    Some(format!("{walk}. {}", meaning(scenario, part)))
}

/// How to read what `part` and the other numbers of threads show.
pub(super) fn sweep_note(part: &ScenarioSummary, scenarios: &[&Scenario]) -> Option<&'static str> {
    let scenario = scenarios.iter().find(|s| s.name == part.name)?;
    scenario.walk.map(|_| meaning(scenario, part))
}

fn meaning(scenario: &Scenario, part: &ScenarioSummary) -> &'static str {
    match part.variants.first().map_or(scenario.clock, |v| v.clock) {
        Clock::Virtual => {
            "In virtual time all CPUs share one core: this is the work that an operation costs, \
             and hardly any of what it waits for others (docs/method.md)."
        }
        Clock::Wall => {
            "By the wall clock operations wait for others. Threads beyond the host's own CPUs \
             (see the environment) take turns on these: what they gain where there are more \
             CPUs, this host cannot show."
        }
    }
}
