// SPDX-License-Identifier: GPL-2.0-or-later
//! Which CPU runs. QEMU tells each callback a CPU's number; but where all CPUs share one
//! thread, QEMU 10.0 (and whatever has the same shortcut) writes that number into a block when
//! it translates it: later it is the number of the CPU that came there first, whichever runs.
//! What QEMU itself takes for the running CPU is always right.

/// QEMU's structure of a CPU, by its address; only compared.
pub type Handle = usize;

/// The CPUs by their structures.
#[derive(Default)]
pub struct Cpus {
    known: Vec<(Handle, usize)>,
    /// The one that was asked for last: CPUs take turns of thousands of blocks.
    recent: (Handle, usize),
}

impl Cpus {
    /// The CPU with this number has this structure.
    pub fn appears(&mut self, handle: Handle, number: usize) {
        self.known.retain(|(_, n)| *n != number);
        self.known.push((handle, number));
        self.recent = (handle, number);
    }

    /// The number of the CPU with this structure, if it was asked for last.
    #[inline(always)]
    pub fn recent(&self, handle: Handle) -> Option<usize> {
        (handle == self.recent.0).then_some(self.recent.1)
    }

    /// The number of the CPU with this structure; `told`, where it is not known.
    #[inline(always)]
    pub fn number(&mut self, handle: Handle, told: usize) -> usize {
        if handle != self.recent.0 {
            self.look_up(handle, told);
        }
        self.recent.1
    }

    #[inline(never)]
    fn look_up(&mut self, handle: Handle, told: usize) {
        let found = self.known.iter().find(|(h, _)| *h == handle);
        self.recent = (handle, found.map_or(told, |f| f.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_cpu_counts_and_not_who_translated_the_block() {
        let mut cpus = Cpus::default();
        cpus.appears(0x1000, 0);
        cpus.appears(0x2000, 1);
        // Every block was translated by CPU 0.
        let ran = [0x1000, 0x2000, 0x2000, 0x1000].map(|handle| cpus.number(handle, 0));
        assert_eq!(ran, [0, 1, 1, 0]);
        // A structure that never appeared: QEMU's word is all there is, each time anew.
        assert_eq!(cpus.number(0x3000, 1), 1);
        assert_eq!(cpus.number(0x1000, 1), 0);
        // One that went and came again elsewhere.
        cpus.appears(0x4000, 1);
        assert_eq!([cpus.number(0x2000, 0), cpus.number(0x4000, 0)], [0, 1]);
    }
}
