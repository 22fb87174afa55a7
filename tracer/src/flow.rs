// SPDX-License-Identifier: GPL-2.0-or-later
//! Follows the guest from block to block: who runs, called by whom, for which task.
//!
//! Each CPU has a stack of frames beside the guest's own. A call pushes, a return pops down
//! to the frame that was to be returned to, a jump into another function replaces, an
//! interrupt pushes a frame that the next return from an interrupt pops, and a change of
//! tasks puts one stack away and takes up the other.
//!
//! Blocks are counted whole when they begin. Two things leave a block early, and then what
//! was not executed is taken back: an exception (the stack says where), and an access to a
//! device, for which QEMU starts the block again at just that instruction.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    calls::{Calls, FIRMWARE, INTERRUPTS, Node, TASKS, USER},
    insn::End,
    marks::{argument, loads},
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
/// Where the name of a task may be in its structure.
const TASK_BYTES: usize = 16 << 10;

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

/// A translated block; lives as long as QEMU does.
pub struct Block {
    /// Address of the first instruction.
    pub pc: u64,
    /// Bytes, less one.
    pub span: u64,
    /// Address behind it.
    pub next: u64,
    /// Where its last instruction goes, if it says so; else 0.
    pub target: u64,
    /// Instructions.
    pub count: i64,
    /// The function's number.
    pub function: u32,
    /// The function's, and [`Flags::ENTRY`].
    pub flags: Flags,
    /// How it ends.
    pub end: End,
    /// Where each instruction begins, from `pc` on.
    pub offsets: &'static [u16],
}

/// Stands for what went before where nothing is known, and after a return from an interrupt.
static NOTHING: Block = Block {
    pc: 0,
    span: 0,
    next: 0,
    target: 0,
    count: 0,
    function: OUTSIDE,
    flags: Flags(0),
    end: End::Plain,
    offsets: &[],
};

#[derive(Clone, Copy)]
enum Kind {
    Call,
    /// An interrupt or exception; afterwards the CPU goes on as if it had last run this.
    Interrupt(&'static Block),
}

#[derive(Clone, Copy)]
struct Frame {
    kind: Kind,
    /// Where it was called from, in the tree.
    base: Node,
    node: Node,
    function: u32,
    /// Where it returns to.
    back: u64,
    /// Its mark; 0: none.
    serial: u32,
}

/// One CPU of the guest.
pub struct Cpu {
    /// The block before.
    last: &'static Block,
    /// Instructions not yet given to `node`.
    pending: i64,
    function: u32,
    node: Node,
    frames: Vec<Frame>,
    task: u64,
}

impl Cpu {
    fn new() -> Self {
        Self {
            last: &NOTHING,
            pending: 0,
            function: IN_FIRMWARE,
            node: FIRMWARE,
            frames: Vec::new(),
            task: 0,
        }
    }
    fn clear(&mut self) {
        self.frames.clear();
    }
}

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
            let low = pc < 1 << 20 || !self.kernel_runs;
            return (if low { IN_FIRMWARE } else { IN_USER }, Flags(0));
        }
        match self.spec.at(pc) {
            None => (OUTSIDE, Flags(0)),
            Some(f) if f.address == pc => (f.id, Flags(f.flags.0 | Flags::ENTRY)),
            Some(f) => (f.id, Flags(f.flags.0 & Flags::THUNK)),
        }
    }

    /// What cannot change anything but a count: the usual case.
    ///
    /// # Safety
    /// `vcpu` has appeared.
    #[inline(always)]
    pub unsafe fn quick(&mut self, vcpu: usize, block: &'static Block) -> bool {
        // SAFETY: as the caller promises.
        let cpu = unsafe { self.cpus.get_unchecked_mut(vcpu) };
        let last = cpu.last;
        let plain = last.end == End::Plain
            && block.function == cpu.function
            && block.flags.0 == 0
            // Not into the middle of the block before, which then was left early.
            && block.pc.wrapping_sub(last.pc).wrapping_sub(1) >= last.span;
        if plain {
            cpu.pending += block.count;
            cpu.last = block;
        }
        plain
    }

    /// `block` begins on `vcpu`, in whatever way.
    pub fn step(&mut self, vcpu: usize, block: &'static Block, guest: &mut impl Guest) {
        self.give(vcpu);
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
        if self.left_early(vcpu, block) {
            self.cpus[vcpu].last = &NOTHING;
        }
        if block.pc >> 63 == 0 {
            self.low(vcpu, block);
        } else if !self.stacks {
            self.flat(vcpu, block);
        } else {
            self.kernel(vcpu, block, guest);
        }
        let cpu = &mut self.cpus[vcpu];
        cpu.pending = block.count;
        cpu.last = block;
    }

    fn start_of(&self, block: &Block, guest: &mut impl Guest) -> i64 {
        guest.now() - (block.count << self.spec.shift)
    }

    /// Gives what a CPU executed to its node.
    fn give(&mut self, vcpu: usize) {
        let cpu = &mut self.cpus[vcpu];
        let pending = std::mem::take(&mut cpu.pending);
        self.calls.add(cpu.node, pending);
        self.executed += pending;
    }

    fn take_back(&mut self, vcpu: usize, instructions: i64) {
        self.calls.add(self.cpus[vcpu].node, -instructions);
        self.executed -= instructions;
    }

    /// An access to a device in the middle of a block ends it; what follows the access is
    /// then translated anew.
    fn left_early(&mut self, vcpu: usize, block: &Block) -> bool {
        let last = self.cpus[vcpu].last;
        let into = block.pc.wrapping_sub(last.pc);
        if into == 0 || into > last.span || last.target == block.pc {
            return false;
        }
        let Ok(done) = last.offsets.binary_search(&(into as u16)) else {
            return false;
        };
        self.take_back(vcpu, last.count - done as i64);
        true
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
        let last = self.cpus[vcpu].last;
        if last.end == End::Iret {
            self.interrupt_returns(vcpu);
        }
        let last = if last.end == End::Iret {
            self.cpus[vcpu].last
        } else {
            last
        };
        let flags = block.flags;
        let enters = flags.any(Flags::ENTRY);
        let before = self.cpus[vcpu].frames.last().map(|f| f.function);
        // From the stub of its vector an interrupt goes on by a jump.
        let interrupts = enters
            && flags.any(Flags::IRQ)
            && (last.end != End::Plain || !self.spec_flags_any(last, Flags::IRQ));
        let mut called = true;
        if interrupts {
            self.push(vcpu, block, Kind::Interrupt(last), INTERRUPTS, 0);
        } else if enters && flags.any(Flags::FAULT | Flags::FAULT_CODE) {
            self.faults(vcpu, block, guest);
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

    fn spec_flags_any(&self, block: &Block, bits: u16) -> bool {
        self.spec.at(block.pc).is_some_and(|f| f.flags.any(bits))
    }

    /// Under which node a call from where `vcpu` is goes.
    fn base(&self, vcpu: usize) -> Node {
        self.cpus[vcpu].frames.last().map_or(TASKS, |f| f.node)
    }

    fn push(&mut self, vcpu: usize, block: &Block, kind: Kind, base: Node, back: u64) {
        let node = if block.flags.any(Flags::THUNK) || self.cpus[vcpu].frames.len() >= DEEPEST {
            base
        } else {
            self.calls.child(base, key(block))
        };
        let cpu = &mut self.cpus[vcpu];
        if cpu.frames.len() >= 4 * DEEPEST {
            // Something pushes without end; begin anew.
            cpu.frames.clear();
        }
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

    /// An exception left the block before where its stack says.
    fn faults(&mut self, vcpu: usize, block: &'static Block, guest: &mut impl Guest) {
        let last = self.cpus[vcpu].last;
        let offset = if block.flags.any(Flags::FAULT_CODE) {
            8
        } else {
            0
        };
        let at = guest
            .stack_pointer()
            .and_then(|stack| guest.pointer(stack + offset));
        if let Some(into) = at.map(|at| at.wrapping_sub(last.pc))
            && last.count > 0
            && into <= last.span
            && let Ok(done) = last.offsets.binary_search(&(into as u16))
        {
            self.take_back(vcpu, last.count - done as i64);
        }
        let base = self.base(vcpu);
        self.push(vcpu, block, Kind::Interrupt(&NOTHING), base, 0);
    }

    /// Takes frames off until `depth` are left. `now`: they returned, and their marks say so.
    fn unwind(&mut self, vcpu: usize, depth: usize, now: Option<i64>) {
        while self.cpus[vcpu].frames.len() > depth {
            let frame = self.cpus[vcpu].frames.pop().expect("there are more");
            if let (true, Some(now)) = (frame.serial != 0, now) {
                self.marks_return(frame.serial, now);
            }
        }
    }

    fn marks_return(&mut self, serial: u32, now: i64) {
        let mut next = Some(serial);
        let mut window = false;
        while let Some(serial) = next {
            // The highest bit says that the mark is a window's border.
            window |= serial >> 31 == 1;
            let number = serial & (u32::MAX >> 1);
            self.out.line(format_args!("r {number} {now}"));
            next = self.outer.remove(&serial);
        }
        if window {
            self.border(now);
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

    fn mark(&mut self, vcpu: usize, block: &Block, guest: &mut impl Guest) {
        let now = self.start_of(block, guest);
        let window = block.flags.any(Flags::WINDOW);
        if window {
            self.border(now);
        }
        let argument = argument(block.flags, guest);
        let task = self.task_name(self.cpus[vcpu].task, guest);
        self.serial += 1;
        let serial = self.serial | u32::from(window) << 31;
        if let Some(top) = self.cpus[vcpu].frames.last_mut() {
            if top.serial != 0 {
                self.outer.insert(serial, top.serial);
            }
            top.serial = serial;
        }
        let (number, id) = (self.serial, block.function);
        let task = crate::out::word(&task);
        self.out.line(format_args!(
            "e {number} {now} {vcpu} {id} {argument} {task}"
        ));
        self.out.flush();
    }

    fn border(&mut self, now: i64) {
        (0..self.cpus.len()).for_each(|cpu| self.give(cpu));
        self.out.border(now, &mut self.calls);
        // From here on time and instructions agree again.
        self.base = now - (self.executed << self.spec.shift);
    }

    /// `__switch_to_asm(prev, next)`.
    fn switches(&mut self, vcpu: usize, block: &Block, guest: &mut impl Guest) {
        let (Some(previous), Some(next)) = (guest.first_argument(), guest.second_argument()) else {
            return;
        };
        let cpu = &mut self.cpus[vcpu];
        let frames = std::mem::take(&mut cpu.frames);
        cpu.task = next;
        self.tasks.insert(previous, frames);
        if let Some(frames) = self.tasks.remove(&next) {
            let cpu = &mut self.cpus[vcpu];
            if let Some(top) = frames.last() {
                (cpu.function, cpu.node) = (top.function, top.node);
            }
            cpu.frames = frames;
        } else {
            self.push(vcpu, block, Kind::Call, TASKS, 0);
        }
        if !self.idle.is_empty() && !self.idlers.contains(&next) {
            let name = self.task_name(next, guest);
            // In the switch itself it waited for nothing: its caller says for what.
            let frames = &self.cpus[vcpu].frames;
            let node = frames.last().map_or(TASKS, |f| f.node);
            self.out.nodes(&mut self.calls);
            for (begin, length) in std::mem::take(&mut self.idle) {
                self.out.idle(begin, length, node, &name);
            }
        }
    }

    /// After a halt: how long did nothing run?
    fn wakes(&mut self, vcpu: usize, block: &Block, guest: &mut impl Guest) {
        (0..self.cpus.len()).for_each(|cpu| self.give(cpu));
        let now = self.start_of(block, guest);
        let expected = self.base + (self.executed << self.spec.shift);
        if now > expected {
            self.idle.push((expected, now - expected));
        }
        self.base += now - expected;
        let cpu = &mut self.cpus[vcpu];
        cpu.last = &NOTHING;
        if cpu.task != 0 {
            self.idlers.insert(cpu.task);
        }
    }

    fn task_name(&mut self, task: u64, guest: &mut impl Guest) -> String {
        let first = self.spec.init_task;
        let at = *self.name_at.get_or_insert_with(|| {
            let bytes = guest.read(first, TASK_BYTES).filter(|_| first != 0)?;
            let found = bytes
                .windows(8)
                .position(|w| w == b"swapper\0" || w == b"swapper/");
            found.map(|at| at as u64)
        });
        let name = at
            .filter(|_| task != 0)
            .and_then(|at| guest.read(task + at, 16));
        let name = name.unwrap_or_default();
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..end]).into_owned()
    }

    /// The machine starts anew.
    fn reset(&mut self, block: &Block, guest: &mut impl Guest) {
        let now = self.start_of(block, guest);
        self.border(now);
        self.nobody_waits();
        self.out.line(format_args!("b {now}"));
        self.out.flush();
        self.kernel_runs = false;
        self.tasks.clear();
        self.idlers.clear();
        self.outer.clear();
        self.cpus.iter_mut().for_each(Cpu::clear);
    }

    fn nobody_waits(&mut self) {
        for (begin, length) in std::mem::take(&mut self.idle) {
            self.out.idle(begin, length, TASKS, "");
        }
    }

    /// The machine ends at `now`.
    pub fn end(&mut self, now: i64) {
        if self.begun {
            self.border(now);
            self.nobody_waits();
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
