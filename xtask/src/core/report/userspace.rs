// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the report says of a distribution's user space: udev's coldplug and its parts.

use super::{Grid, or_dash, table};
use crate::core::{
    metric::{COLDPLUG_EVENTS, COLDPLUG_SETTLE, COLDPLUG_TRIGGER, COLDPLUG_UDEVD},
    scenario::{Metric, Scenario},
    summary::{ScenarioSummary, VariantSummary},
    units::Nanos,
};

/// The table of the metric `coldplug`.
pub(super) fn coldplug_table(scenario: &Scenario, part: &ScenarioSummary) -> Grid {
    let header = [
        "variant",
        Metric::Coldplug.name(),
        "trigger",
        "settle",
        "events",
        "an event",
        "udevd's start",
        "children",
        "rule that forks",
    ];
    let row = |variant: &VariantSummary| {
        let median = |metric: &str| variant.metrics.get(metric).map(|m| m.median);
        let time = |metric: &str| or_dash(median(metric).map(Nanos));
        let how = scenario.variants.iter().find(|v| v.name == variant.name);
        let how = how.and_then(|v| v.coldplug.as_ref());
        let (all, events) = (median(Metric::Coldplug.name()), median(COLDPLUG_EVENTS));
        let each = all
            .zip(events.filter(|n| *n > 0))
            .map(|(t, n)| Nanos(t / n));
        vec![
            variant.name.clone(),
            time(Metric::Coldplug.name()),
            time(COLDPLUG_TRIGGER),
            time(COLDPLUG_SETTLE),
            or_dash(events),
            or_dash(each),
            time(COLDPLUG_UDEVD),
            or_dash(how.map(|c| {
                c.children_max
                    .map_or("udev's".to_owned(), |n| n.to_string())
            })),
            or_dash(how.map(|c| if c.forking_rule { "yes" } else { "no" })),
        ]
    };
    table(&header, part.variants.iter().map(row).collect())
}

/// How to read it.
pub(super) fn note(scenario: &Scenario) -> Option<&'static str> {
    scenario.metrics.contains(&Metric::Coldplug).then_some(
        "coldplug: from the first `udevadm trigger` to the end of `udevadm settle`; udevd's own \
         start comes before it.",
    )
}
