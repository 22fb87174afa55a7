// SPDX-License-Identifier: GPL-2.0-or-later
//! What holds whatever the guest does: nothing is counted twice or lost, and counts, idle time
//! and clock agree at each border. A few thousand guests by a fixed generator.

use std::collections::BTreeMap;

use super::sim::{FUNCTIONS, SIZE, Seen, Sim, TEXT, WIDE, at};
use crate::insn::End;

/// Numbers without a pattern, the same each time (Marsaglia's xorshift).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Blocks of a function.
pub const BLOCKS: u64 = 40;

/// Where the function that begins at `function` has its block `index`, and its instructions.
/// Blocks follow one another, and no two overlap: a return never goes into one's middle.
pub fn block(function: u64, index: u64) -> (u64, u64) {
    let count = |index: u64| 1 + (function / SIZE * 7 + index * 5) % 12;
    let before: u64 = (0..index).map(count).sum();
    (function + before * WIDE, count(index))
}

/// The law of each interval between two borders: instructions and idle time are its length.
pub fn intervals_add_up(seen: &Seen) {
    let idle: Vec<(i64, i64)> = seen
        .lines("w")
        .iter()
        .map(|w| (w[1].parse().unwrap(), w[2].parse().unwrap()))
        .collect();
    let (mut from, mut instructions) = (1000, 0i64);
    let mut borders: Vec<(i64, i64)> = Vec::new();
    for line in seen.text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "s" => borders.push((words[1].parse().unwrap(), 0)),
            "c" => borders.last_mut().unwrap().1 += words[2].parse::<i64>().unwrap(),
            _ => {}
        }
    }
    for (end, count) in borders {
        instructions += count;
        let slept: i64 = idle
            .iter()
            .map(|(begin, length)| (end.min(begin + length) - from.max(*begin)).max(0))
            .sum();
        assert_eq!(count * 2 + slept, end - from, "from {from} to {end}");
        from = end;
    }
    assert_eq!(from, seen.end);
    let total: i64 = seen.stacks().values().map(|s| s.0).sum();
    assert_eq!(total, instructions, "what is exclusive adds up to all");
}

/// A guest that does anything at all: blocks of any function, ended in any way, cut short or
/// not.
fn anything(seed: u64, at_length: bool) -> Sim {
    let mut numbers = Numbers(seed * 0x9e37_79b9);
    let mut sim = Sim::boot();
    sim.at_length = at_length;
    let mut halted = false;
    for _ in 0..200 {
        let function = TEXT + numbers.below(FUNCTIONS.len() as u64) * SIZE;
        let (pc, count) = block(function, numbers.below(2) * numbers.below(BLOCKS));
        let end = match numbers.below(12) {
            0..=2 => End::Call,
            3..=5 => End::Ret,
            6 => End::Iret,
            7 => End::Halt,
            _ => End::Plain,
        };
        sim.answers.stack = [0, 0];
        sim.answers.arguments = [1 + numbers.below(3), 1 + numbers.below(3)];
        if halted {
            sim.time += numbers.below(3) as i64 * 700;
        }
        sim.run(pc, count, end);
        halted = end == End::Halt;
        if numbers.below(10) == 0 && count > 1 && !halted {
            let done = numbers.below(count);
            sim.cut_short(pc, count, done, true);
            let code = numbers.below(2) == 0;
            sim.answers.stack[usize::from(code)] = pc + done * WIDE;
            sim.run(at(if code { "page_fault" } else { "fault" }), 2, End::Plain);
        }
    }
    sim
}

/// A program that calls and returns as compilers make it; and how often it executed what with
/// which stack, by a model that does nothing but push and pop.
fn nested_calls(seed: u64, at_length: bool) -> (Sim, BTreeMap<String, i64>) {
    let mut numbers = Numbers(seed * 0x517c_c1b7);
    let mut sim = Sim::boot();
    sim.at_length = at_length;
    let callable = ["f", "g", "h"];
    let mut model: BTreeMap<String, i64> = BTreeMap::new();
    // Function, path in the tree, how far it got, and whether an interrupt put it there.
    let root = ("start_kernel", "tasks;start_kernel".to_owned(), 1, false);
    model.insert(root.1.clone(), 1);
    let mut stack = vec![root];
    for _ in 0..120 {
        let depth = stack.len();
        let (name, path, index, interrupt) = stack.last_mut().unwrap();
        let (pc, count) = block(at(name), *index);
        *index = (*index + 1) % BLOCKS;
        *model.entry(path.clone()).or_default() += count as i64;
        match numbers.below(8) {
            0..=2 if depth < 20 => {
                let callee = callable[numbers.below(3) as usize];
                let path = format!("{path};{callee}");
                sim.run(pc, count, End::Call);
                stack.push((callee, path, 0, false));
            }
            3..=4 if depth > 1 => {
                let end = if *interrupt { End::Iret } else { End::Ret };
                sim.run(pc, count, end);
                stack.pop();
            }
            // An interrupt's own first steps are not interrupted.
            5 if depth < 20 && *name != "irq" => {
                sim.run(pc, count, End::Plain);
                stack.push(("irq", "irqs;irq".into(), 0, true));
            }
            6 if depth > 1 && !*interrupt => {
                // A tail call.
                sim.run(pc, count, End::Plain);
                let callee = callable[numbers.below(3) as usize];
                if callee == *name {
                    continue;
                }
                let caller = path.rsplit_once(';').unwrap().0.to_owned();
                *stack.last_mut().unwrap() = (callee, format!("{caller};{callee}"), 0, false);
            }
            _ => sim.run(pc, count, End::Plain),
        }
    }
    (sim, model)
}

#[test]
fn every_instruction_and_every_nanosecond_is_counted_once() {
    for seed in 1..=400 {
        intervals_add_up(&anything(seed, false).finish());
    }
}

#[test]
fn nested_calls_are_where_a_model_has_them() {
    for seed in 1..=400 {
        let (sim, model) = nested_calls(seed, false);
        let seen = sim.finish();
        intervals_add_up(&seen);
        let mut found: BTreeMap<String, i64> = seen
            .stacks()
            .into_iter()
            .map(|(stack, (count, _))| (stack, count))
            .filter(|s| s.1 != 0)
            .collect();
        assert_eq!(found.remove("firmware"), Some(5));
        assert_eq!(found, model, "seed {seed}");
    }
}

/// The short ways do what the long one does, and are taken.
#[test]
fn the_usual_cases_leave_the_same_trace() {
    let mut usual = 0;
    for seed in 1..=400 {
        let sims = [anything(seed, false), nested_calls(seed, false).0];
        let long = [anything(seed, true), nested_calls(seed, true).0];
        for (short, long) in sims.into_iter().zip(long) {
            usual += short.usual;
            assert_eq!(long.usual, 0);
            assert_eq!(short.finish().text, long.finish().text, "seed {seed}");
        }
    }
    assert!(usual > 10_000, "{usual}");
}
