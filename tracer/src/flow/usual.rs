// SPDX-License-Identifier: GPL-2.0-or-later
//! Nearly all blocks do one of three things: they go on in the function, begin one that was
//! just called, or go on in the caller that was just returned to. Here are these, with nothing
//! asked that could be otherwise; [`Flow::step`] does the same and everything else.

use super::{Block, Flow, Frame, Kind, key};
use crate::{
    calls::{Node, TASKS},
    flow::DEEPEST,
    insn::End,
    spec::Flags,
};

impl Flow {
    /// Goes on in the function: nothing but a count changes. Whether it was that.
    ///
    /// # Safety
    /// `vcpu` has appeared.
    #[inline(always)]
    pub unsafe fn quick(&mut self, vcpu: usize, block: &'static Block) -> bool {
        // SAFETY: as the caller promises.
        unsafe { self.cpus.get_unchecked_mut(vcpu) }.quick(block)
    }

    /// A call, or a return from one. Whether it was that.
    pub fn usual(&mut self, vcpu: usize, block: &'static Block) -> bool {
        let cpu = &self.cpus[vcpu];
        if cpu.taken != 0 || cpu.cuts(block) {
            return false;
        }
        match (cpu.last.end, block.flags.0) {
            (End::Call, Flags::ENTRY) if self.stacks => self.calls_plainly(vcpu, block),
            (End::Ret, 0) => self.returns_plainly(vcpu, block),
            _ => false,
        }
    }

    fn calls_plainly(&mut self, vcpu: usize, block: &'static Block) -> bool {
        let cpu = &self.cpus[vcpu];
        if cpu.frames.len() >= DEEPEST {
            return false;
        }
        let (base, back) = (cpu.frames.last().map_or(TASKS, |f| f.node), cpu.last.next);
        let node = self.calls.child(base, key(block));
        self.calls.called(node);
        self.cpus[vcpu].frames.push(Frame {
            kind: Kind::Call,
            base,
            node,
            function: block.function,
            back,
            serial: 0,
        });
        self.is_in(vcpu, node, block);
        true
    }

    fn returns_plainly(&mut self, vcpu: usize, block: &'static Block) -> bool {
        let [.., caller, callee] = self.cpus[vcpu].frames.as_slice() else {
            return false;
        };
        let plain = callee.back == block.pc
            && callee.serial == 0
            && matches!(callee.kind, Kind::Call)
            && caller.function == block.function;
        if plain {
            let node = caller.node;
            self.cpus[vcpu].frames.pop();
            self.is_in(vcpu, node, block);
        }
        plain
    }

    fn is_in(&mut self, vcpu: usize, node: Node, block: &'static Block) {
        self.give(vcpu);
        let cpu = &mut self.cpus[vcpu];
        (cpu.function, cpu.node) = (block.function, node);
        cpu.goes_on(block);
    }
}
