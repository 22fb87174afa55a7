// SPDX-License-Identifier: GPL-2.0-or-later
//! Follows the guest from block to block: who runs, called by whom, for which task.
//!
//! Each CPU has a stack of frames beside the guest's own. A call pushes, a return pops down
//! to the frame that was to be returned to, a jump into another function replaces, an
//! interrupt pushes a frame that the next return from an interrupt pops, and a change of
//! tasks puts one stack away and takes up the other.
//!
//! Blocks are counted whole when they begin; [`early`] takes back what was not executed.

mod block;
mod cpu;
mod early;
mod guest;
mod marking;
mod tasks;
#[cfg(test)]
mod tests;
mod time;
mod usual;

use rustc_hash::{FxHashMap, FxHashSet};

pub use self::{block::Block, guest::Guest};
use self::{
    block::{NEVER_AFTER, NOTHING},
    cpu::{Cpu, Frame, Kind},
};
use crate::{
    calls::{Calls, FIRMWARE, INTERRUPTS, Node, TASKS, USER},
    insn::End,
    marks::loads,
    out::Out,
    spec::{Flags, Spec},
};

/// Functions that are not in the host's table.
pub const OUTSIDE: u32 = u32::MAX;
/// User space as a function.
pub const IN_USER: u32 = u32::MAX - 1;
/// Firmware as a function.
pub const IN_FIRMWARE: u32 = u32::MAX - 2;
/// Deeper stacks are not followed further down.
const DEEPEST: usize = 1024;
/// Where x86 begins after a reset.
const RESET: u64 = 0xffff_fff0;

/// All CPUs, and what they were seen doing.
pub struct Flow {
    spec: Spec,
    /// Call stacks can be followed: the guest's registers can be read.
    stacks: bool,
    cpus: Vec<Cpu>,
    calls: Calls,
    tasks: FxHashMap<u64, Vec<Frame>>,
    /// Tasks that were seen halting a CPU.
    idlers: FxHashSet<u64>,
    /// Where a task's name is in its structure, once it was looked for.
    name_at: Option<Option<u64>>,
    kernel_runs: bool,
    /// Virtual time at which `executed` was 0, moved on by all idle time.
    base: i64,
    executed: i64,
    /// Idle time of which it is not known yet who waited: begin, length.
    idle: Vec<(i64, i64)>,
    serial: u32,
    /// Marks of functions that went on in another marked one.
    outer: FxHashMap<u32, u32>,
    begun: bool,
    /// The trace.
    pub out: Out,
}

impl Flow {
    /// Nothing has run yet.
    pub fn new(spec: Spec, stacks: bool, out: Out) -> Self {
        Self {
            spec,
            stacks,
            cpus: Vec::new(),
            calls: Calls::new(),
            tasks: FxHashMap::default(),
            idlers: FxHashSet::default(),
            name_at: None,
            kernel_runs: false,
            base: 0,
            executed: 0,
            idle: Vec::new(),
            serial: 0,
            outer: FxHashMap::default(),
            begun: false,
            out,
        }
    }

    /// The CPU `vcpu` is there.
    pub fn cpu_appears(&mut self, vcpu: usize) {
        while self.cpus.len() <= vcpu {
            self.cpus.push(Cpu::new());
        }
    }

    /// The function, by number, that `pc` is in, and its flags.
    pub fn place(&self, pc: u64) -> (u32, Flags) {
        if pc >> 63 == 0 {
            let low = pc < 1 << 20 || pc == RESET || !self.kernel_runs;
            return (if low { IN_FIRMWARE } else { IN_USER }, Flags(0));
        }
        match self.spec.at(pc) {
            None => (OUTSIDE, Flags(0)),
            Some(f) if f.address == pc || f.flags.any(Flags::TABLE) => {
                (f.id, Flags(f.flags.0 | Flags::ENTRY))
            }
            Some(f) => (f.id, Flags(f.flags.0 & Flags::THUNK)),
        }
    }

    /// `block` begins on `vcpu`, in whatever way.
    pub fn step(&mut self, vcpu: usize, block: &'static Block, guest: &mut impl Guest) {
        self.give(vcpu);
        self.unsettle(vcpu);
        if !self.begun {
            self.begun = true;
            self.base = self.start_of(block, guest);
            let base = self.base;
            self.out.line(format_args!("b {base}"));
        }
        if block.pc == RESET && vcpu == 0 && self.kernel_runs {
            self.reset(block, guest);
        }
        if self.cpus[vcpu].last.end == End::Halt {
            self.wakes(vcpu, block, guest);
        }
        self.goes_on_within(vcpu, block);
        if block.pc >> 63 == 0 {
            self.low(vcpu, block);
        } else if !self.stacks {
            self.flat(vcpu, block);
        } else {
            self.kernel(vcpu, block, guest);
        }
        self.cpus[vcpu].goes_on(block);
    }

    /// User space or firmware: nobody there is followed.
    fn low(&mut self, vcpu: usize, block: &Block) {
        self.unwind(vcpu, 0, None);
        let cpu = &mut self.cpus[vcpu];
        cpu.function = block.function;
        cpu.node = if block.function == IN_USER {
            USER
        } else {
            FIRMWARE
        };
    }

    fn flat(&mut self, vcpu: usize, block: &Block) {
        let node = self.calls.child(TASKS, key(block));
        let cpu = &mut self.cpus[vcpu];
        (cpu.function, cpu.node) = (block.function, node);
    }

    fn kernel(&mut self, vcpu: usize, block: &'static Block, guest: &mut impl Guest) {
        let enters = self.enters(vcpu, block);
        let raised = enters && self.is_raised(vcpu, block, guest);
        if self.cpus[vcpu].last.end == End::Iret && !raised {
            self.interrupt_returns(vcpu);
        }
        let last = self.cpus[vcpu].last;
        let flags = block.flags;
        let before = self.cpus[vcpu].frames.last().map(|f| f.function);
        // From the stub of its vector an interrupt goes on by a jump.
        let interrupts = enters
            && flags.any(Flags::IRQ)
            && (last.end != End::Plain || !self.spec_flags_any(last, Flags::IRQ));
        let mut called = true;
        if interrupts {
            let after = if raised { &NOTHING } else { last };
            self.push(vcpu, block, Kind::Interrupt(after), INTERRUPTS, 0);
        } else if enters && flags.any(Flags::FAULT | Flags::FAULT_CODE) {
            let base = self.base(vcpu);
            self.push(vcpu, block, Kind::Interrupt(&NOTHING), base, 0);
        } else if last.end == End::Call {
            let base = self.base(vcpu);
            self.push(vcpu, block, Kind::Call, base, last.next);
        } else {
            // A loop that goes back to a function's first instruction enters nothing.
            called = enters && before != Some(block.function);
            if last.end == End::Ret {
                self.returns(vcpu, block, guest);
            } else {
                self.goes_on(vcpu, block);
            }
        }
        if enters {
            self.special(vcpu, block, called, guest);
        }
        if called && !flags.any(Flags::THUNK) {
            self.calls.called(self.cpus[vcpu].node);
        }
    }

    /// Whether `block` begins a function; an entry in a table of them may be two blocks.
    fn enters(&self, vcpu: usize, block: &Block) -> bool {
        let last = self.cpus[vcpu].last;
        let second = block.flags.any(Flags::TABLE)
            && (last.function, last.next) == (block.function, block.pc);
        block.flags.any(Flags::ENTRY) && !second
    }

    fn spec_flags_any(&self, block: &Block, bits: u32) -> bool {
        self.spec.at(block.pc).is_some_and(|f| f.flags.any(bits))
    }

    /// Under which node a call from where `vcpu` is goes.
    fn base(&self, vcpu: usize) -> Node {
        self.cpus[vcpu].frames.last().map_or(TASKS, |f| f.node)
    }

    fn push(&mut self, vcpu: usize, block: &Block, kind: Kind, base: Node, back: u64) {
        let mut base = base;
        if self.cpus[vcpu].frames.len() >= 4 * DEEPEST {
            // Something pushes without end; begin anew.
            self.cpus[vcpu].frames.clear();
            base = TASKS;
        }
        let node = if block.flags.any(Flags::THUNK) || self.cpus[vcpu].frames.len() >= DEEPEST {
            base
        } else {
            self.calls.child(base, key(block))
        };
        let cpu = &mut self.cpus[vcpu];
        cpu.frames.push(Frame {
            kind,
            base,
            node,
            function: block.function,
            back,
            serial: 0,
        });
        (cpu.function, cpu.node) = (block.function, node);
    }

    /// A jump, or simply the next instruction.
    fn goes_on(&mut self, vcpu: usize, block: &Block) {
        let cpu = &self.cpus[vcpu];
        let Some(top) = cpu.frames.last().copied() else {
            self.push(vcpu, block, Kind::Call, TASKS, 0);
            return;
        };
        if top.function == block.function || block.flags.any(Flags::THUNK) {
            let cpu = &mut self.cpus[vcpu];
            (cpu.function, cpu.node) = (top.function, top.node);
            if block.flags.any(Flags::THUNK) {
                cpu.function = block.function;
            }
            return;
        }
        let node = self.calls.child(top.base, key(block));
        let cpu = &mut self.cpus[vcpu];
        let top = cpu.frames.last_mut().expect("looked at above");
        (top.function, top.node) = (block.function, node);
        (cpu.function, cpu.node) = (block.function, node);
    }

    fn returns(&mut self, vcpu: usize, block: &Block, guest: &mut impl Guest) {
        let frames = &self.cpus[vcpu].frames;
        if let Some(at) = frames
            .iter()
            .rposition(|f| f.back == block.pc && matches!(f.kind, Kind::Call))
        {
            let now = frames[at..]
                .iter()
                .any(|f| f.serial != 0)
                .then(|| self.start_of(block, guest));
            self.unwind(vcpu, at, now);
            let cpu = &mut self.cpus[vcpu];
            if let Some(top) = cpu.frames.last() {
                // Back in the caller, whatever the table calls the place.
                (cpu.function, cpu.node) = (top.function, top.node);
            }
            self.goes_on(vcpu, block);
            return;
        }
        if self.spec_flags_any(block, Flags::FORK) {
            self.unwind(vcpu, 0, None);
        } else if self.spec_flags_any(self.cpus[vcpu].last, Flags::THUNK) {
            // A jump in the disguise of a return: the inner call's frame is none.
            let depth = self.cpus[vcpu].frames.len();
            self.unwind(vcpu, depth.saturating_sub(1), None);
        }
        self.goes_on(vcpu, block);
    }

    /// Pops the interrupt that returns, and whatever it left above it.
    fn interrupt_returns(&mut self, vcpu: usize) {
        let frames = &self.cpus[vcpu].frames;
        let at = frames
            .iter()
            .rposition(|f| matches!(f.kind, Kind::Interrupt(_)));
        let Some(at) = at else {
            self.cpus[vcpu].last = &NOTHING;
            return;
        };
        let Kind::Interrupt(last) = frames[at].kind else {
            unreachable!("found as one");
        };
        self.unwind(vcpu, at, None);
        let cpu = &mut self.cpus[vcpu];
        // What halted has been woken.
        cpu.last = if last.end == End::Halt {
            &NOTHING
        } else {
            last
        };
        if let Some(top) = cpu.frames.last() {
            (cpu.function, cpu.node) = (top.function, top.node);
        }
    }

    /// Takes frames off until `depth` are left. `now`: they returned, and their marks say so.
    fn unwind(&mut self, vcpu: usize, depth: usize, now: Option<i64>) {
        while self.cpus[vcpu].frames.len() > depth {
            let frame = self.cpus[vcpu].frames.pop().expect("there are more");
            if let (true, Some(now)) = (frame.serial != 0, now) {
                self.marks_return(vcpu, frame.serial, now);
            }
        }
    }

    /// What is special about the function that `block` begins.
    fn special(&mut self, vcpu: usize, block: &Block, entered: bool, guest: &mut impl Guest) {
        let flags = block.flags;
        if flags.any(Flags::KERNEL) {
            self.kernel_runs = true;
            self.cpus[vcpu].task = self.spec.init_task;
        }
        if flags.any(Flags::KEXEC) {
            self.kernel_runs = false;
        }
        if flags.any(Flags::SWITCH) {
            self.switches(vcpu, block, guest);
        }
        if flags.any(Flags::MODULE) {
            loads(guest, &mut self.out);
        }
        if flags.any(Flags::MARK) && entered {
            self.mark(vcpu, block, guest);
        }
    }
}

fn key(block: &Block) -> u64 {
    if block.function == OUTSIDE {
        block.pc
    } else {
        block.function.into()
    }
}
