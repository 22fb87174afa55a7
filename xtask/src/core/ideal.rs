// SPDX-License-Identifier: MIT OR Apache-2.0
//! The best that could have been: bounds computed from the delays that the kernel granted.
//!
//! The delays are calibrated, not modelled: a callback's *granted* delay is what it took
//! in this very boot once it held its lock, so timer rounding (an msleep's extra jiffy,
//! the timer wheel) is in the ideal, and waiting for anything else is not. Only where a
//! device needs the CPU, for which others may have kept it waiting, no more counts than its
//! profile asks for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    event::{BootLog, Callback},
    scenario::{Clock, Order, Scenario, Step, Variant},
    units::Nanos,
};

/// A lower bound of a phase, and what sets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ideal {
    /// The bound.
    pub time: Nanos,
    /// Which of the bounds holds.
    pub bound: Bound,
}

/// What sets an [`Ideal`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The sum of all delays.
    Sum,
    /// The longest path of devices that must follow one another, first to last.
    Path(Vec<String>),
    /// All devices that share this lock.
    Lock(String),
    /// What keeps the CPUs busy.
    Cpu,
}

/// What a boot had to do its work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// In virtual time all CPUs share one core: computing adds up, waiting does not.
    pub clock: Clock,
    /// The guest's CPUs.
    pub cpus: u32,
}

/// The ideal of device_shutdown for one boot; `None` where a callback never returned.
pub fn shutdown(
    scenario: &Scenario,
    variant: &Variant,
    means: Means,
    log: &BootLog,
) -> Option<Ideal> {
    let granted = granted(scenario, log, Callback::Shutdown)?;
    Some(match variant.order {
        Order::Serial => sum(&granted),
        Order::Parallel => parallel(scenario, variant, means, &granted),
    })
}

/// The ideal of probing all devices for one boot; `None` where a probe never returned.
/// Devices side by side wait neither for their parents nor for one another.
pub fn probe(scenario: &Scenario, variant: &Variant, means: Means, log: &BootLog) -> Option<Ideal> {
    let granted = granted(scenario, log, Callback::Probe)?;
    Some(probing(scenario, variant, means, &granted))
}

/// The bound of probing all devices where that of device `i` takes `granted[i]`.
pub fn probing(scenario: &Scenario, variant: &Variant, means: Means, granted: &[Nanos]) -> Ideal {
    if !variant.probing.strategy.is_parallel() {
        return sum(granted);
    }
    let needed: Vec<_> = granted
        .iter()
        .enumerate()
        .map(|(device, time)| needed(scenario, variant, Callback::Probe, device, *time))
        .collect();
    let longest = (0..needed.len()).rev().max_by_key(|d| needed[*d]);
    let (time, names) = longest.map_or((Nanos(0), vec![]), |device| {
        (needed[device], vec![scenario.devices[device].name.clone()])
    });
    let path = Ideal {
        time,
        bound: Bound::Path(names),
    };
    no_less(scenario, variant, Callback::Probe, means, &needed, path)
}

fn sum(granted: &[Nanos]) -> Ideal {
    Ideal {
        time: granted.iter().copied().sum(),
        bound: Bound::Sum,
    }
}

fn granted(scenario: &Scenario, log: &BootLog, callback: Callback) -> Option<Vec<Nanos>> {
    let mut granted = vec![Nanos(0); scenario.devices.len()];
    for event in log.callbacks.iter().filter(|e| e.callback == callback) {
        let slot = granted.get_mut(event.device)?;
        *slot = *slot + (event.end? - event.locked);
    }
    Some(granted)
}

/// What of `granted` a device's callback needs, had it all CPUs for itself.
pub fn needed(
    scenario: &Scenario,
    variant: &Variant,
    callback: Callback,
    device: usize,
    granted: Nanos,
) -> Nanos {
    let Some(profile) = scenario.profile(variant, device) else {
        return granted;
    };
    let on_cpu = |s: &Step| matches!(s, Step::Busy(_) | Step::Compute(_));
    if profile.steps(callback).iter().any(on_cpu) {
        granted.min(profile.nominal(callback))
    } else {
        granted
    }
}

/// The bound of a parallel shutdown in which device `i` takes `granted[i]`.
pub fn parallel(scenario: &Scenario, variant: &Variant, means: Means, granted: &[Nanos]) -> Ideal {
    let needed: Vec<_> = granted
        .iter()
        .enumerate()
        .map(|(device, time)| needed(scenario, variant, Callback::Shutdown, device, *time))
        .collect();
    let (time, path) = longest_path(scenario, &needed);
    let names = path
        .iter()
        .map(|d| scenario.devices[*d].name.clone())
        .collect();
    let path = Ideal {
        time,
        bound: Bound::Path(names),
    };
    no_less(scenario, variant, Callback::Shutdown, means, &needed, path)
}

/// `ideal`, but no less than what shared locks and the CPUs take.
fn no_less(
    scenario: &Scenario,
    variant: &Variant,
    callback: Callback,
    means: Means,
    needed: &[Nanos],
    mut ideal: Ideal,
) -> Ideal {
    let mut at_least = |time: Nanos, bound: Bound| {
        if time > ideal.time {
            ideal = Ideal { time, bound };
        }
    };
    let mut locks: BTreeMap<&str, Nanos> = BTreeMap::new();
    let (mut busy, mut compute) = (Nanos(0), Nanos(0));
    for (device, time) in needed.iter().enumerate() {
        let Some(profile) = scenario.profile(variant, device) else {
            continue;
        };
        if let Some(lock) = profile.lock.as_deref() {
            let sum = locks.entry(lock).or_default();
            *sum = *sum + *time;
        }
        // A device that was taken away before its turn needed nothing.
        let steps = profile.steps(callback).iter();
        for step in steps.filter(|_| *time > Nanos(0)) {
            match step {
                Step::Busy(d) => busy = busy + *d,
                Step::Compute(d) => compute = compute + *d,
                Step::Sleep(_) | Step::Wait(_) | Step::Poll { .. } | Step::Thread => {}
            }
        }
    }
    for (lock, sum) in locks {
        at_least(sum, Bound::Lock(lock.to_owned()));
    }
    at_least(
        Nanos((busy + compute).0 / u64::from(means.cpus.max(1))),
        Bound::Cpu,
    );
    if means.clock == Clock::Virtual {
        at_least(compute, Bound::Cpu);
    }
    ideal
}

/// The path of devices that wait for one another, first to last, whose delays add up
/// highest. Tree and ordering links have no cycle.
fn longest_path(scenario: &Scenario, needed: &[Nanos]) -> (Nanos, Vec<usize>) {
    let count = scenario.devices.len();
    let after: Vec<Vec<usize>> = (0..count).map(|d| scenario.wait_for(d).collect()).collect();
    let mut missing = vec![0usize; count];
    for later in after.iter().flatten() {
        missing[*later] += 1;
    }
    let mut ready: Vec<usize> = (0..count).filter(|d| missing[*d] == 0).collect();
    // Of each device: how long those take that it waits for, and the last of them.
    let (mut before, mut through) = (vec![Nanos(0); count], vec![None; count]);
    let mut best = (Nanos(0), None);
    while let Some(device) = ready.pop() {
        let done = before[device] + needed[device];
        if done > best.0 || best.1.is_none() {
            best = (done, Some(device));
        }
        for &later in &after[device] {
            if done > before[later] || through[later].is_none() {
                (before[later], through[later]) = (done, Some(device));
            }
            missing[later] -= 1;
            if missing[later] == 0 {
                ready.push(later);
            }
        }
    }
    let mut path: Vec<usize> = std::iter::successors(best.1, |d| through[*d])
        .filter(|d| needed[*d] > Nanos(0))
        .collect();
    path.reverse();
    (best.0, path)
}
