// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outliers by the modified z-score (Iglewicz and Hoaglin, *How to Detect and Handle
//! Outliers*, 1993): the distance from the median in units of the median distance, which
//! the outliers themselves hardly move.

use super::{median, median_of};

/// Beyond this score a value is an outlier, as the authors advise.
const SCORE: f64 = 3.5;
/// The median distance of normal values, in standard deviations.
const MEDIAN_DISTANCE: f64 = 0.6745;
/// The mean distance of normal values is this part of a standard deviation.
const MEAN_DISTANCE: f64 = 0.7979;
/// Fewer values show no outlier: two of three are always close.
const FEWEST: usize = 5;

/// The places of the outliers in `values`.
pub fn outliers(values: &[u64]) -> Vec<usize> {
    if values.len() < FEWEST {
        return Vec::new();
    }
    let center = median(values);
    let distances: Vec<f64> = values.iter().map(|v| v.abs_diff(center) as f64).collect();
    let middle = median_of(distances.clone());
    // Where more than half are alike, the mean distance stands in.
    let deviation = if middle > 0.0 {
        middle / MEDIAN_DISTANCE
    } else {
        distances.iter().sum::<f64>() / distances.len() as f64 / MEAN_DISTANCE
    };
    let far = |d: &f64| deviation > 0.0 && d / deviation > SCORE;
    let places = distances.iter().enumerate();
    places.filter(|(_, d)| far(d)).map(|(at, _)| at).collect()
}

/// The spread of `values` as a part of their median: the median distance, scaled to be the
/// standard deviation of normal values.
pub fn spread(values: &[u64]) -> f64 {
    let center = median(values);
    let distances = values.iter().map(|v| v.abs_diff(center) as f64).collect();
    median_of(distances) / MEDIAN_DISTANCE / center.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::stats::{random, tests::noisy};
    use proptest::prelude::*;

    proptest! {
        /// Less than half are outliers, none of them is the median's neighbour, and a
        /// stretch of the scale changes nothing.
        #[test]
        fn are_few_and_far(values in proptest::collection::vec(1..1_000u64, 5..40)) {
            // Even, so that no middle is rounded.
            let times = |by: u64| values.iter().map(|v| v * by).collect::<Vec<_>>();
            let found = outliers(&times(2));
            prop_assert!(found.len() * 2 < values.len());
            prop_assert_eq!(outliers(&times(16)), found);
        }

        /// One value far off is found wherever it is, and is alone.
        #[test]
        fn one_far_off_is_found(seed in any::<u64>(), at in 0..10usize) {
            let mut values: Vec<u64> = (0..10).map(|i| 1_000_000 + (seed % 10 + 7 * i) % 10 * 1000).collect();
            values[at] = 2_000_000;
            prop_assert_eq!(outliers(&values), vec![at]);
        }
    }

    #[test]
    fn noise_has_few() {
        let mut random = random(5);
        let values = noisy(&mut random, 1000, 1e9, 0.02);
        assert!(outliers(&values).len() <= 5);
        assert!(
            (spread(&values) - 0.02).abs() < 0.002,
            "{}",
            spread(&values)
        );
        assert_eq!(outliers(&[1, 1, 1, 900]), Vec::<usize>::new());
        assert_eq!(outliers(&[4; 9]), Vec::<usize>::new());
    }
}
