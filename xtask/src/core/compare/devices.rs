// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual time: whose callback changed, among all that merely began at another moment.
//!
//! A driver that sleeps wakes up at a timer tick. If the device before it takes a
//! millisecond longer, it begins a millisecond later, ends at the same tick, and its
//! callback looks a millisecond faster. So a change that only undoes another begin, up to
//! the grain of the timer wheel, is no change of that device.

use std::collections::BTreeMap;

use super::Row;
use crate::core::{
    event::{BootLog, Callback, CallbackEvent, Mark},
    metric::Kind,
    stats::verdict::Verdict,
    units::Nanos,
};

/// Callbacks by metric (`device_shutdown/ixgbe.2`): begin and end in ns since the metric's
/// own begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// What sleeping callbacks wait for.
    pub ticks: Ticks,
    /// By metric.
    pub of: BTreeMap<String, [u64; 2]>,
}

/// The kernel's timer tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Its length in ns; 0: not known.
    pub length: u64,
}

impl Spans {
    /// The callbacks of a boot; `samples` are its devices' samples in the order of
    /// samples.csv: by callback, those that returned, by device. None where these do not
    /// fit the log.
    pub fn of<'a>(log: &BootLog, samples: impl Iterator<Item = (&'a str, u64)>) -> Self {
        let hz = log.config.map_or(0, |(hz, _)| u64::from(hz));
        let start = |mark| log.marks.get(&mark).map_or(0, |s| s.mono.0);
        let in_order = |callback, start: u64| {
            let spans = log.callbacks.iter().filter(|e| e.callback == callback);
            let mut spans: Vec<_> = spans.filter_map(CallbackEvent::span).collect();
            spans.sort_by_key(|s| s.device);
            let since = move |t: Nanos| t.0.saturating_sub(start);
            spans
                .into_iter()
                .map(move |s| [since(s.begin), since(s.end)])
        };
        let mut probes = in_order(Callback::Probe, start(Mark::AttachBegin));
        let mut shutdowns = in_order(Callback::Shutdown, start(Mark::ShutdownBegin));
        let mut of = BTreeMap::new();
        for (metric, value) in samples {
            let span = match metric.split_once('/') {
                Some(("probe", _)) => probes.next(),
                _ => shutdowns.next(),
            };
            match span {
                Some([begin, end]) if end.saturating_sub(begin) == value => {
                    of.insert(metric.to_owned(), [begin, end]);
                }
                _ => return Self::default(),
            }
        }
        Self {
            ticks: Ticks {
                length: 1_000_000_000u64.checked_div(hz).unwrap_or(0),
            },
            of,
        }
    }
}

impl Ticks {
    /// The grain of a sleep of `time`: Linux's timer wheel (kernel/time/timer.c) keeps 64
    /// ticks exactly, and each level above eight times as long and as coarse.
    fn grain(self, time: u64) -> u64 {
        let mut grain = self.length;
        while time > 64 * grain && grain < self.length << 24 {
            grain *= 8;
        }
        grain
    }

    /// Whether a callback from `before` to `after` only began at another moment and ended
    /// with its tick. `slack`: what is no difference, in ns.
    fn only_moved(self, before: [u64; 2], after: [u64; 2], slack: u64) -> bool {
        if self.length <= 2 * slack {
            return false;
        }
        let shift = |place: usize| after[place] as i64 - before[place] as i64;
        let (begin, end) = (shift(0), shift(1));
        let grain = self.grain((before[1] - before[0]).max(after[1] - after[0]));
        !whole(begin, grain, slack)
            && whole(end, self.length, slack)
            && (end - begin).unsigned_abs() <= grain + slack
    }
}

/// Whether `shift` is a multiple of `grain`, give or take `slack`.
fn whole(shift: i64, grain: u64, slack: u64) -> bool {
    let over = shift.unsigned_abs() % grain;
    over.min(grain - over) <= slack
}

/// Takes the verdict from devices that only moved, and says so. `slack` is the smallest
/// change that matters, in ns.
pub fn attribute(rows: &mut [Row], before: &Spans, after: &Spans, slack: u64) {
    let known = before.ticks == after.ticks && before.ticks.length > 0;
    for row in rows.iter_mut().filter(|r| r.kind == Kind::Device) {
        let changed = row.judgement.verdict != Verdict::NoChange;
        let (Some(a), Some(b)) = (before.of.get(&row.metric), after.of.get(&row.metric)) else {
            continue;
        };
        if changed && known && before.ticks.only_moved(*a, *b, slack) {
            row.judgement.verdict = Verdict::NoChange;
            row.note = Some(format!(
                "began {} {}, ended with its tick",
                Nanos(b[0].abs_diff(a[0])),
                if b[0] > a[0] { "later" } else { "earlier" }
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const TICK: Ticks = Ticks { length: 4 * MS };

    #[test]
    fn the_wheel_is_coarser_for_longer_sleeps() {
        assert_eq!(TICK.grain(10 * MS), 4 * MS);
        assert_eq!(TICK.grain(256 * MS), 4 * MS);
        assert_eq!(TICK.grain(300 * MS), 32 * MS);
        assert_eq!(TICK.grain(3000 * MS), 256 * MS);
    }

    proptest! {
        /// A callback that begins later and ends at the same tick moved; one that begins
        /// when it did and ends later changed.
        #[test]
        fn tells_a_move_from_a_change(begin in 0..1000u64, ticks in 2..60u64, late in 200..3800u64) {
            let (begin, end, late) = (begin * MS, begin * MS + ticks * 4 * MS, late * 1000);
            let slack = MS / 10;
            prop_assert!(TICK.only_moved([begin, end], [begin + late, end], slack));
            prop_assert!(!TICK.only_moved([begin, end], [begin, end + late], slack));
            prop_assert!(!TICK.only_moved([begin, end], [begin, end + 4 * MS], slack));
            // Begun later and longer by a millisecond: not at a tick, as a rule.
            let longer = TICK.only_moved([begin, end], [begin + late, end + late + MS], slack);
            prop_assert!(!longer || whole((late + MS) as i64, TICK.length, slack));
        }
    }
}
