// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's own PCI domain, as the module `vpci` is told of it (docs/protocol.md).

use std::{collections::BTreeMap, fmt::Write};

use super::PCI_DRIVER;
use crate::core::{
    layout::{Layout, Node},
    plan::Trial,
    scenario::NodeKind,
};

/// PCI-to-PCI bridge.
const BRIDGE_CLASS: u32 = 0x06_04_00;
/// A device that does not fit in any class: of profiles that name none.
const NO_CLASS: u32 = 0xff_00_00;
/// As QEMU's bridges and ports show themselves.
const BRIDGE_ID: (u16, u16) = (0x1b36, 0x0001);
const ROOT_PORT_ID: (u16, u16) = (0x1b36, 0x000c);

/// The parameters of `vpci`: kinds of functions, then the functions.
pub(super) fn domain(trial: &Trial, layout: &Layout) -> String {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let (mut kinds, mut nodes) = (String::new(), String::new());
    for node in &layout.nodes {
        let kind = kind(trial, node);
        let next = numbers.len();
        let number = *numbers.entry(kind).or_insert_with_key(|kind| {
            let _ = writeln!(kinds, "kind={next}:{kind}");
            next
        });
        let _ = writeln!(nodes, "node={}:{number}", node.path);
    }
    kinds + &nodes
}

fn kind(trial: &Trial, node: &Node) -> String {
    let profile = node
        .device
        .and_then(|index| trial.scenario.profile(trial.variant(), index));
    let (header, class) = match node.kind {
        NodeKind::Endpoint => (
            "endpoint",
            profile.and_then(|p| p.class).unwrap_or(NO_CLASS),
        ),
        NodeKind::RootPort | NodeKind::Bridge => ("bridge", BRIDGE_CLASS),
    };
    let id = match (profile, node.kind) {
        (Some(profile), _) => profile.id,
        (None, NodeKind::RootPort) => ROOT_PORT_ID,
        (None, NodeKind::Endpoint | NodeKind::Bridge) => BRIDGE_ID,
    };
    let driver = if profile.is_some() { PCI_DRIVER } else { "-" };
    format!("{:04x}:{:04x}:{class:06x}:{header}:{driver}", id.0, id.1)
}
