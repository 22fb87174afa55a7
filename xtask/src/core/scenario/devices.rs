// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device tree: expands counts, joins the nested and the flat form, and puts parents
//! before their children.

use std::collections::HashMap;

use super::{
    Device, NodeKind,
    diagnose::Sink,
    profiles::Profiles,
    raw::{self, DeviceKind},
    tree::{At, Position},
    validate::name,
};
use crate::core::nearest::hint;

/// More devices than any machine here holds; what a given one holds is layout's to say.
pub const MAX_DEVICES: u64 = 65_536;

/// Functions of a PCI slot.
pub const FUNCTIONS_PER_SLOT: usize = 8;

/// Levels of the tree, the root bus being the first: what the guest's device table can name.
pub const MAX_LEVELS: usize = 7;

impl NodeKind {
    /// How many devices fit right below one of this kind.
    pub fn places(self) -> usize {
        match self {
            Self::Endpoint => 0,
            Self::RootPort => FUNCTIONS_PER_SLOT,
            Self::Bridge => 32 * FUNCTIONS_PER_SLOT,
        }
    }
}

/// A device before the order is known.
struct Draft<'r> {
    name: String,
    kind: NodeKind,
    profile: Option<String>,
    names: Option<String>,
    above: Above<'r>,
    position: Position,
    /// Of what names the parent.
    parent_position: Position,
    path: String,
}

/// What a draft says of its parent.
enum Above<'r> {
    Root,
    /// Nested: the index of the draft above.
    Draft(usize),
    /// Flat: a name.
    Name(&'r str),
}

/// The tree of `raw`, parents before children and otherwise in the file's order.
pub(super) fn read(
    raw: &[raw::Device],
    at: &At<'_>,
    profiles: &Profiles,
    sink: &mut Sink,
) -> Vec<Device> {
    let total = size(raw, 1);
    if total > MAX_DEVICES {
        sink.add_with(at.position(), || {
            let total = if total == u64::MAX {
                "far too many".into()
            } else {
                total.to_string()
            };
            format!("{at}: {total} devices in all; no machine holds more than {MAX_DEVICES}")
        });
        return Vec::new();
    }
    let mut drafts = Vec::new();
    expand(raw, at, &[], profiles, &mut drafts, sink);
    let Some(parents) = parents(&drafts, sink) else {
        return Vec::new();
    };
    capacity(&drafts, &parents, sink);
    let Some(order) = order(&drafts, &parents, sink) else {
        return Vec::new();
    };
    depth(&drafts, &parents, &order, sink);
    let mut place = vec![0; drafts.len()];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new;
    }
    order
        .iter()
        .map(|&old| Device {
            name: drafts[old].name.clone(),
            parent: parents[old].map(|p| place[p]),
            kind: drafts[old].kind,
            profile: drafts[old].profile.clone(),
            names: drafts[old].names.clone(),
        })
        .collect()
}

/// How many devices `copies` of a list make, without making them.
fn size(raw: &[raw::Device], copies: u64) -> u64 {
    raw.iter()
        .map(|d| {
            let here = copies.saturating_mul(u64::from(d.count.unwrap_or(1)));
            here.saturating_add(size(&d.devices, here))
        })
        .fold(0, u64::saturating_add)
}

/// Drafts one list below each of `above` (none: the root bus).
fn expand<'r>(
    raw: &'r [raw::Device],
    at: &At<'_>,
    above: &[usize],
    profiles: &Profiles,
    drafts: &mut Vec<Draft<'r>>,
    sink: &mut Sink,
) {
    for (index, device) in raw.iter().enumerate() {
        let at = at.item(index);
        let nested = !above.is_empty();
        let kind = check(device, &at, nested, profiles, sink);
        let each = device.count.unwrap_or(1) as usize;
        let copies = each * above.len().max(1);
        let first = drafts.len();
        for copy in 0..copies {
            drafts.push(Draft {
                name: if copies == 1 {
                    device.name.0.clone()
                } else {
                    format!("{}.{copy}", device.name.0)
                },
                kind,
                profile: match (&device.profile, device.draw) {
                    (Some(profile), _) => Some(profile.0.clone()),
                    (None, Some(seed)) => Some(drawn(seed, copy, profiles)),
                    (None, None) => None,
                },
                names: device.names.as_ref().map(|p| p.0.clone()),
                above: match (&device.parent, above.get(copy / each.max(1))) {
                    (_, Some(&draft)) => Above::Draft(draft),
                    (Some(parent), None) => Above::Name(&parent.0),
                    (None, None) => Above::Root,
                },
                position: at.position(),
                parent_position: at.key("parent").position(),
                path: at.to_string(),
            });
        }
        let made: Vec<usize> = (first..drafts.len()).collect();
        if !device.devices.is_empty() && !made.is_empty() {
            expand(
                &device.devices,
                &at.key("devices"),
                &made,
                profiles,
                drafts,
                sink,
            );
        }
    }
}

/// The profile that copy number `copy` draws, in the order of their names, by SplitMix64
/// (Steele, Lea and Flood 2014) of seed and number: of all but those with firmware, whose
/// probe writes it for half a minute.
fn drawn(seed: u32, copy: usize, profiles: &Profiles) -> String {
    let mut z = ((u64::from(seed) << 32) | copy as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    let drawable: Vec<_> = profiles
        .iter()
        .filter(|(_, p)| p.firmware.is_none())
        .collect();
    let at = z % drawable.len().max(1) as u64;
    drawable
        .get(at as usize)
        .map(|(name, _)| (*name).clone())
        .unwrap_or_default()
}

/// What can be said of one entry by itself.
fn check(
    device: &raw::Device,
    at: &At<'_>,
    nested: bool,
    profiles: &Profiles,
    sink: &mut Sink,
) -> NodeKind {
    name(&device.name.0, &at.key("name"), sink);
    if device.count == Some(0) {
        let at = at.key("count");
        sink.add_with(at.position(), || {
            format!("{at} is 0; leave the device out instead")
        });
    }
    let kind = match device.kind.unwrap_or(DeviceKind::Endpoint) {
        DeviceKind::Endpoint => NodeKind::Endpoint,
        DeviceKind::Bridge => NodeKind::Bridge,
        DeviceKind::RootPort => NodeKind::RootPort,
    };
    let me = &device.name.0;
    match &device.profile {
        Some(profile) if !profiles.contains_key(&profile.0) => {
            let at = at.key("profile");
            sink.add_with(at.position(), || {
                let hint = hint(&profile.0, profiles.keys().map(String::as_str));
                format!("unknown profile `{}` in {at}{hint}", profile.0)
            });
        }
        Some(_) if device.draw.is_some() => sink.add_with(at.position(), || {
            format!("{at} has both `profile` and `draw`")
        }),
        None if kind == NodeKind::Endpoint && device.draw.is_none() => sink
            .add_with(at.position(), || {
                format!("`profile` is missing in {at}: only a bridge or root port can do without")
            }),
        _ => {}
    }
    if let Some(prefix) = &device.names
        && !((1..=15).contains(&prefix.0.len()) && prefix.0.bytes().all(|b| b.is_ascii_lowercase()))
    {
        let at = at.key("names");
        sink.add_with(at.position(), || {
            format!(
                "{at} takes 1 to 15 small letters, such as `eth`, not `{}`",
                prefix.0
            )
        });
    }
    if device.names.is_some() && device.profile.is_none() && device.draw.is_none() {
        let at = at.key("names");
        sink.add_with(at.position(), || {
            format!("{at}: `{me}` has no profile, so that no driver of ours gives it a name")
        });
    }
    if kind == NodeKind::Endpoint && !device.devices.is_empty() {
        let at = at.key("devices");
        sink.add_with(at.position(), || {
            format!("{at}: `{me}` is an endpoint and has nothing below it; give it `type: bridge` or `type: root-port`")
        });
    }
    if kind == NodeKind::RootPort && (nested || device.parent.is_some()) {
        sink.add_with(at.position(), || {
            format!(
                "{at}: root port `{me}` must be on the root bus; use `type: bridge` below another"
            )
        });
    }
    if nested && device.parent.is_some() {
        let at = at.key("parent");
        sink.add_with(at.position(), || {
            format!(
                "{at}: `{me}` is nested, which says already what is above it; leave `parent` out"
            )
        });
    }
    kind
}

/// The parent of each draft by index; complains of names given twice and of unknown ones.
fn parents(drafts: &[Draft<'_>], sink: &mut Sink) -> Option<Vec<Option<usize>>> {
    let mut sound = true;
    let mut by_name = HashMap::new();
    for (index, draft) in drafts.iter().enumerate() {
        if let Some(first) = by_name.insert(draft.name.as_str(), index) {
            sound = false;
            sink.add_with(draft.position, || {
                let line = drafts[first].position.line;
                format!(
                    "{}: device `{}` is there already (line {line})",
                    draft.path, draft.name
                )
            });
        }
    }
    let parents = drafts
        .iter()
        .map(|draft| match draft.above {
            Above::Root => None,
            Above::Draft(index) => Some(index),
            Above::Name(name) => {
                let found = by_name.get(name).copied();
                match found.map(|p| drafts[p].kind) {
                    None => sink.add_with(draft.parent_position, || {
                        let holders = drafts.iter().filter(|d| d.kind != NodeKind::Endpoint);
                        let hint = hint(name, holders.map(|d| d.name.as_str()));
                        format!("unknown device `{name}` in {}.parent{hint}", draft.path)
                    }),
                    Some(NodeKind::Endpoint) => sink.add_with(draft.parent_position, || {
                        format!(
                            "{}.parent: `{name}` is an endpoint and has nothing below it",
                            draft.path
                        )
                    }),
                    Some(_) => {}
                }
                sound &= found.is_some();
                found
            }
        })
        .collect();
    sound.then_some(parents)
}

/// Complains of bridges and ports with more below them than they have places.
fn capacity(drafts: &[Draft<'_>], parents: &[Option<usize>], sink: &mut Sink) {
    let mut below = vec![0; drafts.len()];
    parents.iter().flatten().for_each(|&p| below[p] += 1);
    for (draft, &count) in drafts.iter().zip(&below) {
        let places = draft.kind.places();
        // An endpoint with something below it has its own error.
        if count > places && draft.kind != NodeKind::Endpoint {
            sink.add_with(draft.position, || {
                format!(
                    "{}: `{}` has room for {places} devices right below it, not for {count}",
                    draft.path, draft.name
                )
            });
        }
    }
}

/// Complains of devices below more bridges than the guest's device table can name.
fn depth(drafts: &[Draft<'_>], parents: &[Option<usize>], order: &[usize], sink: &mut Sink) {
    let mut levels = vec![1; drafts.len()];
    for &index in order {
        levels[index] = parents[index].map_or(1, |p| levels[p] + 1);
        if levels[index] == MAX_LEVELS + 1 {
            let draft = &drafts[index];
            sink.add_with(draft.position, || {
                format!(
                    "{}: `{}` is on level {}; the limit is {MAX_LEVELS}",
                    draft.path,
                    draft.name,
                    MAX_LEVELS + 1
                )
            });
        }
    }
}

/// The drafts in an order with parents first; `None` (and a complaint) if there is a cycle.
fn order(drafts: &[Draft<'_>], parents: &[Option<usize>], sink: &mut Sink) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Waiting,
        Done,
    }
    let mut marks = vec![Mark::New; drafts.len()];
    let mut order = Vec::with_capacity(drafts.len());
    let mut sound = true;
    for start in 0..drafts.len() {
        // Up from here to what is done or has no parent, then down again.
        let mut chain = Vec::new();
        let mut next = Some(start);
        while let Some(index) = next {
            match marks[index] {
                Mark::Done => break,
                Mark::Waiting => {
                    let from = chain.iter().position(|&i| i == index).unwrap_or(0);
                    sink.add_with(drafts[index].position, || cycle(drafts, &chain[from..]));
                    sound = false;
                    break;
                }
                Mark::New => {
                    marks[index] = Mark::Waiting;
                    chain.push(index);
                    next = parents[index];
                }
            }
        }
        for &index in chain.iter().rev() {
            marks[index] = Mark::Done;
            order.push(index);
        }
    }
    sound.then_some(order)
}

fn cycle(drafts: &[Draft<'_>], members: &[usize]) -> String {
    let mut names: Vec<&str> = members
        .iter()
        .take(8)
        .map(|&i| drafts[i].name.as_str())
        .collect();
    if members.len() > names.len() {
        names.push("...");
    }
    names.push(&drafts[members[0]].name);
    format!(
        "{}: the devices form a cycle, each below the next: {}",
        drafts[members[0]].path,
        names.join(" -> ")
    )
}
