// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bootstrap confidence intervals of medians and of their ratio, by percentiles
//! (Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13).

use rand::RngExt;

use super::{median, middle, quantile, random};

/// How much of the intervals' resampled values lie inside.
pub const LEVEL: f64 = 0.95;
/// Resamples an interval is made of: its ends then move by less than a tenth of its width
/// with another seed.
const RESAMPLES: usize = 2000;
/// Where the random numbers begin.
const SEED: u64 = 0x626f_6f74;

/// The interval of the median. `None` with fewer than two values: one value says nothing
/// of its spread.
pub fn of_median(values: &[u64]) -> Option<[f64; 2]> {
    if values.len() < 2 {
        return None;
    }
    let mut random = random(SEED);
    let mut drawn = vec![0; values.len()];
    Some(ends(|| {
        draw(values, &mut drawn, &mut random);
        middle(&mut drawn) as f64
    }))
}

/// The interval of median(after) / median(before). `None` with fewer than two values on
/// either side, or where `before` is nothing.
pub fn of_ratio(before: &[u64], after: &[u64]) -> Option<[f64; 2]> {
    if before.len() < 2 || after.len() < 2 || median(before) == 0 {
        return None;
    }
    let mut random = random(SEED);
    let (mut a, mut b) = (vec![0; before.len()], vec![0; after.len()]);
    Some(ends(|| {
        draw(before, &mut a, &mut random);
        draw(after, &mut b, &mut random);
        middle(&mut b) as f64 / middle(&mut a).max(1) as f64
    }))
}

/// As many values as there are, each drawn from all.
pub(super) fn draw(values: &[u64], drawn: &mut [u64], random: &mut rand_pcg::Pcg64Mcg) {
    for slot in drawn {
        *slot = values[random.random_range(0..values.len())];
    }
}

fn ends(mut once: impl FnMut() -> f64) -> [f64; 2] {
    let mut found: Vec<f64> = (0..RESAMPLES).map(|_| once()).collect();
    found.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - LEVEL) / 2.0;
    [quantile(&found, tail), quantile(&found, 1.0 - tail)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::stats::tests::noisy;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        /// The interval lies within the values, holds their median, and is the same again.
        #[test]
        fn holds_the_median(values in proptest::collection::vec(1..1_000_000u64, 2..30)) {
            let [low, high] = of_median(&values).unwrap();
            let m = median(&values) as f64;
            prop_assert!(low <= m && m <= high);
            prop_assert!(*values.iter().min().unwrap() as f64 <= low);
            prop_assert!(high <= *values.iter().max().unwrap() as f64);
            prop_assert_eq!(of_median(&values), Some([low, high]));
        }

        /// A ratio does not know its unit.
        #[test]
        fn a_ratio_has_no_unit(
            a in proptest::collection::vec(1000..2000u64, 2..12),
            b in proptest::collection::vec(1000..2000u64, 2..12),
        ) {
            // Even, so that no middle is rounded.
            let times = |values: &[u64], by: u64| values.iter().map(|v| v * by).collect::<Vec<_>>();
            let (one, other) = (of_ratio(&times(&a, 2), &times(&b, 2)), of_ratio(&times(&a, 6), &times(&b, 6)));
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn covers_the_truth_as_often_as_it_says() {
        let mut random = random(7);
        let held = (0..40).filter(|_| {
            let values = noisy(&mut random, 15, 1e9, 0.02);
            let [low, high] = of_median(&values).unwrap();
            (low..=high).contains(&1e9)
        });
        let held = held.count();
        assert!((34..=40).contains(&held), "{held} of 40");
    }

    #[test]
    fn too_few_values_have_none() {
        assert_eq!(of_median(&[5]), None);
        assert_eq!(of_ratio(&[5, 5], &[5]), None);
        assert_eq!(of_ratio(&[0, 0], &[5, 5]), None);
    }
}
