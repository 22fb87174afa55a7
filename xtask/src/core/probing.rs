// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a boot's log says of probing: when it was over, what became of each device, and which
//! names devices got.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{
    event::{BootLog, Callback, CallbackEvent, Disturbed},
    plan::Trial,
    program::DRIVER,
    scenario::{DeviceFault, Scenario, Strategy, Variant},
    units::Nanos,
};

/// EPROBE_DEFER: to be tried again once another device is bound.
const DEFER: i32 = -517;

/// What a kernel lacks that `trial` is about, and what it would take; `None`: nothing.
/// `release` is the kernel's, `ready` whether it was built elsewhere.
pub fn lacks(trial: &Trial, release: &str, ready: bool) -> Option<String> {
    let probing = &trial.variant().probing;
    let strategy = probing.strategy;
    if ready {
        let wants_own = [
            (strategy == Strategy::BuiltIn, "the driver as a part of it"),
            (probing.hz.is_some(), "another tick rate"),
            (probing.firmware_fallback, "asking user space for firmware"),
            (!trial.variant().options.is_empty(), "another configuration"),
            (trial.variant().systemd.is_some(), "what systemd needs"),
        ];
        let (_, what) = wants_own.iter().find(|w| w.0).copied()?;
        return Some(format!(
            "{what} takes a kernel that bootrig builds: leave --kernel out"
        ));
    }
    let ((major, minor), what) = strategy.needs()?;
    (version(release)? < (major, minor))
        .then(|| format!("{what} takes Linux {major}.{minor} or newer, this is {release}"))
}

/// `6.1` of `6.1.192-bootrig`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn probes(log: &BootLog) -> impl Iterator<Item = &CallbackEvent> {
    let all = log.callbacks.iter();
    all.filter(|e| e.callback == Callback::Probe)
}

/// When the last device that was bound was; `None`: none was, or a probe is still under way.
pub fn last_bound(log: &BootLog) -> Option<Nanos> {
    if probes(log).any(|p| p.end.is_none()) {
        return None;
    }
    probes(log)
        .filter(|p| p.ret == 0)
        .filter_map(|p| p.end)
        .max()
}

/// Whether every probe bound its device.
pub fn all_bound(log: &BootLog) -> bool {
    probes(log).all(|p| p.ret == 0 && p.end.is_some())
}

/// How long loading the driver took, as its loader saw it.
pub fn load(log: &BootLog) -> Option<Nanos> {
    let driver = log.loaded.iter().find(|l| l.module == DRIVER)?;
    Some(driver.end - driver.begin)
}

/// How many tasks probed devices.
pub fn tasks(log: &BootLog) -> usize {
    let pids: std::collections::BTreeSet<_> = probes(log).map(|p| p.pid).collect();
    pids.len()
}

/// What was done to a load, or became of it, in words.
pub fn disturbed(what: &Disturbed) -> String {
    match what {
        Disturbed::Killed { begin, at, end } => format!(
            "killed after {}, gone after {}",
            *at - *begin,
            *end - *begin
        ),
        Disturbed::Left { begin, at } => format!("still loading after {}", *at - *begin),
        Disturbed::Unloaded {
            begin,
            end,
            errno: 0,
        } => format!("unloaded its driver, which took {}", *end - *begin),
        Disturbed::Unloaded { errno, .. } => {
            format!("could not unload its driver: {}", Errno(-errno))
        }
        Disturbed::Unsettled { after } => format!("probes were still under way after {after}"),
    }
}

/// What became of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    /// Its driver has it.
    Bound,
    /// The same, but it was the loader that probed it: the kernel's queue of asynchronous
    /// probes had no place for it.
    BoundByLoader,
    /// Its driver had it, and was unloaded.
    Unloaded,
    /// Its probe failed with this error.
    Failed(i32),
    /// The same, after the task that probed it was killed.
    FailedWhenKilled(i32),
    /// Its probe was put off so many times, to the end.
    Deferred(usize),
    /// Its probe did not return.
    NeverReturned,
    /// Nobody probed it.
    NotProbed,
}

impl fmt::Display for Became {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bound => f.write_str("bound"),
            Self::BoundByLoader => {
                f.write_str("bound by the loader: the queue of asynchronous probes was full")
            }
            Self::Unloaded => f.write_str("bound, then its driver was unloaded"),
            Self::Failed(ret) => write!(f, "probe failed: {}", Errno(*ret)),
            Self::FailedWhenKilled(ret) => {
                write!(f, "probe failed once its task was killed: {}", Errno(*ret))
            }
            Self::Deferred(times) => write!(f, "deferred, {times} times"),
            Self::NeverReturned => f.write_str("probe never returned"),
            Self::NotProbed => f.write_str("never probed"),
        }
    }
}

/// What a kernel function returned.
struct Errno(i32);

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = [
            (-2, "ENOENT"),
            (-4, "EINTR"),
            (-5, "EIO"),
            (-11, "EAGAIN"),
            (-12, "ENOMEM"),
            (-16, "EBUSY"),
            (-19, "ENODEV"),
            (-22, "EINVAL"),
            (-62, "ETIME"),
            (-110, "ETIMEDOUT"),
        ];
        match known.iter().find(|k| k.0 == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// What became of each device, by index.
pub fn outcomes(scenario: &Scenario, variant: &Variant, log: &BootLog) -> Vec<Became> {
    let mut own = vec![Vec::new(); scenario.devices.len()];
    for event in &log.callbacks {
        if let Some(list) = own.get_mut(event.device) {
            list.push(event);
        }
    }
    own.iter().map(|own| became(variant, log, own)).collect()
}

/// What became of `device`.
pub fn outcome(variant: &Variant, log: &BootLog, device: usize) -> Became {
    let own = log.callbacks.iter().filter(|e| e.device == device);
    became(variant, log, &own.collect::<Vec<_>>())
}

/// What became of the device whose callbacks are `own`.
fn became(variant: &Variant, log: &BootLog, own: &[&CallbackEvent]) -> Became {
    let probes = || own.iter().filter(|e| e.callback == Callback::Probe);
    if probes().any(|p| p.end.is_none()) {
        return Became::NeverReturned;
    }
    let removed = || own.iter().any(|e| e.callback == Callback::Remove);
    match probes().next_back() {
        None => Became::NotProbed,
        Some(last) if last.ret == 0 && removed() => Became::Unloaded,
        Some(last) if last.ret == 0 && fell_back(variant, last) => Became::BoundByLoader,
        Some(last) if last.ret == 0 => Became::Bound,
        Some(last) if last.ret == DEFER => Became::Deferred(probes().count()),
        Some(last) if killed_at(log).is_some_and(|at| last.end > Some(at)) => {
            Became::FailedWhenKilled(last.ret)
        }
        Some(last) => Became::Failed(last.ret),
    }
}

/// Whether the kernel was to probe a device asynchronously and the driver's loader did: PID 1,
/// where nothing is done to the load.
fn fell_back(variant: &Variant, probe: &CallbackEvent) -> bool {
    let asynchronous = variant.probing.strategy.is_async();
    asynchronous && !variant.probing.is_disturbed() && probe.pid == 1
}

fn killed_at(log: &BootLog) -> Option<Nanos> {
    log.disturbed.iter().find_map(|d| match d {
        Disturbed::Killed { at, .. } => Some(*at),
        _ => None,
    })
}

/// Whether a device of a boot that was disturbed became what it had to; `None`: it has to be
/// bound, as ever.
pub fn as_disturbed(variant: &Variant, log: &BootLog, device: usize) -> Option<bool> {
    let became = || outcome(variant, log, device);
    if let Some(fault) = variant.probing.faults.get(&device) {
        return Some(match (fault, became()) {
            (DeviceFault::NoFirmware | DeviceFault::ShortFirmware, Became::Failed(_))
            | (DeviceFault::Error, Became::Failed(-5))
            | (DeviceFault::Defer, Became::Deferred(_))
            | (DeviceFault::NeverReturns, Became::NeverReturned) => true,
            (_, other) => may_be_left_out(variant, other),
        });
    }
    let sound = || matches!(became(), Became::Bound);
    if variant.probing.unload.is_some() {
        // Refused while it is being loaded; then the devices stay.
        return Some(sound() || matches!(became(), Became::Unloaded));
    }
    if variant.probing.kill_loader.is_some() {
        let refused = matches!(became(), Became::FailedWhenKilled(_));
        return Some(sound() || refused);
    }
    (variant.probing.hangs()).then(|| sound() || may_be_left_out(variant, became()))
}

/// Behind a probe that never returns nobody comes to the next device.
fn may_be_left_out(variant: &Variant, became: Became) -> bool {
    variant.probing.hangs() && became == Became::NotProbed
}

/// The devices by the names that they got.
pub fn names(scenario: &Scenario, log: &BootLog) -> BTreeMap<String, String> {
    let named = log.names.iter().filter_map(|(device, number)| {
        let device = scenario.devices.get(*device)?;
        let prefix = device.names.as_ref()?;
        Some((format!("{prefix}{number}"), device.name.clone()))
    });
    named.collect()
}
