// SPDX-License-Identifier: MIT OR Apache-2.0
//! What guests take of the host's memory. It is taken as it is touched, so that a guest may have
//! far more than the host; but its kernel touches the structures of all its pages at once.

use std::num::NonZeroUsize;

use super::{How, Memory, SMALLEST_BLOCK, Scenario};
use crate::core::units::Bytes;

/// A page, and the `struct page` that stands for it.
const PAGE: u64 = 4096;
const STRUCTURE: u64 = 64;
/// What sysfs keeps of a memory block (about 18 nodes).
const BLOCK_IN_SYSFS: u64 = 4 << 10;
/// What a guest and its QEMU take beside its memory blocks.
const QEMU_AND_KERNEL: Bytes = Bytes(512 << 20);

/// What the structures of all pages of `memory` take.
pub(super) fn page_structures(memory: Bytes) -> Bytes {
    Bytes(memory.0 / (PAGE / STRUCTURE))
}

impl Memory {
    /// What a guest touches for each block with memory behind it.
    fn touched(self) -> Option<Bytes> {
        let block = match self.how {
            How::Real => SMALLEST_BLOCK,
            How::Hotplug(hotplug) => hotplug.block,
            How::Synthetic => return None,
        };
        Some(Bytes(page_structures(block).0 + BLOCK_IN_SYSFS))
    }

    /// What the host must have for a guest whose blocks have memory: the rest of that is never
    /// touched.
    pub fn host_need(self) -> Option<Bytes> {
        let blocks = u64::from(self.blocks);
        Some(Bytes(blocks * self.touched()?.0 + QEMU_AND_KERNEL.0))
    }
}

impl Scenario {
    /// The least that the host must have for a guest.
    fn host_need(&self) -> Bytes {
        let blocks = self.memory.and_then(Memory::host_need);
        let structures = page_structures(self.machine.memory);
        blocks.map_or(structures, |blocks| blocks.max(structures))
    }

    /// Why no guest runs where `free` are.
    fn does_not_fit(&self, free: Bytes) -> String {
        let mib = |b: Bytes| b.0 >> 20;
        let (name, need, free) = (&self.name, mib(self.host_need()), mib(free));
        match self.memory.and_then(|m| Some((m, m.touched()?))) {
            Some((memory, each)) => format!(
                "scenario {name}: {} memory blocks need {need} MiB of the host's memory ({} KiB of page structures and sysfs a block, {} MiB for the guest and its QEMU), and {free} MiB are available: take fewer, or `how: synthetic`",
                memory.blocks,
                each.0 >> 10,
                mib(QEMU_AND_KERNEL)
            ),
            None => format!(
                "scenario {name}: a guest with {} needs {need} MiB of the host's memory for its page structures alone, and {free} MiB are available: give it less",
                self.machine.memory
            ),
        }
    }
}

/// How many guests side by side fit the `free` memory of a host, whichever of `scenarios` they
/// are of; 0: it does not say what is free.
///
/// # Errors
/// Why not even one does.
pub fn guests_that_fit<'s>(
    scenarios: impl IntoIterator<Item = &'s Scenario>,
    free: Bytes,
) -> Result<NonZeroUsize, String> {
    let largest = scenarios.into_iter().max_by_key(|s| s.host_need());
    let Some(largest) = largest.filter(|_| free.0 > 0) else {
        return Ok(NonZeroUsize::MAX);
    };
    let fit = free.0.checked_div(largest.host_need().0);
    let fit = fit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    NonZeroUsize::new(fit).ok_or_else(|| largest.does_not_fit(free))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::scenario::{Known, parse};

    fn of(memory: &str) -> Scenario {
        let text = format!(
            "about: x\nkernel: \"6.1\"\nmachine: {{cpus: 1{memory}\nvariants:\n  stock: {{order: serial}}\nmeasure: [boot]\n"
        );
        parse("s.yaml", &text, &Known::default()).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn no_more_than_fit_and_it_is_said_why_none_does() {
        let real = of("}\nmemory: {blocks: 102401, how: real}");
        let (large, small) = (of(", memory: 64 GiB}"), of(", memory: 256 MiB}"));
        let fit = |of: &[&Scenario], mib: u64| {
            guests_that_fit(of.iter().copied(), Bytes(mib << 20)).map(NonZeroUsize::get)
        };
        assert_eq!(fit(&[&real, &small], 23 << 10), Ok(3));
        assert_eq!(fit(&[&large], 3 << 10), Ok(3));
        assert_eq!(fit(&[&large], 1024), Ok(1));
        assert_eq!(fit(&[&small], 1024), Ok(256));
        // Nobody knows what is free, or nobody boots.
        assert_eq!(fit(&[&real], 0), Ok(usize::MAX));
        assert_eq!(fit(&[], 1), Ok(usize::MAX));
        for (of, free, want) in [
            (
                &real,
                4096,
                "scenario s: 102401 memory blocks need 7312 MiB of the host's memory (68 KiB of",
            ),
            (
                &large,
                1023,
                "scenario s: a guest with 64 GiB needs 1024 MiB of the host's memory for its page",
            ),
        ] {
            let why = fit(&[&small, of], free).unwrap_err();
            let free = format!("and {free} MiB are available");
            assert!(why.starts_with(want) && why.contains(&free), "{why}");
        }
    }
}
