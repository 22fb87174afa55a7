// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the report says of memory that was plugged in.

use super::{Grid, or_dash};
use crate::core::{
    metric::HOTPLUG_THERE,
    scenario::{Memory, Metric, Scenario},
    summary::{ScenarioSummary, VariantSummary},
    units::Nanos,
};

/// The table of the metric `hotplug`: each row says how the memory came.
pub(super) fn table(scenario: &Scenario, part: &ScenarioSummary) -> Grid {
    let header = [
        "variant",
        Metric::Hotplug.name(),
        "a block",
        "all there after",
        "how",
    ];
    let blocks = scenario.memory.map_or(1, |m| u64::from(m.blocks));
    let how = scenario.memory.and_then(Memory::hotplug);
    let row = |variant: &VariantSummary| {
        let median = |metric: &str| variant.metrics.get(metric).map(|m| m.median);
        let time = median(Metric::Hotplug.name());
        vec![
            variant.name.clone(),
            or_dash(time.map(Nanos)),
            or_dash(time.map(|t| Nanos(t / blocks))),
            or_dash(median(HOTPLUG_THERE).map(Nanos)),
            or_dash(how),
        ]
    };
    super::table(&header, part.variants.iter().map(row).collect())
}
