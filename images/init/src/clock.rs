// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two clocks of the guest.

use std::{
    arch::x86_64::{_mm_lfence, _rdtsc},
    fmt,
};

use crate::sys;

/// Both clocks at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// CLOCK_MONOTONIC in ns, from 0 in each kernel.
    pub mono: u64,
    /// Time stamp counter; runs on across a reset.
    pub tsc: u64,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mono={} tsc={}", self.mono, self.tsc)
    }
}

/// Reads both.
pub fn now() -> Stamp {
    let mono = mono();
    // SAFETY: both instructions are in every x86-64 processor. The fence keeps the
    // counter from being read early.
    let tsc = unsafe {
        _mm_lfence();
        _rdtsc()
    };
    Stamp { mono, tsc }
}

/// CLOCK_MONOTONIC in ns.
pub fn mono() -> u64 {
    sys::monotonic_ns()
}

/// Spins for `ns`: what sleeps wakes up in step with the timer's ticks, and would undo what
/// the waiting is for.
pub fn spin(ns: u64) {
    let end = mono().saturating_add(ns);
    while mono() < end {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_runs_backwards() {
        let (a, b) = (now(), now());
        assert!(a.mono <= b.mono && a.mono > 0, "{a} {b}");
        let before = mono();
        spin(100_000);
        assert!(mono() - before >= 100_000);
        assert_eq!(Stamp { mono: 1, tsc: 2 }.to_string(), "mono=1 tsc=2");
    }
}
