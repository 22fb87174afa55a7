// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario files as written. These types are the format: the editors' JSON schema is made
//! from them, and the shape of a file is checked against that schema, so that the two
//! cannot drift apart. Doc comments here are what editors show.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    named::Named,
    text::{ClassCode, Duration, Name, Of, PciId, Prefix, Prose, Share, Size},
};
use super::{
    Backend, Clock, DeviceFault, HowWord, MOST_CPUS, MachineKind, MemoryDevice, Metric, Online,
    Order, Restart, Strategy, WalkOperation, WalkPaths, When,
};

mod named;
mod text;

/// A scenario: what to boot and compare.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "bootrig scenario")]
pub struct Scenario {
    /// What this scenario shows, and why somebody would run it.
    pub about: Prose,
    /// The kernel to build: a key of images/kernels/sources.yaml, in quotes.
    pub kernel: Name,
    /// The clock that counts: `virtual` (the default; repeatable to the bit) or `wall`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// Boots of each variant: 1 by the virtual clock, 10 by the wall clock where this is
    /// left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub repeats: Option<u32>,
    /// Host time after which a guest counts as hung; 5 min where this is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The machine to boot.
    pub machine: Machine,
    /// Many memory blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Walk over paths in sysfs once the devices are there; goes with the metric `walk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk: Option<Walk>,
    /// Memory blocks come and go while threads walk over their paths; goes with the metric
    /// `churn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub churn: Option<Churn>,
    /// The devices on the root bus, with what is below them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// Device links: they order shutdown beside the tree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// Devices moved to the end of the kernel's list just before the shutdown: walking one by
    /// one takes them first, in this order, even before their children.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<Name>,
    /// What happens while the machine shuts down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meanwhile: Vec<Action>,
    /// Settings below /proc/sys, made just before the shutdown: `kernel.threads-max: "1"`.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub sysctl: Named<String>,
    /// Profiles that only this scenario needs, as in profiles.yaml.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub profiles: Named<Profile>,
    /// What differs between the boots, by name; at least one. They run in this order.
    pub variants: Named<Variant>,
    /// What to record.
    #[schemars(length(min = 1))]
    pub measure: Vec<Metric>,
    /// The same at several sizes, to see how the figures grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// Published figures to stand beside ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// What must hold; a scenario whose expectations fail exits with 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Expectation>,
}

/// The machine to boot.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// QEMU's machine: `microvm` (the default; thousands of devices) or `q35` (a whole PC).
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<MachineKind>,
    /// Guest CPUs.
    #[schemars(range(min = 1, max = MOST_CPUS))]
    pub cpus: u32,
    /// Guest memory, at least 64 MiB. Left out where real memory blocks say how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Who makes the devices: `qemu` (the default) or `guest` (a PCI domain inside the
    /// guest: 10,000 devices, with the IDs of their profiles).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
}

/// Many memory blocks.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// How many: with `real` all that there are, else beside those of `machine.memory`.
    #[schemars(range(min = 1, max = 1048576))]
    pub blocks: u32,
    /// `real`: RAM in the smallest blocks that there can be, 4 MiB. `hotplug`: memory that is
    /// plugged in (q35 only). `synthetic`: devices with the names, attributes and uevents of
    /// memory blocks, and no memory.
    pub how: HowWord,
    /// With `hotplug`: what brings the memory, `pc-dimm` (the default) or `virtio-mem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<MemoryDevice>,
    /// With `pc-dimm`: how large each DIMM is; one block where this is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dimm: Option<Size>,
    /// With `hotplug`: what a block is of, `128 MiB` (the default) or `4 MiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<Size>,
    /// With `hotplug`: `later` (the default; once the devices are there, all at once) or `boot`
    /// (before the machine starts).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// With `hotplug`: what the kernel does with a new block: `online` (the default), `offline`,
    /// `online_kernel` or `online_movable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub online: Option<Online>,
}

/// A walk over paths in sysfs: each thread goes over one path of each block.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Threads that walk at once.
    #[schemars(range(min = 1, max = 256))]
    pub threads: u32,
    /// How often each goes over all paths.
    #[schemars(range(min = 1, max = 1048576))]
    pub rounds: u32,
    /// Over the paths of how many memory blocks.
    #[schemars(range(min = 1, max = 1048576))]
    pub blocks: u32,
    /// `existing` paths, `missing` ones below folders that are there, or `mixed`: one and the
    /// other in turn.
    pub paths: WalkPaths,
    /// What is done with each: `read` (open, read, close), `stat`, or `readdir` of the folder.
    #[serde(rename = "do")]
    pub operation: WalkOperation,
}

/// Synthetic memory blocks come and go while threads walk over their paths, and over those of
/// as many that stay.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Churn {
    /// Threads that walk.
    #[schemars(range(min = 1, max = 256))]
    pub walkers: u32,
    /// Blocks that come and go.
    #[schemars(range(min = 1, max = 4096))]
    pub blocks: u32,
    /// How often each of them goes and comes back.
    #[schemars(range(min = 1, max = 1048576))]
    pub rounds: u32,
    /// What the walkers do: `read` or `stat` of a block's `state`, or `readdir`: they look for
    /// the blocks in the folder that holds them all.
    #[serde(rename = "do")]
    pub operation: WalkOperation,
}

/// A device, or a group of equal ones, or a bridge with what is below it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its name in results. A group of N makes `name.0` to `name.N-1`.
    pub name: Name,
    /// What it is on the bus: `endpoint` (the default), `bridge` (conventional PCI, 256
    /// places below it) or `root-port` (PCIe, on the root bus, 8 places below it).
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<DeviceKind>,
    /// Its delays: a key of profiles.yaml or of this file's `profiles`. A bridge without one
    /// is left to the kernel's own driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Name>,
    /// Instead of `profile`: each draws one of all profiles but those with firmware, as this
    /// seed has it. Another profile among them changes what is drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draw: Option<u32>,
    /// How many of them; 1 where this is left out. Below a bridge that is itself counted:
    /// how many below each, numbered on from one bridge to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub count: Option<u32>,
    /// The bridge or root port above, by name, instead of nesting: for generated files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Name>,
    /// What the name begins with that its driver gives it at the end of probe: `eth` makes
    /// `eth0`, `eth1` and so on, in the order in which devices are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<Prefix>,
    /// What is below a bridge or root port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
}

/// A device link: the consumer is shut down before the supplier.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The device that depends on the other.
    pub consumer: Name,
    /// The device that it depends on.
    pub supplier: Name,
    /// Whether the link only serves sync_state(): then it orders nothing, and may close a
    /// cycle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_state_only: Option<bool>,
}

/// Something that happens while the machine shuts down: exactly one of `remove`, `rescan`
/// and `kill`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["remove"]}, {"required": ["rescan"]}, {"required": ["kill"]},
]))]
pub struct Action {
    /// When, from reboot(2) on.
    pub after: Duration,
    /// The device that is taken away, with all below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<Name>,
    /// `true`: all buses are scanned, so that what was taken away comes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescan: Option<bool>,
    /// `true`: the task that called reboot(2) gets SIGKILL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill: Option<bool>,
}

/// What a device is on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// Has nothing below it.
    Endpoint,
    /// A conventional PCI bridge.
    Bridge,
    /// A PCIe root port.
    RootPort,
}

/// A device's delays.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The real device's ID.
    pub id: PciId,
    /// The real device's class code; seen with `backend: guest` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ClassCode>,
    /// What the device is.
    pub about: Prose,
    /// Where the delays come from: functions in the Linux tree, or a published report.
    pub source: Prose,
    /// Firmware that probe loads first, and writes into the device's flash memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Firmware>,
    /// What probe waits for, step by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probe: Vec<Step>,
    /// What shutdown waits for, step by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shutdown: Vec<Step>,
    /// What remove waits for, step by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<Step>,
    /// A lock held during each callback and shared by all devices that name it: `rtnl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<Name>,
}

/// Firmware: the file that is loaded, and what writing it into the device takes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Firmware {
    /// What the device's flash memory holds: no file is larger.
    pub flash: Size,
    /// The file's.
    pub size: Size,
    /// How much is erased at once.
    pub sector: Size,
    /// What that takes.
    pub erase: Step,
    /// How much is written at once.
    pub page: Size,
    /// What that takes.
    pub program: Step,
}

/// One step: exactly one of `sleep`, `wait`, `poll` (with `every`), `busy`, `compute` and
/// `thread`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["sleep"]}, {"required": ["wait"]}, {"required": ["busy"]},
    {"required": ["compute"]}, {"required": ["thread"]}, {"required": ["poll", "every"]},
], "maxProperties" = 2))]
pub struct Step {
    /// msleep(): what the kernel's jiffies make of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sleep: Option<Duration>,
    /// A completion signalled after this time: exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Duration>,
    /// Looks again and again until this time has passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll: Option<Duration>,
    /// The pause between two looks of `poll`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
    /// Spins on the clock and lets nobody else have its CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<Duration>,
    /// Computes: as many steps as take this long on a CPU of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute: Option<Duration>,
    /// `true`: starts a kernel thread, as SCSI hosts do; it fails in a task that was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<bool>,
}

/// What differs in one kind of boot.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The patch series applied, a folder of images/kernels/patches; none: the kernel as
    /// released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Name>,
    /// Only the first so many patches of the series.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub patches: Option<u32>,
    /// Lines of kernel configuration on top of all others, `CONFIG_X=y`; `=n` where it is not
    /// to be set. Each variant with other ones has a kernel of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Words added to the kernel's command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cmdline: Vec<String>,
    /// Who probes the devices: `sync` (the default: the task that loads the driver), `kthread`,
    /// `workqueue`, `async-prefer`, `async-param`, `async-cmdline`, `async-cmdline-all`,
    /// `built-in` or `per-device-kthread`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Strategy>,
    /// The kernel's tick rate: 100, 250, 300 or 1000; else that of its configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hz: Option<u32>,
    /// `true`: for firmware that is no file the kernel asks user space, up to 60 s long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_fallback: Option<bool>,
    /// What goes wrong in the probes of devices, or of groups of them, by name.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub faults: Named<DeviceFault>,
    /// When the task that loads the driver is killed, from the beginning of the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill_loader: Option<Duration>,
    /// When the driver is unloaded, from the beginning of its load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unload: Option<Duration>,
    /// The order that device_shutdown() is to follow: it decides what the ideal is, and in
    /// `serial` two callbacks that overlap are a violation.
    pub order: Order,
    /// How it gets to the next boot: `reset` (the default; through the firmware) or `kexec`
    /// (straight into the same kernel).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// The most tasks that may run shutdown callbacks, the one that reboots among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub max_tasks: Option<u32>,
    /// `false`: callbacks of devices are not recorded, so that what recording them costs shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<bool>,
    /// udev's coldplug, once the devices are there; goes with the metric `coldplug`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coldplug: Option<Coldplug>,
    /// A boot of systemd to multi-user.target, once the devices are there; goes with the metric
    /// `systemd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub systemd: Option<Systemd>,
    /// Profiles replaced in this variant, `written: used instead`.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub swap: Named<Name>,
}

/// A distribution's udev handles all devices: udevd starts, everything is triggered, and it is
/// waited for until it is done.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Coldplug {
    /// The suite that udev is of, in images/userspace/images.yaml; `bookworm` where this is
    /// left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<Name>,
    /// Events that udev handles at once; as many as it chooses where this is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub children_max: Option<u32>,
    /// `true`: a rule runs two programs for each memory block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forking_rule: Option<bool>,
    /// The longest that each of its steps may take in the guest, 1 s or more; 5 min where this
    /// is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Duration>,
}

/// A distribution's systemd becomes PID 1, boots to multi-user.target, and is told to restart.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Systemd {
    /// The suite that it is of, in images/userspace/images.yaml; `bookworm` where this is left
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<Name>,
    /// How long a unit, or the device that it waits for, may take to start, 1 ms or more:
    /// systemd's own 90 s where this is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_timeout_start_sec: Option<Duration>,
    /// The longest that the whole boot may take in the guest, 1 s or more; 5 min where this is
    /// left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Duration>,
}

/// The sizes of a scenario: exactly one of `devices` (with `of`), `delay` (with `of`),
/// `cpus`, `blocks` and `threads`, in rising order.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["devices", "of"]}, {"required": ["delay", "of"]}, {"required": ["cpus"]},
    {"required": ["blocks"]}, {"required": ["threads"]},
]))]
pub struct Sweep {
    /// `count` of the entry of `devices` that `of` names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<u32>,
    /// What each step of the profile that `of` names takes; one of this file's `profiles`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delay: Vec<Duration>,
    /// Guest CPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// `blocks` of `memory`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<u32>,
    /// `threads` of `walk`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<u32>,
    /// Whose `devices` or `delay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<Name>,
    /// How fast figures may grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<GrowthLimit>,
}

/// How fast a figure may grow over a sweep.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrowthLimit {
    /// Whose figure.
    pub variant: Name,
    /// Which figure; one of those measured.
    pub metric: Metric,
    /// The greatest exponent: 1 is linear, 2 quadratic.
    pub at_most: f64,
}

/// Published figures.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Where they were published.
    pub source: Prose,
    /// What to know when reading them; printed with the tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Prose>,
    /// Figures for `boot`, by variant.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub boot: Named<Duration>,
    /// Figures for `load`, by variant.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub load: Named<Duration>,
    /// Figures for `probe`, by variant.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub probe: Named<Duration>,
    /// Figures for `bound`, by variant.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub bound: Named<Duration>,
    /// Figures for `ready`, by variant.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub ready: Named<Duration>,
    /// Figures for `device_shutdown`, by variant.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub device_shutdown: Named<Duration>,
    /// Figures for `reboot`, by variant.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub reboot: Named<Duration>,
    /// Figures for `walk`, by variant.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub walk: Named<Duration>,
    /// Figures for `churn`, by variant.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub churn: Named<Duration>,
    /// Figures for `hotplug`, by variant.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub hotplug: Named<Duration>,
    /// Figures for `coldplug`, by variant.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub coldplug: Named<Duration>,
    /// Figures for `systemd`, by variant.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub systemd: Named<Duration>,
    /// Time in device_shutdown of one device of each group.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub devices: Named<Duration>,
}

/// What must hold of a value: exactly one of `within` and `at_most`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["within"]}, {"required": ["at_most"]}]))]
pub struct Expectation {
    /// Whose value.
    pub variant: Name,
    /// Which value; one of those measured.
    pub metric: Metric,
    /// How far it may lie from the target, above or below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Share>,
    /// With `within`: how far it may lie from it in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub or: Option<Duration>,
    /// How much of the target it may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Share>,
    /// The target: `ideal`, a duration, or another variant's name.
    pub of: Of,
}
