// SPDX-License-Identifier: MIT OR Apache-2.0
//! What QEMU must be told to put the devices in their places.

use std::fmt;

use super::{Layout, Node};
use crate::core::scenario::{Backend, NodeKind};

/// One `-device` argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceArg {
    /// QEMU's name of the device.
    pub driver: &'static str,
    /// Its properties, in order.
    pub props: Vec<(&'static str, String)>,
}

impl fmt::Display for DeviceArg {
    /// As QEMU reads it: `pvpanic-pci,events=0,bus=b1,addr=1f.7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.driver)?;
        self.props
            .iter()
            .try_for_each(|(name, value)| write!(f, ",{name}={value}"))
    }
}

impl Layout {
    /// QEMU's devices in an order where a bus comes before what sits on it; none where
    /// the guest makes them.
    pub fn qemu_devices(&self) -> impl Iterator<Item = DeviceArg> {
        let qemu = self.backend == Backend::Qemu;
        self.nodes.iter().filter(move |_| qemu).map(device)
    }
}

fn device(node: &Node) -> DeviceArg {
    let name = |bus: usize| format!("b{bus}");
    // The cheapest endpoint there is: no thread, no I/O port. `events=0`: a guest driver
    // for it finds nothing to do, and cannot end the machine. No hot-plug of bridges: the
    // kernel would set address space aside below each port.
    let number = node.below.unwrap_or_default().to_string();
    let (driver, own) = match node.kind {
        NodeKind::Endpoint => ("pvpanic-pci", [("events", "0".into())].to_vec()),
        NodeKind::RootPort => (
            "pcie-root-port",
            [("slot", number), ("hotplug", "off".into())].to_vec(),
        ),
        NodeKind::Bridge => (
            "pci-bridge",
            [("chassis_nr", number), ("shpc", "off".into())].to_vec(),
        ),
    };
    let mut props: Vec<_> = node
        .below
        .map(|bus| ("id", name(bus)))
        .into_iter()
        .collect();
    props.extend(own);
    props.push((
        "bus",
        match node.bus {
            0 => "pcie.0".into(),
            bus => name(bus),
        },
    ));
    props.push(("addr", node.addr().to_owned()));
    // QEMU and Linux look at functions 1 to 7 only where function 0 says so.
    if node.several {
        props.push(("multifunction", "on".into()));
    }
    DeviceArg { driver, props }
}
