// SPDX-License-Identifier: MIT OR Apache-2.0
//! The best that could have been: bounds computed from the delays that the kernel granted.
//!
//! The delays are calibrated, not modelled: a callback's *granted* delay is what it took
//! in this very boot once it held its lock, so timer rounding (an msleep's extra jiffy,
//! the timer wheel) is in the ideal, and waiting for anything else is not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    event::{BootLog, Callback},
    scenario::{Order, Scenario, Variant},
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
}

/// The ideal of device_shutdown for one boot; `None` where a callback never returned.
pub fn shutdown(scenario: &Scenario, variant: &Variant, log: &BootLog) -> Option<Ideal> {
    let granted = granted(scenario, log, Callback::Shutdown)?;
    Some(match variant.order {
        Order::Serial => Ideal {
            time: granted.iter().copied().sum(),
            bound: Bound::Sum,
        },
        Order::Parallel => parallel(scenario, variant, &granted),
    })
}

/// The ideal of a synchronous probe of all devices: the sum.
pub fn probe(scenario: &Scenario, log: &BootLog) -> Option<Ideal> {
    let granted = granted(scenario, log, Callback::Probe)?;
    Some(Ideal {
        time: granted.iter().copied().sum(),
        bound: Bound::Sum,
    })
}

fn granted(scenario: &Scenario, log: &BootLog, callback: Callback) -> Option<Vec<Nanos>> {
    let mut granted = vec![Nanos(0); scenario.devices.len()];
    for event in log.callbacks.iter().filter(|e| e.callback == callback) {
        let slot = granted.get_mut(event.device)?;
        *slot = *slot + (event.end? - event.locked);
    }
    Some(granted)
}

/// The bound of a parallel shutdown in which device `i` takes `granted[i]`.
pub fn parallel(scenario: &Scenario, variant: &Variant, granted: &[Nanos]) -> Ideal {
    let (path_time, path) = longest_path(scenario, granted);
    let names = path
        .iter()
        .map(|d| scenario.devices[*d].name.clone())
        .collect();
    let mut ideal = Ideal {
        time: path_time,
        bound: Bound::Path(names),
    };
    let mut locks: BTreeMap<&str, Nanos> = BTreeMap::new();
    for (device, time) in granted.iter().enumerate() {
        if let Some(lock) = scenario
            .profile(variant, device)
            .and_then(|p| p.lock.as_deref())
        {
            let sum = locks.entry(lock).or_default();
            *sum = *sum + *time;
        }
    }
    for (lock, sum) in locks {
        if sum > ideal.time {
            ideal = Ideal {
                time: sum,
                bound: Bound::Lock(lock.to_owned()),
            };
        }
    }
    ideal
}

/// The path from a leaf up to a root whose granted delays add up highest.
fn longest_path(scenario: &Scenario, granted: &[Nanos]) -> (Nanos, Vec<usize>) {
    let count = scenario.devices.len();
    let (mut below, mut through) = (vec![Nanos(0); count], vec![None; count]);
    let mut best = (Nanos(0), None);
    // Parents come before their children in the tree, so walking back meets children first.
    for device in (0..count).rev() {
        let done = below[device] + granted[device];
        if done > best.0 || best.1.is_none() {
            best = (done, Some(device));
        }
        if let Some(parent) = scenario.devices[device].parent
            && (done > below[parent] || through[parent].is_none())
        {
            (below[parent], through[parent]) = (done, Some(device));
        }
    }
    let mut path: Vec<usize> = std::iter::successors(best.1, |d| through[*d])
        .filter(|d| granted[*d] > Nanos(0))
        .collect();
    path.reverse();
    (best.0, path)
}
