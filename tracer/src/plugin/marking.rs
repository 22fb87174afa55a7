// SPDX-License-Identifier: GPL-2.0-or-later
//! Marks-only mode: callbacks at the few instructions that enter or leave a marked function.

use std::ffi::{c_uint, c_void};

use qemu_plugin::{CallbackFlags as CbFlags, sys};

use super::{Tracer, guest, tracer, turn};
use crate::{
    clock::current_cpu,
    flow::Guest,
    insn::{self, End},
    marks::argument,
    spec::{Flags, Function},
};

/// A marked place in marks-only mode.
struct Place {
    function: Function,
    /// Instructions from here to the block's end.
    left: i64,
    /// What is done here.
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Enters,
    /// A module is loaded.
    Loads,
    Returns,
    Leaves,
    /// A return of some function that is not marked.
    OtherReturns,
    /// Where functions return to that went on elsewhere.
    Back,
    Resets,
}

impl Tracer {
    #[expect(clippy::too_many_arguments, reason = "what is known of one block")]
    pub(super) fn look_for_marks(
        &mut self,
        tb: *mut sys::qemu_plugin_tb,
        count: usize,
        pc: u64,
        last: *mut sys::qemu_plugin_insn,
        last_pc: u64,
        bytes: &[u8],
        end: End,
        target: u64,
        next: u64,
    ) {
        let shift = |left: usize| left as i64;
        if pc == 0xffff_fff0 {
            let what = What::Resets;
            let function = Function {
                address: pc,
                id: 0,
                flags: Flags(0),
            };
            let left = shift(count);
            return self.watch(
                unsafe { sys::qemu_plugin_tb_get_insn(tb, 0) },
                Place {
                    function,
                    left,
                    what,
                },
            );
        }
        if self.marks.translates(pc) {
            let function = Function {
                address: pc,
                id: 0,
                flags: Flags(0),
            };
            // The return was the instruction before.
            let (left, what) = (shift(count + 1), What::Back);
            let place = Place {
                function,
                left,
                what,
            };
            self.watch(unsafe { sys::qemu_plugin_tb_get_insn(tb, 0) }, place);
        }
        // Entries: marked functions that begin in this block.
        let from = self.spec.functions.partition_point(|f| f.address < pc);
        let begins: Vec<Function> = self.spec.functions[from..]
            .iter()
            .take_while(|f| f.address < next)
            .filter(|f| f.flags.any(Flags::MARK | Flags::MODULE))
            .copied()
            .collect();
        for function in begins {
            let index = (0..count).find(|n| unsafe {
                let insn = sys::qemu_plugin_tb_get_insn(tb, *n);
                sys::qemu_plugin_insn_vaddr(insn) == function.address
            });
            if let Some(index) = index {
                let insn = unsafe { sys::qemu_plugin_tb_get_insn(tb, index) };
                let left = shift(count - index);
                let what = if function.flags.any(Flags::MODULE) {
                    What::Loads
                } else {
                    What::Enters
                };
                self.watch(
                    insn,
                    Place {
                        function,
                        left,
                        what,
                    },
                );
            }
        }
        let Some(function) = self.spec.at(last_pc).copied() else {
            return;
        };
        let marked = function.flags.any(Flags::MARK | Flags::PART);
        let to = (target != 0).then(|| self.spec.at(target)).flatten();
        let to = to.filter(|f| !f.flags.any(Flags::APART));
        let thunk = insn::is_jump(bytes) && to.is_some_and(|f| f.flags.any(Flags::THUNK));
        // A jump by a table within the function is taken for one that leaves it, which harms
        // nothing: its own return ends it as well.
        let elsewhere = insn::is_indirect_jump(bytes)
            || insn::is_jump(bytes) && to.is_some_and(|f| f.id != function.id);
        let what = match (end, marked) {
            (End::Ret, true) => What::Returns,
            (End::Plain, true) if thunk => What::Returns,
            (End::Plain, true) if elsewhere => What::Leaves,
            (End::Ret, false) => What::OtherReturns,
            _ => return,
        };
        let left = 1;
        self.watch(
            last,
            Place {
                function,
                left,
                what,
            },
        );
    }

    fn watch(&mut self, insn: *mut sys::qemu_plugin_insn, place: Place) {
        let what = place.what;
        let data = std::ptr::from_ref::<Place>(Box::leak(Box::new(place)))
            .cast_mut()
            .cast();
        let flags = CbFlags::QEMU_PLUGIN_CB_R_REGS;
        // SAFETY: the place is never freed.
        unsafe {
            if what != What::OtherReturns {
                return sys::qemu_plugin_register_vcpu_insn_exec_cb(
                    insn,
                    Some(on_place),
                    flags,
                    data,
                );
            }
            #[cfg(feature = "conditions")]
            sys::qemu_plugin_register_vcpu_insn_exec_cond_cb(
                insn,
                Some(on_place),
                flags,
                sys::qemu_plugin_cond::QEMU_PLUGIN_COND_NE,
                self.elsewhere,
                0,
                data,
            );
        }
    }
}

unsafe extern "C" fn on_place(vcpu: c_uint, place: *mut c_void) {
    let _turn = turn();
    // SAFETY: holding the turn; the place is never freed.
    let (tracer, place) = unsafe { (tracer(), &*place.cast::<Place>()) };
    let mut guest = guest::Now {
        clock: tracer.clock,
        registers: &tracer.registers,
    };
    let stack = guest.stack_pointer().unwrap_or(0);
    // SAFETY: QEMU's variable of this thread.
    let running = unsafe { *current_cpu() } as usize;
    let vcpu = tracer.cpus.number(running, vcpu as usize) as c_uint;
    let (marks, out) = (&mut tracer.marks, &mut tracer.flow.out);
    // While a function that went on elsewhere is open, every return may come here.
    let of = (place.what == What::Returns).then_some(place.function.id);
    let at = place.function.address;
    let matters = match place.what {
        What::Returns | What::OtherReturns => marks.closes(of, stack),
        What::Back => marks.is_back(at, stack),
        _ => true,
    };
    if !matters {
        return;
    }
    let now = guest.now() - (place.left << tracer.spec.shift);
    match place.what {
        What::Enters => {
            let argument = argument(place.function.flags, &mut guest);
            marks.entered(&place.function, now, stack, vcpu, &argument, out);
        }
        What::Loads => crate::marks::loads(&mut guest, out),
        What::Returns | What::OtherReturns => marks.returns(of, now, stack, out),
        What::Leaves => marks.leaves(place.function.id, stack, guest.pointer(stack)),
        What::Back => marks.comes_back(at, now, stack, out),
        What::Resets => marks.reset(now, out),
    }
    #[cfg(feature = "conditions")]
    if place.what != What::Enters {
        let any = u64::from(tracer.marks.elsewhere());
        // SAFETY: made when the plugin was installed; these CPUs exist.
        unsafe {
            for cpu in 0..sys::qemu_plugin_num_vcpus() {
                sys::qemu_plugin_u64_set(tracer.elsewhere, cpu as c_uint, any);
            }
        }
    }
}
