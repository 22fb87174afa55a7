// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a host can see: from boots of one and the same thing (A/A), how far two sets of
//! them lie apart by chance, and the smallest change that is found nearly always. Both by
//! resampling the measured boots (Efron and Tibshirani 1993, chapter 25, on power).

use serde::{Deserialize, Serialize};

use super::{bootstrap::draw, median, outliers, quantile, random, rank, verdict::Limits};

/// Pairs of sets that are drawn.
const DRAWS: usize = 200;
/// How often the smallest change is found.
const POWER: f64 = 0.95;
/// Where the random numbers begin.
const SEED: u64 = 0x6e6f_6973;
/// A change of more than this is visible to anybody.
const LARGEST: f64 = 4.0;

/// The noise of one metric on one host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Standard deviation by the median distance, as a part of the median.
    pub spread: f64,
    /// Two sets of boots of the same thing differ by less than this, as a part of the
    /// median, 95 times in 100.
    pub floor: f64,
    /// The smallest slowdown, as a part of the median, that is found 95 times in 100;
    /// `None` (null): none, whatever its size.
    pub smallest: Option<f64>,
}

/// The noise of sets of `n` boots, from `same`, boots of one thing. `None` with fewer than
/// five of them, or of `n`: nothing is significant then.
pub fn noise(same: &[u64], n: usize, limits: &Limits) -> Option<Noise> {
    if same.len() < 5 || n < 5 || median(same) == 0 {
        return None;
    }
    let mut random = random(SEED);
    let mut sets = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let (mut a, mut b) = (vec![0; n], vec![0; n]);
        draw(same, &mut a, &mut random);
        draw(same, &mut b, &mut random);
        sets.push((a, b));
    }
    let apart =
        |(a, b): &(Vec<u64>, Vec<u64>)| (median(b) as f64 / median(a).max(1) as f64 - 1.0).abs();
    let mut apart: Vec<f64> = sets.iter().map(apart).collect();
    apart.sort_unstable_by(f64::total_cmp);
    let floor = quantile(&apart, 0.95);
    let limits = Limits {
        relative: limits.relative.max(floor),
        ..*limits
    };
    Some(Noise {
        spread: outliers::spread(same),
        floor,
        smallest: smallest(&sets, &limits),
    })
}

/// By halving, to a twentieth of itself.
fn smallest(sets: &[(Vec<u64>, Vec<u64>)], limits: &Limits) -> Option<f64> {
    let found = |by: f64| {
        let seen = sets.iter().filter(|(a, b)| {
            let slower: Vec<u64> = b.iter().map(|v| (*v as f64 * (1.0 + by)) as u64).collect();
            let (before, after) = (median(a), median(&slower));
            after > before
                && (after - before) as f64 >= limits.least(before)
                && rank::test(a, &slower) <= limits.alpha
        });
        seen.count() as f64 >= POWER * sets.len() as f64
    };
    if !found(LARGEST) {
        return None;
    }
    let (mut low, mut high) = (0.0, LARGEST);
    while high - low > (high / 20.0).max(0.0005) {
        let middle = f64::midpoint(low, high);
        if found(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{scenario::Clock, stats::tests::noisy};

    #[test]
    fn two_percent_of_noise_show_five_percent_of_change() {
        let limits = Limits::by(Clock::Wall);
        let mut random = random(1);
        let same = noisy(&mut random, 20, 1e9, 0.02);
        let found = noise(&same, 10, &limits).unwrap();
        assert!((0.01..0.03).contains(&found.spread), "{found:?}");
        assert!((0.01..0.04).contains(&found.floor), "{found:?}");
        let smallest = found.smallest.unwrap();
        assert!((0.02..0.06).contains(&smallest), "{found:?}");
        assert_eq!(noise(&same, 10, &limits), Some(found));
        // More boots see more.
        let many = noise(&same, 40, &limits).unwrap();
        assert!(many.floor < found.floor && many.smallest.unwrap() < smallest);
    }

    #[test]
    fn a_silent_host_sees_what_matters_and_a_few_boots_see_nothing() {
        let limits = Limits::by(Clock::Wall);
        let silent = noise(&[1_000_000_000; 10], 10, &limits).unwrap();
        assert_eq!((silent.spread, silent.floor), (0.0, 0.0));
        assert!((silent.smallest.unwrap() - limits.relative).abs() < 0.002);
        assert_eq!(noise(&[1_000_000_000; 10], 4, &limits), None);
        assert_eq!(noise(&[1_000_000_000; 4], 10, &limits), None);
        // Where boots are all over the place, nothing is found.
        let wild: Vec<u64> = (0..10).map(|i| 1_000_000 << (2 * i)).collect();
        assert_eq!(noise(&wild, 5, &limits).unwrap().smallest, None);
    }
}
