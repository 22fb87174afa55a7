// SPDX-License-Identifier: MIT OR Apache-2.0
//! How devices are probed: by whom, on what kernel, with which firmware, and what goes wrong.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Backend, Device, Metric, Profile, Scenario, Step, Target, Variant,
    diagnose::Sink,
    raw,
    tree::At,
    validate::{duration, group, quantity},
};
use crate::core::{
    event::Callback,
    nearest::hint,
    units::{Bytes, Nanos},
};

/// Who probes the devices of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// The task that loads the driver, one device after the other.
    #[default]
    Sync,
    /// A thread of the driver's own, one after the other; loading does not wait for it.
    Kthread,
    /// A work item on the workqueue without a CPU of its own, one after the other.
    Workqueue,
    /// The driver asks for it (PROBE_PREFER_ASYNCHRONOUS): all at once, loading waits.
    AsyncPrefer,
    /// The module's parameter `async_probe`: all at once, loading does not wait.
    AsyncParam,
    /// `driver_async_probe=` with the driver's name: all at once, loading waits.
    AsyncCmdline,
    /// `driver_async_probe=*`, for all drivers.
    AsyncCmdlineAll,
    /// The driver is part of the kernel and probes in its initcall, one after the other.
    BuiltIn,
    /// A thread for each device; loading does not wait for them.
    PerDeviceKthread,
}

impl Strategy {
    /// As written in YAML.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Kthread => "kthread",
            Self::Workqueue => "workqueue",
            Self::AsyncPrefer => "async-prefer",
            Self::AsyncParam => "async-param",
            Self::AsyncCmdline => "async-cmdline",
            Self::AsyncCmdlineAll => "async-cmdline-all",
            Self::BuiltIn => "built-in",
            Self::PerDeviceKthread => "per-device-kthread",
        }
    }
    /// Whether devices are probed side by side.
    pub fn is_parallel(self) -> bool {
        self.is_async() || self == Self::PerDeviceKthread
    }
    /// Whether it is the kernel's asynchronous probing: then the driver's attach only queues.
    pub fn is_async(self) -> bool {
        matches!(
            self,
            Self::AsyncPrefer | Self::AsyncParam | Self::AsyncCmdline | Self::AsyncCmdlineAll
        )
    }
    /// The kernel's version from which on there is such a thing, and what that is.
    pub fn needs(self) -> Option<((u32, u32), &'static str)> {
        match self {
            Self::AsyncPrefer => Some(((5, 1), "asynchronous probing of each device")),
            Self::AsyncParam => Some(((5, 1), "the parameter async_probe for each device")),
            Self::AsyncCmdline => Some(((5, 1), "driver_async_probe=")),
            Self::AsyncCmdlineAll => Some(((5, 19), "driver_async_probe=*")),
            Self::Sync
            | Self::Kthread
            | Self::Workqueue
            | Self::BuiltIn
            | Self::PerDeviceKthread => None,
        }
    }
}

/// What is wrong with a device at probe.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceFault {
    /// Its firmware's file is not there.
    NoFirmware,
    /// Its firmware's file is cut in the middle.
    ShortFirmware,
    /// Its probe fails in the end (EIO).
    Error,
    /// Its probe waits for something that never comes (EPROBE_DEFER).
    Defer,
    /// Its probe never returns.
    NeverReturns,
}

/// What a variant says of probing. The default is what every boot does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Probing {
    /// Who probes.
    pub strategy: Strategy,
    /// The kernel's tick rate; `None`: that of its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hz: Option<u32>,
    /// Whether user space is asked for firmware that is no file.
    pub firmware_fallback: bool,
    /// Devices with a fault, by index.
    pub faults: BTreeMap<usize, DeviceFault>,
    /// When the task that loads the driver gets SIGKILL, from the beginning of the load.
    pub kill_loader: Option<Nanos>,
    /// When the driver is unloaded, from the beginning of the load.
    pub unload: Option<Nanos>,
}

impl Probing {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
    /// Whether any probe never returns.
    pub fn hangs(&self) -> bool {
        self.faults
            .values()
            .any(|f| *f == DeviceFault::NeverReturns)
    }
    /// Whether what becomes of each device is worth telling.
    pub fn is_disturbed(&self) -> bool {
        !self.faults.is_empty() || self.kill_loader.is_some() || self.unload.is_some()
    }
}

/// Firmware that a driver loads from a file and writes into its device's flash memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Firmware {
    /// Of the flash memory.
    pub flash: Bytes,
    /// Of the file: no more than `flash`.
    pub size: Bytes,
    /// Bytes that are erased at once.
    pub sector: Bytes,
    /// What erasing them takes.
    pub erase: Step,
    /// Bytes that are written at once.
    pub page: Bytes,
    /// What writing them takes.
    pub program: Step,
}

impl Firmware {
    /// The time that the flash memory asks for.
    pub fn nominal(&self) -> Nanos {
        let times = |of: Bytes, step: Step| {
            Nanos(
                self.size
                    .0
                    .div_ceil(of.0.max(1))
                    .saturating_mul(step.nominal().0),
            )
        };
        times(self.sector, self.erase) + times(self.page, self.program)
    }
}

impl Profile {
    /// The steps of one callback; firmware comes before those of probe.
    pub fn steps(&self, callback: Callback) -> &[Step] {
        match callback {
            Callback::Probe => &self.probe,
            Callback::Shutdown => &self.shutdown,
            Callback::Remove => &self.remove,
        }
    }
    /// The time that the device asks for in one callback, firmware included.
    pub fn nominal(&self, callback: Callback) -> Nanos {
        let steps = self.steps(callback).iter().map(|s| s.nominal()).sum();
        match self.firmware {
            Some(firmware) if callback == Callback::Probe => firmware.nominal() + steps,
            _ => steps,
        }
    }
}

/// The tick rates that x86 kernels offer.
pub const TICK_RATES: [u32; 4] = [100, 250, 300, 1000];
/// What the guest's driver takes.
const MAX_FLASH: Bytes = Bytes(64 << 20);
/// The file's mark and its size stand in front.
const MIN_FIRMWARE: Bytes = Bytes(16);
/// No flash memory is written in pieces so small that there are more.
const MAX_PAGES: u64 = 1 << 20;

/// Reads a profile's firmware; `step` reads a step.
pub(super) fn firmware(
    raw: &raw::Firmware,
    at: &At<'_>,
    step: &dyn Fn(&raw::Step, &At<'_>, &mut Sink) -> Option<Step>,
    sink: &mut Sink,
) -> Option<Firmware> {
    let size = |key: &str, text: &raw::Size, sink: &mut Sink| -> Option<Bytes> {
        let at = at.key(key);
        let value: Bytes = quantity(&text.0, &at, sink)?;
        if value == Bytes(0) {
            sink.add_with(at.position(), || {
                format!("{at} is zero; a device without firmware has no `firmware`")
            });
            return None;
        }
        Some(value)
    };
    let flash = size("flash", &raw.flash, sink);
    let file = size("size", &raw.size, sink);
    let sector = size("sector", &raw.sector, sink);
    let page = size("page", &raw.page, sink);
    let erase = step(&raw.erase, &at.key("erase"), sink);
    let program = step(&raw.program, &at.key("program"), sink);
    let firmware = Firmware {
        flash: flash?,
        size: file?,
        sector: sector?,
        erase: erase?,
        page: page?,
        program: program?,
    };
    let wrong = if firmware.flash > MAX_FLASH {
        let flash = firmware.flash;
        Some((
            "flash",
            format!("{flash} is more than the {MAX_FLASH} that the guest's driver takes"),
        ))
    } else if firmware.size > firmware.flash {
        let (size, flash) = (firmware.size, firmware.flash);
        Some(("size", format!("{size} do not fit a flash of {flash}")))
    } else if firmware.size < MIN_FIRMWARE {
        Some((
            "size",
            format!("a file has {MIN_FIRMWARE} at least, its head"),
        ))
    } else if firmware.sector > firmware.flash {
        let (sector, flash) = (firmware.sector, firmware.flash);
        Some((
            "sector",
            format!("{sector} are more than the flash of {flash}"),
        ))
    } else if firmware.page > firmware.sector {
        let (page, sector) = (firmware.page, firmware.sector);
        Some(("page", format!("{page} are more than a sector of {sector}")))
    } else if firmware.size.0.div_ceil(firmware.page.0) > MAX_PAGES {
        Some((
            "page",
            format!("that makes more than {MAX_PAGES} pages; is the unit right?"),
        ))
    } else if firmware.nominal() > super::validate::MAX_DURATION {
        let nominal = firmware.nominal();
        Some((
            "program",
            format!("writing it takes {nominal} in all; the limit is 1 h"),
        ))
    } else {
        None
    };
    match wrong {
        Some((key, why)) => {
            let at = at.key(key);
            sink.add_with(at.position(), || format!("{at}: {why}"));
            None
        }
        None => Some(firmware),
    }
}

/// What the variants stand in: the tree, its profiles, and who makes the devices.
pub(super) struct Around<'a> {
    pub devices: &'a [Device],
    pub profiles: &'a super::Profiles,
    pub backend: Backend,
}

/// What a variant says of probing.
pub(super) fn read(
    raw: &raw::Variant,
    at: &At<'_>,
    around: &Around<'_>,
    sink: &mut Sink,
) -> Probing {
    let strategy = raw.probe.unwrap_or_default();
    if let Some(hz) = raw.hz.filter(|hz| !TICK_RATES.contains(hz)) {
        let at = at.key("hz");
        sink.add_with(at.position(), || {
            let [first, second, third, last] = TICK_RATES;
            format!("{at}: no kernel offers {hz} Hz; x86 has {first}, {second}, {third} and {last}")
        });
    }
    if strategy == Strategy::BuiltIn {
        built_in(raw, at, around, sink);
    }
    let mut time = |key: &str, text: &Option<raw::Duration>| {
        text.as_ref()
            .and_then(|text| duration(text, &at.key(key), sink))
    };
    let kill_loader = time("kill_loader", &raw.kill_loader);
    let unload = time("unload", &raw.unload);
    Probing {
        strategy,
        hz: raw.hz,
        firmware_fallback: raw.firmware_fallback.unwrap_or(false),
        faults: faults(raw, &at.key("faults"), around, sink),
        kill_loader,
        unload,
    }
}

/// A driver that is part of the kernel is not loaded, and the module that makes devices is;
/// PID 1 comes after it.
fn built_in(raw: &raw::Variant, at: &At<'_>, around: &Around<'_>, sink: &mut Sink) {
    if around.backend == Backend::Guest {
        let at = at.key("probe");
        sink.add_with(at.position(), || {
            format!("{at}: a built-in driver looks for devices before the guest can make them; leave out machine.backend, or take another strategy")
        });
    }
    for (key, there) in [
        ("kill_loader", raw.kill_loader.is_some()),
        ("unload", raw.unload.is_some()),
    ] {
        if there {
            let at = at.key(key);
            sink.add_with(at.position(), || {
                format!("{at}: a built-in driver is not loaded, so that there is nothing to kill or unload")
            });
        }
    }
    for (index, (_, fault)) in raw.faults.0.iter().enumerate() {
        if *fault == DeviceFault::NeverReturns {
            let faults = at.key("faults");
            let at = faults.entry(index);
            sink.add_with(at.position(), || {
                format!("{at}: a built-in driver probes before PID 1 is started, which would never be; take another strategy")
            });
        }
    }
}

/// Whether a variant has no records, from which alone some things could be told.
pub(super) fn unrecorded(raw: &raw::Variant, at: &At<'_>, sink: &mut Sink) -> bool {
    let unrecorded = raw.record == Some(false);
    for (key, there) in [
        ("faults", !raw.faults.is_empty()),
        ("kill_loader", raw.kill_loader.is_some()),
        ("unload", raw.unload.is_some()),
        ("max_tasks", raw.max_tasks.is_some()),
    ] {
        if unrecorded && there {
            let at = at.key(key);
            sink.add_with(at.position(), || {
                format!("{at}: with `record: false` nobody sees what becomes of devices; leave one of them out")
            });
        }
    }
    unrecorded
}

/// Complains of expectations of what a variant cannot have.
pub(super) fn without_value(scenario: &Scenario, at: &At<'_>, sink: &mut Sink) {
    for (index, e) in scenario.expect.iter().enumerate() {
        let own = Some((&e.variant, e.of == Target::Ideal));
        let other = match &e.of {
            Target::Variant(name) => Some((name, false)),
            _ => None,
        };
        let whys = [own, other].into_iter().flatten().filter_map(|named| {
            let (name, ideal) = named;
            let variant = scenario.variants.iter().find(|v| v.name == *name)?;
            Some((name, lacks(variant, e.metric, ideal)?))
        });
        for (name, why) in whys {
            let at = at.item(index);
            sink.add_with(at.position(), || format!("{at}: `{name}` {why}"));
        }
    }
}

/// Why a variant has no such value, or no ideal of it.
fn lacks(variant: &Variant, metric: Metric, ideal: bool) -> Option<&'static str> {
    let seen = !ideal && !matches!(metric, Metric::Bound | Metric::Ready);
    if metric == Metric::Load && variant.probing.strategy == Strategy::BuiltIn {
        return Some(
            "has its driver in the kernel, which nobody loads; take probe, bound or ready",
        );
    }
    (variant.unrecorded && !seen).then_some("has no records, from which alone that is known")
}

fn faults(
    raw: &raw::Variant,
    at: &At<'_>,
    around: &Around<'_>,
    sink: &mut Sink,
) -> BTreeMap<usize, DeviceFault> {
    let mut faults = BTreeMap::new();
    for (index, (name, fault)) in raw.faults.0.iter().enumerate() {
        let at = at.entry(index);
        let meant = |d: &Device| d.name == *name || group(&d.name) == name;
        let found: Vec<usize> = (0..around.devices.len())
            .filter(|i| meant(&around.devices[*i]))
            .collect();
        if found.is_empty() {
            sink.add_with(at.position(), || {
                let names = around.devices.iter().map(|d| d.name.as_str());
                format!("unknown device `{name}` in {at}{}", hint(name, names))
            });
        }
        for device in found {
            let profile = around.devices[device].profile.as_deref();
            let used = profile.map(|p| raw.swap.0.iter().find(|s| s.0 == p).map_or(p, |s| &s.1.0));
            let profile = used.and_then(|p| around.profiles.get(p));
            let needs = matches!(fault, DeviceFault::NoFirmware | DeviceFault::ShortFirmware);
            if profile.is_none() {
                sink.add_with(at.position(), || {
                    format!("{at}: `{name}` has no profile and is not probed")
                });
            } else if needs && profile.is_some_and(|p| p.firmware.is_none()) {
                sink.add_with(at.position(), || {
                    format!("{at}: the profile of `{name}` has no firmware")
                });
            }
            if faults.insert(device, *fault).is_some() {
                sink.add_with(at.position(), || {
                    format!(
                        "{at}: `{}` has a fault already",
                        around.devices[device].name
                    )
                });
            }
        }
    }
    faults
}
