// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU's virtual clock. The plugin API has no way to read it, so this goes to the functions
//! that QEMU itself reads it with; a QEMU built with loadable modules (as distributions
//! build it) exports them. Where they are missing there is no clock, which is found when the
//! plugin is loaded.
//!
//! Counting instructions, QEMU refuses to read the clock in the middle of a block, since what
//! the block has executed of itself is not known there. Here that is no matter: the time
//! is taken as of the block's end, and the caller knows how much is left until then. So the
//! instructions executed so far are booked first, and the reader makes itself unknown to
//! QEMU for the time of the reading, as if it were another thread.

use std::{
    cell::Cell,
    ffi::{CStr, c_char, c_int, c_void},
};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

/// QEMU_CLOCK_VIRTUAL.
const VIRTUAL: c_int = 1;

thread_local! {
    /// Where QEMU has this thread's CPU, once it was looked for.
    static CURRENT: Cell<*mut *mut c_void> = const { Cell::new(std::ptr::null_mut()) };
}

/// The clock.
#[derive(Clone, Copy)]
pub struct Clock {
    get: unsafe extern "C" fn(c_int) -> i64,
    /// Books what a CPU has executed; only where instructions are counted.
    update: Option<unsafe extern "C" fn(*mut c_void)>,
}

impl Clock {
    /// Finds it; `counting`: the machine counts instructions.
    ///
    /// # Errors
    /// Names what this QEMU does not export.
    pub fn find(counting: bool) -> Result<Self, String> {
        let get = symbol(c"qemu_clock_get_ns")?;
        symbol(c"current_cpu")?;
        let update = counting.then(|| symbol(c"icount_update")).transpose()?;
        // SAFETY: these are their types in every QEMU with plugins.
        unsafe {
            Ok(Self {
                get: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> i64>(get),
                update: update.map(|f| {
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(f)
                }),
            })
        }
    }

    /// Virtual time in ns; in a block, as of the block's end.
    pub fn now(self) -> i64 {
        let current = current_cpu();
        // SAFETY: it was there when the clock was found, and is a pointer that only this
        // thread changes. It has its value again before QEMU's code goes on.
        unsafe {
            let cpu = *current;
            if let (Some(update), false) = (self.update, cpu.is_null()) {
                update(cpu);
            }
            *current = std::ptr::null_mut();
            let now = (self.get)(VIRTUAL);
            *current = cpu;
            now
        }
    }
}

/// Where QEMU has the CPU that runs in this thread.
pub fn current_cpu() -> *mut *mut c_void {
    CURRENT.with(|current| {
        if current.get().is_null() {
            // A variable of each thread: looked up in the thread that reads.
            // SAFETY: as in `symbol`.
            let found = unsafe { dlsym(std::ptr::null_mut(), c"current_cpu".as_ptr()) };
            current.set(found.cast());
        }
        current.get()
    })
}

fn symbol(name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the default handle, and a text that ends with a zero.
    let found = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
    if found.is_null() {
        return Err(format!(
            "this QEMU does not export {}",
            name.to_string_lossy()
        ));
    }
    Ok(found)
}
