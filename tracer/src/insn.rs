// SPDX-License-Identifier: GPL-2.0-or-later
//! What an x86-64 instruction does to the flow of control. Only the last instruction of a
//! translated block can do anything.

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// It falls through, or jumps.
    Plain,
    /// A call.
    Call,
    /// A return to where a call came from.
    Ret,
    /// A return from an interrupt or a system call.
    Iret,
    /// The CPU halts until the next interrupt.
    Halt,
}

/// The end of a block whose last instruction is `bytes` at `pc`, and where it goes if that
/// stands in the instruction itself (else 0).
pub fn classify(bytes: &[u8], pc: u64) -> (End, u64) {
    let mut at = 0;
    let mut repeated = false;
    // Legacy prefixes in any order, then at most one REX.
    while let Some(0x66 | 0x67 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65) =
        bytes.get(at)
    {
        repeated |= matches!(bytes[at], 0xf2 | 0xf3);
        at += 1;
    }
    if let Some(0x40..=0x4f) = bytes.get(at) {
        at += 1;
    }
    let next = pc.wrapping_add(bytes.len() as u64);
    let near = || {
        let tail = bytes.len().checked_sub(4).map(|from| &bytes[from..]);
        let tail = tail.and_then(|t| t.try_into().ok()).map(i32::from_le_bytes);
        tail.map_or(0, |by| next.wrapping_add_signed(by.into()))
    };
    let short = || {
        bytes
            .last()
            .map_or(0, |by| next.wrapping_add_signed((*by as i8).into()))
    };
    let (Some(first), second) = (bytes.get(at), bytes.get(at + 1)) else {
        return (End::Plain, 0);
    };
    match (first, second) {
        // Each repetition of a string instruction begins a block with it.
        (0xa4..=0xa7 | 0xaa..=0xaf | 0x6c..=0x6f, _) if repeated => (End::Plain, pc),
        (0xe8, _) => (End::Call, near()),
        (0xe9, _) => (End::Plain, near()),
        (0xeb | 0x70..=0x7f | 0xe0..=0xe3, _) => (End::Plain, short()),
        (0xc2 | 0xc3 | 0xca | 0xcb, _) => (End::Ret, 0),
        (0xcf, _) => (End::Iret, 0),
        (0xf4, _) => (End::Halt, 0),
        (0xff, Some(modrm)) if matches!(modrm >> 3 & 7, 2 | 3) => (End::Call, 0),
        (0x0f, Some(0x80..=0x8f)) => (End::Plain, near()),
        (0x0f, Some(0x07 | 0x35)) => (End::Iret, 0),
        // mwait
        (0x0f, Some(0x01)) if bytes.get(at + 2) == Some(&0xc9) => (End::Halt, 0),
        _ => (End::Plain, 0),
    }
}

/// Whether a block's last instruction always goes elsewhere: an unconditional jump.
pub fn is_jump(bytes: &[u8]) -> bool {
    let plain = bytes
        .iter()
        .position(|b| !matches!(b, 0x2e | 0x3e | 0x66 | 0xf2 | 0xf3 | 0x40..=0x4f));
    plain.is_some_and(|at| matches!(bytes[at], 0xe9 | 0xeb))
}

/// Whether it is a jump to where a register or memory says.
pub fn is_indirect_jump(bytes: &[u8]) -> bool {
    let plain = bytes
        .iter()
        .position(|b| !matches!(b, 0x2e | 0x3e | 0x66 | 0xf2 | 0xf3 | 0x40..=0x4f));
    let code = plain.map(|at| &bytes[at..]);
    matches!(code, Some([0xff, modrm, ..]) if matches!(modrm >> 3 & 7, 4 | 5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_block() {
        let pc = 0xffff_ffff_8100_0000;
        for (bytes, want) in [
            (&[0xe8, 0x10, 0, 0, 0][..], (End::Call, pc + 0x15)),
            (&[0xe8, 0xfb, 0xff, 0xff, 0xff], (End::Call, pc)),
            (&[0xe9, 0, 0, 0, 0], (End::Plain, pc + 5)),
            (&[0xeb, 0xfe], (End::Plain, pc)),
            (&[0x75, 2], (End::Plain, pc + 4)),
            (&[0x0f, 0x84, 0xfa, 0xff, 0xff, 0xff], (End::Plain, pc)),
            (&[0xc3], (End::Ret, 0)),
            (&[0xf3, 0xc3], (End::Ret, 0)),
            (&[0x48, 0xcb], (End::Ret, 0)),
            (&[0xff, 0xd0], (End::Call, 0)),
            (&[0x41, 0xff, 0x55, 8], (End::Call, 0)),
            (&[0x3e, 0xff, 0xe0], (End::Plain, 0)),
            (&[0xff, 0x30], (End::Plain, 0)),
            (&[0x48, 0xcf], (End::Iret, 0)),
            (&[0x48, 0x0f, 0x07], (End::Iret, 0)),
            (&[0xf4], (End::Halt, 0)),
            (&[0x0f, 0x01, 0xc9], (End::Halt, 0)),
            (&[0x0f, 0x01, 0xca], (End::Plain, 0)),
            (&[0xf3, 0xaa], (End::Plain, pc)),
            (&[0xf3, 0x48, 0xab], (End::Plain, pc)),
            (&[0xaa], (End::Plain, 0)),
            (&[0xf3, 0x90], (End::Plain, 0)),
            (&[0x90], (End::Plain, 0)),
            (&[], (End::Plain, 0)),
            (&[0x66], (End::Plain, 0)),
            (&[0xe8], (End::Call, 0)),
        ] {
            assert_eq!(classify(bytes, pc), want, "{bytes:x?}");
        }
    }

    #[test]
    fn a_jump_is_one_that_is_always_taken() {
        assert!(is_jump(&[0xe9, 0, 0, 0, 0]) && is_jump(&[0x3e, 0xeb, 0]));
        assert!(!is_jump(&[0x75, 0]) && !is_jump(&[0xc3]) && !is_jump(&[]));
        assert!(is_indirect_jump(&[0xff, 0xe0]) && is_indirect_jump(&[0x3e, 0x41, 0xff, 0xe3]));
        assert!(!is_indirect_jump(&[0xff, 0xd0]) && !is_indirect_jump(&[0xe9, 0, 0, 0, 0]));
        assert!(!is_indirect_jump(&[0xff]) && !is_indirect_jump(&[]));
    }
}
