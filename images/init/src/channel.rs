// SPDX-License-Identifier: MIT OR Apache-2.0
//! The byte channel to the host, and the port that ends the machine.

use std::{
    arch::asm,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{clock, failure::Failure, shutdown, sys};

/// QEMU's `isa-debugcon`; not the usual 0x402, where firmware logs.
const PORT: u16 = 0x505;
/// QEMU's `isa-debug-exit`: a byte V ends the machine with exit status 2 V + 1.
const EXIT_PORT: u16 = 0x501;

/// The guest's time in which the machine ends, if it can.
const PATIENCE: u64 = 1_000_000_000;

/// All done: exit status 33.
pub const FINISHED: u8 = 0x10;
/// Given up after an `error` line: exit status 35.
pub const FAILED: u8 = 0x11;

/// Lines written in this boot.
static LINES: AtomicU32 = AtomicU32::new(0);

/// All ports that PID 1 needs, those of [`crate::boot_number`] too.
const PORTS: [(u16, u16); 3] = [(PORT, 1), (EXIT_PORT, 1), (sys::CMOS_PORT, 2)];

/// Gets the right to use them.
pub fn open() -> Result<(), Failure> {
    for (from, count) in PORTS {
        sys::allow_ports(from, count).map_err(|()| Failure::last("ioperm"))?;
    }
    Ok(())
}

/// Gives the right back: whoever has it pays for it at each switch of tasks, and hands it on
/// to its children.
pub fn close() -> Result<(), Failure> {
    for (from, count) in PORTS {
        sys::deny_ports(from, count).map_err(|()| Failure::last("ioperm"))?;
    }
    Ok(())
}

/// Lines written so far.
pub fn lines() -> u32 {
    LINES.load(Ordering::Relaxed)
}

/// Goes on after so many lines, which another process of ours wrote.
pub fn resume(lines: u32) {
    LINES.store(lines, Ordering::Relaxed);
}

/// Writes one line.
pub fn say(body: &str) {
    write(line(LINES.fetch_add(1, Ordering::Relaxed), body).as_bytes());
}

/// Writes the last line of this boot.
pub fn end() {
    say(&format!("end lines={}", LINES.load(Ordering::Relaxed)));
}

/// A child has written `lines` lines since it was forked.
pub fn child_wrote(lines: u32) {
    LINES.fetch_add(lines, Ordering::Relaxed);
}

/// Ends the machine.
pub fn exit(value: u8) -> ! {
    sys::write_port(EXIT_PORT, value);
    // QEMU may let us go on until its main loop has the turn, which a busy host can delay: what
    // is done meanwhile would be told behind the end.
    clock::spin(PATIENCE);
    // There is no such device here.
    shutdown::power_off_now()
}

fn line(seq: u32, body: &str) -> String {
    let mut line = format!("bootrig1 i {seq} {body}");
    let check = fnv1a(line.as_bytes());
    line.push_str(&format!(" #{check:08x}\n"));
    line
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// One string instruction: under KVM the whole line is one exit, not one a byte.
fn write(bytes: &[u8]) {
    // SAFETY: reads `bytes` only; `open` got the right to the port, or the kernel ends us.
    unsafe {
        asm!("rep outsb", in("dx") PORT, inout("rsi") bytes.as_ptr() => _,
             inout("rcx") bytes.len() => _, options(readonly, nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_is_fnv1a() {
        // The published test vectors.
        for (text, hash) in [
            ("", 0x811c_9dc5),
            ("a", 0xe40c_292c),
            ("foobar", 0xbf9c_f968),
        ] {
            assert_eq!(fnv1a(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn line_has_source_sequence_and_check() {
        let text = line(7, "end lines=7");
        let (content, check) = text.split_once(" #").unwrap();
        assert_eq!(content, "bootrig1 i 7 end lines=7");
        assert_eq!(check, format!("{:08x}\n", fnv1a(content.as_bytes())));
    }
}
