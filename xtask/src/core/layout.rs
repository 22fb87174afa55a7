// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives each device of a scenario's tree its place on PCI buses: the machine's (`qemu.rs`
//! tells QEMU), or those of the guest's own domain (`program` tells the module `vpci`).
//!
//! Functions are packed in the tree's order, eight to a slot, so that the kernel finds
//! the devices of one bus in that order. What does not fit the root bus goes, in order,
//! behind conventional bridges that are added here; Linux scans a whole bus before the
//! buses below it, so the overflow still comes after what stayed.

use std::fmt;

use super::scenario::{
    Backend, Device, FUNCTIONS_PER_SLOT, MAX_LEVELS, MachineKind, MachineSpec, NodeKind,
};

mod qemu;

pub use qemu::DeviceArg;

/// Stands before the paths of the guest's own PCI domain (docs/protocol.md).
const GUEST_DOMAIN: &str = "1:";

/// Bus numbers of a PCI domain, the root bus's included.
const MAX_BUSES: usize = 256;

/// Where every device sits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Who makes the devices.
    pub backend: Backend,
    /// For each device of the tree, by index: the guest's domain if it is there, then
    /// slot.function of each bridge from the root bus down, then its own, joined by `/`
    /// (docs/protocol.md).
    pub paths: Vec<String>,
    /// What sits on the buses, in an order where a bus comes before what sits on it, and
    /// function 0 of a slot before the others.
    pub nodes: Vec<Node>,
}

/// One function of a bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its index in the tree; `None`: an added bridge.
    pub device: Option<usize>,
    /// What it is.
    pub kind: NodeKind,
    /// Its path within the domain.
    pub path: String,
    /// The bus it is on: 0 is the root bus, others are numbered as they are made.
    bus: usize,
    /// The bus below it.
    below: Option<usize>,
    /// Whether it is a function 0 with others beside it.
    several: bool,
}

impl Node {
    /// slot.function.
    fn addr(&self) -> &str {
        self.path
            .rsplit_once('/')
            .map_or(&self.path, |(_, own)| own)
    }
}

/// Why a tree does not fit a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// More children than the bridge or port has functions for.
    TooManyChildren {
        /// The bridge or port.
        parent: String,
        /// What it was given.
        children: usize,
        /// What it holds.
        limit: usize,
    },
    /// Children below something that is no bridge.
    NotABridge {
        /// The device with children.
        parent: String,
    },
    /// A root port below another device.
    PortNotOnRoot {
        /// The port.
        port: String,
    },
    /// A parent that does not come before its child.
    Order {
        /// The child.
        device: String,
    },
    /// Root ports fill the root bus, so that not even a bridge for the rest fits.
    RootBusFull {
        /// The first device without a place.
        device: String,
        /// How many the root bus holds.
        limit: usize,
    },
    /// The machine's bus numbers are used up.
    TooManyBuses {
        /// The first bridge or port without a number, or the first device behind a
        /// bridge that would have needed one.
        device: String,
        /// Buses there are.
        limit: usize,
    },
    /// An added bridge puts a device deeper than the guest's table can say.
    TooDeep {
        /// The device.
        device: String,
        /// Levels there are.
        limit: usize,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyChildren {
                parent,
                children,
                limit,
            } => {
                write!(
                    f,
                    "`{parent}` has {children} devices below it and holds {limit}: move some elsewhere"
                )
            }
            Self::NotABridge { parent } => {
                write!(
                    f,
                    "`{parent}` has devices below it but is neither a root port nor a bridge"
                )
            }
            Self::PortNotOnRoot { port } => {
                write!(
                    f,
                    "root port `{port}` must sit on the root bus; use a bridge below other devices"
                )
            }
            Self::Order { device } => write!(f, "`{device}` comes before its parent"),
            Self::RootBusFull { device, limit } => {
                write!(
                    f,
                    "no place for `{device}`: root ports take all {limit} places of the root bus"
                )
            }
            Self::TooManyBuses { device, limit } => {
                write!(
                    f,
                    "no bus number left for `{device}`: the tree needs more than a machine's {limit} buses"
                )
            }
            Self::TooDeep { device, limit } => {
                write!(
                    f,
                    "`{device}` comes to lie deeper than {limit} levels, as the root bus is too small for all that is on it: move something from there below a bridge"
                )
            }
        }
    }
}
impl std::error::Error for LayoutError {}

/// Slots of the root bus that devices may use, as `first..end`. QEMU's slot 0 is the host
/// bridge; its q35 keeps its own bridge to the old world in 1f.
fn root_slots(machine: &MachineSpec) -> std::ops::Range<usize> {
    match (machine.backend, machine.kind) {
        (Backend::Guest, _) => 0..32,
        (Backend::Qemu, MachineKind::Microvm) => 1..32,
        (Backend::Qemu, MachineKind::Q35) => 1..31,
    }
}

/// Places every device of the tree.
///
/// # Errors
/// What does not fit, by name, and the limit it ran into.
pub fn lay_out(devices: &[Device], machine: &MachineSpec) -> Result<Layout, LayoutError> {
    let children = children_of(devices)?;
    let mut out = Builder {
        devices,
        children: &children.below,
        paths: vec![String::new(); devices.len()],
        nodes: Vec::new(),
        bridges: 0,
    };
    let root = Bus {
        number: 0,
        path: String::new(),
        slots: root_slots(machine),
    };
    out.fill(&root, &children.root)?;
    let domain = match machine.backend {
        Backend::Qemu => "",
        Backend::Guest => GUEST_DOMAIN,
    };
    for node in &out.nodes {
        if let Some(index) = node.device {
            if node.path.split('/').count() > MAX_LEVELS {
                return Err(LayoutError::TooDeep {
                    device: devices[index].name.clone(),
                    limit: MAX_LEVELS,
                });
            }
            out.paths[index] = format!("{domain}{}", node.path);
        }
    }
    Ok(Layout {
        backend: machine.backend,
        paths: out.paths,
        nodes: out.nodes,
    })
}

struct Children {
    root: Vec<usize>,
    below: Vec<Vec<usize>>,
}

/// Checks the tree's shape and turns parent links into lists of children.
fn children_of(devices: &[Device]) -> Result<Children, LayoutError> {
    let mut children = Children {
        root: Vec::new(),
        below: vec![Vec::new(); devices.len()],
    };
    for (index, device) in devices.iter().enumerate() {
        match device.parent {
            None => children.root.push(index),
            Some(parent) if parent >= index => {
                return Err(LayoutError::Order {
                    device: device.name.clone(),
                });
            }
            Some(_) if device.kind == NodeKind::RootPort => {
                return Err(LayoutError::PortNotOnRoot {
                    port: device.name.clone(),
                });
            }
            Some(parent) => children.below[parent].push(index),
        }
    }
    for (device, below) in devices.iter().zip(&children.below) {
        let limit = device.kind.places();
        if below.is_empty() || below.len() <= limit {
            continue;
        }
        let parent = device.name.clone();
        return Err(match device.kind {
            NodeKind::Endpoint => LayoutError::NotABridge { parent },
            _ => LayoutError::TooManyChildren {
                parent,
                children: below.len(),
                limit,
            },
        });
    }
    Ok(children)
}

struct Bus {
    number: usize,
    path: String,
    slots: std::ops::Range<usize>,
}

impl Bus {
    fn capacity(&self) -> usize {
        self.slots.len() * FUNCTIONS_PER_SLOT
    }
}

struct Builder<'a> {
    devices: &'a [Device],
    children: &'a [Vec<usize>],
    paths: Vec<String>,
    nodes: Vec<Node>,
    /// Ports and bridges so far: each needs a bus number beside the root's.
    bridges: usize,
}

/// What takes one function of a bus.
enum Item<'a> {
    /// A device of the tree.
    Own(usize),
    /// An added bridge and what goes behind it.
    Added(&'a [usize]),
}

impl Builder<'_> {
    /// Puts `members` on `bus`, behind added bridges where they do not fit.
    fn fill(&mut self, bus: &Bus, members: &[usize]) -> Result<(), LayoutError> {
        let is_port = |i: &usize| self.devices[*i].kind == NodeKind::RootPort;
        let ports = members.iter().filter(|i| is_port(i)).count();
        let full = |at: usize| LayoutError::RootBusFull {
            device: self.devices[at].name.clone(),
            limit: bus.capacity(),
        };
        let split = Split::of(members.len(), bus.capacity(), ports);
        // Ports cannot go behind a bridge: their places are kept.
        let mut free = split.stay.saturating_sub(ports);
        let (mut stay, mut behind) = (Vec::new(), Vec::new());
        for &member in members {
            if is_port(&member) {
                stay.push(member);
            } else if free > 0 {
                free -= 1;
                stay.push(member);
            } else {
                behind.push(member);
            }
        }
        if let Some(&extra) = stay.get(bus.capacity()) {
            return Err(full(extra));
        }
        if let (Some(&first), true) = (behind.first(), stay.len() == bus.capacity()) {
            return Err(full(first));
        }
        let items: Vec<_> = stay
            .into_iter()
            .map(Item::Own)
            .chain(behind.chunks(split.per_bridge).map(Item::Added))
            .collect();
        let count = items.len();
        for (place, item) in items.into_iter().enumerate() {
            let (slot, function) = (
                bus.slots.start + place / FUNCTIONS_PER_SLOT,
                place % FUNCTIONS_PER_SLOT,
            );
            let node = Node {
                device: None,
                kind: NodeKind::Bridge,
                path: format!("{}{slot:02x}.{function:x}", bus.path),
                bus: bus.number,
                below: None,
                several: function == 0 && place + 1 < count,
            };
            match item {
                Item::Own(index) => self.own(index, node)?,
                Item::Added(behind) => self.added_bridge(behind, node)?,
            }
        }
        Ok(())
    }

    fn own(&mut self, index: usize, node: Node) -> Result<(), LayoutError> {
        let device = &self.devices[index];
        let node = Node {
            device: Some(index),
            kind: device.kind,
            ..node
        };
        if device.kind == NodeKind::Endpoint {
            self.nodes.push(node);
            return Ok(());
        }
        let below = self.bridge(&device.name, node)?;
        self.fill(&below, &self.children[index])
    }

    fn added_bridge(&mut self, behind: &[usize], node: Node) -> Result<(), LayoutError> {
        let first = &self.devices[behind[0]].name;
        let below = self.bridge(first, node)?;
        self.fill(&below, behind)
    }

    /// Adds a port or bridge for `device` and returns the bus below it.
    fn bridge(&mut self, device: &str, node: Node) -> Result<Bus, LayoutError> {
        self.bridges += 1;
        let number = self.bridges;
        if number >= MAX_BUSES {
            return Err(LayoutError::TooManyBuses {
                device: device.into(),
                limit: MAX_BUSES,
            });
        }
        let below = Bus {
            number,
            path: format!("{}/", node.path),
            slots: 0..node.kind.places() / FUNCTIONS_PER_SLOT,
        };
        self.nodes.push(Node {
            below: Some(number),
            ..node
        });
        Ok(below)
    }
}

/// How many members stay on a bus, and how many go behind each added bridge.
struct Split {
    stay: usize,
    per_bridge: usize,
}

impl Split {
    /// For `members` on a bus of `capacity` functions of which `fixed` must stay; uses as
    /// few bridges as it can, and where even a bus full of bridges is too small, deals
    /// the rest out evenly, to be split again one level down.
    fn of(members: usize, capacity: usize, fixed: usize) -> Self {
        let full = NodeKind::Bridge.places();
        if members <= capacity {
            return Self {
                stay: members,
                per_bridge: full,
            };
        }
        let bridges = (members - capacity)
            .div_ceil(full - 1)
            .min(capacity.saturating_sub(fixed));
        let stay = capacity - bridges;
        let per_bridge = (members - stay).div_ceil(bridges.max(1)).max(full);
        Self { stay, per_bridge }
    }
}

#[cfg(test)]
mod tests;
