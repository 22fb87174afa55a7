// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that is plugged in: by which device, when, and what becomes of its blocks. What a
//! machine holds is computed here, so that what does not fit is refused before it boots.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    MachineKind, MachineSpec, Metric, Scenario,
    diagnose::Sink,
    memory::{GUEST, LARGE_SECTION, SMALLEST_BLOCK},
    raw,
    room::page_structures,
    tree::At,
    validate::quantity,
};
use crate::core::units::{Bytes, counted};

const GIB: u64 = 1 << 30;
/// QEMU's `ACPI_MAX_RAM_SLOTS`.
const MOST_DIMMS: u64 = 256;
/// QEMU sets aside so much for each slot, so that every DIMM can be aligned.
const PER_SLOT: Bytes = Bytes(GIB);
/// What QEMU's translated CPU addresses: 40 bits.
const ADDRESSES: Bytes = Bytes(1 << 40);
/// q35's window for PCI, which comes after all memory.
const PCI_WINDOW: Bytes = Bytes(32 * GIB);
/// From so much RAM on q35 puts all but the first 2 GiB above 4 GiB.
const SPLIT_FROM: Bytes = Bytes(0xb000_0000);
const BELOW_SPLIT: Bytes = Bytes(2 * GIB);
const FOUR_GIB: Bytes = Bytes(4 * GIB);
/// From so much RAM on the kernel makes blocks of more than a section.
const LARGE_BLOCKS_FROM: Bytes = Bytes(64 * GIB);

/// Which device brings memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryDevice {
    /// DIMMs, told by ACPI.
    #[default]
    PcDimm,
    /// One paravirtual device, whose driver adds a block at a time.
    VirtioMem,
}

/// When memory is plugged in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Before the machine starts: the kernel finds it as it boots.
    Boot,
    /// At an instant that PID 1 chooses, all at once.
    #[default]
    Later,
}

/// What the kernel does with a block that was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Online {
    /// Nothing: it waits for user space, which never comes.
    Offline,
    /// Brings it into use, in the zone that the kernel chooses.
    #[default]
    Online,
    /// Brings it into use for whatever the kernel needs.
    OnlineKernel,
    /// Brings it into use for what can be moved away.
    OnlineMovable,
}

impl Online {
    /// The word of the kernel's `memhp_default_state=`, and the one of scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Offline => "offline",
            Self::Online => "online",
            Self::OnlineKernel => "online_kernel",
            Self::OnlineMovable => "online_movable",
        }
    }
    /// Whether the page structures of all that is added must find room in the RAM that was
    /// there before: what is added cannot hold them.
    fn holds_no_structures(self) -> bool {
        matches!(self, Self::Offline | Self::OnlineMovable)
    }
}

/// What is plugged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plugged {
    /// DIMMs of this size each.
    PcDimm(Bytes),
    /// One virtio-mem.
    VirtioMem,
}

/// How memory is plugged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Hotplug {
    /// What.
    pub plugged: Plugged,
    /// What a memory block is of.
    pub block: Bytes,
    /// When.
    pub when: When,
    /// What becomes of the blocks.
    pub online: Online,
}

impl Hotplug {
    /// How many devices `blocks` blocks come in.
    pub fn devices(self, blocks: u32) -> u64 {
        match self.plugged {
            Plugged::PcDimm(each) => self.size(blocks).0 / each.0,
            Plugged::VirtioMem => 1,
        }
    }

    /// What `blocks` blocks are together.
    pub fn size(self, blocks: u32) -> Bytes {
        Bytes(u64::from(blocks) * self.block.0)
    }

    /// The number of the first block that can have been plugged in, where the machine has
    /// `ram` of its own.
    pub fn first_block(self, ram: Bytes) -> u64 {
        start(ram).0 / self.block.0
    }

    /// What the page structures of `blocks` blocks take of the RAM that is there before.
    fn structures(self, blocks: u32) -> Bytes {
        let at_once = match self.plugged {
            _ if self.online.holds_no_structures() => self.size(blocks),
            Plugged::PcDimm(each) => each,
            Plugged::VirtioMem => self.block,
        };
        page_structures(at_once)
    }

    /// The most blocks for which a machine with `ram` has slots and addresses.
    fn most(self, ram: Bytes) -> u64 {
        let room = room(ram).0;
        match self.plugged {
            Plugged::PcDimm(each) => {
                let dimms = (room / each.0.saturating_add(PER_SLOT.0)).min(MOST_DIMMS);
                dimms * (each.0 / self.block.0)
            }
            Plugged::VirtioMem => room / self.block.0,
        }
    }
}

impl fmt::Display for Hotplug {
    /// `pc-dimm of 128 MiB, while it runs, online_movable`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.plugged {
            Plugged::PcDimm(each) => write!(f, "pc-dimm of {each}")?,
            Plugged::VirtioMem => f.write_str("virtio-mem")?,
        }
        f.write_str(match self.when {
            When::Boot => ", before it boots, ",
            When::Later => ", while it runs, ",
        })?;
        f.write_str(self.online.name())
    }
}

/// Where QEMU's q35 with `ram` puts what is plugged in.
fn start(ram: Bytes) -> Bytes {
    let above = match ram >= SPLIT_FROM {
        true => ram.0 - BELOW_SPLIT.0,
        false => 0,
    };
    Bytes((FOUR_GIB.0 + above).next_multiple_of(GIB))
}

/// The addresses there that a machine with `ram` has for it.
fn room(ram: Bytes) -> Bytes {
    Bytes(ADDRESSES.0 - PCI_WINDOW.0 - start(ram).0)
}

/// The keys of `memory` that are about hotplug, those that `raw` has.
fn said(raw: &raw::Memory) -> impl Iterator<Item = &'static str> {
    [
        ("device", raw.device.is_some()),
        ("dimm", raw.dimm.is_some()),
        ("block", raw.block.is_some()),
        ("when", raw.when.is_some()),
        ("online", raw.online.is_some()),
    ]
    .into_iter()
    .filter_map(|(key, said)| said.then_some(key))
}

/// Complains of keys that say nothing where nothing is plugged in.
pub(super) fn none(raw: &raw::Memory, at: &At<'_>, sink: &mut Sink) {
    for key in said(raw) {
        let at = at.key(key);
        sink.add_with(at.position(), || {
            format!("{at} is about memory that is plugged in (`how: hotplug`); leave it out")
        });
    }
}

/// Reads what `memory` says of hotplug.
pub(super) fn read(raw: &raw::Memory, at: &At<'_>, sink: &mut Sink) -> Option<Hotplug> {
    let block = block(raw.block.as_ref(), &at.key("block"), sink)?;
    let online = raw.online.unwrap_or_default();
    let plugged = match raw.device.unwrap_or_default() {
        MemoryDevice::PcDimm => {
            Plugged::PcDimm(dimm(raw.dimm.as_ref(), block, &at.key("dimm"), sink)?)
        }
        MemoryDevice::VirtioMem => {
            if raw.dimm.is_some() {
                let at = at.key("dimm");
                sink.add_with(at.position(), || {
                    format!("{at} is the size of each pc-dimm, and virtio-mem is one device: leave it out")
                });
                return None;
            }
            if online == Online::Offline {
                let at = at.key("online");
                sink.add_with(at.position(), || {
                    format!("{at}: virtio-mem's driver adds no more once some blocks are offline: take another policy, or `device: pc-dimm`")
                });
                return None;
            }
            Plugged::VirtioMem
        }
    };
    Some(Hotplug {
        plugged,
        block,
        when: raw.when.unwrap_or_default(),
        online,
    })
}

fn block(raw: Option<&raw::Size>, at: &At<'_>, sink: &mut Sink) -> Option<Bytes> {
    let Some(raw) = raw else {
        return Some(LARGE_SECTION);
    };
    let block = quantity(&raw.0, at, sink)?;
    if [SMALLEST_BLOCK, LARGE_SECTION].contains(&block) {
        return Some(block);
    }
    sink.add_with(at.position(), || {
        format!("{at} must be {LARGE_SECTION} (a section of x86) or {SMALLEST_BLOCK} (a kernel of its own, series small-sections), not {block}")
    });
    None
}

fn dimm(raw: Option<&raw::Size>, block: Bytes, at: &At<'_>, sink: &mut Sink) -> Option<Bytes> {
    let Some(raw) = raw else {
        return Some(block);
    };
    let each: Bytes = quantity(&raw.0, at, sink)?;
    if each.0 > 0 && each.0.is_multiple_of(block.0) {
        return Some(each);
    }
    sink.add_with(at.position(), || {
        let smaller = match block == LARGE_SECTION {
            true => format!("; `block: {SMALLEST_BLOCK}` allows smaller ones"),
            false => String::new(),
        };
        format!("{at} must be a multiple of a section, {block}: the kernel adds nothing less, and not {each}{smaller}")
    });
    None
}

/// Whether `blocks` blocks come in whole DIMMs.
pub(super) fn whole(hotplug: Hotplug, blocks: u32, at: &At<'_>, sink: &mut Sink) -> bool {
    let Plugged::PcDimm(each) = hotplug.plugged else {
        return true;
    };
    let whole = hotplug.size(blocks).0.is_multiple_of(each.0);
    if !whole {
        sink.add_with(at.position(), || {
            let per = each.0 / hotplug.block.0;
            format!("{at}: {blocks} blocks of {} are no whole DIMMs of {each}: take a multiple of {per}", hotplug.block)
        });
    }
    whole
}

/// Checks what is plugged in against the machine and what is measured; `at` is the scenario.
pub(super) fn check(scenario: &Scenario, at: &At<'_>, sink: &mut Sink) {
    let memory = scenario.memory;
    match memory.and_then(|m| Some((m.hotplug()?, m.blocks))) {
        Some((hotplug, blocks)) => fits(hotplug, blocks, &scenario.machine, at, sink),
        // A `memory` that is wrong has been told.
        None if scenario.metrics.contains(&Metric::Hotplug) && sink.is_empty() => {
            sink.add_with(at.key("measure").position(), || {
                "`hotplug` is measured, and no `memory` with `how: hotplug` says what is plugged in"
                    .into()
            });
        }
        None => {}
    }
}

/// Checks that `machine` can have `blocks` blocks plugged in.
fn fits(hotplug: Hotplug, blocks: u32, machine: &MachineSpec, at: &At<'_>, sink: &mut Sink) {
    let (memory, ram) = (at.key("memory"), machine.memory);
    if machine.kind != MachineKind::Q35 {
        let at = memory.key("how");
        sink.add_with(at.position(), || {
            format!("{at}: a microvm has no memory hotplug; say `machine: {{type: q35}}`")
        });
        return;
    }
    if ram >= LARGE_BLOCKS_FROM {
        let machine = at.key("machine");
        let at = machine.key("memory");
        sink.add_with(at.position(), || {
            format!("{at}: with {LARGE_BLOCKS_FROM} or more the kernel makes its blocks larger than a section; give it less, and plug in the rest")
        });
        return;
    }
    let most = hotplug.most(ram);
    if u64::from(blocks) > most {
        let at = memory.key("blocks");
        sink.add_with(at.position(), || {
            too_many(&at.to_string(), hotplug, blocks, ram)
        });
        return;
    }
    let structures = hotplug.structures(blocks);
    let needed = Bytes((structures.0 + GUEST.0).next_multiple_of(1 << 20));
    // Where the size is missing or wrong, that has been said.
    if ram < needed && sink.is_empty() {
        let machine = at.key("machine");
        let at = machine.key("memory");
        sink.add_with(at.position(), || {
            format!("{at}: {ram} do not hold the page structures of what is plugged in, {} MiB (a 64th of it), beside the guest; give it {needed} or more", structures.0.div_ceil(1 << 20))
        });
    }
}

fn too_many(at: &str, hotplug: Hotplug, blocks: u32, ram: Bytes) -> String {
    let (block, most) = (hotplug.block, hotplug.most(ram));
    let devices = hotplug.devices(blocks);
    match hotplug.plugged {
        Plugged::PcDimm(each) if most == 0 => {
            let largest = (room(ram).0 - PER_SLOT.0) / block.0 * block.0;
            format!(
                "{at}: a DIMM of {each} goes beyond the {ADDRESSES} that QEMU's translated CPU addresses: beside slots and PCI the largest is one of {}",
                Bytes(largest)
            )
        }
        Plugged::PcDimm(each) if devices > MOST_DIMMS => format!(
            "{at}: {blocks} blocks of {block} in DIMMs of {each} are {}, and the machine has {MOST_DIMMS} slots: take a larger `dimm`, `device: virtio-mem`, or {most} blocks",
            counted(usize::try_from(devices).unwrap_or(usize::MAX), "DIMM")
        ),
        _ => format!(
            "{at}: {blocks} blocks of {block}, with what QEMU sets aside for slots and PCI, go beyond the {ADDRESSES} that its translated CPU addresses: take {most} or fewer"
        ),
    }
}
