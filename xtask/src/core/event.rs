// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the guest reports: the lines of docs/protocol.md as types.

use super::units::Nanos;

/// A driver callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Callback {
    /// `probe`
    Probe,
    /// `shutdown`
    Shutdown,
    /// `remove`
    Remove,
}

/// Begin and end of one device callback, in guest monotonic time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackEvent {
    /// Index into [`Scenario::devices`](super::scenario::Scenario::devices).
    pub device: usize,
    /// Which callback.
    pub callback: Callback,
    /// When it was entered.
    pub begin: Nanos,
    /// When it held the profile's lock; equals `begin` where there is none.
    pub locked: Nanos,
    /// When it returned; `None`: it never did.
    pub end: Option<Nanos>,
    /// CPU at entry.
    pub cpu: u32,
    /// Task that ran it.
    pub pid: u32,
    /// What it returned (probe only, else 0).
    pub ret: i32,
}

/// A reading of both guest clocks at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// CLOCK_MONOTONIC: starts at 0 with each kernel.
    pub mono: Nanos,
    /// Time stamp counter: runs on across a reset, except under KVM.
    pub tsc: u64,
}
