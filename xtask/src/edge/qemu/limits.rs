// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long each part of a machine's life may take, and how much it may write.

use std::time::Duration;

use crate::core::units::Nanos;

/// Limits of one boot, in host time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From QEMU's start to PID 1's `hello`.
    pub boot: Duration,
    /// From `hello` to `leave`: loading modules, the probes.
    pub run: Duration,
    /// From `leave` to the second boot's `hello`: shutdown, reset, boot.
    pub reboot: Duration,
    /// From QEMU's start to its end.
    pub whole: Duration,
    /// Bytes of the event channel.
    pub channel: u64,
    /// Bytes of the console.
    pub console: u64,
}

impl Limits {
    /// For a scenario's timeout. A part may take up to three quarters of the whole: a
    /// guest that hangs early is given up early, and a part that is slow for a good reason
    /// (a shutdown by the wall clock, 100,000 memory blocks) still has its time.
    pub fn within(timeout: Nanos) -> Self {
        let whole = Duration::from_nanos(timeout.0);
        let part = whole / 4 * 3;
        Self {
            boot: part,
            run: part,
            reboot: part,
            whole,
            // 100,000 devices write some 30 MB; a kernel that logs everything, 1 MB.
            channel: 256 << 20,
            console: 32 << 20,
        }
    }

    /// For a guest that only has to come up.
    pub(super) fn probe(patience: Nanos) -> Self {
        let whole = Duration::from_nanos(patience.0);
        Self {
            boot: whole,
            run: whole,
            reboot: whole,
            whole,
            channel: 1 << 20,
            console: 1 << 20,
        }
    }
}
