// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mann and Whitney's rank test (*On a test of whether one of two random variables is
//! stochastically larger than the other*, 1947), and Holm's correction for many of them
//! (*A simple sequentially rejective multiple test procedure*, 1979).

use statrs::function::erf::erfc;

/// Values on both sides together up to which every assignment of ranks is counted;
/// beyond, their sum is normal for all purposes.
const EXACT: usize = 50;

/// How probable a difference at least as large is, in either direction, if both sides come
/// from one distribution: p in (0, 1]. 1 where a side is empty.
///
/// Ties share the mean of their ranks; the distribution is that of these very ranks.
pub fn test(a: &[u64], b: &[u64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let (small, large) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let mut all: Vec<(u64, bool)> = small.iter().map(|v| (*v, true)).collect();
    all.extend(large.iter().map(|v| (*v, false)));
    all.sort_unstable();
    // Twice the ranks, so that those of ties are whole.
    let mut ranks = Vec::with_capacity(all.len());
    let mut ties = 0.0;
    for group in all.chunk_by(|x, y| x.0 == y.0) {
        let rank = 2 * ranks.len() + group.len() + 1;
        ranks.extend(std::iter::repeat_n(rank, group.len()));
        let t = group.len() as f64;
        ties += t * t * t - t;
    }
    let own = ranks.iter().zip(&all).filter(|(_, v)| v.1);
    let sum: usize = own.map(|(rank, _)| rank).sum();
    let off = sum.abs_diff(small.len() * (all.len() + 1));
    let (n, m) = (small.len(), large.len());
    match (all.len() <= EXACT, ties > 0.0) {
        (false, _) => normal(n as f64, m as f64, ties, off as f64 / 2.0),
        (true, true) => exact(&ranks, n, off),
        (true, false) => untied(n, m, (n * m - off) / 2),
    }
}

/// Twice the part of all choices of `n` among `n + m` that stand above `u` or fewer of the
/// others: without ties both tails are alike.
fn untied(n: usize, m: usize, u: usize) -> f64 {
    // ways[k][u]: choices of k that stand above u of the others together.
    let mut ways = vec![vec![0.0; u + 1]; n + 1];
    ways[0][0] = 1.0;
    for place in 0..n + m {
        for k in (1..=n.min(place + 1)).rev() {
            let above = (place + 1 - k).min(u + 1);
            let (fewer, more) = ways.split_at_mut(k);
            for (to, from) in more[0][above..].iter_mut().zip(&fewer[k - 1]) {
                *to += from;
            }
        }
    }
    (2.0 * ways[n].iter().sum::<f64>() / choices(n, m)).min(1.0)
}

/// In how many ways `n` can be chosen among `n + m`.
fn choices(n: usize, m: usize) -> f64 {
    (1..=n.min(m)).fold(1.0, |c, k| c * (n.max(m) + k) as f64 / k as f64)
}

/// The part of all choices of `n` of `ranks` whose sum is `off` or more from its mean.
fn exact(ranks: &[usize], n: usize, off: usize) -> f64 {
    let most: usize = ranks.iter().rev().take(n).sum();
    // ways[k][s]: choices of k ranks with sum s.
    let mut ways = vec![vec![0.0; most + 1]; n + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        for k in (1..=n).rev() {
            let (fewer, more) = ways.split_at_mut(k);
            let (from, to) = (&fewer[k - 1], &mut more[0]);
            for (to, from) in to[rank.min(most + 1)..].iter_mut().zip(from) {
                *to += from;
            }
        }
    }
    let mean = n * (ranks.len() + 1);
    let all: f64 = ways[n].iter().sum();
    let far = ways[n].iter().enumerate();
    let far: f64 = far
        .filter(|(sum, _)| sum.abs_diff(mean) >= off)
        .map(|(_, w)| w)
        .sum();
    far / all
}

fn normal(n: f64, m: f64, ties: f64, off: f64) -> f64 {
    let all = n + m;
    let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = (off - 0.5).max(0.0) / variance.sqrt();
    erfc(z / std::f64::consts::SQRT_2).clamp(f64::MIN_POSITIVE, 1.0)
}

/// The smallest p that [`test`] can give for `n` and `m` values without ties.
pub fn smallest(n: usize, m: usize) -> f64 {
    (2.0 / choices(n, m)).min(1.0)
}

/// Holm's correction: as many tests as there are, and all of them together err no more
/// often than each alone would.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|x, y| p[*x].total_cmp(&p[*y]));
    let mut out = vec![1.0; p.len()];
    let mut floor: f64 = 0.0;
    for (done, index) in order.iter().enumerate() {
        floor = floor.max(p[*index] * (p.len() - done) as f64).min(1.0);
        out[*index] = floor;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::stats::{random, tests::noisy};
    use proptest::prelude::*;

    /// By trying every choice.
    fn by_hand(a: &[u64], b: &[u64]) -> f64 {
        let all: Vec<u64> = a.iter().chain(b).copied().collect();
        // Twice U: what one side has above the other, ties half.
        let twice_u = |inside: &dyn Fn(usize) -> bool| -> i64 {
            let mut u = 0;
            for i in (0..all.len()).filter(|i| inside(*i)) {
                for j in (0..all.len()).filter(|j| !inside(*j)) {
                    u += match all[i].cmp(&all[j]) {
                        std::cmp::Ordering::Greater => 2,
                        std::cmp::Ordering::Equal => 1,
                        std::cmp::Ordering::Less => 0,
                    };
                }
            }
            (u - (a.len() * b.len()) as i64).abs()
        };
        let seen = twice_u(&|i| i < a.len());
        let (mut far, mut count) = (0, 0);
        for choice in 0u32..1 << all.len() {
            if choice.count_ones() as usize == a.len() {
                count += 1;
                far += u32::from(twice_u(&|i| choice >> i & 1 == 1) >= seen);
            }
        }
        f64::from(far) / f64::from(count)
    }

    proptest! {
        /// Counting ranks is the same as trying every choice, with ties and without.
        #[test]
        fn is_exact(
            a in proptest::collection::vec(0..9u64, 1..6),
            b in proptest::collection::vec(0..9u64, 1..6),
        ) {
            prop_assert!((test(&a, &b) - by_hand(&a, &b)).abs() < 1e-12);
        }

        /// It knows only the order: neither the sides' names nor the unit matter.
        #[test]
        fn knows_only_the_order(
            a in proptest::collection::vec(0..1000u64, 1..40),
            b in proptest::collection::vec(0..1000u64, 1..40),
        ) {
            let p = test(&a, &b);
            prop_assert!(p > 0.0 && p <= 1.0);
            prop_assert!((test(&b, &a) - p).abs() < 1e-9);
            let stretch = |v: &[u64]| v.iter().map(|x| x * x + 3).collect::<Vec<_>>();
            prop_assert!((test(&stretch(&a), &stretch(&b)) - p).abs() < 1e-12);
        }

        /// No correction makes a result more probable than it was, or changes their order.
        #[test]
        fn holm_is_careful(p in proptest::collection::vec(0.0..1.0f64, 1..20)) {
            let adjusted = holm(&p);
            for (i, x) in p.iter().enumerate() {
                prop_assert!(adjusted[i] >= *x && adjusted[i] <= 1.0);
                for (j, y) in p.iter().enumerate() {
                    prop_assert!(x > y || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }

    #[test]
    fn known_values() {
        // Full separation: two of all C(n + m, n) choices.
        for (n, m) in [(5u64, 5u64), (3, 7), (10, 10)] {
            let (a, b): (Vec<_>, Vec<_>) = ((0..n).collect(), (100..100 + m).collect());
            assert!((test(&a, &b) - smallest(n as usize, m as usize)).abs() < 1e-12);
        }
        assert!((smallest(5, 5) - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!(test(&[7; 6], &[7; 9]), 1.0);
        assert_eq!(test(&[7; 60], &[7; 90]), 1.0);
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
    }

    #[test]
    fn the_normal_law_takes_over_without_a_step() {
        let mut random = random(3);
        for _ in 0..20 {
            let (a, b) = (
                noisy(&mut random, 25, 1e6, 0.05),
                noisy(&mut random, 25, 1.03e6, 0.05),
            );
            let p = test(&a, &b);
            let mut all: Vec<_> = a.iter().chain(&b).copied().collect();
            all.sort_unstable();
            let u: f64 = a
                .iter()
                .map(|x| b.iter().filter(|y| *y < x).count() as f64)
                .sum();
            let by_law = normal(25.0, 25.0, 0.0, (u - 312.5).abs());
            assert!((p - by_law).abs() < 0.01, "{p} {by_law}");
        }
    }
}
