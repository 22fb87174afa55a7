// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks over paths in sysfs from many threads.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Metric, diagnose::Sink, raw, tree::At};
use crate::core::units::counted;

/// As in docs/protocol.md.
const MOST_THREADS: u32 = 256;
const MOST: u32 = 1 << 20;
/// More operations take a guest hours.
const MOST_OPERATIONS: u64 = 100_000_000;

/// What is done with each path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WalkOperation {
    /// Open, read and close a block's `state`.
    Read,
    /// Stat it.
    Stat,
    /// Read the names in the block's folder.
    Readdir,
}

impl WalkOperation {
    /// The word in YAML and in the guest's plan.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Stat => "stat",
            Self::Readdir => "readdir",
        }
    }
}

/// Which paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WalkPaths {
    /// They are there.
    Existing,
    /// They are not, below folders that are.
    Missing,
    /// One and the other in turn.
    Mixed,
}

impl WalkPaths {
    /// The word in YAML and in the guest's plan.
    pub fn name(self) -> &'static str {
        match self {
            Self::Existing => "existing",
            Self::Missing => "missing",
            Self::Mixed => "mixed",
        }
    }
}

/// A walk: each thread goes over a path of each block, so many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Walk {
    /// Threads that walk at once.
    pub threads: u32,
    /// How often each goes over all paths.
    pub rounds: u32,
    /// Over the paths of how many memory blocks.
    pub blocks: u32,
    /// Which paths.
    pub paths: WalkPaths,
    /// What is done with each.
    #[serde(rename = "do")]
    pub operation: WalkOperation,
}

impl Walk {
    /// All threads' operations.
    pub fn operations(self) -> u64 {
        let all = u64::from(self.threads).saturating_mul(self.rounds.into());
        all.saturating_mul(self.blocks.into())
    }
}

impl fmt::Display for Walk {
    /// `8 threads, stat of missing paths of 1000 memory blocks, 20 times`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} of {} paths of {} memory blocks, {} times",
            counted(self.threads as usize, "thread"),
            self.operation.name(),
            self.paths.name(),
            self.blocks,
            self.rounds
        )
    }
}

/// Complains at `at` where `walk` is over more than the `shown` memory blocks of its guest.
pub(super) fn fits(walk: Walk, shown: u64, at: &At<'_>, sink: &mut Sink) {
    if u64::from(walk.blocks) > shown {
        sink.add_with(at.position(), || {
            format!(
                "{at}: {} memory blocks, and the guest shows at most {shown}; `memory` brings more",
                walk.blocks
            )
        });
    }
}

/// Reads `walk`, which goes with the metric of that name.
pub(super) fn read(
    raw: Option<&raw::Walk>,
    measured: &[Metric],
    at: &At<'_>,
    sink: &mut Sink,
) -> Option<Walk> {
    let is_measured = measured.contains(&Metric::Walk);
    let Some(raw) = raw else {
        if is_measured {
            sink.add_with(at.position(), || {
                "`walk` is measured, and there is no `walk` that says what is done".into()
            });
        }
        return None;
    };
    if !is_measured {
        sink.add_with(at.position(), || {
            format!("{at} is done and not measured; add `walk` to `measure`")
        });
    }
    for (key, value, most) in [
        ("threads", raw.threads, MOST_THREADS),
        ("rounds", raw.rounds, MOST),
        ("blocks", raw.blocks, MOST),
    ] {
        let at = at.key(key);
        if !(1..=most).contains(&value) {
            sink.add_with(at.position(), || {
                format!("{at} must be 1 to {most}, not {value}")
            });
        }
    }
    let walk = Walk {
        threads: raw.threads,
        rounds: raw.rounds,
        blocks: raw.blocks,
        paths: raw.paths,
        operation: raw.operation,
    };
    if walk.operations() > MOST_OPERATIONS {
        sink.add_with(at.position(), || {
            format!(
                "{at}: {} operations (threads x rounds x blocks) in one boot; the limit is {MOST_OPERATIONS}",
                walk.operations()
            )
        });
    }
    Some(walk)
}
