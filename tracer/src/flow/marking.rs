// SPDX-License-Identifier: GPL-2.0-or-later
//! Marks in a profile: a marked function's frame carries its mark, so that whatever takes the
//! frame off ends it.

use super::{Block, Flow, Guest};
use crate::{marks::argument, spec::Flags};

impl Flow {
    pub(super) fn mark(&mut self, vcpu: usize, block: &Block, guest: &mut impl Guest) {
        let now = self.start_of(block, guest);
        let window = block.flags.any(Flags::WINDOW);
        if window {
            self.border(Some(vcpu), now);
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

    pub(super) fn marks_return(&mut self, vcpu: usize, serial: u32, now: i64) {
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
            self.border(Some(vcpu), now);
        }
    }
}
