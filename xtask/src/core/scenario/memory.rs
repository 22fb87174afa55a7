// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines with many memory blocks: how many, and how they come to be.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    diagnose::Sink,
    hotplug::{self, Hotplug},
    raw,
    tree::At,
};
use crate::core::units::{Bytes, counted};

/// The smallest memory block that x86 can have: its page tables' step below would be less
/// than the largest page block, and than a subsection.
pub const SMALLEST_BLOCK: Bytes = Bytes(4 << 20);
/// A section of memory where nothing is changed.
pub(super) const LARGE_SECTION: Bytes = Bytes(128 << 20);
/// Fewer of the smallest do not boot.
const FEWEST_REAL: u32 = 16;
/// 768 GiB in the smallest blocks: QEMU's translated CPU addresses 1 TiB, and the PCI
/// windows lie above RAM.
const MOST_REAL: u32 = 192 << 10;
/// What a guest keeps of a synthetic block: 512 MiB are enough for 131,072 on 6.1, 320 MiB are not.
const KEPT_PER_SYNTHETIC: Bytes = Bytes(3 << 10);
/// What a guest takes beside.
pub(super) const GUEST: Bytes = Bytes(64 << 20);
/// As many names as the guest's module makes.
const MOST_SYNTHETIC: u32 = 1 << 20;

/// The word for how a scenario's memory blocks come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "How")]
pub enum HowWord {
    /// RAM in sections of 4 MiB (series `small-sections`): each block has its page
    /// structures, and the guest's RAM is as many blocks.
    Real,
    /// Memory that is plugged into the machine, before it boots or while it runs.
    Hotplug,
    /// A guest module's devices with the names, attributes and uevents of memory blocks, and
    /// no memory behind them.
    Synthetic,
}

/// How a scenario's memory blocks come to be, with all that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// See [`HowWord::Real`].
    Real,
    /// See [`HowWord::Hotplug`].
    Hotplug(Hotplug),
    /// See [`HowWord::Synthetic`].
    Synthetic,
}

impl How {
    /// The name used in YAML and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Hotplug(_) => "hotplug",
            Self::Synthetic => "synthetic",
        }
    }
    /// The word of the file.
    pub(super) fn word(self) -> HowWord {
        match self {
            Self::Real => HowWord::Real,
            Self::Hotplug(_) => HowWord::Hotplug,
            Self::Synthetic => HowWord::Synthetic,
        }
    }
}

impl fmt::Display for How {
    /// `real`, `hotplug (pc-dimm of 128 MiB, while it runs, online)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Hotplug(hotplug) => write!(f, " ({hotplug})"),
            Self::Real | Self::Synthetic => Ok(()),
        }
    }
}

/// A scenario's memory blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Memory {
    /// How many: with `Real` all that there are, else beside those of the guest's own RAM.
    pub blocks: u32,
    /// How they come to be.
    pub how: How,
}

impl Memory {
    /// The guest's RAM that makes as many real blocks. It ends within the last block: the
    /// kernel enlarges its blocks as far as the end of RAM allows, and so does not.
    pub fn ram(self) -> Option<Bytes> {
        let all = u64::from(self.blocks) * SMALLEST_BLOCK.0;
        (self.how == How::Real).then(|| Bytes(all - (1 << 20)))
    }

    /// How its blocks are plugged in, where they are.
    pub fn hotplug(self) -> Option<Hotplug> {
        match self.how {
            How::Hotplug(hotplug) => Some(hotplug),
            How::Real | How::Synthetic => None,
        }
    }

    /// Whether sections, and with them blocks, are of 4 MiB, which takes a kernel of its own.
    pub fn small_sections(self) -> bool {
        match self.how {
            How::Real => true,
            How::Hotplug(hotplug) => hotplug.block == SMALLEST_BLOCK,
            How::Synthetic => false,
        }
    }

    /// What a guest with `ram` should show. Others than real blocks stand beside the RAM's own,
    /// which are of 128 MiB up to 64 GiB of RAM and may be cut where RAM has a hole.
    pub fn wanted(self, ram: Bytes) -> Wanted {
        let blocks = u64::from(self.blocks);
        match self.how {
            How::Real => Wanted {
                least: blocks,
                most: blocks,
                size: Some(SMALLEST_BLOCK),
            },
            How::Hotplug(hotplug) => Wanted {
                least: blocks + 1,
                most: blocks + ram.0.div_ceil(hotplug.block.0) + 1,
                size: Some(hotplug.block),
            },
            How::Synthetic => Wanted {
                least: blocks + 1,
                most: blocks + ram.0.div_ceil(LARGE_SECTION.0) + 1,
                size: None,
            },
        }
    }
}

impl fmt::Display for Memory {
    /// `4096 real memory blocks`, `64 hotplug memory blocks (pc-dimm of 128 MiB, ...)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = format!("{} memory block", self.how.name());
        f.write_str(&counted(self.blocks as usize, &what))?;
        match self.hotplug() {
            Some(hotplug) => write!(f, " ({hotplug})"),
            None => Ok(()),
        }
    }
}

/// Complains where the RAM of the guest, `ram`, does not hold the synthetic blocks of `memory`.
pub(super) fn holds(memory: Memory, ram: Bytes, at: &At<'_>, sink: &mut Sink) {
    let kept = u64::from(memory.blocks) * KEPT_PER_SYNTHETIC.0;
    let needed = Bytes((kept + GUEST.0).next_multiple_of(1 << 20));
    // Where a number is wrong, that has been said.
    if memory.how == How::Synthetic && ram < needed && sink.is_empty() {
        let machine = at.key("machine");
        let at = machine.key("memory");
        sink.add_with(at.position(), || {
            format!(
                "{at}: {ram} do not hold {} synthetic memory blocks; give it {needed} or more",
                memory.blocks
            )
        });
    }
}

/// The most blocks that a guest with `ram` shows, with those of `memory` if it has any.
pub(super) fn most_blocks(memory: Option<Memory>, ram: Bytes) -> u64 {
    match memory {
        Some(memory) => memory.wanted(ram).most,
        None => ram.0.div_ceil(LARGE_SECTION.0) + 1,
    }
}

/// What a guest should show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    least: u64,
    most: u64,
    size: Option<Bytes>,
}

impl Wanted {
    /// Whether it shows that.
    pub fn fits(self, blocks: u64, size: Bytes) -> bool {
        (self.least..=self.most).contains(&blocks) && self.size.is_none_or(|s| s == size)
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.least == self.most {
            true => write!(f, "{} memory blocks", self.least)?,
            false => write!(f, "{} to {} memory blocks", self.least, self.most)?,
        }
        self.size
            .iter()
            .try_for_each(|size| write!(f, " of {size}"))
    }
}

/// Reads `memory`; `None` where it is left out, or wrong.
pub(super) fn read(raw: Option<&raw::Memory>, at: &At<'_>, sink: &mut Sink) -> Option<Memory> {
    let raw = raw?;
    let (least, most) = match raw.how {
        HowWord::Real => (FEWEST_REAL, MOST_REAL),
        // What a machine holds is looked at when it is known.
        HowWord::Hotplug => (1, MOST_SYNTHETIC),
        HowWord::Synthetic => (1, MOST_SYNTHETIC),
    };
    let blocks = at.key("blocks");
    if !(least..=most).contains(&raw.blocks) {
        sink.add_with(blocks.position(), || match raw.how {
            HowWord::Real => format!(
                "{blocks} must be {least} (less than 64 MiB does not boot) to {most} (what the machine can address beside its PCI windows), not {}",
                raw.blocks
            ),
            HowWord::Hotplug | HowWord::Synthetic => {
                format!("{blocks} must be {least} to {most}, not {}", raw.blocks)
            }
        });
        return None;
    }
    let how = match raw.how {
        HowWord::Hotplug => {
            let hotplug = hotplug::read(raw, at, sink)?;
            hotplug::whole(hotplug, raw.blocks, &blocks, sink).then_some(How::Hotplug(hotplug))?
        }
        other => {
            hotplug::none(raw, at, sink);
            match other {
                HowWord::Real => How::Real,
                _ => How::Synthetic,
            }
        }
    };
    Some(Memory {
        blocks: raw.blocks,
        how,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_should_show() {
        let memory = |blocks, how| Memory { blocks, how };
        let real = memory(102_401, How::Real);
        let ram = real.ram().unwrap();
        // Not a multiple of any larger block.
        assert_eq!(ram.0 % (2 << 20), 1 << 20);
        let wanted = real.wanted(ram);
        assert!(wanted.fits(102_401, SMALLEST_BLOCK));
        assert!(!wanted.fits(102_400, SMALLEST_BLOCK));
        assert!(!wanted.fits(102_401, LARGE_SECTION));
        assert_eq!(wanted.to_string(), "102401 memory blocks of 4 MiB");

        let synthetic = memory(1000, How::Synthetic);
        assert_eq!(synthetic.ram(), None);
        let wanted = synthetic.wanted(Bytes(1 << 30));
        assert!(wanted.fits(1008, LARGE_SECTION) && !wanted.fits(1000, LARGE_SECTION));
        assert!(!wanted.fits(1010, LARGE_SECTION));
    }
}
