// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a figure grows over a sweep: the exponent `b` of `a * x^b`, fitted as a straight line
//! through the logarithms by least squares, with its interval by Student's t distribution.
//! docs/method.md says what the interval means in virtual time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{scenario::Over, stats::median};

/// How one figure of one variant grows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// The scenario.
    pub scenario: String,
    /// Whose figure.
    pub variant: String,
    /// Which figure.
    pub metric: String,
    /// What is there more of.
    pub over: Over,
    /// (how much there is, the median of the figure), rising; without those that did not
    /// complete or are zero.
    pub points: Vec<(u64, u64)>,
    /// The exponent, where there are two points or more.
    pub fit: Option<Fit>,
    /// The greatest exponent that is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Whether it is kept: the exponent and that of the last two points; `None`: none is
    /// said, or points are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
}

impl Growth {
    /// Whether `other` is of the same figure.
    pub fn is_of_same(&self, other: &Self) -> bool {
        (&self.scenario, &self.variant, &self.metric, self.over)
            == (&other.scenario, &other.variant, &other.metric, other.over)
    }
}

/// An exponent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Over all points.
    pub exponent: f64,
    /// Its 95 % interval; needs three points.
    pub interval: Option<(f64, f64)>,
    /// Between the last two points alone: where fixed costs hide the growth at first, it
    /// shows here.
    pub last: f64,
}

/// Fits the exponent through `points`, whose values are above zero and whose sizes rise.
/// `None`: fewer than two, or sizes that cannot be told apart.
pub fn fit(points: &[(u64, u64)]) -> Option<Fit> {
    let logs: Vec<(f64, f64)> = points
        .iter()
        .map(|(x, y)| ((*x as f64).ln(), (*y as f64).ln()))
        .collect();
    let [.., before, end] = logs[..] else {
        return None;
    };
    let n = logs.len() as f64;
    let mean_x = logs.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_y = logs.iter().map(|p| p.1).sum::<f64>() / n;
    let spread: f64 = logs.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let together: f64 = logs.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let exponent = together / spread;
    let residual = |p: &(f64, f64)| p.1 - mean_y - exponent * (p.0 - mean_x);
    let left: f64 = logs.iter().map(|p| residual(p).powi(2)).sum();
    let interval = (logs.len() > 2).then(|| {
        let error = (left / (n - 2.0) / spread).sqrt();
        let wide = error * student_95(logs.len() - 2);
        (exponent - wide, exponent + wide)
    });
    let last = (end.1 - before.1) / (end.0 - before.0);
    (exponent.is_finite() && last.is_finite()).then_some(Fit {
        exponent,
        interval,
        last,
    })
}

/// The two-sided 95 % quantile of Student's t distribution.
fn student_95(freedom: usize) -> f64 {
    use statrs::distribution::{ContinuousCDF, StudentsT};
    let t = StudentsT::new(0.0, 1.0, freedom as f64).expect("the freedom is above zero");
    t.inverse_cdf(0.975)
}

/// What several runs of the same say together: through the medians of their points.
/// Whether a limit is kept is each run's own, and not said.
pub fn pool(runs: &[Vec<Growth>]) -> Vec<Growth> {
    let mut pooled: Vec<Growth> = Vec::new();
    for growth in runs.iter().flatten() {
        let same = |g: &Growth| g.is_of_same(growth);
        if pooled.iter().any(same) {
            continue;
        }
        let mut values: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (x, y) in runs
            .iter()
            .flatten()
            .filter(|g| same(g))
            .flat_map(|g| &g.points)
        {
            values.entry(*x).or_default().push(*y);
        }
        let points: Vec<_> = values.iter().map(|(x, ys)| (*x, median(ys))).collect();
        pooled.push(Growth {
            fit: fit(&points),
            points,
            ok: None,
            ..growth.clone()
        });
    }
    pooled
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A power law gives its exponent back, whatever the factor, and a narrow interval.
        #[test]
        fn finds_the_exponent(b in 0.0f64..2.5, a in 1e6f64..1e9, n in 3usize..9) {
            let points: Vec<_> = (0..n)
                .map(|i| {
                    let x = 10u64 << (2 * i);
                    (x, (a * (x as f64).powf(b)) as u64)
                })
                .filter(|p| p.1 < 1 << 62)
                .collect();
            prop_assume!(points.len() > 2);
            let fit = fit(&points).unwrap();
            prop_assert!((fit.exponent - b).abs() < 1e-3, "{fit:?}");
            prop_assert!((fit.last - b).abs() < 1e-3, "{fit:?}");
            let (low, high) = fit.interval.unwrap();
            prop_assert!(low <= fit.exponent && fit.exponent <= high && high - low < 1e-2, "{fit:?}");
        }

        /// Other units change no exponent.
        #[test]
        fn units_do_not_matter(ys in proptest::collection::vec(1u64..1_000_000, 3..8), k in 2u64..1000) {
            let at = |k: u64| -> Vec<_> { ys.iter().enumerate().map(|(i, y)| (i as u64 + 1, y * k)).collect() };
            let (one, other) = (fit(&at(1)).unwrap(), fit(&at(k)).unwrap());
            prop_assert!((one.exponent - other.exponent).abs() < 1e-6);
        }
    }

    #[test]
    fn too_few_points_have_no_interval_or_no_exponent() {
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[(1, 1)]), None);
        let two = fit(&[(10, 5), (100, 500)]).unwrap();
        assert!((two.exponent - 2.0).abs() < 1e-9 && two.interval.is_none());
    }

    /// No run's points are lost, and one wild run does not decide.
    #[test]
    fn runs_of_the_same_are_pooled() {
        let of = |metric: &str, points: &[(u64, u64)]| Growth {
            scenario: "s".into(),
            variant: "v".into(),
            metric: metric.into(),
            over: Over::Devices,
            points: points.to_vec(),
            fit: fit(points),
            at_most: None,
            ok: Some(true),
        };
        let flat = [(10, 100), (100, 100)];
        let runs = [
            vec![of("boot", &flat)],
            vec![of("boot", &[(10, 100), (100, 9_000)])],
            vec![
                of("boot", &[(10, 100), (100, 100), (1000, 1000)]),
                of("probe", &flat),
            ],
        ];
        let pooled = pool(&runs);
        assert_eq!(pooled.len(), 2);
        assert_eq!(pooled[0].points, [(10, 100), (100, 100), (1000, 1000)]);
        assert!((pooled[0].fit.unwrap().last - 1.0).abs() < 1e-9);
        assert_eq!(pooled[1].fit, fit(&flat));
        assert_eq!(pooled[0].ok, None);
        assert!(pool(&[]).is_empty());
    }

    /// Table values of the t distribution.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, want) in [(1, 12.706), (2, 4.303), (3, 3.182), (30, 2.042)] {
            assert!((student_95(freedom) - want).abs() < 1e-3, "{freedom}");
        }
    }
}
