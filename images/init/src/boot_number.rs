// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which boot of the machine this is, kept in the battery-backed clock's memory (CMOS),
//! which a reset leaves alone.

use crate::sys;

/// Two bytes that neither SeaBIOS, microvm's firmware nor Linux uses.
const AT: u8 = 0x6c;
/// Marks the byte as ours; the low half is the number.
const MAGIC: u8 = 0xb0;

/// This boot's number, from 1; remembers it for the next one.
pub fn advance() -> u8 {
    let number = next([read(AT), read(AT + 1)]);
    for (at, value) in (AT..).zip(stored(number)) {
        write(at, value);
    }
    number
}

/// The number and, so that garbage is no number, its complement.
fn stored(number: u8) -> [u8; 2] {
    let byte = MAGIC | number;
    [byte, !byte]
}

fn next(before: [u8; 2]) -> u8 {
    // No number is ever taken for a first boot once one was stored: that would be a
    // machine that boots for ever.
    (1..=15)
        .find(|n| stored(*n) == before)
        .map_or(1, |n| (n + 1).min(15))
}

fn read(at: u8) -> u8 {
    sys::write_port(sys::CMOS_PORT, at);
    sys::read_port(sys::CMOS_PORT + 1)
}

fn write(at: u8, value: u8) {
    sys::write_port(sys::CMOS_PORT, at);
    sys::write_port(sys::CMOS_PORT + 1, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_a_first_boot() {
        for garbage in [
            [0, 0],
            [0xff, 0xff],
            [0xb1, 0xb1],
            [0xb0, 0x4f],
            [0x31, 0xce],
        ] {
            assert_eq!(next(garbage), 1, "{garbage:x?}");
        }
    }

    #[test]
    fn counts_and_never_starts_over() {
        let mut number = next([0, 0]);
        for expect in 1..40 {
            assert_eq!(number, expect.min(15));
            number = next(stored(number));
        }
    }
}
