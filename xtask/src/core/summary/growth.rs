// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the figures of a sweep grow, and whether its limits are kept.

use super::ScenarioSummary;
use crate::core::{
    growth::{Growth, fit},
    scenario::{GrowthLimit, Metric, Scenario, Variant},
};

/// How every figure of `scenario` grows, if it is swept. Its points are found in `all`.
pub(super) fn of(scenario: &Scenario, all: &[ScenarioSummary]) -> Vec<Growth> {
    let Some(sweep) = &scenario.sweep else {
        return vec![];
    };
    let own = |part: &&ScenarioSummary| part.point.as_ref().is_some_and(|p| p.of == scenario.name);
    let parts: Vec<_> = all.iter().filter(own).collect();
    // What a kernel that checks itself takes says nothing about another.
    let debug = parts.iter().any(|p| p.debug);
    let figures = scenario
        .variants
        .iter()
        .flat_map(|v| scenario.metrics.iter().map(move |m| (v, *m)));
    let growth = |(variant, metric): (&Variant, Metric)| {
        let value = |part: &&ScenarioSummary| {
            let x = part.point.as_ref()?.value;
            let variant = part.variants.iter().find(|v| v.name == variant.name)?;
            let y = variant.metrics.get(metric.name())?.median;
            (variant.completed() && y > 0).then_some((x, y))
        };
        let points: Vec<_> = parts.iter().filter_map(value).collect();
        let fit = fit(&points);
        let limit = |l: &&GrowthLimit| l.variant == variant.name && l.metric == metric;
        let limit = sweep.limits.iter().find(limit).filter(|_| !debug);
        let whole = points.len() == sweep.points.len();
        Growth {
            scenario: scenario.name.clone(),
            variant: variant.name.clone(),
            metric: metric.name().into(),
            over: sweep.over,
            ok: limit
                .zip(fit.filter(|_| whole))
                .map(|(l, f)| f.exponent.max(f.last) <= l.exponent.factor()),
            at_most: limit.map(|l| l.exponent.factor()),
            points,
            fit,
        }
    };
    figures.map(growth).collect()
}
