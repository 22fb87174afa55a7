// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long single operations took: counts in ranges that are a thirty-second part wide.

/// Ranges in each power of two.
const PARTS: usize = 32;
const PART_BITS: u32 = PARTS.trailing_zeros();

/// Counts of durations in ns; quantiles are right to one part in 32, the largest is exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    largest: u64,
}

impl Histogram {
    /// Without a count.
    pub fn new() -> Self {
        Self {
            counts: vec![0; PARTS * (u64::BITS - PART_BITS + 1) as usize],
            total: 0,
            largest: 0,
        }
    }

    /// Counts one operation of `ns`.
    pub fn add(&mut self, ns: u64) {
        self.counts[range(ns)] += 1;
        self.total += 1;
        self.largest = self.largest.max(ns);
    }

    /// Counts what `other` has.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.largest = self.largest.max(other.largest);
    }

    /// How many operations.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The longest, in ns.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// What `percent` of the operations did not exceed, in ns; 0 without any.
    pub fn quantile(&self, percent: u64) -> u64 {
        let rank = (self.total * percent).div_ceil(100);
        let mut seen = 0;
        for (range, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank && *count > 0 {
                return last_of(range).min(self.largest);
            }
        }
        0
    }
}

/// The range that `ns` is in: itself below 32, then 32 a power of two.
fn range(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(PART_BITS + 1);
    (ns >> shift) as usize + shift as usize * PARTS
}

/// The longest duration in a range.
fn last_of(range: usize) -> u64 {
    if range < 2 * PARTS {
        return range as u64;
    }
    let shift = range / PARTS - 1;
    let part = (range - shift * PARTS) as u128;
    u64::try_from(((part + 1) << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_one_another() {
        let mut values: Vec<u64> = (0..10_000)
            .chain([u64::MAX / 3, u64::MAX - 1, u64::MAX])
            .collect();
        values.extend((13..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]));
        values.sort_unstable();
        for pair in values.windows(2) {
            assert!(range(pair[0]) <= range(pair[1]), "{pair:?}");
        }
        for value in values {
            let last = last_of(range(value));
            assert!(
                last >= value && last - value <= value / PARTS as u64,
                "{value} {last}"
            );
        }
    }

    #[test]
    fn quantiles() {
        let mut all = Histogram::new();
        assert_eq!((all.quantile(50), all.largest()), (0, 0));
        (1..=100).for_each(|ns| all.add(ns * 1000));
        let mut more = Histogram::new();
        more.add(5_000_000);
        all.merge(&more);
        assert_eq!((all.total(), all.largest()), (101, 5_000_000));
        for (percent, exact) in [(50, 51_000), (99, 100_000)] {
            let found = all.quantile(percent);
            assert!(
                found >= exact && found <= exact + exact / 32,
                "{percent}: {found}"
            );
        }
        assert_eq!(all.quantile(100), 5_000_000);
    }
}
