// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drift over the order in which values were measured: Mann's trend test (*Nonparametric
//! tests against trend*, 1945) in Kendall's form, and the slope of Theil (1950) and Sen
//! (1968).

use statrs::function::erf::erfc;

use super::{median, median_of};

/// Fewer values show no trend.
const FEWEST: usize = 8;
/// How improbable a trend must be without one.
const ALPHA: f64 = 0.001;

/// Values that grow, or shrink, as time goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// From the first value to the last, as a part of their median.
    pub change: f64,
    /// How probable such an order is by chance.
    pub p: f64,
}

/// The drift of `values`, in the order in which they were measured, if there is one.
pub fn drift(values: &[u64]) -> Option<Drift> {
    if values.len() < FEWEST {
        return None;
    }
    let (mut sum, mut slopes) = (0i64, Vec::new());
    for (i, early) in values.iter().enumerate() {
        for (j, late) in values.iter().enumerate().skip(i + 1) {
            sum += late.cmp(early) as i64;
            slopes.push((*late as f64 - *early as f64) / (j - i) as f64);
        }
    }
    let n = values.len() as f64;
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let ties: f64 = sorted
        .chunk_by(|x, y| x == y)
        .map(|group| {
            let t = group.len() as f64;
            t * (t - 1.0) * (2.0 * t + 5.0)
        })
        .sum();
    let variance = (n * (n - 1.0) * (2.0 * n + 5.0) - ties) / 18.0;
    if variance <= 0.0 {
        return None;
    }
    let z = (sum.unsigned_abs() as f64 - 1.0).max(0.0) / variance.sqrt();
    let p = erfc(z / std::f64::consts::SQRT_2);
    let change = median_of(slopes) * (n - 1.0) / median(values).max(1) as f64;
    (p < ALPHA).then_some(Drift { change, p })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::stats::{random, tests::noisy};
    use proptest::prelude::*;

    proptest! {
        /// What only grows drifts up; backwards it drifts down just as much.
        #[test]
        fn has_a_direction(steps in proptest::collection::vec(1..1000u64, 10..40)) {
            let up: Vec<u64> = steps.iter().scan(1_000_000, |v, s| { *v += s; Some(*v) }).collect();
            let down: Vec<u64> = up.iter().rev().copied().collect();
            let (up, down) = (drift(&up).unwrap(), drift(&down).unwrap());
            prop_assert!(up.change > 0.0 && (up.change + down.change).abs() < 1e-9);
        }
    }

    #[test]
    fn noise_does_not_drift_and_warming_does() {
        let mut random = random(11);
        let mut still = 0;
        for _ in 0..200 {
            let mut values = noisy(&mut random, 20, 1e9, 0.02);
            still += usize::from(drift(&values).is_some());
            for (i, value) in values.iter_mut().enumerate() {
                *value += i as u64 * 10_000_000;
            }
            let found = drift(&values).expect("20 % over 20 values");
            assert!((0.1..0.3).contains(&found.change), "{found:?}");
        }
        assert!(still <= 2, "{still} of 200");
        assert_eq!(drift(&[1, 2, 3, 4, 5, 6, 7]), None);
        assert_eq!(drift(&[5; 30]), None);
    }
}
