// SPDX-License-Identifier: MIT OR Apache-2.0
//! An option ROM that halts once before each boot, so that virtual time repeats across a
//! reset.
//!
//! QEMU resets the machine on its main thread while the thread of the guest's CPUs may or
//! may not have stopped already; with several CPUs the round-robin timer between them then
//! runs on in one phase or another. When all CPUs are idle that timer starts anew, in
//! phase with the guest: one HLT with interrupts on, woken by the PIT's 18 Hz tick, is
//! enough. It costs up to 55 ms of guest time before the kernel starts, counted as
//! firmware, and none of the host's.

/// Size of the ROM: one block.
const SIZE: usize = 512;

/// The ROM's bytes.
pub fn sync_rom() -> Vec<u8> {
    // Signature, length in blocks; then at the entry: pushf; sti; hlt; popf; retf.
    let mut rom = vec![0x55, 0xaa, 1, 0x9c, 0xfb, 0xf4, 0x9d, 0xcb];
    rom.resize(SIZE, 0);
    // Firmware runs a ROM only if its bytes add up to zero.
    let sum = rom.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    rom[SIZE - 1] = sum.wrapping_neg();
    rom
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds_up_to_zero() {
        let rom = super::sync_rom();
        assert_eq!(rom.len(), 512);
        assert_eq!(rom.iter().fold(0u8, |s, b| s.wrapping_add(*b)), 0);
    }
}
