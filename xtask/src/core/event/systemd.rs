// SPDX-License-Identifier: MIT OR Apache-2.0
//! A boot of systemd, as it says itself and as PID 1's child saw it.

use serde::{Deserialize, Serialize};

use crate::core::units::Nanos;

/// All of it, and the units that tell where its time went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemdBoot {
    /// PID 1 handed over.
    pub begin: Nanos,
    /// systemd's first act: from here on it is what systemd-analyze calls userspace.
    pub start: Nanos,
    /// multi-user.target was reached.
    pub target: Nanos,
    /// Nothing was left to be started.
    pub finish: Nanos,
    /// udev had handled all events, which a boot does not wait for.
    pub settled: Nanos,
    /// Units that were started.
    pub units: u64,
    /// Units that were to be started and were not; not more of them than are reported are in
    /// `broken`.
    pub broken_in_all: u64,
    /// Memory blocks that udev's rules have seen.
    pub seen: u64,
    /// The units that took longest to start, longest first: `systemd-analyze blame`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<UnitTime>,
    /// What the target waited for, last first: `systemd-analyze critical-chain`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<UnitTime>,
    /// What was not started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<BrokenUnit>,
}

impl SystemdBoot {
    /// All names in it, with the results.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let times = self.slow.iter().chain(&self.chain).map(|u| &*u.unit);
        let broken = self.broken.iter().flat_map(|b| [&*b.unit, &*b.result]);
        times.chain(broken)
    }
}

/// When a unit was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitTime {
    /// Its name.
    pub unit: String,
    /// Its start began.
    pub begin: Nanos,
    /// It was there.
    pub end: Nanos,
}

/// A unit that was to be started and was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenUnit {
    /// Its name.
    pub unit: String,
    /// What became of its start, as systemd calls it: `failed`, `timeout`, `dependency`, ...
    pub result: String,
}
