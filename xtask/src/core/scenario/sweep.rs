// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scenario at several sizes: each size is a scenario of its own, read from the same file
//! with one number changed, so that a size means just what it would mean if written out.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Metric, Scenario, diagnose::Sink, judge::Context, raw, tree::At, validate::duration};
use crate::core::{nearest::hint, units::Fraction};

/// More sizes than this no machine boots in a night.
const MAX_POINTS: usize = 64;
/// An exponent above this limits nothing.
const MAX_EXPONENT: f64 = 10.0;

/// What grows over a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// Devices in all.
    Devices,
    /// The delay of a profile's steps, in nanoseconds.
    Delay,
    /// Guest CPUs.
    Cpus,
    /// Memory blocks.
    Blocks,
    /// Threads that walk.
    Threads,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Devices => "devices",
            Self::Delay => "delay",
            Self::Cpus => "CPUs",
            Self::Blocks => "memory blocks",
            Self::Threads => "threads",
        })
    }
}

/// The sizes of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sweep {
    /// What grows.
    pub over: Over,
    /// At least two, rising; each has a [`Point`] and no sweep.
    pub points: Vec<Scenario>,
    /// How fast figures may grow.
    pub limits: Vec<GrowthLimit>,
}

/// One size of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// The scenario that it is a size of.
    pub of: String,
    /// What grows.
    pub over: Over,
    /// How much of it there is here; above zero.
    pub value: u64,
}

/// How fast a figure may grow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrowthLimit {
    /// Whose figure.
    pub variant: String,
    /// Which figure.
    pub metric: Metric,
    /// The greatest exponent.
    pub exponent: Fraction,
}

impl Scenario {
    /// The scenarios that are booted: the sizes of a sweep, else this one.
    pub fn members(&self) -> &[Self] {
        match &self.sweep {
            Some(sweep) => &sweep.points,
            None => std::slice::from_ref(self),
        }
    }
}

/// One size: the file with one number changed.
struct Size {
    file: raw::Scenario,
    /// As the file writes it, for names.
    text: String,
    /// `None`: the number of its devices.
    value: Option<u64>,
}

/// Reads the sweep `raw` of `file`. `read` makes a scenario of a changed file.
pub(super) fn read(
    stem: &str,
    file: &raw::Scenario,
    raw: &raw::Sweep,
    at: &At<'_>,
    context: &Context<'_>,
    read: &dyn Fn(&str, &raw::Scenario, &mut Sink) -> Scenario,
    sink: &mut Sink,
) -> Option<Sweep> {
    let limits = limits(&raw.growth, &at.key("growth"), context, sink);
    let (over, sizes) = sizes(file, raw, at, sink)?;
    let key = at.key(match over {
        Over::Devices => "devices",
        Over::Delay => "delay",
        Over::Cpus => "cpus",
        Over::Blocks => "blocks",
        Over::Threads => "threads",
    });
    if !(2..=MAX_POINTS).contains(&sizes.len()) {
        sink.add_with(key.position(), || {
            let have = sizes.len();
            format!("{key} must have 2 to {MAX_POINTS} sizes, not {have}: growth needs several")
        });
        return None;
    }
    let mut points: Vec<Scenario> = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        let at = key.item(index);
        let mut own = Sink::default();
        let name = format!("{stem}@{}", size.text);
        let mut scenario = read(&name, &size.file, &mut own);
        if let Err(found) = own.finish("") {
            for item in found.items {
                let text = &size.text;
                sink.add_with(at.position(), || format!("{at}, {text}: {}", item.message));
            }
            continue;
        }
        let value = size.value.unwrap_or(scenario.devices.len() as u64);
        let before = points.last().and_then(|p| p.point.as_ref());
        if before.is_some_and(|before| before.value >= value) {
            sink.add_with(at.position(), || {
                format!(
                    "{at}: sizes must rise, and {} is no more than the one before",
                    size.text
                )
            });
        }
        scenario.point = Some(Point {
            of: stem.into(),
            over,
            value,
        });
        points.push(scenario);
    }
    Some(Sweep {
        over,
        points,
        limits,
    })
}

fn sizes(
    file: &raw::Scenario,
    raw: &raw::Sweep,
    at: &At<'_>,
    sink: &mut Sink,
) -> Option<(Over, Vec<Size>)> {
    let given = [
        (!raw.devices.is_empty(), Over::Devices),
        (!raw.delay.is_empty(), Over::Delay),
        (!raw.cpus.is_empty(), Over::Cpus),
        (!raw.blocks.is_empty(), Over::Blocks),
        (!raw.threads.is_empty(), Over::Threads),
    ];
    let mut given = given
        .iter()
        .filter_map(|(said, over)| said.then_some(*over));
    let (Some(over), None) = (given.next(), given.next()) else {
        sink.add_with(at.position(), || {
            format!("{at} must have exactly one of devices, delay, cpus, blocks and threads, with its sizes")
        });
        return None;
    };
    let of = at.key("of");
    let sizes = match (over, &raw.of) {
        (Over::Cpus | Over::Blocks | Over::Threads, Some(_)) => {
            sink.add_with(of.position(), || {
                format!("{of} says nothing beside {over}; leave it out")
            });
            return None;
        }
        (Over::Cpus, None) => sized(file, &raw.cpus, |f| Some(&mut f.machine.cpus))?,
        (Over::Blocks, None) => sized(file, &raw.blocks, |f| Some(&mut f.memory.as_mut()?.blocks))
            .or_else(|| lacks("blocks", "memory", at, sink))?,
        (Over::Threads, None) => sized(file, &raw.threads, |f| Some(&mut f.walk.as_mut()?.threads))
            .or_else(|| lacks("threads", "walk", at, sink))?,
        (Over::Devices | Over::Delay, None) => {
            sink.add_with(at.position(), || {
                format!("`of` is missing in {at}: whose devices or delay?")
            });
            return None;
        }
        (Over::Devices, Some(name)) => devices(file, &raw.devices, name, &of, sink)?,
        (Over::Delay, Some(name)) => delay(file, &raw.delay, name, &at.key("delay"), &of, sink)?,
    };
    Some((over, sizes))
}

/// The sizes of a sweep over one number of the file, which `number` finds; `None`: it has no
/// such number.
fn sized(
    file: &raw::Scenario,
    sizes: &[u32],
    number: fn(&mut raw::Scenario) -> Option<&mut u32>,
) -> Option<Vec<Size>> {
    let size = |value: &u32| {
        let mut file = without_sweep(file);
        *number(&mut file)? = *value;
        Some(Size {
            file,
            text: value.to_string(),
            value: Some(u64::from(*value)),
        })
    };
    sizes.iter().map(size).collect()
}

/// Says that the file has no `key` whose `what` the sweep could go over.
fn lacks(what: &str, key: &str, at: &At<'_>, sink: &mut Sink) -> Option<Vec<Size>> {
    sink.add_with(at.position(), || {
        format!("{at} goes over {what}, and the scenario has no `{key}`: whose {what}?")
    });
    None
}

fn devices(
    file: &raw::Scenario,
    sizes: &[u32],
    of: &raw::Name,
    at: &At<'_>,
    sink: &mut Sink,
) -> Option<Vec<Size>> {
    let mut names = Vec::new();
    gather(&file.devices, &mut names);
    if !names.contains(&of.0.as_str()) {
        sink.add_with(at.position(), || {
            format!("unknown device `{}` in {at}{}", of.0, hint(&of.0, names))
        });
        return None;
    }
    let size = |count: &u32| {
        let mut file = without_sweep(file);
        if let Some(device) = find(&mut file.devices, of) {
            device.count = Some(*count);
        }
        Size {
            file,
            text: count.to_string(),
            value: None,
        }
    };
    Some(sizes.iter().map(size).collect())
}

fn delay(
    file: &raw::Scenario,
    sizes: &[raw::Duration],
    of: &raw::Name,
    at: &At<'_>,
    at_of: &At<'_>,
    sink: &mut Sink,
) -> Option<Vec<Size>> {
    if !file.profiles.0.iter().any(|(name, _)| *name == of.0) {
        sink.add_with(at_of.position(), || {
            let own = file.profiles.0.iter().map(|(name, _)| name.as_str());
            let hint = hint(&of.0, own);
            format!(
                "this file has no profile `{}` of its own, as {at_of} says{hint}",
                of.0
            )
        });
        return None;
    }
    let mut all = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        let value = duration(size, &at.item(index), sink)?;
        let mut file = without_sweep(file);
        let profile = file.profiles.0.iter_mut().find(|(name, _)| *name == of.0);
        if let Some((_, profile)) = profile {
            let callbacks = [
                &mut profile.probe,
                &mut profile.shutdown,
                &mut profile.remove,
            ];
            for step in callbacks.into_iter().flatten() {
                let kinds = [
                    &mut step.sleep,
                    &mut step.wait,
                    &mut step.poll,
                    &mut step.busy,
                    &mut step.compute,
                ];
                for time in kinds.into_iter().flatten() {
                    time.clone_from(size);
                }
            }
        }
        let text = size.0.replace(' ', "");
        all.push(Size {
            file,
            text,
            value: Some(value.0),
        });
    }
    Some(all)
}

fn without_sweep(file: &raw::Scenario) -> raw::Scenario {
    raw::Scenario {
        sweep: None,
        ..file.clone()
    }
}

fn gather<'f>(devices: &'f [raw::Device], names: &mut Vec<&'f str>) {
    for device in devices {
        names.push(&device.name.0);
        gather(&device.devices, names);
    }
}

fn find<'f>(devices: &'f mut [raw::Device], name: &raw::Name) -> Option<&'f mut raw::Device> {
    devices.iter_mut().find_map(|device| {
        if device.name == *name {
            return Some(device);
        }
        find(&mut device.devices, name)
    })
}

fn limits(
    raw: &[raw::GrowthLimit],
    at: &At<'_>,
    context: &Context<'_>,
    sink: &mut Sink,
) -> Vec<GrowthLimit> {
    let mut limits: Vec<GrowthLimit> = Vec::new();
    for (index, limit) in raw.iter().enumerate() {
        let at = at.item(index);
        context.names(&limit.variant.0, limit.metric, &at, sink);
        if !(0.0..=MAX_EXPONENT).contains(&limit.at_most) {
            let at = at.key("at_most");
            sink.add_with(at.position(), || {
                format!("{at} must be an exponent from 0 to {MAX_EXPONENT}, such as 1.1")
            });
            continue;
        }
        let same = |l: &GrowthLimit| l.variant == limit.variant.0 && l.metric == limit.metric;
        if limits.iter().any(same) {
            sink.add_with(at.position(), || {
                format!("{at} limits the same figure as an earlier one")
            });
        }
        limits.push(GrowthLimit {
            variant: limit.variant.0.clone(),
            metric: limit.metric,
            exponent: Fraction((limit.at_most * 1e6).round() as u32),
        });
    }
    limits
}
