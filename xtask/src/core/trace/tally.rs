// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds up what a trace has of one window: by function, by call stack, and into what its
//! time went.

use std::collections::{BTreeMap, BTreeSet};

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
}

impl<'a> Tree<'a> {
    /// Looks up the name of every node.
    pub fn new(trace: &'a Trace, names: &Names) -> Self {
        let names = trace.nodes.iter().map(|n| names.of(n.key)).collect();
        Self { trace, names }
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
        let mut total = 0;
        for (node, (count, calls)) in self.counts(window) {
            total += count;
            self.add(&mut profile, node, count, calls);
        }
        profile.waits = self.waits(window);
        profile.idle = profile.waits.iter().map(|w| w.ns).sum();
        profile.unaccounted = profile.length - profile.idle - total * profile.ns_per_instruction;
        profile
    }

    fn add(&self, profile: &mut Profile, node: u32, count: i64, calls: u64) {
        let stack = self.stack(node);
        match stack[0] {
            USER => return profile.user += count,
            FIRMWARE => return profile.firmware += count,
            INTERRUPTS => profile.interrupts += count,
            _ => profile.tasks += count,
        }
        let known = node >= ROOTS && self.names[(node - ROOTS) as usize].is_some();
        if !known {
            profile.nameless += count;
        }
        let own = profile
            .functions
            .entry(self.name(node).to_owned())
            .or_default();
        own.own += count;
        own.calls += calls;
        if !self.trace.stacks {
            return;
        }
        // A function that calls itself has its instructions once.
        let names: BTreeSet<&str> = stack
            .iter()
            .filter(|n| **n >= ROOTS)
            .map(|n| self.name(*n))
            .collect();
        for name in names {
            if let Some(function) = profile.functions.get_mut(name) {
                function.with_callees += count;
            } else {
                let function = Function {
                    with_callees: count,
                    ..Function::default()
                };
                profile.functions.insert(name.to_owned(), function);
            }
        }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{
            parse::{Interval, Key, Node, Visit},
            window::windows,
        },
        *,
    };

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("f{n}")).collect()
    }

    fn whole(trace: &Trace) -> Profile {
        let known = names(8);
        let names = Names {
            known: &known,
            modules: &[],
            symbols: None,
        };
        let window = windows(trace, &names).remove(0);
        Tree::new(trace, &names).profile(&window)
    }

    fn trace(nodes: Vec<Node>, counts: Vec<(u32, i64, u32)>, end: i64) -> Trace {
        Trace {
            stacks: true,
            shift: 1,
            nodes,
            intervals: vec![Interval { end, counts }],
            boots: vec![(0, 0)],
            complete: true,
            ..Trace::default()
        }
    }

    fn node(parent: u32, known: u32) -> Node {
        Node {
            parent,
            key: Key::Known(known),
        }
    }

    #[test]
    fn instructions_belong_to_a_function_and_once_to_each_of_its_callers() {
        // f0 calls f1, which calls f0 again; an interrupt runs f1.
        let nodes = vec![node(TASKS, 0), node(4, 1), node(5, 0), node(INTERRUPTS, 1)];
        let counts = vec![(4, 10, 1), (5, 20, 2), (6, 5, 3), (7, 7, 1), (USER, 100, 0)];
        let profile = whole(&trace(nodes, counts, 2 * 142));
        let of = |name: &str| profile.functions[name].clone();
        assert_eq!(
            (of("f0").own, of("f0").with_callees, of("f0").calls),
            (15, 35, 4)
        );
        assert_eq!((of("f1").own, of("f1").with_callees), (27, 32));
        assert_eq!(
            (profile.tasks, profile.interrupts, profile.user),
            (35, 7, 100)
        );
        assert_eq!((profile.unaccounted, profile.nameless), (0, 0));
    }

    #[test]
    fn what_has_no_name_is_counted_as_such() {
        let nodes = vec![
            node(TASKS, 99),
            Node {
                parent: TASKS,
                key: Key::At(1 << 63),
            },
        ];
        let profile = whole(&trace(nodes, vec![(4, 10, 1), (5, 20, 1)], 60));
        assert_eq!(profile.nameless, 30);
        assert_eq!(profile.attributed(), 0.0);
    }

    #[test]
    fn waits_belong_to_who_was_waited_for() {
        let nodes = vec![node(TASKS, 0), node(4, 1)];
        let mut trace = trace(nodes, vec![(4, 10, 1)], 1000);
        let idle = |begin, length, node, task: &str| Idle {
            begin,
            length,
            node,
            task: task.into(),
        };
        trace.idle = vec![
            idle(20, 400, 5, "a"),
            idle(500, 100, 5, "a"),
            idle(990, 50, 4, "b"),
        ];
        let profile = whole(&trace);
        let found: Vec<_> = profile
            .waits
            .iter()
            .map(|w| (w.ns, w.times, w.task.as_str()))
            .collect();
        assert_eq!(found, [(500, 2, "a"), (10, 1, "b")]);
        assert_eq!(profile.waits[0].stack, ["f0", "f1"]);
        assert_eq!(profile.idle, 510);
    }

    #[test]
    fn a_thread_that_has_nothing_to_do_ends_no_wait_and_a_device_is_named() {
        // f0 is kthread's place in these names: see `names`.
        let known: Vec<String> = ["kthread", "worker_thread", "device_shutdown", "msleep"]
            .map(str::to_owned)
            .into();
        let nodes = vec![node(TASKS, 0), node(4, 1), node(TASKS, 2), node(6, 3)];
        let mut trace = trace(nodes, vec![], 1000);
        let idle = |begin, length, node| Idle {
            begin,
            length,
            node,
            task: String::new(),
        };
        trace.idle = vec![idle(100, 50, 5), idle(160, 40, 7)];
        trace.visits = vec![Visit {
            entered: 90,
            left: Some(220),
            intervals: (0, None),
            function: 2,
            argument: Argument::Device("0000:00:01.0".into()),
            task: String::new(),
            cpu: 0,
        }];
        let names = Names {
            known: &known,
            modules: &[],
            symbols: None,
        };
        let window = windows(&trace, &names).remove(0);
        let waits = Tree::new(&trace, &names).profile(&window).waits;
        assert_eq!(waits.len(), 1);
        assert_eq!(
            (waits[0].ns, waits[0].device.as_str()),
            (90, "0000:00:01.0")
        );
        assert_eq!(waits[0].stack, ["device_shutdown", "msleep"]);
    }

    proptest! {
        /// Whatever was executed and waited for, the parts add up to the window.
        #[test]
        fn the_parts_are_the_window(
            parents in prop::collection::vec(0u32..4, 1..20),
            counts in prop::collection::vec((0u32..20, 0i64..1000), 0..40),
            idle in prop::collection::vec((0i64..5000, 1i64..300), 0..10),
        ) {
            let nodes: Vec<_> = parents.iter().enumerate().map(|(n, p)| node(*p, n as u32 % 8)).collect();
            let most = nodes.len() as u32 + ROOTS;
            let counts: Vec<_> = counts.into_iter().map(|(n, c)| (n % most, c, 1)).collect();
            let mut trace = trace(nodes, counts, 6000);
            trace.idle = idle.into_iter().map(|(begin, length)| Idle { begin, length, node: TASKS, task: String::new() }).collect();
            let p = whole(&trace);
            let instructions = p.tasks + p.interrupts + p.user + p.firmware;
            prop_assert_eq!(instructions * 2 + p.idle + p.unaccounted, p.length);
            prop_assert_eq!(p.functions.values().map(|f| f.own).sum::<i64>(), p.kernel());
        }
    }
}
