// SPDX-License-Identifier: MIT OR Apache-2.0
//! From samples before and after to a verdict. A change needs significance, and an
//! absolute size, and a relative size; no change needs an interval without any change
//! that matters; what is neither is inconclusive.

use serde::{Deserialize, Serialize};

use super::{bootstrap, median, rank};
use crate::core::scenario::Clock;

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It takes longer.
    Slower,
    /// It takes less time.
    Faster,
    /// These samples cannot tell.
    Inconclusive,
    /// Nothing that matters has changed.
    NoChange,
}

impl Verdict {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Inconclusive => "inconclusive",
            Self::NoChange => "no change",
        }
    }
}

/// From where on a change counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Wall time: how improbable a difference must be by chance.
    pub alpha: f64,
    /// The smallest change that matters, in ns.
    pub absolute: u64,
    /// The smallest change that matters, as a part of what was before.
    pub relative: f64,
}

impl Limits {
    /// The defaults, with their reasons in docs/method.md.
    pub fn by(clock: Clock) -> Self {
        match clock {
            Clock::Virtual => Self {
                alpha: 0.0,
                absolute: 100_000,
                relative: 0.0001,
            },
            Clock::Wall => Self {
                alpha: 0.01,
                absolute: 1_000_000,
                relative: 0.02,
            },
        }
    }

    /// The smallest change of `before` that matters, in ns.
    pub fn least(&self, before: u64) -> f64 {
        (self.relative * before as f64).max(self.absolute as f64)
    }

    fn matters(&self, before: u64, after: u64) -> bool {
        let change = before.abs_diff(after);
        change > 0 && change as f64 >= self.least(before)
    }
}

/// A comparison of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Median before, in ns.
    pub before: u64,
    /// Median after, in ns.
    pub after: u64,
    /// after / before; `None` where nothing was before.
    pub ratio: Option<f64>,
    /// Wall time: where the ratio is with [`bootstrap::LEVEL`]; virtual time: its range
    /// over the phases. `None` with one sample a side.
    pub interval: Option<[f64; 2]>,
    /// Wall time: how probable the difference is by chance, corrected for how many
    /// metrics were looked at.
    pub p: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
}

fn judgement(before: &[u64], after: &[u64]) -> Judgement {
    let (before, after) = (median(before), median(after));
    Judgement {
        before,
        after,
        ratio: (before > 0).then(|| after as f64 / before as f64),
        interval: None,
        p: None,
        verdict: Verdict::Inconclusive,
    }
}

fn towards(judgement: &Judgement) -> Verdict {
    match judgement.after > judgement.before {
        true => Verdict::Slower,
        false => Verdict::Faster,
    }
}

/// Judges virtual time: samples of one place are of one phase, and exact. Where the sides
/// differ in length, the phases that both have count. A change is one that every phase
/// shows; sides without a common phase are inconclusive.
pub fn exact(before: &[u64], after: &[u64], limits: &Limits) -> Judgement {
    let phases = before.len().min(after.len());
    let (before, after) = (&before[..phases], &after[..phases]);
    let mut out = judgement(before, after);
    let pairs = || before.iter().zip(after);
    let ratios = pairs().filter(|(b, _)| **b > 0);
    let ratios = ratios.map(|(b, a)| *a as f64 / *b as f64);
    if phases > 1 && pairs().all(|(b, _)| *b > 0) {
        let range = ratios.fold([f64::MAX, f64::MIN], |[low, high], r| {
            [low.min(r), high.max(r)]
        });
        out.interval = Some(range);
    }
    let one_way = pairs().all(|(b, a)| a > b) || pairs().all(|(b, a)| a < b);
    out.verdict = if phases == 0 {
        Verdict::Inconclusive
    } else if !pairs().any(|(b, a)| limits.matters(*b, *a)) || before == after {
        Verdict::NoChange
    } else if one_way && limits.matters(out.before, out.after) {
        towards(&out)
    } else {
        Verdict::Inconclusive
    };
    out
}

/// Judges wall time. `p` is the rank test's, corrected by the caller.
pub fn ranked(before: &[u64], after: &[u64], p: f64, limits: &Limits) -> Judgement {
    let mut out = judgement(before, after);
    out.p = Some(p);
    out.interval = bootstrap::of_ratio(before, after);
    if let Some(changed) = changed(&out, p, limits) {
        out.verdict = changed;
    } else if before
        .iter()
        .chain(after)
        .all(|v| (*v as f64) < limits.absolute as f64)
    {
        // Nothing can have changed by as much as matters.
        out.verdict = Verdict::NoChange;
    } else if let Some([low, high]) = out.interval {
        let farthest = (1.0 - low).max(high - 1.0) * out.before as f64;
        if enough(before.len(), after.len(), limits) && farthest < limits.least(out.before) {
            out.verdict = Verdict::NoChange;
        }
    }
    out
}

/// Slower or faster, where significance and both sizes are there.
fn changed(judgement: &Judgement, p: f64, limits: &Limits) -> Option<Verdict> {
    (p <= limits.alpha && limits.matters(judgement.before, judgement.after))
        .then(|| towards(judgement))
}

/// [`ranked`] with the rank test's own p: for one metric alone.
pub fn single(before: &[u64], after: &[u64], limits: &Limits) -> Judgement {
    ranked(before, after, rank::test(before, after), limits)
}

/// Whether so many samples can be significant at all.
pub fn enough(before: usize, after: usize, limits: &Limits) -> bool {
    before > 0 && after > 0 && rank::smallest(before, after) <= limits.alpha
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::stats::{random, tests::noisy};
    use proptest::prelude::*;

    const TRIALS: usize = 1000;

    fn wall() -> Limits {
        Limits::by(Clock::Wall)
    }

    /// Whether a change is called: what [`single`] says first, without the interval, which
    /// takes long and has no say in it.
    fn called(before: &[u64], after: &[u64]) -> Option<Verdict> {
        changed(
            &judgement(before, after),
            rank::test(before, after),
            &wall(),
        )
    }

    /// The figures that the rig promises, at its own defaults: 10 boots a side.
    #[test]
    fn wall_time_errs_rarely_and_finds_five_percent() {
        let n = Clock::Wall.default_repeats() as usize;
        let mut random = random(42);
        let (mut wrong, mut found) = (0, 0);
        for _ in 0..TRIALS {
            let a = noisy(&mut random, n, 1e9, 0.02);
            let same = noisy(&mut random, n, 1e9, 0.02);
            wrong += usize::from(called(&a, &same).is_some());
            let slower = noisy(&mut random, n, 1.05e9, 0.02);
            found += usize::from(called(&a, &slower) == Some(Verdict::Slower));
        }
        assert!(
            wrong * 100 <= TRIALS,
            "{wrong} of {TRIALS} A/A trials called a change"
        );
        assert!(
            found * 100 >= TRIALS * 95,
            "{found} of {TRIALS} changes of +5 % found"
        );
    }

    /// The same with what real boots show: values resampled from one skewed measurement.
    #[test]
    fn resampled_boots_are_no_change_of_themselves() {
        let mut random = random(43);
        let measured: Vec<u64> = noisy(&mut random, 40, 1e9, 0.02)
            .into_iter()
            .enumerate()
            // One boot in ten is held up by the host.
            .map(|(i, v)| if i % 10 == 0 { v + 150_000_000 } else { v })
            .collect();
        let mut wrong = 0;
        let (mut a, mut b) = ([0; 10], [0; 10]);
        for _ in 0..TRIALS {
            bootstrap::draw(&measured, &mut a, &mut random);
            bootstrap::draw(&measured, &mut b, &mut random);
            wrong += usize::from(called(&a, &b).is_some());
        }
        assert!(wrong * 100 <= TRIALS, "{wrong} of {TRIALS}");
    }

    #[test]
    fn a_change_needs_all_three() {
        let around = |mean: u64| (0..10).map(|i| mean + i * 1000).collect::<Vec<_>>();
        let verdict = |a: u64, b: u64| single(&around(a), &around(b), &wall()).verdict;
        assert_eq!(verdict(1_000_000_000, 1_050_000_000), Verdict::Slower);
        assert_eq!(verdict(1_050_000_000, 1_000_000_000), Verdict::Faster);
        // Significant, but of no size: 1 % of 1 s; 0.5 ms of 5 ms.
        assert_eq!(verdict(1_000_000_000, 1_010_000_000), Verdict::NoChange);
        assert_eq!(verdict(5_000_000, 5_500_000), Verdict::NoChange);
        // Of a size, but four boots a side cannot be significant.
        let few = single(&around(1_000_000)[..4], &around(9_000_000)[..4], &wall());
        assert_eq!(few.verdict, Verdict::Inconclusive);
        assert!(!enough(4, 4, &wall()) && enough(5, 5, &wall()));
    }

    #[test]
    fn virtual_time_is_exact() {
        let limits = Limits::by(Clock::Virtual);
        let verdict = |a: &[u64], b: &[u64]| exact(a, b, &limits).verdict;
        assert_eq!(verdict(&[10_000_000], &[11_000_000]), Verdict::Slower);
        assert_eq!(verdict(&[11_000_000], &[10_000_000]), Verdict::Faster);
        // 1 ms on the longest callback that there is.
        assert_eq!(
            verdict(&[9_999_000_000], &[10_000_000_000]),
            Verdict::Slower
        );
        assert_eq!(verdict(&[10_000_000], &[10_050_000]), Verdict::NoChange);
        // Every phase, or it is not known.
        let (a, b) = ([10_000_000, 12_000_000], [11_000_000, 13_000_000]);
        assert_eq!(verdict(&a, &b), Verdict::Slower);
        assert_eq!(
            verdict(&a, &[12_000_000, 10_000_000]),
            Verdict::Inconclusive
        );
        assert_eq!(verdict(&[], &b), Verdict::Inconclusive);
        let judged = exact(&a, &b, &limits);
        assert_eq!(judged.interval, Some([13.0 / 12.0, 1.1]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Equal samples never make a change, on either clock.
        #[test]
        fn the_same_is_no_change(values in proptest::collection::vec(0..u64::MAX / 4, 1..12)) {
            let virtual_time = exact(&values, &values, &Limits::by(Clock::Virtual));
            prop_assert_eq!(virtual_time.verdict, Verdict::NoChange);
            let wall_time = single(&values, &values, &wall()).verdict;
            prop_assert!(matches!(wall_time, Verdict::NoChange | Verdict::Inconclusive));
        }

        /// The sides exchanged, the verdict is the opposite one.
        #[test]
        fn has_two_sides(
            a in proptest::collection::vec(900_000_000..1_000_000_000u64, 5..12),
            by in 0..300_000_000u64,
        ) {
            let b: Vec<u64> = a.iter().rev().map(|v| v + by).collect();
            let there = single(&a, &b, &wall()).verdict;
            let back = single(&b, &a, &wall()).verdict;
            // What matters is a part of what was before, so near the limit one side may not.
            prop_assert!(there != Verdict::Faster && back != Verdict::Slower);
            prop_assert_eq!(exact(&a, &b, &wall()).verdict == Verdict::Faster, false);
        }
    }
}
