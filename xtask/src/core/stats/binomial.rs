// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counting what happened in some of so many boots.

/// How probable it is that `k` or more of `n` happen where each does with probability `p`.
pub fn tail(k: u32, n: u32, p: f64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    if p <= 0.0 || k > n {
        return 0.0;
    }
    if p >= 1.0 {
        return 1.0;
    }
    // Of n choose i, p^i and q^(n - i) the logarithm, so that nothing is too small.
    let mut log = f64::from(n) * (1.0 - p).ln();
    let step = (p / (1.0 - p)).ln();
    let mut sum = 0.0;
    for i in 0..=n {
        if i >= k {
            sum += log.exp();
        }
        log += (f64::from(n - i) / f64::from(i + 1)).ln() + step;
    }
    sum.min(1.0)
}

/// The smallest rate that what happened in `k` of `n` boots may have, but for an error of
/// `alpha` (Clopper and Pearson, *The use of confidence or fiducial limits*, 1934).
pub fn at_least(k: u32, n: u32, alpha: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        match tail(k, n, middle) < alpha {
            true => low = middle,
            false => high = middle,
        }
    }
    if k == 0 { 0.0 } else { low }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        assert!((tail(6, 6, 0.5) - 1.0 / 64.0).abs() < 1e-12);
        assert!((tail(1, 3, 0.5) - 7.0 / 8.0).abs() < 1e-12);
        assert_eq!((tail(0, 9, 0.1), tail(10, 9, 0.1)), (1.0, 0.0));
        assert!((at_least(20, 20, 0.05) - 0.05f64.powf(1.0 / 20.0)).abs() < 1e-9);
        assert_eq!(at_least(0, 20, 0.05), 0.0);
        // Far out in the tail, where plain products vanish.
        assert!(tail(900, 1000, 0.5) > 0.0 && tail(900, 1000, 0.5) < 1e-100);
    }

    proptest! {
        /// The rate found is just where so many begin to be probable.
        #[test]
        fn turns_back(n in 1..60u32, part in 0.05..1.0f64, alpha in 0.01..0.2f64) {
            let k = ((f64::from(n) * part).ceil() as u32).clamp(1, n);
            let rate = at_least(k, n, alpha);
            prop_assert!((tail(k, n, rate) - alpha).abs() < 1e-6);
            prop_assert!(rate <= f64::from(k) / f64::from(n));
        }
    }
}
