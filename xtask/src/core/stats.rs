// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics over samples.

/// The median: the middle value, or the mean of the middle two, rounded down. 0 when
/// there are none.
pub fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    match sorted.len() {
        0 => 0,
        n if n % 2 == 1 => sorted[n / 2],
        n => {
            let (low, high) = (sorted[n / 2 - 1], sorted[n / 2]);
            low + (high - low) / 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    }
}
