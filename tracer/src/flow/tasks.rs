// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks: each keeps its stack of frames while it does not run, has a name, and what it waited
//! for is where it had gone to sleep.

use super::{Block, Flow, Guest, Kind};
use crate::calls::TASKS;

/// Where the name of a task may be in its structure.
const TASK_BYTES: usize = 16 << 10;

impl Flow {
    /// `__switch_to_asm(prev, next)`.
    pub(super) fn switches(&mut self, vcpu: usize, block: &Block, guest: &mut impl Guest) {
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

    pub(super) fn task_name(&mut self, task: u64, guest: &mut impl Guest) -> String {
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
}
