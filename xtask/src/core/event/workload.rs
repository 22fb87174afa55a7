// SPDX-License-Identifier: MIT OR Apache-2.0
//! What PID 1 reports of the work that it did or had done.

use serde::{Deserialize, Serialize};

use super::Fields;
use crate::core::units::Nanos;

/// A walk over paths in sysfs, as PID 1 saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walked {
    /// Threads that walked.
    pub threads: u32,
    /// What all of them did together.
    pub operations: u64,
    /// Before the threads set out.
    pub begin: Nanos,
    /// When the last of them was done.
    pub end: Nanos,
    /// What half of the operations took at most, to one part in 32.
    pub p50: Nanos,
    /// What 99 % of them took at most, to one part in 32.
    pub p99: Nanos,
    /// The longest.
    pub longest: Nanos,
    /// Answers that were not what they should be.
    pub wrong: u64,
}

/// What walkers saw while memory blocks came and went, as PID 1 saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Churned {
    /// Threads that walked.
    pub walkers: u32,
    /// How often a block went or came.
    pub changes: u64,
    /// Before the first went.
    pub begin: Nanos,
    /// When the last was back.
    pub end: Nanos,
    /// Answers that walkers had.
    pub answers: u64,
    /// Those of which it was certain what they had to be.
    pub certain: u64,
    /// Those that were wrong.
    pub wrong: u64,
}

/// What udev did with all devices, as PID 1 saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coldplugged {
    /// Before udevd was started.
    pub start: Nanos,
    /// udevd listened, and all devices were about to be triggered.
    pub begin: Nanos,
    /// All were triggered.
    pub triggered: Nanos,
    /// udevd had nothing left to do.
    pub end: Nanos,
    /// Events that the kernel sent meanwhile.
    pub events: u64,
    /// Memory blocks that udev's rules have seen.
    pub seen: u64,
}

pub(super) fn walk(fields: &mut Fields) -> Result<Walked, String> {
    let walked = Walked {
        threads: fields.number("threads")?,
        operations: fields.number("operations")?,
        begin: fields.nanos("begin")?,
        end: fields.nanos("end")?,
        p50: fields.nanos("p50")?,
        p99: fields.nanos("p99")?,
        longest: fields.nanos("longest")?,
        wrong: fields.number("wrong")?,
    };
    forwards(fields, &[walked.begin, walked.end]).map(|()| walked)
}

pub(super) fn churn(fields: &mut Fields) -> Result<Churned, String> {
    let churned = Churned {
        walkers: fields.number("walkers")?,
        changes: fields.number("changes")?,
        begin: fields.nanos("begin")?,
        end: fields.nanos("end")?,
        answers: fields.number("answers")?,
        certain: fields.number("certain")?,
        wrong: fields.number("wrong")?,
    };
    forwards(fields, &[churned.begin, churned.end]).map(|()| churned)
}

pub(super) fn coldplug(fields: &mut Fields) -> Result<Coldplugged, String> {
    let done = Coldplugged {
        start: fields.nanos("start")?,
        begin: fields.nanos("begin")?,
        triggered: fields.nanos("triggered")?,
        end: fields.nanos("end")?,
        events: fields.number("events")?,
        seen: fields.number("seen")?,
    };
    let times = [done.start, done.begin, done.triggered, done.end];
    forwards(fields, &times).map(|()| done)
}

fn forwards(fields: &Fields, times: &[Nanos]) -> Result<(), String> {
    match times.is_sorted() {
        true => Ok(()),
        false => Err(format!("is a {} that runs backwards", fields.verb)),
    }
}
