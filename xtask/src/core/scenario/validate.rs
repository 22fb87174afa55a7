// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a file of the right shape to a scenario that cannot be wrong: names that mean
//! something, values that are possible. Reports everything it finds.

use std::{collections::BTreeSet, str::FromStr};

use super::{
    Clock, How, HowWord, MachineKind, MachineSpec, Memory, Metric, Scenario, Strategy, Variant,
    canonical, churn, cmdline, devices,
    diagnose::Sink,
    hotplug,
    judge::{self, Context},
    meanwhile, memory, options,
    parse::Known,
    probing::{self, Around},
    profiles::{self, Profiles},
    raw, sweep, systemd,
    tree::At,
    userspace, walk,
};
use crate::core::{
    fault::is_obeyed,
    nearest::hint,
    units::{Bytes, Nanos, UnitError},
};

/// Nothing here waits longer: it would be a mistyped unit.
pub(super) const MAX_DURATION: Nanos = Nanos(3_600_000_000_000);
const MIN_MEMORY: Bytes = Bytes(64 << 20);
/// QEMU's translated CPU addresses 1 TiB, of which PCI's windows take some above RAM.
const MAX_MEMORY: Bytes = Bytes(960 << 30);
/// CPUs of a guest at the most.
pub const MOST_CPUS: u32 = 64;
/// Boots of a variant at the most.
pub const MAX_REPEATS: u32 = 10_000;
const MAX_PATCHES: u32 = 10_000;
const MAX_TASKS: u32 = 65_536;
const MAX_VARIANTS: usize = 256;
/// Lock numbers 0..15 of docs/protocol.md.
const MAX_LOCKS: usize = 16;
const DEFAULT_TIMEOUT: Nanos = Nanos(300_000_000_000);

/// Checks `raw`, and each of its sizes. What it returns is worth something only if nothing
/// was added to `sink`.
pub(super) fn scenario(
    stem: &str,
    raw: &raw::Scenario,
    at: &At<'_>,
    known: &Known,
    sink: &mut Sink,
) -> Scenario {
    check_name(stem, "the file's name", at, sink);
    let mut scenario = one(stem, raw, at, known, sink);
    if let Some(sweep) = raw.sweep.as_ref().filter(|_| sink.is_empty()) {
        let read =
            |name: &str, file: &raw::Scenario, sink: &mut Sink| one(name, file, at, known, sink);
        let context = context(raw, scenario.metrics.clone());
        let key = at.key("sweep");
        scenario.sweep = sweep::read(stem, raw, sweep, &key, &context, &read, sink);
        if sink.is_empty() {
            scenario.hash = canonical::hash(&scenario);
        }
    }
    scenario
}

/// What the parts of `raw` that name variants and metrics may name.
fn context(raw: &raw::Scenario, measured: Vec<Metric>) -> Context<'_> {
    Context {
        variants: raw
            .variants
            .0
            .iter()
            .map(|(name, _)| name.as_str())
            .collect(),
        measured,
    }
}

/// Checks one size.
fn one(stem: &str, raw: &raw::Scenario, at: &At<'_>, known: &Known, sink: &mut Sink) -> Scenario {
    let all = profiles::read_all(&raw.profiles, &at.key("profiles"), &known.profiles, sink);
    let devices = devices::read(&raw.devices, &at.key("devices"), &all, sink);
    let written = devices.iter().filter_map(|d| d.profile.clone()).collect();
    let around = Around {
        devices: &devices,
        profiles: &all,
        backend: raw.machine.backend.unwrap_or_default(),
    };
    let variants = variants(
        &raw.variants,
        &at.key("variants"),
        &around,
        &written,
        known,
        sink,
    );
    let clock = raw.clock.unwrap_or(Clock::Virtual);
    known_name(
        &raw.kernel,
        "kernel",
        known.kernels.as_ref(),
        &at.key("kernel"),
        sink,
    );
    let context = context(raw, judge::metrics(&raw.measure, &at.key("measure"), sink));
    let names = meanwhile::Names::of(&devices);
    let links = meanwhile::links(&raw.links, &at.key("links"), &devices, &names, sink);
    let first = meanwhile::first(&raw.first, &at.key("first"), &names, sink);
    let actions = meanwhile::actions(&raw.meanwhile, &at.key("meanwhile"), &names, sink);
    let groups = devices.iter().map(|d| group(&d.name)).collect();
    let reference = raw
        .reference
        .as_ref()
        .map(|r| context.reference(r, &at.key("reference"), &groups, sink));
    let expect = raw.expect.iter().enumerate();
    let memory = memory::read(raw.memory.as_ref(), &at.key("memory"), sink);
    let mut scenario = Scenario {
        name: stem.into(),
        about: prose(&raw.about, &at.key("about"), sink),
        kernel: raw.kernel.0.clone(),
        clock,
        machine: machine(raw, memory, &at.key("machine"), sink),
        memory,
        walk: walk::read(raw.walk.as_ref(), &raw.measure, &at.key("walk"), sink),
        churn: churn::read(
            raw.churn.as_ref(),
            memory,
            &raw.measure,
            &at.key("churn"),
            sink,
        ),
        links,
        first,
        meanwhile: actions,
        sysctl: meanwhile::sysctl(&raw.sysctl, &at.key("sysctl"), sink),
        profiles: used(&all, &devices, &variants),
        devices,
        variants,
        metrics: raw.measure.clone(),
        repeats: repeats(raw.repeats, &at.key("repeats"), sink),
        sweep: None,
        point: None,
        reference,
        expect: expect
            .filter_map(|(i, e)| context.expectation(e, &at.key("expect").item(i), sink))
            .collect(),
        timeout: timeout(raw.timeout.as_ref(), &at.key("timeout"), sink),
        hash: String::new(),
    };
    if let Some(walk) = scenario.walk {
        let shown = memory::most_blocks(scenario.memory, scenario.machine.memory);
        walk::fits(walk, shown, &at.key("walk").key("blocks"), sink);
    }
    let synthetic = scenario.memory.is_some_and(|m| m.how == How::Synthetic);
    let built_in = |v: &&Variant| v.probing.strategy == Strategy::BuiltIn;
    if let Some(variant) = scenario
        .variants
        .iter()
        .find(built_in)
        .filter(|_| synthetic)
    {
        let memory = at.key("memory");
        let at = memory.key("how");
        sink.add_with(at.position(), || {
            format!(
                "{at}: synthetic blocks are made by a module, and variant {} loads none (`probe: built-in`)",
                variant.name
            )
        });
    }
    if let Some(memory) = scenario.memory {
        memory::holds(memory, scenario.machine.memory, at, sink);
    }
    hotplug::check(&scenario, at, sink);
    userspace::measured(&scenario.variants, &scenario.metrics, at, sink);
    systemd::holds(&scenario.variants, scenario.machine.memory, at, sink);
    systemd::measured(&scenario.variants, &scenario.metrics, at, sink);
    judge::repeated(&scenario.expect, &at.key("expect"), sink);
    probing::without_value(&scenario, &at.key("expect"), sink);
    locks(&scenario.profiles, at, sink);
    if sink.is_empty() {
        scenario.hash = canonical::hash(&scenario);
    }
    scenario
}

/// The group of a device: its name up to the last `.N`.
pub fn group(device: &str) -> &str {
    match device.rsplit_once('.') {
        Some((group, number))
            if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            group
        }
        _ => device,
    }
}

/// A name becomes a file's name, a column's, a word in the guest's table.
fn check_name(name: &str, what: &str, at: &At<'_>, sink: &mut Sink) {
    let sound = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    let first = name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if name.len() > 64 {
        sink.add_with(at.position(), || {
            format!("{what} has {} letters; the limit is 64", name.len())
        });
    } else if !first || !name.bytes().all(sound) {
        sink.add_with(at.position(), || {
            format!("{what}: `{name}` is no name; use small letters, digits, `.`, `_` and `-`, beginning with a letter or digit")
        });
    }
}

/// Checks the name at `at`.
pub(super) fn name(name: &str, at: &At<'_>, sink: &mut Sink) {
    check_name(name, &at.to_string(), at, sink);
}

/// A name that is defined outside of scenario files, if it is known what there is.
fn known_name(
    text: &raw::Name,
    what: &str,
    known: Option<&BTreeSet<String>>,
    at: &At<'_>,
    sink: &mut Sink,
) {
    name(&text.0, at, sink);
    if let Some(known) = known.filter(|k| !k.contains(&text.0)) {
        sink.add_with(at.position(), || {
            let hint = hint(&text.0, known.iter().map(String::as_str));
            format!("unknown {what} `{}` in {at}{hint}", text.0)
        });
    }
}

/// Text for people: something, and no more than a few paragraphs.
pub(super) fn prose(text: &raw::Prose, at: &At<'_>, sink: &mut Sink) -> String {
    let trimmed = text.0.trim();
    if trimmed.is_empty() {
        sink.add_with(at.position(), || format!("{at} is empty; say what this is"));
    } else if trimmed.contains(|c: char| is_obeyed(c) && c != '\n') {
        // It is printed, and a terminal obeys such characters.
        sink.add_with(at.position(), || {
            format!("{at} has control characters in it")
        });
    } else if trimmed.len() > 4000 {
        sink.add_with(at.position(), || format!("{at} is longer than 4000 bytes"));
    }
    trimmed.into()
}

/// Reads a quantity with its unit.
pub(super) fn quantity<T: FromStr<Err = UnitError>>(
    text: &str,
    at: &At<'_>,
    sink: &mut Sink,
) -> Option<T> {
    text.parse()
        .map_err(|e| sink.add_with(at.position(), || format!("{at}: {e}")))
        .ok()
}

/// A duration above zero and up to an hour.
pub(super) fn duration(text: &raw::Duration, at: &At<'_>, sink: &mut Sink) -> Option<Nanos> {
    let value = quantity(&text.0, at, sink)?;
    if value == Nanos(0) {
        sink.add_with(at.position(), || {
            format!("{at} is zero; leave it out instead")
        });
        return None;
    }
    if value > MAX_DURATION {
        sink.add_with(at.position(), || {
            format!("{at}: {} is longer than 1 h; is the unit right?", text.0)
        });
        return None;
    }
    Some(value)
}

fn machine(
    file: &raw::Scenario,
    blocks: Option<Memory>,
    at: &At<'_>,
    sink: &mut Sink,
) -> MachineSpec {
    let raw = &file.machine;
    if !(1..=MOST_CPUS).contains(&raw.cpus) {
        let at = at.key("cpus");
        sink.add_with(at.position(), || {
            format!("{at} must be 1 to {MOST_CPUS}, not {}", raw.cpus)
        });
    }
    let ram = blocks.and_then(Memory::ram);
    let memory = match (&raw.memory, ram) {
        (Some(written), None) => ram_written(written, &at.key("memory"), sink),
        (None, Some(ram)) => ram,
        (Some(_), Some(ram)) => {
            let at = at.key("memory");
            sink.add_with(at.position(), || {
                format!("{at}: the real memory blocks say how much there is; leave it out")
            });
            ram
        }
        (None, None) => {
            // Where real blocks are wrong, that has been said.
            if file.memory.as_ref().is_none_or(|m| m.how != HowWord::Real) {
                sink.add_with(at.position(), || format!("`memory` is missing in {at}"));
            }
            MIN_MEMORY
        }
    };
    MachineSpec {
        kind: raw.kind.unwrap_or(MachineKind::Microvm),
        cpus: raw.cpus,
        memory,
        backend: raw.backend.unwrap_or_default(),
    }
}

fn ram_written(raw: &raw::Size, at: &At<'_>, sink: &mut Sink) -> Bytes {
    let memory = quantity(&raw.0, at, sink).unwrap_or(MIN_MEMORY);
    if !(MIN_MEMORY..=MAX_MEMORY).contains(&memory) {
        sink.add_with(at.position(), || {
            format!("{at} must be {MIN_MEMORY} (less does not boot) to {MAX_MEMORY}, not {memory}")
        });
    } else if memory.0 % (1 << 20) != 0 {
        sink.add_with(at.position(), || {
            format!("{at} must be whole MiB, not {memory}")
        });
    }
    memory
}

fn repeats(raw: Option<u32>, at: &At<'_>, sink: &mut Sink) -> Option<u32> {
    if let Some(repeats) = raw.filter(|n| !(1..=MAX_REPEATS).contains(n)) {
        sink.add_with(at.position(), || {
            format!("{at} must be 1 to {MAX_REPEATS}, not {repeats}")
        });
    }
    raw
}

fn timeout(raw: Option<&raw::Duration>, at: &At<'_>, sink: &mut Sink) -> Nanos {
    let timeout = raw
        .and_then(|t| duration(t, at, sink))
        .unwrap_or(DEFAULT_TIMEOUT);
    if timeout < Nanos(1_000_000_000) {
        sink.add_with(at.position(), || {
            format!("{at}: no guest boots within {timeout}; give it 1 s or more")
        });
    }
    timeout
}

fn variants(
    raw: &raw::Named<raw::Variant>,
    at: &At<'_>,
    around: &Around<'_>,
    written: &BTreeSet<String>,
    known: &Known,
    sink: &mut Sink,
) -> Vec<Variant> {
    if raw.is_empty() || raw.0.len() > MAX_VARIANTS {
        sink.add_with(at.position(), || {
            format!(
                "{at} must have 1 to {MAX_VARIANTS} entries, not {}",
                raw.0.len()
            )
        });
    }
    raw.0
        .iter()
        .enumerate()
        .map(|(index, (key, variant))| {
            let at = at.entry(index);
            name(key, &at, sink);
            // So that the target of an expectation is read in one way only.
            if key == "ideal" || key.starts_with(|c: char| c.is_ascii_digit()) {
                sink.add_with(at.position(), || {
                    format!("{at}: a variant must begin with a letter and not be called `ideal`")
                });
            }
            let at = at.value();
            if let Some(series) = &variant.series {
                known_name(
                    series,
                    "series",
                    known.series.as_ref(),
                    &at.key("series"),
                    sink,
                );
            }
            if let Some(patches) = variant.patches {
                let at = at.key("patches");
                if variant.series.is_none() {
                    sink.add_with(at.position(), || {
                        format!("{at} is about the patches of a `series`, and there is none")
                    });
                } else if !(1..=MAX_PATCHES).contains(&patches) {
                    sink.add_with(at.position(), || {
                        format!("{at} must be 1 to {MAX_PATCHES}, not {patches}")
                    });
                }
            }
            if variant
                .max_tasks
                .is_some_and(|n| !(1..=MAX_TASKS).contains(&n))
            {
                let at = at.key("max_tasks");
                sink.add_with(at.position(), || format!("{at} must be 1 to {MAX_TASKS}"));
            }
            options::check(&variant.options, &at.key("options"), sink);
            cmdline::check(&variant.cmdline, &at.key("cmdline"), sink);
            swaps(
                &variant.swap,
                &at.key("swap"),
                around.profiles,
                written,
                sink,
            );
            Variant {
                name: key.clone(),
                series: variant.series.as_ref().map(|s| s.0.clone()),
                patches: variant.patches,
                options: variant.options.clone(),
                cmdline: variant.cmdline.clone(),
                probing: probing::read(variant, &at, around, sink),
                order: variant.order,
                restart: variant.restart.unwrap_or_default(),
                max_tasks: variant.max_tasks,
                unrecorded: probing::unrecorded(variant, &at, sink),
                coldplug: userspace::coldplug(variant.coldplug.as_ref(), &at.key("coldplug"), sink),
                systemd: systemd::read(variant, &at, sink),
                swap: variant
                    .swap
                    .0
                    .iter()
                    .map(|(a, b)| (a.clone(), b.0.clone()))
                    .collect(),
            }
        })
        .collect()
}

fn swaps(
    swap: &raw::Named<raw::Name>,
    at: &At<'_>,
    all: &Profiles,
    written: &BTreeSet<String>,
    sink: &mut Sink,
) {
    for (index, (from, to)) in swap.0.iter().enumerate() {
        let at = at.entry(index);
        if !written.contains(from) {
            sink.add_with(at.position(), || {
                let hint = hint(from, written.iter().map(String::as_str));
                format!("no device has the profile `{from}` that {at} replaces{hint}")
            });
        }
        let at = at.value();
        if !all.contains_key(&to.0) {
            sink.add_with(at.position(), || {
                let hint = hint(&to.0, all.keys().map(String::as_str));
                format!("unknown profile `{}` in {at}{hint}", to.0)
            });
        } else if *from == to.0 {
            sink.add_with(at.position(), || {
                format!("{at} replaces `{from}` by itself")
            });
        }
    }
}

/// The profiles that can come into play.
fn used(all: &Profiles, devices: &[super::Device], variants: &[Variant]) -> Profiles {
    let written = devices.iter().filter_map(|d| d.profile.as_ref());
    let swapped = variants.iter().flat_map(|v| v.swap.values());
    written
        .chain(swapped)
        .filter_map(|name| Some((name.clone(), all.get(name)?.clone())))
        .collect()
}

fn locks(profiles: &Profiles, at: &At<'_>, sink: &mut Sink) {
    let locks: BTreeSet<_> = profiles.values().filter_map(|p| p.lock.as_ref()).collect();
    if locks.len() > MAX_LOCKS {
        sink.add_with(at.position(), || {
            format!(
                "the profiles name {} different locks; the guest has {MAX_LOCKS}",
                locks.len()
            )
        });
    }
}
