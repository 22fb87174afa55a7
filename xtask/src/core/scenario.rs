// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to boot and compare, as types that cannot be wrong.
//!
//! Scenario YAML is parsed strictly into a private raw form and turned into [`Scenario`],
//! which every other part uses.

mod canonical;
mod churn;
mod cmdline;
mod devices;
mod diagnose;
mod hotplug;
mod judge;
mod meanwhile;
mod memory;
mod options;
mod parse;
mod probing;
mod profiles;
mod raw;
mod room;
mod schema;
mod shape;
mod sweep;
mod systemd;
#[cfg(test)]
mod tests;
mod tree;
mod under_test;
mod userspace;
mod validate;
mod walk;

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{Bytes, Fraction, Nanos};
pub use canonical::to_yaml;
pub use churn::Churn;
pub use devices::{FUNCTIONS_PER_SLOT, MAX_LEVELS};
pub use diagnose::{Diagnostic, Diagnostics};
pub use hotplug::{Hotplug, MemoryDevice, Online, Plugged, When};
pub use memory::{How, HowWord, Memory, SMALLEST_BLOCK};
pub use options::MOST as MOST_OPTIONS;
pub use parse::{Known, parse};
pub use probing::{DeviceFault, Firmware, Probing, Strategy, TICK_RATES};
pub use profiles::{Profiles, parse_profiles};
pub use room::guests_that_fit;
pub use schema::{profiles_schema, scenario_schema, schema_text};
pub use sweep::{GrowthLimit, Over, Point, Sweep};
pub use systemd::Systemd;
pub use tree::MAX_TEXT;
pub use tree::Position;
pub use under_test::{FOREIGN, Switched, UNDER_TEST, UnderTest, is_foreign};
pub use userspace::{Coldplug, ImageSpec};
pub use validate::{MAX_REPEATS, MOST_CPUS, group};
pub use walk::{Walk, WalkOperation, WalkPaths};

/// What reads other strict YAML files of the checkout.
pub(in crate::core) mod strict {
    pub use super::{diagnose::Sink, parse::typed, raw::Name, schema::generate, tree::At};
}

/// Which clock a trial runs by. Numbers of different clocks are never compared.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// TCG counting instructions: repeatable to the bit, idle time skipped.
    Virtual,
    /// Real time: KVM where it works, else multi-threaded TCG.
    Wall,
}

impl Clock {
    /// Boots per variant where nobody says: virtual time repeats exactly, one boot by the
    /// wall clock says nothing.
    pub fn default_repeats(self) -> u32 {
        match self {
            Self::Virtual => 1,
            Self::Wall => 10,
        }
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Virtual => "virtual",
            Self::Wall => "wall",
        })
    }
}

/// A quantity that a trial yields; see docs/glossary.md.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Kernel start to PID 1.
    Boot,
    /// Loading the driver, as whoever loads it sees it.
    Load,
    /// The driver's attach: its registration, as the task sees it that registers.
    Probe,
    /// From the driver's attach to the last of its devices that is bound.
    Bound,
    /// Kernel start to the last device that is bound.
    Ready,
    /// Reboot notifier to syscore shutdown.
    DeviceShutdown,
    /// From the start of user space's shutdown to the next PID 1.
    Reboot,
    /// A walk over paths in sysfs, from its threads' start to the last one's end.
    Walk,
    /// Memory blocks come and go, from the first that goes to the last that is back.
    Churn,
    /// Memory is plugged in: from there, or from the kernel's start where it was there before, to
    /// the last of its blocks.
    Hotplug,
    /// udev handles all devices: from the trigger to the end of its queue.
    Coldplug,
    /// systemd starts all that multi-user.target wants: from its own first act until all is done.
    Systemd,
}

impl Metric {
    /// Every metric; a test beside report.html's order of them sees to it.
    pub const ALL: [Self; 12] = [
        Self::Boot,
        Self::Load,
        Self::Probe,
        Self::Bound,
        Self::Ready,
        Self::DeviceShutdown,
        Self::Reboot,
        Self::Walk,
        Self::Churn,
        Self::Hotplug,
        Self::Coldplug,
        Self::Systemd,
    ];
    /// The name used in YAML, CSV and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::Load => "load",
            Self::Probe => "probe",
            Self::Bound => "bound",
            Self::Ready => "ready",
            Self::DeviceShutdown => "device_shutdown",
            Self::Reboot => "reboot",
            Self::Walk => "walk",
            Self::Churn => "churn",
            Self::Hotplug => "hotplug",
            Self::Coldplug => "coldplug",
            Self::Systemd => "systemd",
        }
    }
}

/// One way a device makes its driver wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// `msleep()`: jiffies, and the timer wheel's rounding.
    Sleep(Nanos),
    /// Waits for a completion that a high-resolution timer signals: exact.
    Wait(Nanos),
    /// Polls with `usleep_range()` (`msleep()` from 20 ms on) until the time has passed.
    Poll {
        /// How long until the polled condition holds.
        total: Nanos,
        /// The pause between two looks.
        every: Nanos,
    },
    /// Spins on the clock (`udelay()`) and lets nobody else have its CPU.
    Busy(Nanos),
    /// Computes for so long on a CPU of its own: in virtual time, where all CPUs share one
    /// core, this adds up.
    Compute(Nanos),
    /// Starts a kernel thread, which fails in a task that was killed.
    Thread,
}

impl Step {
    /// The time that the device asks for; what the kernel grants is never less.
    pub fn nominal(self) -> Nanos {
        match self {
            Self::Sleep(d) | Self::Wait(d) | Self::Busy(d) | Self::Compute(d) => d,
            Self::Poll { total, .. } => total,
            Self::Thread => Nanos(0),
        }
    }
}

/// A device's delays, taken from real hardware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// The key in profiles.yaml.
    pub name: String,
    /// The real device's `vendor:device` IDs.
    pub id: (u16, u16),
    /// Its class code with programming interface, 24 bits, where it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<u32>,
    /// What the device is, for people.
    pub about: String,
    /// Where the delays come from: functions in the Linux tree, or a published report.
    pub source: String,
    /// What its probe loads first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Firmware>,
    /// Delays of each callback; empty: nothing to do.
    pub probe: Vec<Step>,
    /// See `probe`.
    pub shutdown: Vec<Step>,
    /// See `probe`.
    pub remove: Vec<Step>,
    /// A lock that all devices naming it share while a callback runs (RTNL, say).
    pub lock: Option<String>,
}

/// The machine a scenario asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MachineSpec {
    /// QEMU's machine type.
    #[serde(rename = "type")]
    pub kind: MachineKind,
    /// Guest CPUs.
    pub cpus: u32,
    /// Guest memory.
    pub memory: Bytes,
    /// Whose the devices are. Left out of hashes where it is QEMU, as it was before there
    /// was a choice.
    #[serde(default, skip_serializing_if = "Backend::is_qemu")]
    pub backend: Backend,
}

/// Who makes a scenario's devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// QEMU: real config cycles; some thousand devices.
    #[default]
    Qemu,
    /// The guest's module `vpci`: a PCI domain of its own; ten thousands of devices, with
    /// the IDs of their profiles.
    Guest,
}

impl Backend {
    fn is_qemu(&self) -> bool {
        *self == Self::Qemu
    }
}

/// QEMU's machine type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MachineKind {
    /// `microvm,pcie=on`: no firmware enumeration, thousands of devices. The default.
    Microvm,
    /// A whole PC with SeaBIOS.
    Q35,
}

/// What a node of the device tree is on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// A device without children.
    Endpoint,
    /// A PCIe root port: sits on the root bus, has one slot of 8 functions below it.
    RootPort,
    /// A conventional PCI bridge: 32 slots of 8 functions below it.
    Bridge,
}

/// A device of the tree, in an order where parents come before their children. Its index
/// in [`Scenario::devices`] is its number in the guest's table and events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Unique within the scenario: `ixgbe.2`.
    pub name: String,
    /// Index of the bridge or port above; `None`: on the root bus.
    pub parent: Option<usize>,
    /// What it is on the bus.
    pub kind: NodeKind,
    /// Key in [`Scenario::profiles`]; `None`: no driver of ours binds it (bridges only).
    pub profile: Option<String>,
    /// What the name begins with that its driver gives it: `eth`; the rest is the next number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<String>,
}

/// A device link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Index of the device that depends on the other.
    pub consumer: usize,
    /// Index of the one that it depends on.
    pub supplier: usize,
    /// Whether it orders shutdown; else it only serves sync_state().
    pub orders: bool,
}

/// Something that happens while the machine shuts down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Meanwhile {
    /// When, from reboot(2) on.
    pub after: Nanos,
    /// What.
    pub action: Action,
}

/// What can happen while the machine shuts down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The device of this index is taken away, with all below it.
    Remove(usize),
    /// All buses are scanned.
    Rescan,
    /// The task that called reboot(2) gets SIGKILL.
    Kill,
}

/// Whether a variant is to shut devices down one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// No two callbacks may overlap; ideal: the sum.
    Serial,
    /// Ideal: the longest path, no less than each lock's sum.
    Parallel,
}

/// How a boot gets to the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Restart {
    /// Through a reset and the firmware.
    #[default]
    Reset,
    /// Straight into the same kernel, by kexec.
    Kexec,
}

/// What differs between boots of one scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Variant {
    /// `stock`, `serial`, `parallel`, ...
    pub name: String,
    /// The patch series under `images/kernels/patches/`; `None`: unpatched.
    pub series: Option<String>,
    /// Only the first so many patches of the series; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patches: Option<u32>,
    /// Lines of kernel configuration on top of all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Words added to the kernel command line.
    pub cmdline: Vec<String>,
    /// How its devices are probed.
    #[serde(skip_serializing_if = "Probing::is_default")]
    pub probing: Probing,
    /// The order that device_shutdown is to follow.
    pub order: Order,
    /// How it restarts.
    pub restart: Restart,
    /// The most tasks that may run its shutdown callbacks.
    pub max_tasks: Option<u32>,
    /// Whether its devices' callbacks leave no records, only the marks of the phases.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unrecorded: bool,
    /// What udev does once the devices are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coldplug: Option<Coldplug>,
    /// The boot of systemd once the devices are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub systemd: Option<Systemd>,
    /// Profiles replaced in this variant: key as written in the tree -> key used instead.
    pub swap: BTreeMap<String, String>,
}

/// A published figure to stand beside ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reference {
    /// Where it was published.
    pub source: String,
    /// What to know when reading it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// (variant, metric) -> value, in the metric's unit.
    pub values: Vec<(String, Metric, Nanos)>,
    /// Device group (its name up to the last `.N`) -> published device_shutdown time of
    /// one such device, in the serial case.
    pub devices: Vec<(String, Nanos)>,
}

/// What a value is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A fixed duration.
    Value(Nanos),
    /// The same variant's ideal.
    Ideal,
    /// The same metric of another variant.
    Variant(String),
}

/// How a value may lie to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// Not further away on either side than the larger of the two.
    Within {
        /// A part of the target.
        part: Fraction,
        /// A time.
        or: Nanos,
    },
    /// No more than this part of it.
    AtMost(Fraction),
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Within { part, or: Nanos(0) } => write!(f, "within {part} of"),
            Self::Within { part, or } => write!(f, "within {part} or {or} of"),
            Self::AtMost(part) => write!(f, "at most {part} of"),
        }
    }
}

/// What `variant.metric` is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Expectation {
    /// Whose value.
    pub variant: String,
    /// Which value: the median over repeats.
    pub metric: Metric,
    /// How near to the target.
    pub tolerance: Tolerance,
    /// What it is compared with.
    pub of: Target,
}

/// One scenario file, validated: every name used is defined, the tree is a tree, every
/// parent can have children, counts fit the machine, at least one variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scenario {
    /// Its file's stem.
    pub name: String,
    /// One paragraph for people.
    pub about: String,
    /// Key in images/kernels/sources.yaml: `6.1`.
    pub kernel: String,
    /// The clock unless `--clock` says otherwise.
    pub clock: Clock,
    /// The machine.
    pub machine: MachineSpec,
    /// Its memory blocks, where it is about them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// What is done in sysfs once the devices are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk: Option<Walk>,
    /// What comes and goes in sysfs, and who looks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub churn: Option<Churn>,
    /// The tree; parents before children.
    pub devices: Vec<Device>,
    /// Device links.
    pub links: Vec<Link>,
    /// Devices that the kernel's list is made to end in: the first is shut down first where
    /// that order counts.
    pub first: Vec<usize>,
    /// What happens during the shutdown, in the order of time.
    pub meanwhile: Vec<Meanwhile>,
    /// Settings below /proc/sys, by name.
    pub sysctl: Vec<(String, String)>,
    /// The profiles that `devices` and `swap` name.
    pub profiles: BTreeMap<String, Profile>,
    /// At least one, in the file's order, names unique.
    pub variants: Vec<Variant>,
    /// What to record; never empty.
    pub metrics: Vec<Metric>,
    /// Boots per variant unless `--repeats` says otherwise, at least 1; `None`: as many as
    /// the clock in force has by default.
    pub repeats: Option<u32>,
    /// The same at several sizes: then it is these that are booted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// Which size of a sweep this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<Point>,
    /// Published figures.
    pub reference: Option<Reference>,
    /// What must hold.
    pub expect: Vec<Expectation>,
    /// Longest time that one guest may take, in host time.
    pub timeout: Nanos,
    /// blake3 of the effective scenario (file and the profiles it uses), hex.
    pub hash: String,
}

impl Variant {
    /// The image of user space that it boots with.
    pub fn image(&self) -> Option<ImageSpec> {
        let systemd = self.systemd.as_ref().map(Systemd::image);
        systemd.or_else(|| self.coldplug.as_ref().map(Coldplug::image))
    }
}

impl Scenario {
    /// Whether a boot of `variant` goes on to a second PID 1, or ends with the reset, which
    /// kexec does without.
    pub fn boots_again(&self, variant: &Variant) -> bool {
        self.metrics.contains(&Metric::Reboot) || variant.restart == Restart::Kexec
    }
    /// Whether a boot of `variant` ends where its devices are probed, because nothing of the
    /// way down is asked for.
    pub fn ends_when_probed(&self, variant: &Variant) -> bool {
        let down = |m: &Metric| matches!(m, Metric::DeviceShutdown | Metric::Reboot);
        !self.metrics.iter().any(down)
            && variant.restart == Restart::Reset
            && self.meanwhile.is_empty()
            && self.sysctl.is_empty()
    }
    /// The devices that come after `device` in a shutdown: its parent, and what it consumes.
    pub fn wait_for(&self, device: usize) -> impl Iterator<Item = usize> {
        let links = self
            .links
            .iter()
            .filter(move |l| l.orders && l.consumer == device);
        self.devices[device]
            .parent
            .into_iter()
            .chain(links.map(|l| l.supplier))
    }
    /// Whether `device`, or something above it, is taken away during the shutdown.
    pub fn is_removed(&self, device: usize) -> bool {
        let mut above = std::iter::successors(Some(device), |d| self.devices[*d].parent);
        above.any(|d| self.meanwhile.iter().any(|m| m.action == Action::Remove(d)))
    }
    /// Boots per variant by `clock`.
    pub fn repeats_by(&self, clock: Clock) -> u32 {
        self.repeats.unwrap_or_else(|| clock.default_repeats())
    }
    /// Whether `device` stays without a driver: the kernel drops links that only serve
    /// sync_state() once their consumer is bound, so that it must not be.
    pub fn stays_unbound(&self, device: usize) -> bool {
        self.links.iter().any(|l| !l.orders && l.consumer == device)
    }
    /// The profile of device `index` in `variant`, after the variant's swaps.
    pub fn profile(&self, variant: &Variant, index: usize) -> Option<&Profile> {
        let written = self.devices[index].profile.as_ref()?;
        self.profiles
            .get(variant.swap.get(written).unwrap_or(written))
    }
}
