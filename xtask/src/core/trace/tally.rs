// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds up what a trace has of one window: by function, by call stack, and into what its
//! time went.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    names::Names,
    parse::{Argument, FIRMWARE, INTERRUPTS, Idle, ROOTS, TASKS, Trace, USER},
    window::Window,
};

/// A function in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Instructions of its own.
    pub own: i64,
    /// Those of what it called as well; 0 where calls could not be followed.
    pub with_callees: i64,
    /// How often it was called; as above.
    pub calls: u64,
}

/// Time in which nothing ran, and where the task that was waited for slept. What wakes up a
/// kernel thread that has nothing to do (a watchdog, delayed work) ends nobody's wait: that
/// time belongs to who ran next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// How long, ns.
    pub ns: i64,
    /// How often.
    pub times: u64,
    /// The task; empty: none ran any more, or it has no name.
    pub task: String,
    /// The device whose shutdown callback was under way; the one that ended last, where there
    /// were several. Empty: none.
    pub device: String,
    /// Its call stack, outermost first, without the scheduler's functions.
    pub stack: Vec<String>,
}

/// One window of one boot. All times add up to `length`, all instructions too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The window.
    pub window: String,
    /// Its length, ns of virtual time.
    pub length: i64,
    /// The machine was reset or ended before the window did.
    pub cut: bool,
    /// ns for an instruction.
    pub ns_per_instruction: i64,
    /// Instructions of the kernel for tasks.
    pub tasks: i64,
    /// In interrupts.
    pub interrupts: i64,
    /// In user space.
    pub user: i64,
    /// Before the kernel, and what starts CPUs.
    pub firmware: i64,
    /// ns in which nothing ran.
    pub idle: i64,
    /// ns that the clock went on without an instruction that was counted.
    pub unaccounted: i64,
    /// Instructions of the kernel without a function's name.
    pub nameless: i64,
    /// Functions of the kernel and its modules, by name.
    pub functions: BTreeMap<String, Function>,
    /// Largest first.
    pub waits: Vec<Wait>,
}

impl Profile {
    /// Instructions of the kernel.
    pub fn kernel(&self) -> i64 {
        self.tasks + self.interrupts
    }
    /// Of the kernel's instructions, how many belong to a named function.
    pub fn attributed(&self) -> f64 {
        if self.kernel() == 0 {
            return 1.0;
        }
        1.0 - self.nameless as f64 / self.kernel() as f64
    }
}

/// Functions of no interest in a call stack that sleeps.
const SCHEDULER: [&str; 8] = [
    "__switch_to_asm",
    "__switch_to",
    "__schedule",
    "schedule",
    "finish_task_switch",
    "schedule_idle",
    "context_switch",
    "preempt_schedule_common",
];

/// Kernel threads whose waits are nobody's.
const HOUSEKEEPERS: [&str; 3] = ["rcu_gp_kthread", "rcu_tasks_kthread", "smpboot_thread_fn"];
/// The smallest part of a window that a flame graph's stacks have: one in so many.
const FINEST: i64 = 100_000;

/// A trace with its names, ready for any window.
pub struct Tree<'a> {
    trace: &'a Trace,
    names: Vec<Option<String>>,
    /// Whether a node is of a function that none above it is of: with what it called it counts
    /// for that function once.
    outermost: Vec<bool>,
    /// Whether it is of the kernel, for a task or in an interrupt.
    of_kernel: Vec<bool>,
}

impl<'a> Tree<'a> {
    /// Looks up the name of every node.
    pub fn new(trace: &'a Trace, names: &Names) -> Self {
        let names: Vec<Option<String>> = trace.nodes.iter().map(|n| names.of(n.key)).collect();
        let outermost = outermost(trace, &names);
        let mut of_kernel: Vec<bool> = Vec::with_capacity(names.len());
        for node in &trace.nodes {
            of_kernel.push(match node.parent.checked_sub(ROOTS) {
                Some(index) => of_kernel[index as usize],
                None => matches!(node.parent, TASKS | INTERRUPTS),
            });
        }
        Self {
            trace,
            names,
            outermost,
            of_kernel,
        }
    }

    fn name(&self, node: u32) -> &str {
        match node {
            TASKS => "[tasks]",
            USER => "[user space]",
            FIRMWARE => "[firmware]",
            INTERRUPTS => "[interrupts]",
            _ => self.names[(node - ROOTS) as usize]
                .as_deref()
                .unwrap_or("[unknown]"),
        }
    }

    fn parent(&self, node: u32) -> Option<u32> {
        node.checked_sub(ROOTS)
            .map(|n| self.trace.nodes[n as usize].parent)
    }

    /// From the outermost to `node`.
    fn stack(&self, node: u32) -> Vec<u32> {
        let mut stack = vec![node];
        while let Some(parent) = self.parent(*stack.last().expect("begins with one")) {
            stack.push(parent);
        }
        stack.reverse();
        stack
    }

    /// Instructions and calls of each node in a window.
    fn counts(&self, window: &Window) -> BTreeMap<u32, (i64, u64)> {
        let mut counts: BTreeMap<u32, (i64, u64)> = BTreeMap::new();
        let intervals = self.trace.intervals.get(window.intervals.clone());
        for (node, count, calls) in intervals.unwrap_or_default().iter().flat_map(|i| &i.counts) {
            let of = counts.entry(*node).or_default();
            of.0 += count;
            of.1 += u64::from(*calls);
        }
        counts
    }

    /// The window's profile.
    pub fn profile(&self, window: &Window) -> Profile {
        let mut profile = Profile {
            window: window.name.clone(),
            length: window.length(),
            cut: window.cut,
            ns_per_instruction: 1 << self.trace.shift,
            ..Profile::default()
        };
        let counts = self.counts(window);
        let total: i64 = counts.values().map(|(count, _)| count).sum();
        self.add(&mut profile, counts);
        profile.waits = self.waits(window);
        profile.idle = profile.waits.iter().map(|w| w.ns).sum();
        profile.unaccounted = profile.length - profile.idle - total * profile.ns_per_instruction;
        profile
    }

    fn add(&self, profile: &mut Profile, counts: BTreeMap<u32, (i64, u64)>) {
        let mut functions: BTreeMap<&str, Function> = BTreeMap::new();
        // Own instructions, calls, and the instructions of all that was called.
        let mut left: BTreeMap<u32, (i64, u64, i64)> = counts
            .into_iter()
            .map(|(node, (own, calls))| (node, (own, calls, 0)))
            .collect();
        // A caller's number is less than those of whom it calls.
        while let Some((node, (own, calls, below))) = left.pop_last() {
            let all = own + below;
            match node {
                USER => profile.user += all,
                FIRMWARE => profile.firmware += all,
                INTERRUPTS => profile.interrupts += all,
                TASKS => profile.tasks += all,
                _ => {}
            }
            let parent = self.parent(node);
            if let Some(parent) = parent {
                left.entry(parent).or_default().2 += all;
            }
            let of_kernel = match node.checked_sub(ROOTS) {
                Some(index) => self.of_kernel[index as usize],
                None => matches!(node, TASKS | INTERRUPTS) && (own, calls) != (0, 0),
            };
            if !of_kernel {
                continue;
            }
            if node < ROOTS || self.names[(node - ROOTS) as usize].is_none() {
                profile.nameless += own;
            }
            let function = functions.entry(self.name(node)).or_default();
            function.own += own;
            function.calls += calls;
            // A function that calls itself has its instructions once.
            let outermost = parent.is_some() && self.outermost[(node - ROOTS) as usize];
            if self.trace.stacks && outermost {
                function.with_callees += all;
            }
        }
        let named = functions.into_iter();
        profile.functions = named.map(|(name, f)| (name.to_owned(), f)).collect();
    }

    fn waits(&self, window: &Window) -> Vec<Wait> {
        let mut waits: BTreeMap<(Vec<String>, &str, &str), (i64, u64)> = BTreeMap::new();
        let (from, to) = window.span;
        let mut pieces: Vec<&Idle> = self.trace.idle.iter().collect();
        pieces.sort_by_key(|idle| idle.begin);
        let mut next: Option<&Idle> = None;
        for idle in pieces.into_iter().rev() {
            let ns = to.min(idle.begin + idle.length) - from.max(idle.begin);
            let waiter = match next {
                Some(next) if self.has_nothing_to_do(idle.node) => next,
                _ => idle,
            };
            next = Some(waiter);
            if ns > 0 {
                let key = (
                    self.sleeper(waiter.node),
                    waiter.task.as_str(),
                    self.device(idle),
                );
                let of = waits.entry(key).or_default();
                *of = (of.0 + ns, of.1 + 1);
            }
        }
        let mut waits: Vec<Wait> = waits
            .into_iter()
            .map(|((stack, task, device), (ns, times))| Wait {
                ns,
                times,
                task: task.to_owned(),
                device: device.to_owned(),
                stack,
            })
            .collect();
        waits.sort_by_key(|w| std::cmp::Reverse(w.ns));
        waits
    }

    /// The call stack that sleeps, outermost first, without the scheduler.
    fn sleeper(&self, node: u32) -> Vec<String> {
        let stack = self.stack(node).into_iter().filter(|n| *n >= ROOTS);
        let mut stack: Vec<String> = stack.map(|n| self.name(n).to_owned()).collect();
        while stack
            .last()
            .is_some_and(|n| SCHEDULER.contains(&n.as_str()))
        {
            stack.pop();
        }
        stack
    }

    /// A kernel thread in its outermost loop, or one that only keeps the kernel's house.
    fn has_nothing_to_do(&self, node: u32) -> bool {
        let stack = self.sleeper(node);
        let of = stack
            .iter()
            .position(|f| f == "kthread")
            .map(|at| &stack[at + 1..]);
        of.is_some_and(|of| of.len() <= 1 || HOUSEKEEPERS.contains(&of[0].as_str()))
    }

    fn device(&self, idle: &Idle) -> &str {
        let (from, to) = (idle.begin, idle.begin + idle.length);
        let under_way = self.trace.visits.iter().filter_map(|v| match &v.argument {
            Argument::Device(name) if v.entered < to && v.left.is_none_or(|l| l > from) => {
                Some((v.left.unwrap_or(i64::MAX), name.as_str()))
            }
            _ => None,
        });
        under_way.max().map_or("", |v| v.1)
    }

    /// Call stacks with their instructions, outermost first and joined by `;`, one a line, as
    /// flame graphs are made of; sorted. What is less than a hundred thousandth of the whole
    /// counts for its caller.
    pub fn folded(&self, window: &Window) -> String {
        let mut counts: BTreeMap<u32, i64> = BTreeMap::new();
        for (node, (count, _)) in self.counts(window) {
            counts.insert(node, count);
        }
        let least = counts.values().sum::<i64>() / FINEST;
        let mut stacks: BTreeMap<String, i64> = BTreeMap::new();
        // A caller's number is less than those of whom it calls.
        while let Some((node, count)) = counts.pop_last() {
            match self.parent(node) {
                Some(parent) if count < least => *counts.entry(parent).or_default() += count,
                _ => {
                    let names: Vec<&str> =
                        self.stack(node).into_iter().map(|n| self.name(n)).collect();
                    *stacks.entry(names.join(";")).or_default() += count;
                }
            }
        }
        stacks
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(stack, count)| format!("{stack} {count}\n"))
            .collect()
    }
}

/// Of each node, whether no node above it is of the same function.
fn outermost(trace: &Trace, names: &[Option<String>]) -> Vec<bool> {
    let mut numbers: BTreeMap<&Option<String>, u32> = BTreeMap::new();
    let functions: Vec<u32> = names
        .iter()
        .map(|name| {
            let next = numbers.len() as u32;
            *numbers.entry(name).or_insert(next)
        })
        .collect();
    let is_first = |node: usize| {
        let mut above = trace.nodes[node].parent;
        while let Some(index) = above.checked_sub(ROOTS) {
            if functions[index as usize] == functions[node] {
                return false;
            }
            above = trace.nodes[index as usize].parent;
        }
        true
    };
    (0..functions.len()).map(is_first).collect()
}

#[cfg(test)]
mod tests;
