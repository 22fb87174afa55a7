// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device profiles: profiles.yaml, and those that a scenario brings along.

use std::collections::BTreeMap;

use super::{
    Profile, Step,
    diagnose::{Diagnostics, Sink},
    parse, raw, schema,
    tree::At,
    validate::{duration, name},
};
use crate::core::units::Nanos;

/// Profiles by name.
pub type Profiles = BTreeMap<String, Profile>;

/// Steps of one callback: as many as the guest's driver takes.
const MAX_STEPS: usize = 16;
/// Class and subclass of PCI-to-PCI bridges.
const BRIDGE_CLASS: u32 = 0x06_04;

/// Reads profiles.yaml.
///
/// # Errors
/// Everything that is wrong with the file, in line order.
pub fn parse_profiles(file: &str, text: &str) -> Result<Profiles, Diagnostics> {
    let (node, raw): (_, raw::Named<raw::Profile>) =
        parse::typed(file, text, schema::profiles_schema())?;
    let mut sink = Sink::default();
    let profiles = read_all(&raw, &At::root(&node), &Profiles::new(), &mut sink);
    sink.finish(file)?;
    Ok(profiles)
}

/// `common` and the profiles of `raw`, which may repeat one of them but not change it.
pub(super) fn read_all(
    raw: &raw::Named<raw::Profile>,
    at: &At<'_>,
    common: &Profiles,
    sink: &mut Sink,
) -> Profiles {
    let mut all = common.clone();
    for (index, (key, profile)) in raw.0.iter().enumerate() {
        let at = at.entry(index);
        name(key, &at, sink);
        let profile = read(key, profile, &at.value(), sink);
        match all.get(key) {
            Some(other) if *other != profile => sink.add_with(at.position(), || {
                format!(
                    "profile `{key}` means something else in profiles.yaml; name {at} otherwise"
                )
            }),
            _ => {
                all.insert(key.clone(), profile);
            }
        }
    }
    all
}

fn read(key: &str, raw: &raw::Profile, at: &At<'_>, sink: &mut Sink) -> Profile {
    if let Some(lock) = &raw.lock {
        name(&lock.0, &at.key("lock"), sink);
    }
    Profile {
        name: key.into(),
        id: pci_id(&raw.id.0, &at.key("id"), sink),
        class: raw
            .class
            .as_ref()
            .and_then(|c| class(&c.0, &at.key("class"), sink)),
        about: super::validate::prose(&raw.about, &at.key("about"), sink),
        source: super::validate::prose(&raw.source, &at.key("source"), sink),
        firmware: raw
            .firmware
            .as_ref()
            .and_then(|f| super::probing::firmware(f, &at.key("firmware"), &step, sink)),
        probe: steps(&raw.probe, &at.key("probe"), sink),
        shutdown: steps(&raw.shutdown, &at.key("shutdown"), sink),
        remove: steps(&raw.remove, &at.key("remove"), sink),
        lock: raw.lock.as_ref().map(|l| l.0.clone()),
    }
}

/// Reads `15b3:1003`. No device has vendor 0 or ffff: they stand for an empty slot.
fn pci_id(text: &str, at: &At<'_>, sink: &mut Sink) -> (u16, u16) {
    let part = |s: &str| match s.len() {
        4 if s.bytes().all(|b| b.is_ascii_hexdigit()) => u16::from_str_radix(s, 16).ok(),
        _ => None,
    };
    let id = text
        .split_once(':')
        .and_then(|(v, d)| Some((part(v)?, part(d)?)));
    match id {
        Some((vendor, _)) if vendor != 0 && vendor != 0xffff => {}
        Some(_) => sink.add_with(at.position(), || {
            format!("{at}: no device has the vendor ID of `{text}`")
        }),
        None => sink.add_with(at.position(), || {
            format!("{at} takes vendor:device as lspci -n prints them, such as `15b3:1003`, not `{text}`")
        }),
    }
    id.unwrap_or_default()
}

/// Reads `010802`. A bridge's class is no device's to choose: it comes with the tree.
fn class(text: &str, at: &At<'_>, sink: &mut Sink) -> Option<u32> {
    let code = match text.len() {
        6 if text.bytes().all(|b| b.is_ascii_hexdigit()) => u32::from_str_radix(text, 16).ok(),
        _ => None,
    };
    match code {
        Some(code) if code >> 8 == BRIDGE_CLASS => sink.add_with(at.position(), || {
            format!(
                "{at}: `{text}` is a bridge's class; leave it out, `type` says what is a bridge"
            )
        }),
        Some(_) => {}
        None => sink.add_with(at.position(), || {
            format!("{at} takes six hexadecimal digits: class, subclass and programming interface, such as `010802`, not `{text}`")
        }),
    }
    code
}

fn steps(raw: &[raw::Step], at: &At<'_>, sink: &mut Sink) -> Vec<Step> {
    if raw.len() > MAX_STEPS {
        sink.add_with(at.position(), || {
            format!("{at} has {} steps; the limit is {MAX_STEPS}", raw.len())
        });
        return Vec::new();
    }
    let steps: Vec<Step> = raw
        .iter()
        .enumerate()
        .filter_map(|(i, s)| step(s, &at.item(i), sink))
        .collect();
    let total: Nanos = steps.iter().map(|s| s.nominal()).sum();
    if total > super::validate::MAX_DURATION {
        sink.add_with(at.position(), || {
            format!("{at} waits {total} in all; the limit is 1 h")
        });
    }
    steps
}

const MICRO: Nanos = Nanos(1_000);
const MILLI: Nanos = Nanos(1_000_000);

/// The kernel's functions take whole units; finer times would be rounded in silence.
fn whole(time: Nanos, unit: Nanos, at: &At<'_>, sink: &mut Sink) -> Nanos {
    if !time.0.is_multiple_of(unit.0) {
        sink.add_with(at.position(), || {
            let (exact, unit) = (time.exact(), unit.exact());
            format!("{at}: the kernel takes whole multiples of {unit} here, not {exact}")
        });
    }
    time
}

fn step(raw: &raw::Step, at: &At<'_>, sink: &mut Sink) -> Option<Step> {
    let raw::Step {
        sleep,
        wait,
        poll,
        every,
        busy,
        compute,
        thread,
    } = raw;
    if let (Some(thread), None, None, None, None, None, None) =
        (thread, compute, sleep, wait, busy, poll, every)
    {
        if !thread {
            sink.add_with(at.position(), || {
                format!("{at}: `thread: false` is no step; leave it out")
            });
        }
        return Some(Step::Thread);
    }
    if let (Some(d), None, None, None, None, None, None) =
        (compute, sleep, wait, busy, poll, every, thread)
    {
        return duration(d, &at.key("compute"), sink).map(Step::Compute);
    }
    match (sleep, wait, busy, poll, every) {
        (Some(d), None, None, None, None) if compute.is_none() && thread.is_none() => {
            let at = at.key("sleep");
            Some(Step::Sleep(whole(
                duration(d, &at, sink)?,
                MILLI,
                &at,
                sink,
            )))
        }
        (None, Some(d), None, None, None) => duration(d, &at.key("wait"), sink).map(Step::Wait),
        (None, None, Some(d), None, None) => duration(d, &at.key("busy"), sink).map(Step::Busy),
        (None, None, None, Some(total), Some(every)) => poll_step(total, every, at, sink),
        (None, None, None, Some(_), None) => {
            sink.add_with(at.position(), || {
                format!("{at} polls but does not say how often; add `every: 5 ms`")
            });
            None
        }
        _ => {
            sink.add_with(at.position(), || {
                format!(
                    "{at} must have exactly one of sleep, wait, poll (with every), busy, compute and thread; \
                     each step is a list item of its own"
                )
            });
            None
        }
    }
}

fn poll_step(
    total: &raw::Duration,
    every: &raw::Duration,
    at: &At<'_>,
    sink: &mut Sink,
) -> Option<Step> {
    let (at_total, at) = (at.key("poll"), at.key("every"));
    let (total, every) = (duration(total, &at_total, sink), duration(every, &at, sink));
    let (total, every) = (total?, every?);
    if every > total {
        sink.add_with(at.position(), || {
            format!("{at}: the pause of {every} is longer than the {total} polled for")
        });
    }
    Some(Step::Poll {
        total,
        every: whole(every, MICRO, &at, sink),
    })
}
