// SPDX-License-Identifier: GPL-2.0-or-later
//! Two CPUs that take turns, and tasks that change between them: each task's stack is where a
//! model has it, whichever CPU it runs on, and each interval adds up whoever's border it is.

use std::collections::BTreeMap;

use super::{
    laws::{BLOCKS, Numbers, block, intervals_add_up},
    sim::{Sim, WIDE, at},
};
use crate::insn::End;

/// A function that has not returned, in the model.
#[derive(Clone)]
struct Frame {
    function: &'static str,
    /// Its path in the tree.
    path: String,
    /// The block that comes next, and how many of its instructions are done.
    next: (u64, u64),
    interrupt: bool,
}

impl Frame {
    fn new(function: &'static str, path: String, interrupt: bool) -> Self {
        let next = (0, 0);
        Self {
            function,
            path,
            next,
            interrupt,
        }
    }

    /// Where it goes on, and how many instructions are left until the block's end.
    fn place(&self) -> (u64, u64) {
        let (pc, count) = block(at(self.function), self.next.0);
        (pc + self.next.1 * WIDE, count - self.next.1)
    }
}

/// Both CPUs and all tasks.
struct Model {
    sim: Sim,
    numbers: Numbers,
    /// Each task's frames; the first two begin on a CPU each, the others have not run yet.
    tasks: [Vec<Frame>; 5],
    /// Which task each CPU runs.
    runs: [usize; 2],
    halted: [bool; 2],
    counts: BTreeMap<String, i64>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut sim = Sim::boot();
        let mut root = Frame::new("start_kernel", "tasks;start_kernel".into(), false);
        root.next = (1, 0);
        sim.run_on(1, 0x9000, 4, End::Plain, 0);
        let second = Frame::new("h", "tasks;h".into(), false);
        let counts = [(root.path.clone(), 1), ("firmware".into(), 5 + 4)];
        Self {
            sim,
            numbers: Numbers(seed * 0x2545_f491),
            tasks: [vec![root], vec![second], vec![], vec![], vec![]],
            runs: [0, 1],
            halted: [false; 2],
            counts: counts.into(),
        }
    }

    fn top(&mut self, cpu: usize) -> &mut Frame {
        let task = self.runs[cpu];
        self.tasks[task]
            .last_mut()
            .expect("a task that runs has one")
    }

    /// What `cpu` is in goes on to the end of its block.
    fn goes_on(&mut self, cpu: usize, end: End) {
        let top = self.top(cpu);
        let (pc, count) = top.place();
        top.next = (top.next.0 + 1, 0);
        let path = top.path.clone();
        *self.counts.entry(path).or_default() += count as i64;
        self.sim.run_on(cpu, pc, count, end, 0);
    }

    fn calls(&mut self, cpu: usize) {
        let function = ["f", "g", "h", "marked"][self.numbers.below(4) as usize];
        let path = format!("{};{function}", self.top(cpu).path);
        self.goes_on(cpu, End::Call);
        let task = self.runs[cpu];
        self.tasks[task].push(Frame::new(function, path, false));
    }

    fn returns(&mut self, cpu: usize) {
        let end = if self.top(cpu).interrupt {
            End::Iret
        } else {
            End::Ret
        };
        self.goes_on(cpu, end);
        let task = self.runs[cpu];
        self.tasks[task].pop();
    }

    fn is_interrupted(&mut self, cpu: usize) {
        self.halted[cpu] = false;
        self.sim.answers.stack = [self.top(cpu).place().0, 0];
        let task = self.runs[cpu];
        self.tasks[task].push(Frame::new("irq", "irqs;irq".into(), true));
        // Nothing comes between an interrupt and its first block.
        self.goes_on(cpu, End::Plain);
    }

    /// An access to a device, or a fault, in the middle of a block.
    fn is_cut_short(&mut self, cpu: usize, raised: bool) {
        let (pc, count) = self.top(cpu).place();
        if count < 2 {
            return;
        }
        // An access to a device is done when its block ends.
        let done = u64::from(!raised) + self.numbers.below(count - 1);
        let end = if self.numbers.below(2) == 0 {
            End::Call
        } else {
            End::Plain
        };
        self.sim.run_on(cpu, pc, count, end, 0);
        self.sim.cut_short(pc, count, done, false);
        let top = self.top(cpu);
        top.next.1 += done;
        let path = top.path.clone();
        *self.counts.entry(path.clone()).or_default() += done as i64;
        if raised {
            let task = self.runs[cpu];
            let path = format!("{path};fault");
            self.tasks[task].push(Frame::new("fault", path, true));
            self.goes_on(cpu, End::Plain);
        }
    }

    /// `cpu` gives its task up for one that does not run, where it last ran or anywhere else.
    fn switches(&mut self, cpu: usize) {
        let resting: Vec<usize> = (0..5).filter(|t| !self.runs.contains(t)).collect();
        let next = resting[self.numbers.below(3) as usize];
        let previous = self.runs[cpu];
        self.goes_on(cpu, End::Call);
        self.runs[cpu] = next;
        self.sim.answers.arguments = [1 + previous as u64, 1 + next as u64];
        let new = self.tasks[next].is_empty();
        let path = if new {
            "tasks;switch".to_owned()
        } else {
            format!("{};switch", self.top(cpu).path)
        };
        if new {
            self.tasks[next] = vec![Frame::new("fork", "tasks;fork".into(), false)];
        }
        *self.counts.entry(path).or_default() += 3 + 1;
        self.sim.run_on(cpu, at("switch"), 3, End::Plain, 0);
        self.sim.run_on(cpu, at("switch") + 12, 1, End::Ret, 0);
    }

    fn step(&mut self) {
        let cpu = self.numbers.below(2) as usize;
        if self.halted[cpu] {
            if self.halted == [true; 2] {
                self.sim.time += self.numbers.below(3) as i64 * 700;
            }
            return self.is_interrupted(cpu);
        }
        let depth = self.tasks[self.runs[cpu]].len();
        let (interrupt, whole) = (self.top(cpu).interrupt, self.top(cpu).next.1 == 0);
        let begun = self.top(cpu).next != (0, 0);
        match self.numbers.below(12) {
            0..=2 if depth < 12 => self.calls(cpu),
            3..=5 if depth > 1 => self.returns(cpu),
            6 if depth < 12 && !interrupt && begun => self.is_interrupted(cpu),
            7 if begun => self.is_cut_short(cpu, false),
            8 if begun && depth < 12 => self.is_cut_short(cpu, true),
            9 if !interrupt && whole && begun => self.switches(cpu),
            10 if !interrupt && begun => {
                self.goes_on(cpu, End::Halt);
                self.halted[cpu] = true;
            }
            _ => self.goes_on(cpu, End::Plain),
        }
    }

    fn ends(&self) -> bool {
        let frames = self.tasks.iter().flatten();
        frames.map(|f| f.next.0).max() >= Some(BLOCKS - 2)
    }
}

#[test]
fn tasks_keep_their_stacks_whichever_cpu_they_run_on() {
    let mut switched = 0;
    for seed in 1..=400 {
        let mut model = Model::new(seed);
        for _ in 0..300 {
            if model.ends() {
                break;
            }
            model.step();
        }
        // Which of two CPUs was cut short the clock does not say, only what they do next.
        (0..2).for_each(|cpu| model.goes_on(cpu, End::Plain));
        switched += usize::from(model.runs != [0, 1]);
        let Model {
            sim, mut counts, ..
        } = model;
        let seen = sim.finish();
        intervals_add_up(&seen);
        let mut found: BTreeMap<String, i64> = BTreeMap::new();
        for (stack, (count, _)) in seen.stacks() {
            found.insert(stack, count);
        }
        found.retain(|_, count| *count != 0);
        counts.retain(|_, count| *count != 0);
        assert_eq!(found, counts, "seed {seed}");
    }
    assert!(switched > 100, "only {switched} guests changed tasks");
}

/// The other CPU's border comes between an access to a device and what is behind it.
#[test]
fn a_border_of_another_cpu_counts_what_the_clock_says() {
    for done in 1..10 {
        let mut sim = Sim::boot();
        sim.run(at("f"), 10, End::Call);
        sim.cut_short(at("f"), 10, done, false);
        sim.run_on(1, at("marked"), 3, End::Plain, 0);
        let border = sim.time - 6;
        // The access itself was not done yet, or it was; then the rest goes on as usual.
        sim.run(at("f") + done * WIDE, 10 - done, End::Plain);
        sim.run_on(1, at("marked") + 12, 3, End::Plain, 0);
        let seen = sim.finish();
        intervals_add_up(&seen);
        let borders: Vec<_> = seen.lines("s").iter().map(|s| s[1].to_owned()).collect();
        assert!(borders.contains(&border.to_string()), "{}", seen.text);
        assert_eq!(seen.count("tasks;f"), 10);
    }
}

/// What the clock took for cut short had been executed whole after all: nothing is lost.
#[test]
fn what_another_cpus_border_took_is_given_back() {
    for goes_on in [true, false] {
        let mut sim = Sim::boot();
        sim.run(at("f"), 10, End::Plain);
        // The last instruction is an access to a device, and still to be done.
        sim.cut_short(at("f"), 10, 9, false);
        sim.run_on(1, at("marked"), 3, End::Call, 0);
        // It is done, and the other CPU comes to its next border.
        sim.time += 2;
        sim.run_on(1, at("marked"), 2, End::Plain, 0);
        if goes_on {
            sim.run(at("f") + 40, 5, End::Plain);
        }
        let seen = sim.finish();
        intervals_add_up(&seen);
        assert_eq!(seen.count("tasks;f"), if goes_on { 15 } else { 10 });
    }
}
