// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the report says of a boot of systemd: its figures, the units that took longest, and
//! what multi-user.target waited for.

use super::{Grid, or_dash, table};
use crate::core::{
    event::{SystemdBoot, UnitTime},
    metric::{SYSTEMD_SETTLED, SYSTEMD_TARGET, SYSTEMD_UNITS},
    scenario::{Metric, Scenario, Systemd},
    summary::{ScenarioSummary, VariantSummary},
    units::Nanos,
};

/// The table of the metric `systemd`.
pub(super) fn table_of(scenario: &Scenario, part: &ScenarioSummary) -> Grid {
    let header = [
        "variant",
        Metric::Systemd.name(),
        "multi-user.target",
        "udev is done",
        "units",
        "not started",
        "slowest unit",
        "default_timeout_start_sec",
    ];
    let row = |variant: &VariantSummary| {
        let median = |metric: &str| variant.metrics.get(metric).map(|m| m.median);
        let time = |metric: &str| or_dash(median(metric).map(Nanos));
        let how = scenario.variants.iter().find(|v| v.name == variant.name);
        let how = how.and_then(|v| v.systemd.as_ref());
        let boot = variant.systemd.as_ref();
        let slowest = boot.and_then(|b| b.slow.first());
        vec![
            variant.name.clone(),
            time(Metric::Systemd.name()),
            time(SYSTEMD_TARGET),
            time(SYSTEMD_SETTLED),
            or_dash(median(SYSTEMD_UNITS)),
            or_dash(boot.map(|b| b.broken_in_all)),
            or_dash(slowest.map(|u| format!("{} ({})", u.unit, u.end - u.begin))),
            or_dash(how.map(Systemd::timeout_text)),
        ]
    };
    table(&header, part.variants.iter().map(row).collect())
}

/// How to read it.
pub(super) fn note(scenario: &Scenario) -> Option<&'static str> {
    scenario.metrics.contains(&Metric::Systemd).then_some(
        "systemd: from its own first act until nothing is left to be started, which is what \
         systemd-analyze calls userspace; the target and the end of udev's work are counted from \
         there too. Slowest units and the critical chain are of each variant's first boot.",
    )
}

/// The units that took longest, and the critical chains, each with what it is of.
pub(super) fn grids(part: &ScenarioSummary) -> Vec<(&'static str, Grid)> {
    type List = fn(&SystemdBoot) -> &Vec<UnitTime>;
    let lists: [(&str, List); 2] = [
        ("slowest units of systemd", |b| &b.slow),
        ("critical chain of multi-user.target", |b| &b.chain),
    ];
    let grid = |(what, list): (&'static str, List)| {
        let rows: Vec<_> = part
            .variants
            .iter()
            .filter_map(|v| Some((v, v.systemd.as_ref()?)))
            .flat_map(|(v, boot)| list(boot).iter().map(|unit| unit_row(v, boot, unit)))
            .collect();
        let header = ["variant", "unit", "after", "took"];
        (!rows.is_empty()).then(|| (what, table(&header, rows)))
    };
    lists.into_iter().filter_map(grid).collect()
}

/// `after`: from systemd's first act until the unit was there.
fn unit_row(variant: &VariantSummary, boot: &SystemdBoot, unit: &UnitTime) -> Vec<String> {
    vec![
        variant.name.clone(),
        unit.unit.clone(),
        (unit.end - boot.start).to_string(),
        (unit.end - unit.begin).to_string(),
    ]
}
