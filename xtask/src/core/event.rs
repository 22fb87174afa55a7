// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the guest reports, as types. [`decode`] makes them of the lines of docs/protocol.md.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::{
    decode::{Lost, check, decode},
    encode::Encoder,
    systemd::{BrokenUnit, SystemdBoot, UnitTime},
};
use super::units::{Bytes, Nanos};

mod decode;
mod encode;
mod systemd;

/// A driver callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Callback {
    /// `probe`
    Probe,
    /// `shutdown`
    Shutdown,
    /// `remove`
    Remove,
}

/// Begin and end of one device callback, in guest monotonic time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// CLOCK_MONOTONIC: starts at 0 with each kernel.
    pub mono: Nanos,
    /// Time stamp counter: runs on across a reset, except under KVM.
    pub tsc: u64,
}

/// A phase mark of the kernel side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Before the driver registers.
    AttachBegin,
    /// All its devices are probed.
    AttachEnd,
    /// Reboot notifier: before device_shutdown().
    ShutdownBegin,
    /// Syscore shutdown: after device_shutdown().
    ShutdownEnd,
    /// All records are written.
    DumpEnd,
}

/// Loading of one module as PID 1 saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// Its name, without `.ko`.
    pub module: String,
    /// Before finit_module.
    pub begin: Nanos,
    /// After it.
    pub end: Nanos,
}

/// What became of a load that did not simply end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbed {
    /// Its task was killed at this time, and was gone at `end`.
    Killed {
        /// Before finit_module.
        begin: Nanos,
        /// The signal.
        at: Nanos,
        /// When the task had ended.
        end: Nanos,
    },
    /// Its task did not end, and PID 1 went on without it.
    Left {
        /// Before finit_module.
        begin: Nanos,
        /// When PID 1 went on.
        at: Nanos,
    },
    /// Its module was unloaded, or, with an error, could not be.
    Unloaded {
        /// Before delete_module.
        begin: Nanos,
        /// After it.
        end: Nanos,
        /// 0, or the error.
        errno: i32,
    },
    /// Probes were still under way when PID 1 had waited so long for them.
    Unsettled {
        /// How long.
        after: Nanos,
    },
}

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

/// Memory that was plugged in, as PID 1 saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hotplugged {
    /// Blocks where such memory comes that were there when PID 1 first looked.
    pub before: u64,
    /// Those that were there in the end.
    pub blocks: u64,
    /// Those of them that were offline.
    pub offline: u64,
    /// Those that were online, for whatever the kernel needs.
    pub kernel: u64,
    /// Those that were online, for what can be moved.
    pub movable: u64,
    /// When it was plugged in; 0 where it was there before the kernel.
    pub begin: Nanos,
    /// When the last block was there.
    pub there: Nanos,
    /// When the last block was in the state that is waited for.
    pub end: Nanos,
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

/// Everything that one boot of the guest reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootLog {
    /// The kernel's release (`uname -r`).
    pub release: String,
    /// CPUs that PID 1 saw.
    pub cpus: u32,
    /// PID 1's first act.
    pub hello: Stamp,
    /// Modules in loading order.
    pub loaded: Vec<Loaded>,
    /// What was done to loads, or became of them, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<Disturbed>,
    /// The memory blocks in sysfs, and the size that sysfs says they have; where PID 1 was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<(u64, Bytes)>,
    /// The walk, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk: Option<Walked>,
    /// The churn, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub churn: Option<Churned>,
    /// What was plugged in, where something was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hotplug: Option<Hotplugged>,
    /// The coldplug, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coldplug: Option<Coldplugged>,
    /// The boot of systemd, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub systemd: Option<SystemdBoot>,
    /// The numbers in the names that devices got, in order: `(device, number)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<(usize, u32)>,
    /// Start of user space's shutdown.
    pub leave: Option<Stamp>,
    /// Just before reboot(2).
    pub enter: Option<Stamp>,
    /// The kernel's HZ and its idea of the counter's frequency in kHz.
    pub config: Option<(u32, u64)>,
    /// Device callbacks, by begin, then device.
    pub callbacks: Vec<CallbackEvent>,
    /// Phase marks.
    pub marks: BTreeMap<Mark, Stamp>,
    /// What PID 1 could not do: `(what, errno)`.
    pub errors: Vec<(String, i32)>,
}

/// A callback that began and returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// As in [`CallbackEvent`].
    pub device: usize,
    /// When it was entered.
    pub begin: Nanos,
    /// When it held its lock.
    pub locked: Nanos,
    /// When it returned.
    pub end: Nanos,
    /// The task that ran it.
    pub task: u32,
}

impl CallbackEvent {
    /// Its span; `None`: it never returned.
    pub fn span(&self) -> Option<Span> {
        Some(Span {
            device: self.device,
            begin: self.begin,
            locked: self.locked,
            end: self.end?,
            task: self.pid,
        })
    }
}

impl BootLog {
    /// The shutdown callbacks, in the log's order.
    pub fn shutdowns(&self) -> impl Iterator<Item = &CallbackEvent> {
        let all = self.callbacks.iter();
        all.filter(|e| e.callback == Callback::Shutdown)
    }
    /// How many tasks ran them.
    pub fn shutdown_tasks(&self) -> usize {
        self.shutdowns()
            .map(|e| e.pid)
            .collect::<BTreeSet<_>>()
            .len()
    }
}
