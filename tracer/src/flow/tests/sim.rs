// SPDX-License-Identifier: GPL-2.0-or-later
//! A guest by script: it says which block runs next and keeps its own clock, and what was
//! counted for whom is read from the trace.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use super::*;
use crate::out::Out;

/// Functions of the guest: name and flags, 0x1000 bytes each from [`TEXT`] on.
pub const FUNCTIONS: &[(&str, &str)] = &[
    ("start_kernel", "kmw"),
    ("f", "-"),
    ("g", "-"),
    ("h", "-"),
    ("irq", "i"),
    ("fault", "x"),
    ("page_fault", "y"),
    ("switch", "s"),
    ("fork", "f"),
    ("thunk", "t"),
    ("marked", "mw"),
    ("inner", "m"),
    ("exec", "K"),
    ("vectors", "iv"),
    ("common", "i"),
    ("early", "yv"),
    ("apart", "to"),
];
pub const TEXT: u64 = 0xffff_ffff_8100_0000;
pub const SIZE: u64 = 0x1000;
const STACK: u64 = 0xffff_c900_0000_0000;
/// Bytes of an instruction.
pub const WIDE: u64 = 4;

/// Where a function begins.
pub fn at(name: &str) -> u64 {
    let index = FUNCTIONS.iter().position(|f| f.0 == name).unwrap();
    TEXT + index as u64 * SIZE
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);
impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What the guest answers.
#[derive(Default)]
pub struct Answers {
    now: i64,
    pub arguments: [u64; 2],
    /// What lies on the stack.
    pub stack: [u64; 2],
}

impl Guest for Answers {
    fn now(&mut self) -> i64 {
        self.now
    }
    fn first_argument(&mut self) -> Option<u64> {
        Some(self.arguments[0])
    }
    fn second_argument(&mut self) -> Option<u64> {
        Some(self.arguments[1])
    }
    fn stack_pointer(&mut self) -> Option<u64> {
        Some(STACK)
    }
    fn read(&mut self, at: u64, length: usize) -> Option<Vec<u8>> {
        let index = at.checked_sub(STACK)? as usize / 8;
        let bytes = self.stack.get(index)?.to_le_bytes();
        (length == 8).then(|| bytes.to_vec())
    }
}

pub struct Sim {
    pub flow: Flow,
    sink: Sink,
    pub answers: Answers,
    /// Virtual time, ns.
    pub time: i64,
    /// Which way blocks went, for the tests' own sake.
    pub quick: u64,
    pub usual: u64,
    /// Every block goes the long way.
    pub at_length: bool,
}

impl Sim {
    pub fn new() -> Self {
        let mut text = String::from("bootrig-tracer 1\nmode profile\nshift 1\ninit_task 1\n");
        let end = TEXT + FUNCTIONS.len() as u64 * SIZE;
        text += &format!("text {TEXT:x} {end:x}\n");
        for (id, (name, flags)) in FUNCTIONS.iter().enumerate() {
            text += &format!("fn {:x} {id} {flags}\n", at(name));
        }
        let sink = Sink::default();
        let out = Out::to(sink.clone());
        let mut flow = Flow::new(Spec::parse(&text).unwrap(), true, out);
        for cpu in 0..2 {
            flow.cpu_appears(cpu);
        }
        Self {
            flow,
            sink,
            answers: Answers::default(),
            time: 1000,
            quick: 0,
            usual: 0,
            at_length: false,
        }
    }

    /// `count` instructions from `pc` on run on `cpu`.
    pub fn run_on(&mut self, cpu: usize, pc: u64, count: u64, end: End, target: u64) {
        let next = pc + count * WIDE;
        let offsets: Vec<u16> = (0..count).map(|n| (n * WIDE) as u16).collect();
        let block: &'static Block = Box::leak(Box::new(Block::new(
            (pc, next, count as i64),
            self.flow.place(pc),
            (end, target),
            offsets.leak(),
        )));
        self.time += (count as i64) << 1;
        self.answers.now = self.time;
        // SAFETY: both CPUs have appeared.
        if !self.at_length && unsafe { self.flow.quick(cpu, block) } {
            self.quick += 1;
        } else if !self.at_length && self.flow.usual(cpu, block) {
            self.usual += 1;
        } else {
            self.flow.step(cpu, block, &mut self.answers);
        }
    }

    pub fn run(&mut self, pc: u64, count: u64, end: End) {
        self.run_on(0, pc, count, end, 0);
    }

    /// The kernel is entered, outside of any window that tests look at.
    pub fn boot() -> Self {
        let mut sim = Self::new();
        sim.run(0x1000, 5, End::Plain);
        sim.run(at("start_kernel"), 1, End::Plain);
        sim
    }

    /// Of the block before only `done` instructions were executed.
    pub fn cut_short(&mut self, pc: u64, count: u64, done: u64, code: bool) {
        self.time -= ((count - done) as i64) << 1;
        self.answers.stack[usize::from(code)] = pc + done * WIDE;
    }

    pub fn switch(&mut self, from: u64, to: u64) {
        self.answers.arguments = [from, to];
        self.run(at("switch"), 3, End::Plain);
    }

    pub fn finish(mut self) -> Seen {
        self.flow.end(self.time);
        let text = String::from_utf8(self.sink.0.lock().unwrap().clone()).unwrap();
        Seen {
            text,
            end: self.time,
        }
    }
}

/// The trace.
pub struct Seen {
    pub text: String,
    pub end: i64,
}

impl Seen {
    pub fn lines(&self, kind: &str) -> Vec<Vec<&str>> {
        let lines = self.text.lines().map(|l| l.split(' ').collect::<Vec<_>>());
        lines.filter(|l| l[0] == kind).collect()
    }

    /// Instructions and calls by call stack.
    pub fn stacks(&self) -> BTreeMap<String, (i64, u32)> {
        let mut names: Vec<String> = ["tasks", "user", "firmware", "irqs"].map(Into::into).into();
        for line in self.lines("n") {
            let parent: usize = line[2].parse().unwrap();
            let name = match line[3].parse::<usize>() {
                Ok(id) => FUNCTIONS[id].0,
                Err(_) => line[3],
            };
            names.push(format!("{};{name}", names[parent]));
        }
        let mut stacks: BTreeMap<String, (i64, u32)> = BTreeMap::new();
        for line in self.lines("c") {
            let node: usize = line[1].parse().unwrap();
            let of = stacks.entry(names[node].clone()).or_default();
            of.0 += line[2].parse::<i64>().unwrap();
            of.1 += line[3].parse::<u32>().unwrap();
        }
        stacks
    }

    /// Instructions of a call stack.
    pub fn count(&self, stack: &str) -> i64 {
        self.stacks().get(stack).map_or(0, |s| s.0)
    }

    pub fn calls(&self, stack: &str) -> u32 {
        self.stacks().get(stack).map_or(0, |s| s.1)
    }
}
