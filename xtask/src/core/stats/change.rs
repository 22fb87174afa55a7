// SPDX-License-Identifier: MIT OR Apache-2.0
//! Change points in a series: E-divisive (Matteson and James, *A nonparametric approach for
//! multiple change point analysis of multivariate data*, 2014): the split whose two sides lie
//! farthest apart by the energy distance, tested by permutation, then each side in turn.
//!
//! Values far from the median of their part are cut, so that one wild value weighs no more
//! than a large one, and a side has at least [`FEWEST`] values: a single spike is no change.

use rand::RngExt;

use super::{median, random};

/// The fewest values on a side of a change.
pub const FEWEST: usize = 3;
/// The fewest values of a series in which a change can be significant: of ten values a step in
/// the middle is one of 252 orders that are as far apart, its mirror image another.
pub const SHORTEST: usize = 11;
/// Permutations a split is tested with.
const PERMUTATIONS: usize = 499;
/// How improbable a split must be in a series without change.
const ALPHA: f64 = 0.01;
/// Beyond so many median distances values are cut: 3.4 standard deviations of normal ones.
const WILD: f64 = 5.0;
/// Where the random numbers begin.
const SEED: u64 = 0x6368_616e;

/// Where `values` change: the place of the first value after each change, rising.
pub fn changes(values: &[u64]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut parts = vec![(0, values.len())];
    while let Some((begin, end)) = parts.pop() {
        let part = &values[begin..end];
        if part.len() < SHORTEST {
            continue;
        }
        if let Some(at) = change(part) {
            found.push(begin + at);
            parts.extend([(begin, begin + at), (begin + at, end)]);
        }
    }
    found.sort_unstable();
    found
}

/// The one change of a part, if it is significant.
fn change(part: &[u64]) -> Option<usize> {
    let mut tamed = tamed(part);
    let (at, apart) = best(&tamed)?;
    let mut random = random(SEED ^ part.len() as u64);
    let allowed = (ALPHA * (PERMUTATIONS + 1) as f64) as usize;
    let mut as_far = 1;
    for _ in 0..PERMUTATIONS {
        shuffle(&mut tamed, &mut random);
        if best(&tamed).is_some_and(|(_, q)| q >= apart - 1e-9) {
            as_far += 1;
            // It cannot become significant any more.
            if as_far > allowed {
                return None;
            }
        }
    }
    Some(at)
}

/// The values' distances from their median in median distances, cut at [`WILD`]; their ranks
/// where more than half are the same.
fn tamed(values: &[u64]) -> Vec<f64> {
    let center = median(values);
    let away = values.iter().map(|v| v.abs_diff(center));
    let middle = median(&away.collect::<Vec<_>>());
    if middle == 0 {
        return ranks(values);
    }
    let tame = |v: &u64| ((*v as f64 - center as f64) / middle as f64).clamp(-WILD, WILD);
    values.iter().map(tame).collect()
}

/// Mean ranks.
fn ranks(values: &[u64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|i| values[*i]);
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for group in order.chunk_by(|x, y| values[*x] == values[*y]) {
        let rank = before as f64 + (group.len() as f64 + 1.0) / 2.0;
        group.iter().for_each(|i| ranks[*i] = rank);
        before += group.len();
    }
    ranks
}

fn shuffle(values: &mut [f64], random: &mut rand_pcg::Pcg64Mcg) {
    for i in (1..values.len()).rev() {
        values.swap(i, random.random_range(0..=i));
    }
}

/// The split that lies farthest apart, and how far: what is before it against what follows
/// up to any later place, so that a step and its way back are seen. `None`: all are alike.
fn best(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    let width = n + 1;
    // within[a * width + b]: the sum of all distances among values[a..b].
    let mut within = vec![0.0; width * width];
    for last in 0..n {
        let mut to_last = 0.0;
        for first in (0..last).rev() {
            to_last += (values[first] - values[last]).abs();
            within[first * width + last + 1] = within[first * width + last] + to_last;
        }
    }
    let pairs = |k: f64| (k * (k - 1.0) / 2.0).max(1.0);
    let mut found: Option<(usize, f64)> = None;
    for at in FEWEST..=n.checked_sub(FEWEST)? {
        for end in at + FEWEST..=n {
            let (left, right) = (within[at], within[at * width + end]);
            let (l, r) = (at as f64, (end - at) as f64);
            let between = within[end] - left - right;
            let energy = 2.0 * between / (l * r) - left / pairs(l) - right / pairs(r);
            let apart = energy * l * r / (l + r);
            if apart > 1e-9 && found.is_none_or(|(_, q)| apart > q) {
                found = Some((at, apart));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::stats::tests::noisy;
    use proptest::prelude::*;

    /// What docs/method.md says of few runs.
    #[test]
    fn a_clean_step_needs_eleven_runs_and_more_near_an_end() {
        let step = |before: usize, after: usize| {
            let values = [vec![1_000_u64; before], vec![2_000; after]].concat();
            changes(&values) == [before]
        };
        assert!((FEWEST..=7).all(|before| !step(before, 10 - before)));
        assert!(step(5, 6) && step(6, 5));
        assert!(step(3, 11) && step(11, 3));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// A step well above the noise is found where it is, alone, up and down alike.
        #[test]
        fn finds_a_step(seed in any::<u64>(), before in 7..20usize, after in 7..20usize, up in any::<bool>()) {
            let mut random = random(seed);
            let mut values = noisy(&mut random, before, 1e9, 0.002);
            values.extend(noisy(&mut random, after, if up { 1.1e9 } else { 0.9e9 }, 0.002));
            let found = changes(&values);
            prop_assert!(found.contains(&before), "{found:?} {before}");
            prop_assert!(found.len() <= 2, "{found:?}");
        }

        /// One wild value, wherever it is and however wild, is no change.
        #[test]
        fn a_single_spike_is_none(count in 10..40usize, at in any::<usize>(), times in 2..1000u64) {
            let mut values = vec![1_000_000_000; count];
            values[at % count] *= times;
            prop_assert_eq!(changes(&values), Vec::<usize>::new());
        }

        /// Each part between changes is long enough, and the order is by place.
        #[test]
        fn parts_are_long_enough(values in proptest::collection::vec(0..50u64, 0..40)) {
            let found = changes(&values);
            let mut ends = vec![0];
            ends.extend(&found);
            ends.push(values.len());
            if !found.is_empty() {
                prop_assert!(ends.windows(2).all(|w| w[1] >= w[0] + FEWEST), "{found:?}");
            }
        }
    }

    /// A spike among noise is no more often taken for a change than noise is.
    #[test]
    fn a_spike_among_noise_is_rarely_one() {
        let mut random = random(3);
        let spiked = |at: usize| {
            let mut values = noisy(&mut random, 20, 1e9, 0.01);
            values[at % 20] *= 2 + at as u64;
            !changes(&values).is_empty()
        };
        let wrong = (0..200).map(spiked).filter(|wrong| *wrong).count();
        assert!(wrong <= 6, "{wrong} of 200");
    }

    #[test]
    fn noise_rarely_changes_and_two_steps_are_two() {
        let mut random = random(2);
        let wrong = (0..100).filter(|_| !changes(&noisy(&mut random, 20, 1e9, 0.02)).is_empty());
        let wrong = wrong.count();
        assert!(wrong <= 3, "{wrong} of 100");
        let step = |random: &mut rand_pcg::Pcg64Mcg, mean| noisy(random, 15, mean, 0.005);
        let parts = [1e9, 1.1e9, 0.95e9].map(|mean| step(&mut random, mean));
        assert_eq!(changes(&parts.concat()), [15, 30]);
        assert_eq!(changes(&[7; 50]), Vec::<usize>::new());
        assert_eq!(changes(&[1, 1, 1, 2, 2, 2]), Vec::<usize>::new());
    }
}
