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

/// Steps of one callback; more would be noise rather than a profile.
const MAX_STEPS: usize = 32;

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
        about: super::validate::prose(&raw.about, &at.key("about"), sink),
        source: super::validate::prose(&raw.source, &at.key("source"), sink),
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

fn step(raw: &raw::Step, at: &At<'_>, sink: &mut Sink) -> Option<Step> {
    let mut time = |d: &raw::Duration, key: &str| duration(d, &at.key(key), sink);
    match raw {
        raw::Step {
            sleep: Some(d),
            wait: None,
            poll: None,
            every: None,
            busy: None,
        } => time(d, "sleep").map(Step::Sleep),
        raw::Step {
            sleep: None,
            wait: Some(d),
            poll: None,
            every: None,
            busy: None,
        } => time(d, "wait").map(Step::Wait),
        raw::Step {
            sleep: None,
            wait: None,
            poll: None,
            every: None,
            busy: Some(d),
        } => time(d, "busy").map(Step::Busy),
        raw::Step {
            sleep: None,
            wait: None,
            poll: Some(d),
            every: Some(e),
            busy: None,
        } => {
            let (total, every) = (time(d, "poll"), time(e, "every"));
            let (total, every) = (total?, every?);
            if every > total {
                let at = at.key("every");
                sink.add_with(at.position(), || {
                    format!("{at}: polling every {every} cannot see {total} pass; use `wait` or a shorter pause")
                });
                return None;
            }
            Some(Step::Poll { total, every })
        }
        raw::Step {
            sleep: None,
            wait: None,
            poll: Some(_),
            every: None,
            busy: None,
        } => {
            sink.add_with(at.position(), || {
                format!("{at} polls but does not say how often; add `every: 5 ms`")
            });
            None
        }
        _ => {
            sink.add_with(at.position(), || {
                format!("{at} must have exactly one of sleep, wait, poll (with every) and busy; one step a list item")
            });
            None
        }
    }
}
