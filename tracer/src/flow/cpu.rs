// SPDX-License-Identifier: GPL-2.0-or-later
//! A CPU of the guest: what it last did, and the stack of frames of the task that it runs.

use super::{Block, IN_FIRMWARE, NEVER_AFTER, NOTHING};
use crate::{
    calls::{FIRMWARE, Node},
    insn::End,
};

/// What a frame is of.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A function that was called.
    Call,
    /// An interrupt or exception; afterwards the CPU goes on as if it had last run this.
    Interrupt(&'static Block),
}

/// A function that has not returned.
#[derive(Clone, Copy)]
pub struct Frame {
    pub kind: Kind,
    /// Where it was called from, in the tree.
    pub base: Node,
    pub node: Node,
    pub function: u32,
    /// Where it returns to.
    pub back: u64,
    /// Its mark; 0: none.
    pub serial: u32,
}

/// One CPU.
#[repr(C)]
pub struct Cpu {
    // What is looked at for each block comes first.
    /// Blocks of which function may come now and change nothing but a count.
    pub quiet: u32,
    pub node: Node,
    /// Of the block before: address and bytes, less one.
    pc: u64,
    span: u64,
    /// Instructions not yet given to `node`.
    pub pending: i64,
    /// So much of the block before was taken back on the clock's word.
    pub taken: i64,
    /// The block before.
    pub last: &'static Block,
    pub function: u32,
    pub frames: Vec<Frame>,
    pub task: u64,
}

impl Cpu {
    /// It has not run yet.
    pub fn new() -> Self {
        Self {
            quiet: NEVER_AFTER,
            node: FIRMWARE,
            pc: 0,
            span: 0,
            pending: 0,
            taken: 0,
            last: &NOTHING,
            function: IN_FIRMWARE,
            frames: Vec::new(),
            task: 0,
        }
    }

    /// Counts `block` if that is all there is to do.
    #[inline(always)]
    pub fn quick(&mut self, block: &'static Block) -> bool {
        let plain = block.comes == self.quiet && !self.cuts(block);
        if plain {
            self.pending += block.count;
            self.last = block;
            (self.pc, self.span) = (block.pc, block.span);
            self.quiet = block.after;
        }
        plain
    }

    /// Whether `block` begins in the middle of the block before, which then was left early.
    #[inline(always)]
    pub fn cuts(&self, block: &Block) -> bool {
        block.pc.wrapping_sub(self.pc).wrapping_sub(1) < self.span
    }

    /// `block` runs, and all is done that it changes.
    pub fn goes_on(&mut self, block: &'static Block) {
        self.pending = block.count;
        self.last = block;
        (self.pc, self.span) = (block.pc, block.span);
        self.quiet = if block.end == End::Plain {
            self.function
        } else {
            NEVER_AFTER
        };
    }
}
