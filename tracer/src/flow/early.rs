// SPDX-License-Identifier: GPL-2.0-or-later
//! Blocks that are left before their end. They are counted whole when they begin; here what
//! they did not execute is taken back.
//!
//! An exception leaves a block at the instruction that it is of, and an interrupt may come
//! where an access to a device ended one: the stack says where. After such an access QEMU goes
//! on in a block that begins behind it. With several CPUs another one may run first, and
//! come to a border: then only the clock tells, which has not gone on for what was not executed.

use super::{Block, Flow, Guest, NEVER_AFTER, NOTHING};
use crate::{insn::End, spec::Flags};

impl Flow {
    fn take_back(&mut self, vcpu: usize, instructions: i64) {
        self.calls.add(self.cpus[vcpu].node, -instructions);
        self.executed -= instructions;
    }

    /// Of the block before, only what comes before `at` was executed, if that is in it.
    fn ended_at(&mut self, vcpu: usize, at: u64) -> bool {
        let last = self.cpus[vcpu].last;
        let into = at.wrapping_sub(last.pc);
        if last.count == 0 || into > last.span {
            return false;
        }
        let Ok(done) = last.offsets.binary_search(&(into as u16)) else {
            return false;
        };
        self.take_back(vcpu, last.count - done as i64);
        true
    }

    /// Behind an access to a device a new block begins, in the middle of the one before.
    pub(super) fn goes_on_within(&mut self, vcpu: usize, block: &Block) {
        let last = self.cpus[vcpu].last;
        // What returns from an interrupt may have interrupted anything, itself as well.
        let elsewhere = last.end == End::Iret;
        let again = block.pc == last.pc || block.pc == last.target;
        if !elsewhere && !again && self.ended_at(vcpu, block.pc) {
            self.cpus[vcpu].last = &NOTHING;
        }
    }

    /// Whether `block` begins because an exception or interrupt left the block before in its
    /// middle, or at its last instruction.
    pub(super) fn is_raised(&mut self, vcpu: usize, block: &Block, guest: &mut impl Guest) -> bool {
        let flags = block.flags;
        // Whether there is an error code, the functions of a table do not say.
        let places: &[u64] = if !flags.any(Flags::FAULT | Flags::FAULT_CODE | Flags::IRQ) {
            &[]
        } else if flags.any(Flags::TABLE) && !flags.any(Flags::IRQ) {
            &[0, 8]
        } else if flags.any(Flags::FAULT_CODE) {
            &[8]
        } else {
            &[0]
        };
        if places.is_empty() {
            return false;
        }
        let Some(stack) = guest.stack_pointer() else {
            return false;
        };
        let last = self.cpus[vcpu].last;
        places.iter().any(|offset| {
            let Some(from) = guest.pointer(stack + offset) else {
                return false;
            };
            // An interrupt where the block's last instruction had gone to: a loop, the end of
            // a function that had called itself, what was interrupted before.
            let gone = from == last.target
                || from == last.pc && last.end == End::Ret
                || last.end == End::Iret;
            let whole = flags.any(Flags::IRQ) && gone;
            !whole && self.ended_at(vcpu, from)
        })
    }

    /// The clock is at `now`, and `runs` begins a block there: if more is counted than it went
    /// on by, other CPUs left blocks early and have not gone on since.
    pub(super) fn settle(&mut self, runs: Option<usize>, now: i64) {
        let clock = (now - self.base) >> self.spec.shift;
        // What was still to be done the last time may be done now.
        (0..self.cpus.len()).for_each(|vcpu| self.unsettle(vcpu));

        for vcpu in (0..self.cpus.len()).filter(|vcpu| Some(*vcpu) != runs) {
            let excess = (self.executed - clock).min(self.cpus[vcpu].last.count);
            if excess > 0 {
                self.take_back(vcpu, excess);
                let cpu = &mut self.cpus[vcpu];
                cpu.taken = excess;
                cpu.quiet = NEVER_AFTER;
            }
        }
    }

    /// `vcpu` goes on: where it does tells what it had executed, better than the clock.
    pub(super) fn unsettle(&mut self, vcpu: usize) {
        let taken = std::mem::take(&mut self.cpus[vcpu].taken);
        self.take_back(vcpu, -taken);
    }
}
