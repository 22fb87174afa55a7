// SPDX-License-Identifier: GPL-2.0-or-later
//! The clock beside the counts: what it went on by, less the instructions, is time in which
//! nothing ran. Counts and clock are brought together at each border.

use super::{Block, Flow, Guest, NOTHING};
use crate::calls::TASKS;

impl Flow {
    pub(super) fn start_of(&self, block: &Block, guest: &mut impl Guest) -> i64 {
        guest.now() - (block.count << self.spec.shift)
    }

    /// Gives what a CPU executed to its node.
    pub(super) fn give(&mut self, vcpu: usize) {
        let cpu = &mut self.cpus[vcpu];
        let pending = std::mem::take(&mut cpu.pending);
        self.calls.add(cpu.node, pending);
        self.executed += pending;
    }

    /// At `now`, where `runs` begins a block, if one does.
    pub(super) fn border(&mut self, runs: Option<usize>, now: i64) {
        (0..self.cpus.len()).for_each(|cpu| self.give(cpu));
        self.settle(runs, now);
        self.out.border(now, &mut self.calls);
        // From here on time and instructions agree again.
        self.base = now - (self.executed << self.spec.shift);
    }

    /// After a halt: how long did nothing run?
    pub(super) fn wakes(&mut self, vcpu: usize, block: &Block, guest: &mut impl Guest) {
        (0..self.cpus.len()).for_each(|cpu| self.give(cpu));
        let now = self.start_of(block, guest);
        self.settle(Some(vcpu), now);
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

    /// The machine starts anew.
    pub(super) fn reset(&mut self, block: &Block, guest: &mut impl Guest) {
        let now = self.start_of(block, guest);
        // What reset the machine ended its block.
        self.border(None, now);
        self.nobody_waits();
        self.out.line(format_args!("b {now}"));
        self.out.flush();
        self.kernel_runs = false;
        self.tasks.clear();
        self.idlers.clear();
        self.outer.clear();
        for cpu in &mut self.cpus {
            cpu.frames.clear();
            (cpu.last, cpu.taken, cpu.task) = (&NOTHING, 0, 0);
        }
    }

    pub(super) fn nobody_waits(&mut self) {
        for (begin, length) in std::mem::take(&mut self.idle) {
            self.out.idle(begin, length, TASKS, "");
        }
    }

    /// The machine ends at `now`.
    pub fn end(&mut self, now: i64) {
        if self.begun {
            self.border(None, now);
            self.nobody_waits();
        }
    }
}
