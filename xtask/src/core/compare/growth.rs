// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the way in which a sweep's figures grow has changed: the exponents of both sides,
//! each with its interval.

use serde::Serialize;

use crate::core::{growth::Growth, scenario::Over, stats::verdict::Verdict};

/// The smallest change of an exponent that matters: 12 % more time at ten times the size.
const LEAST: f64 = 0.05;

/// One figure's exponent on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GrowthRow {
    /// The sweep.
    pub scenario: String,
    /// Its variant.
    pub variant: String,
    /// Its metric.
    pub metric: String,
    /// What there is more of.
    pub over: Over,
    /// The exponent before and after.
    pub exponents: [f64; 2],
    /// Their 95 % intervals, where three sizes or more were measured.
    pub intervals: [Option<(f64, f64)>; 2],
    /// Slower: it grows faster than it did.
    pub verdict: Verdict,
}

/// The figures that both sides have. A change is one of [`LEAST`] or more whose intervals
/// do not meet: less certain than a test of the two alone, and so never too bold.
pub fn compare(before: &[Growth], after: &[Growth]) -> Vec<GrowthRow> {
    let row = |a: &Growth| {
        let same = |b: &&Growth| b.is_of_same(a);
        let (x, y) = (a.fit.as_ref()?, after.iter().find(same)?.fit.as_ref()?);
        Some(GrowthRow {
            scenario: a.scenario.clone(),
            variant: a.variant.clone(),
            metric: a.metric.clone(),
            over: a.over,
            exponents: [x.exponent, y.exponent],
            intervals: [x.interval, y.interval],
            verdict: verdict([x.exponent, y.exponent], [x.interval, y.interval]),
        })
    };
    let mut rows: Vec<GrowthRow> = before.iter().filter_map(row).collect();
    rows.sort_by_key(|r| r.verdict);
    rows
}

fn verdict([before, after]: [f64; 2], intervals: [Option<(f64, f64)>; 2]) -> Verdict {
    let apart = match intervals {
        [Some(a), Some(b)] => a.1 < b.0 || b.1 < a.0,
        _ => false,
    };
    if (after - before).abs() < LEAST {
        Verdict::NoChange
    } else if !apart {
        Verdict::Inconclusive
    } else if after > before {
        Verdict::Slower
    } else {
        Verdict::Faster
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::growth::fit;

    fn growth(power: f64) -> Growth {
        let points: Vec<(u64, u64)> = [100u64, 200, 400, 800]
            .iter()
            .map(|x| (*x, (1e6 * (*x as f64).powf(power)) as u64))
            .collect();
        Growth {
            scenario: "s".into(),
            variant: "v".into(),
            metric: "probe".into(),
            over: Over::Devices,
            fit: fit(&points),
            points,
            at_most: None,
            ok: None,
        }
    }

    #[test]
    fn linear_that_became_quadratic_is_slower() {
        let verdict = |a, b| compare(&[growth(a)], &[growth(b)])[0].verdict;
        assert_eq!(verdict(1.0, 2.0), Verdict::Slower);
        assert_eq!(verdict(2.0, 1.0), Verdict::Faster);
        assert_eq!(verdict(1.0, 1.04), Verdict::NoChange);
        // Two sizes give an exponent without an interval.
        let mut two = growth(2.0);
        two.points.truncate(2);
        two.fit = fit(&two.points);
        assert_eq!(
            compare(&[growth(1.0)], &[two])[0].verdict,
            Verdict::Inconclusive
        );
        assert_eq!(compare(&[growth(1.0)], &[]), []);
    }
}
