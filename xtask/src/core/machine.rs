// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slow thing behind a trait: something that boots a trial and says what came out.

use super::{fault::Stopped, plan::Trial};

/// What a boot left behind, whether it went well or not. Untrusted: a guest wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawBoot {
    /// How the machine ended.
    pub end: End,
    /// All bytes of the event channel (docs/protocol.md).
    pub channel: Vec<u8>,
    /// All bytes of the console.
    pub console: Vec<u8>,
}

/// How a machine ended, as seen from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// PID 1 of the second boot ended the machine through the debug-exit port.
    #[default]
    Finished,
    /// The machine ended by itself without the guest's word (reset with no second boot,
    /// power-off, QEMU error): exit status text.
    Early(String),
    /// The console showed a panic, lockup or hang report; the matching line.
    Splat(String),
    /// A deadline passed; which phase, and its limit.
    Deadline(String),
    /// The kernel lacks what the trial is about, so that nothing was booted: what it would
    /// take.
    NotAvailable(String),
    /// The machine itself failed (killed, would not start, disk full): nothing is known
    /// about the guest.
    Machine(String),
}

/// Boots trials. Implementations: QEMU, and the scripted machine of the tests.
pub trait Machine: Sync {
    /// Boots `trial` once and waits for its end. Blocks; called from several threads.
    ///
    /// # Errors
    /// Only [`Stopped`]: the trial has no result and will be made again on `--resume`.
    /// Everything else that can go wrong is an [`End`].
    fn boot(&self, trial: &Trial) -> Result<RawBoot, Stopped>;
}
