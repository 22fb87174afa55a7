// SPDX-License-Identifier: GPL-2.0-or-later
//! Translated blocks, as far as following them needs.

use super::OUTSIDE;
use crate::{insn::End, spec::Flags};

/// No block of any function goes on quietly where this one may.
const NEVER_COMES: u32 = u32::MAX - 3;
/// After such a block none goes on quietly.
pub const NEVER_AFTER: u32 = u32::MAX - 4;

/// A translated block; lives as long as QEMU does. What the usual cases look at is in one line
/// of the CPU's caches.
#[repr(C, align(64))]
pub struct Block {
    /// Address of the first instruction.
    pub pc: u64,
    /// Bytes, less one.
    pub span: u64,
    /// Instructions.
    pub count: i64,
    /// Of which function the block before must have been for this one to change nothing but a
    /// count.
    pub comes: u32,
    /// Blocks of which function may come after it like that.
    pub after: u32,
    /// Address behind it.
    pub next: u64,
    /// Where its last instruction goes, if it says so; else 0.
    pub target: u64,
    /// The function's number.
    pub function: u32,
    /// The function's, and [`Flags::ENTRY`].
    pub flags: Flags,
    /// How it ends.
    pub end: End,
    /// Where each instruction begins, from `pc` on.
    pub offsets: &'static [u16],
}

impl Block {
    /// The block of `count` instructions from `pc` to `next`, in a place as
    /// [`super::Flow::place`] says, that ends as [`crate::insn::classify`] says.
    pub const fn new(
        (pc, next, count): (u64, u64, i64),
        (function, flags): (u32, Flags),
        (end, target): (End, u64),
        offsets: &'static [u16],
    ) -> Self {
        Self {
            pc,
            span: next.wrapping_sub(pc).wrapping_sub(1),
            count,
            comes: if flags.0 == 0 { function } else { NEVER_COMES },
            after: if matches!(end, End::Plain) {
                function
            } else {
                NEVER_AFTER
            },
            next,
            target,
            function,
            flags,
            end,
            offsets,
        }
    }
}

/// Stands for what went before where nothing is known, and after a return from an interrupt.
pub static NOTHING: Block = Block {
    span: 0,
    ..Block::new((0, 1, 0), (OUTSIDE, Flags(0)), (End::Plain, 0), &[])
};
