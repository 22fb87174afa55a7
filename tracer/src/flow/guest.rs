// SPDX-License-Identifier: GPL-2.0-or-later
//! What the guest is asked.

/// What can be asked of the guest, at the beginning of a block.
pub trait Guest {
    /// Virtual time at the end of the block that begins, in ns.
    fn now(&mut self) -> i64;
    /// The first argument of the function that begins.
    fn first_argument(&mut self) -> Option<u64>;
    /// The second.
    fn second_argument(&mut self) -> Option<u64>;
    /// The stack pointer.
    fn stack_pointer(&mut self) -> Option<u64>;
    /// Memory of the guest.
    fn read(&mut self, at: u64, length: usize) -> Option<Vec<u8>>;

    /// Eight bytes of it.
    fn pointer(&mut self, at: u64) -> Option<u64> {
        let bytes = self.read(at, 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
    /// A text that ends with a zero.
    fn text(&mut self, at: u64) -> Option<String> {
        let bytes = self.read(at, 48).or_else(|| self.read(at, 16))?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}
