// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics over samples: pure functions, each method with its source in
//! docs/method.md. What is drawn at random is drawn from a fixed seed, so that the same
//! samples always mean the same.

use rand_pcg::{Pcg64Mcg, rand_core::SeedableRng};

pub mod binomial;
pub mod bootstrap;
pub mod change;
pub mod drift;
pub mod noise;
pub mod outliers;
pub mod rank;
pub mod verdict;

/// A source of random numbers that is the same on every machine and in every version.
pub fn random(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed)
}

/// The median: the middle value, or the mean of the middle two, rounded down. 0 when
/// there are none.
pub fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    middle(&mut sorted)
}

/// [`median`] of values whose order does not matter any more.
fn middle(values: &mut [u64]) -> u64 {
    if values.is_empty() {
        return 0;
    }
    let half = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (below, high, _) = values.select_nth_unstable(half);
    if odd {
        return *high;
    }
    let low = below.iter().copied().max().unwrap_or(*high);
    low + (*high - low) / 2
}

/// The median of numbers that are no samples. 0 when there are none.
fn median_of(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// The value below which `part` of `sorted` lies. NaN when there are none.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = part.clamp(0.0, 1.0) * last as f64;
    let low = place.floor() as usize;
    let high = (low + 1).min(last);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::RngExt;

    /// `n` samples around `mean` with a standard deviation of `part` of it, as noise that
    /// is the sum of many small causes has (Irwin and Hall's sum of twelve).
    pub fn noisy(random: &mut Pcg64Mcg, n: usize, mean: f64, part: f64) -> Vec<u64> {
        let normal = |random: &mut Pcg64Mcg| {
            (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0
        };
        (0..n)
            .map(|_| (mean * (1.0 + part * normal(random))).round() as u64)
            .collect()
    }

    #[test]
    fn random_numbers_are_the_same_everywhere() {
        let mut random = random(1);
        let drawn: [u32; 3] = std::array::from_fn(|_| random.random_range(0..1000));
        assert_eq!(drawn, [870, 199, 690]);
    }

    proptest! {
        /// At least half of the values lie on either side, order does not matter.
        #[test]
        fn splits_in_half(mut values in proptest::collection::vec(any::<u64>(), 1..40)) {
            let m = median(&values);
            prop_assert!(values.iter().filter(|v| **v <= m).count() * 2 >= values.len());
            prop_assert!(values.iter().filter(|v| **v >= m).count() * 2 >= values.len());
            values.reverse();
            prop_assert_eq!(median(&values), m);
        }

        /// Quantiles grow with their part, from the smallest to the largest.
        #[test]
        fn quantiles_grow(
            mut values in proptest::collection::vec(-1e9..1e9f64, 1..40),
            a in 0.0..1.0f64,
            b in 0.0..1.0f64,
        ) {
            values.sort_unstable_by(f64::total_cmp);
            prop_assert!(quantile(&values, a.min(b)) <= quantile(&values, a.max(b)));
            prop_assert_eq!(quantile(&values, 0.0), values[0]);
            prop_assert_eq!(quantile(&values, 1.0), values[values.len() - 1]);
        }
    }
}
