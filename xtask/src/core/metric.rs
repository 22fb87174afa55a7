// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the names of metrics stand for, and their units. Those that a scenario asks for are
//! [`Metric`]; with them come parts (`reboot/firmware`), counts (`tasks`) and devices
//! (`device_shutdown/ixgbe.2`). docs/glossary.md says from where to where each goes.

use serde::{Deserialize, Serialize};

use super::scenario::Metric;

/// How many tasks ran shutdown callbacks.
pub const TASKS: &str = "tasks";

/// How many tasks ran probe callbacks.
pub const PROBE_TASKS: &str = "probe_tasks";

/// The parts of a reboot in the order of time: the name behind `reboot/`, and in words.
pub const REBOOT_PARTS: [(&str, &str); 5] = [
    ("user_space", "user space"),
    ("kernel", "kernel"),
    ("device_shutdown", "device_shutdown"),
    ("firmware", "firmware"),
    ("next_boot", "next boot"),
];

/// What half of a walk's operations took at most.
pub const WALK_P50: &str = "walk/p50";
/// What 99 % of them took at most.
pub const WALK_P99: &str = "walk/p99";
/// The longest of them.
pub const WALK_LONGEST: &str = "walk/longest";

/// What walkers saw while blocks came and went.
pub const CHURN_ANSWERS: &str = "churn/answers";
/// Of how much of it it was certain what it had to be.
pub const CHURN_CERTAIN: &str = "churn/certain";
/// From the plugging in of memory until the last block is there.
pub const HOTPLUG_THERE: &str = "hotplug/there";
/// How many blocks that were.
pub const HOTPLUG_BLOCKS: &str = "hotplug/blocks";
/// From udevd's start until it listens.
pub const COLDPLUG_UDEVD: &str = "coldplug/udevd";
/// Of a coldplug, until all devices are triggered.
pub const COLDPLUG_TRIGGER: &str = "coldplug/trigger";
/// Of a coldplug, from there to its end.
pub const COLDPLUG_SETTLE: &str = "coldplug/settle";
/// The events that the kernel sent in a coldplug.
pub const COLDPLUG_EVENTS: &str = "coldplug/events";

/// From systemd's first act until multi-user.target is reached.
pub const SYSTEMD_TARGET: &str = "systemd/target";
/// From systemd's first act until udev has handled all events.
pub const SYSTEMD_SETTLED: &str = "systemd/settled";
/// The units that systemd started.
pub const SYSTEMD_UNITS: &str = "systemd/units";

/// The unit of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// A plain number.
    Count,
}

impl Unit {
    /// As samples.csv and summary.json write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Count => "count",
        }
    }
}

/// What a metric's name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A metric that the scenario asks for.
    Metric,
    /// A part of one: `reboot/firmware`.
    Part,
    /// One device's callback: `device_shutdown/ixgbe.2`.
    Device,
}

impl Kind {
    /// Of `metric`'s name.
    pub fn of(metric: &str) -> Self {
        match metric.split_once('/') {
            None => Self::Metric,
            Some((of, _)) if of == Metric::Probe.name() || of == Metric::DeviceShutdown.name() => {
                Self::Device
            }
            Some(_) => Self::Part,
        }
    }
}
