// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is done to a machine beside its tree: device links, the order of the kernel's list,
//! settings, and what happens while it shuts down.

use std::collections::HashMap;

use super::{Action, Device, Link, Meanwhile, diagnose::Sink, raw, tree::At, validate::duration};
use crate::core::nearest::hint;

/// As many as PID 1 takes (docs/protocol.md).
const MAX_ACTIONS: usize = 64;

/// The devices by name.
pub(super) struct Names<'d> {
    by_name: HashMap<&'d str, usize>,
}

impl<'d> Names<'d> {
    pub fn of(devices: &'d [Device]) -> Self {
        let by_name = devices.iter().enumerate();
        Self {
            by_name: by_name.map(|(i, d)| (d.name.as_str(), i)).collect(),
        }
    }

    fn find(&self, name: &raw::Name, at: &At<'_>, sink: &mut Sink) -> Option<usize> {
        let found = self.by_name.get(name.0.as_str()).copied();
        // Without any device the tree has errors of its own, or there is none to name.
        if found.is_none() {
            sink.add_with(at.position(), || {
                let mut names: Vec<_> = self.by_name.keys().copied().collect();
                names.sort_unstable();
                format!(
                    "unknown device `{}` in {at}{}",
                    name.0,
                    hint(&name.0, names)
                )
            });
        }
        found
    }
}

/// The links, none twice, and no cycle among those that order.
pub(super) fn links(
    raw: &[raw::Link],
    at: &At<'_>,
    devices: &[Device],
    names: &Names<'_>,
    sink: &mut Sink,
) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for (index, link) in raw.iter().enumerate() {
        let at = at.item(index);
        let consumer = names.find(&link.consumer, &at.key("consumer"), sink);
        let supplier = names.find(&link.supplier, &at.key("supplier"), sink);
        let (Some(consumer), Some(supplier)) = (consumer, supplier) else {
            continue;
        };
        let orders = !link.sync_state_only.unwrap_or(false);
        let same = |l: &&Link| (l.consumer, l.supplier) == (consumer, supplier);
        if consumer == supplier {
            sink.add_with(at.position(), || {
                format!("{at}: `{}` cannot depend on itself", link.consumer.0)
            });
        } else if links.iter().find(same).is_some() {
            sink.add_with(at.position(), || {
                let (c, s) = (&link.consumer.0, &link.supplier.0);
                format!("{at}: `{c}` and `{s}` are linked already")
            });
        } else if orders && comes_after(consumer, supplier, devices, &links) {
            // The kernel would refuse it.
            sink.add_with(at.position(), || {
                let (c, s) = (&link.consumer.0, &link.supplier.0);
                format!("{at}: a link cycle that cannot be built: `{s}` is shut down before `{c}` already, by the tree or by earlier links; only `sync_state_only: true` may close a cycle")
            });
        } else {
            links.push(Link {
                consumer,
                supplier,
                orders,
            });
        }
    }
    links
}

/// Whether `late` has to come after `early`, by the tree and `links`.
fn comes_after(late: usize, early: usize, devices: &[Device], links: &[Link]) -> bool {
    let (mut seen, mut next) = (vec![false; devices.len()], vec![early]);
    while let Some(device) = next.pop() {
        if device == late {
            return true;
        }
        if std::mem::replace(&mut seen[device], true) {
            continue;
        }
        next.extend(devices[device].parent);
        let own = links.iter().filter(|l| l.orders && l.consumer == device);
        next.extend(own.map(|l| l.supplier));
    }
    false
}

/// The devices that the list is to end in, none twice.
pub(super) fn first(
    raw: &[raw::Name],
    at: &At<'_>,
    names: &Names<'_>,
    sink: &mut Sink,
) -> Vec<usize> {
    let mut first = Vec::new();
    for (index, name) in raw.iter().enumerate() {
        let at = at.item(index);
        match names.find(name, &at, sink) {
            Some(device) if first.contains(&device) => sink.add_with(at.position(), || {
                format!("{at}: `{}` is named already", name.0)
            }),
            found => first.extend(found),
        }
    }
    first
}

/// What happens during the shutdown; times may not decrease.
pub(super) fn actions(
    raw: &[raw::Action],
    at: &At<'_>,
    names: &Names<'_>,
    sink: &mut Sink,
) -> Vec<Meanwhile> {
    if raw.len() > MAX_ACTIONS {
        sink.add_with(at.position(), || {
            format!("{at} has {} entries; the limit is {MAX_ACTIONS}", raw.len())
        });
    }
    let mut all: Vec<Meanwhile> = Vec::new();
    for (index, entry) in raw.iter().enumerate() {
        let at = at.item(index);
        let after = duration(&entry.after, &at.key("after"), sink);
        let action = match (&entry.remove, entry.rescan, entry.kill) {
            (Some(name), None, None) => names
                .find(name, &at.key("remove"), sink)
                .map(Action::Remove),
            (None, Some(true), None) => Some(Action::Rescan),
            (None, None, Some(true)) => Some(Action::Kill),
            _ => {
                sink.add_with(at.position(), || {
                    format!("{at} must have exactly one of remove, `rescan: true` and `kill: true`")
                });
                None
            }
        };
        let (Some(after), Some(action)) = (after, action) else {
            continue;
        };
        if all.last().is_some_and(|before| before.after > after) {
            sink.add_with(at.position(), || {
                format!("{at} comes before the entry above it; order them by time")
            });
        }
        all.push(Meanwhile { after, action });
    }
    all
}

/// Settings as PID 1 takes them: a path below /proc/sys with dots, and one word.
pub(super) fn sysctl(
    raw: &raw::Named<String>,
    at: &At<'_>,
    sink: &mut Sink,
) -> Vec<(String, String)> {
    for (index, (name, value)) in raw.0.iter().enumerate() {
        let at = at.entry(index);
        let word = |w: &str| {
            !w.is_empty()
                && w.bytes()
                    .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
        };
        if !name.contains('.') || !name.split('.').all(word) {
            sink.add_with(at.position(), || {
                format!(
                    "{at}: `{name}` is no setting; write it as sysctl does, `kernel.threads-max`"
                )
            });
        }
        let at = at.value();
        let word = !value.is_empty() && value.bytes().all(|b| b.is_ascii_graphic());
        if !word || value.len() > 64 {
            sink.add_with(at.position(), || {
                format!("{at} takes one word of at most 64 letters, not `{value}`")
            });
        }
    }
    raw.0.clone()
}
