// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory blocks that come and go while threads walk over their paths.

use std::fmt;

use serde::Serialize;

use super::{How, Memory, Metric, WalkOperation, diagnose::Sink, raw, tree::At};
use crate::core::units::counted;

/// As in docs/protocol.md.
const MOST_WALKERS: u32 = 256;
const MOST_BLOCKS: u32 = 4096;
const MOST_ROUNDS: u32 = 1 << 20;
/// More changes take a guest hours.
const MOST_CHANGES: u64 = 10_000_000;

/// Blocks come and go, walkers look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Churn {
    /// Threads that walk.
    pub walkers: u32,
    /// Blocks that come and go; as many that stay are walked over too.
    pub blocks: u32,
    /// How often each goes and comes back.
    pub rounds: u32,
    /// What the walkers do.
    #[serde(rename = "do")]
    pub operation: WalkOperation,
}

impl Churn {
    /// How often a block goes or comes, in all.
    pub fn changes(self) -> u64 {
        u64::from(self.blocks)
            .saturating_mul(u64::from(self.rounds))
            .saturating_mul(2)
    }
}

impl fmt::Display for Churn {
    /// `8 walkers, stat of 32 memory blocks of which 16 come and go, 50 times`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} of {} memory blocks of which {} come and go, {} times",
            counted(self.walkers as usize, "walker"),
            self.operation.name(),
            2 * u64::from(self.blocks),
            self.blocks,
            self.rounds
        )
    }
}

/// Reads `churn`, which goes with the metric of that name.
pub(super) fn read(
    raw: Option<&raw::Churn>,
    memory: Option<Memory>,
    measured: &[Metric],
    at: &At<'_>,
    sink: &mut Sink,
) -> Option<Churn> {
    let is_measured = measured.contains(&Metric::Churn);
    let Some(raw) = raw else {
        if is_measured {
            sink.add_with(at.position(), || {
                "`churn` is measured, and there is no `churn` that says what is done".into()
            });
        }
        return None;
    };
    if !is_measured {
        sink.add_with(at.position(), || {
            format!("{at} is done and not measured; add `churn` to `measure`")
        });
    }
    for (key, value, most) in [
        ("walkers", raw.walkers, MOST_WALKERS),
        ("blocks", raw.blocks, MOST_BLOCKS),
        ("rounds", raw.rounds, MOST_ROUNDS),
    ] {
        let at = at.key(key);
        if !(1..=most).contains(&value) {
            sink.add_with(at.position(), || {
                format!("{at} must be 1 to {most}, not {value}")
            });
        }
    }
    let churn = Churn {
        walkers: raw.walkers,
        blocks: raw.blocks,
        rounds: raw.rounds,
        operation: raw.operation,
    };
    let needed = 2 * u64::from(churn.blocks);
    match memory {
        Some(memory) if memory.how == How::Synthetic && u64::from(memory.blocks) >= needed => {}
        _ => sink.add_with(at.position(), || {
            format!("{at} needs `memory` with {needed} synthetic blocks or more: half of those walked over come and go, and only synthetic ones can")
        }),
    }
    if churn.changes() > MOST_CHANGES {
        sink.add_with(at.position(), || {
            format!(
                "{at}: {} changes (twice blocks x rounds) in one boot; the limit is {MOST_CHANGES}",
                churn.changes()
            )
        });
    }
    Some(churn)
}
