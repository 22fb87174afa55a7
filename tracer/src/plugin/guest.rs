// SPDX-License-Identifier: GPL-2.0-or-later
//! Reading the guest through QEMU, as far as its plugin API goes.

use qemu_plugin::sys;

use crate::{clock::Clock, flow::Guest};

/// An instruction's bytes.
pub fn bytes(insn: *mut sys::qemu_plugin_insn) -> Vec<u8> {
    // SAFETY: the instruction is valid while its block is translated.
    unsafe {
        let length = sys::qemu_plugin_insn_size(insn).min(16);
        let mut bytes = vec![0; length];
        #[cfg(feature = "conditions")]
        sys::qemu_plugin_insn_data(insn, bytes.as_mut_ptr().cast(), length);
        #[cfg(not(feature = "conditions"))]
        bytes.copy_from_slice(std::slice::from_raw_parts(
            sys::qemu_plugin_insn_data(insn).cast(),
            length,
        ));
        bytes
    }
}

#[cfg(feature = "registers")]
mod glib {
    use qemu_plugin::sys::{GArray, GByteArray};
    // QEMU is linked with it.
    unsafe extern "C" {
        pub fn g_byte_array_new() -> *mut GByteArray;
        pub fn g_byte_array_set_size(array: *mut GByteArray, length: u32) -> *mut GByteArray;
        #[cfg(feature = "memory")]
        pub fn g_byte_array_free(array: *mut GByteArray, free_segment: i32) -> *mut u8;
        pub fn g_array_free(array: *mut GArray, free_segment: i32) -> *mut i8;
    }
}

/// QEMU's handles of the registers that are asked for; the same for all CPUs.
#[derive(Default)]
pub struct Registers {
    #[cfg(feature = "registers")]
    handles: [usize; 3],
    /// An array of QEMU's kind, for whoever reads next.
    #[cfg(feature = "registers")]
    array: Option<std::ptr::NonNull<sys::GByteArray>>,
}

#[cfg(feature = "registers")]
const NAMES: [&str; 3] = ["rdi", "rsi", "rsp"];

impl Registers {
    /// Asks for them, in a CPU's initialisation.
    pub fn find(&mut self) {
        #[cfg(feature = "registers")]
        // SAFETY: the array is ours to free, its texts are QEMU's.
        unsafe {
            let list = sys::qemu_plugin_get_registers();
            let entries = std::slice::from_raw_parts(
                (*list).data.cast::<sys::qemu_plugin_reg_descriptor>(),
                (*list).len as usize,
            );
            for entry in entries {
                let name = std::ffi::CStr::from_ptr(entry.name).to_bytes();
                if let Some(at) = NAMES.iter().position(|n| n.as_bytes() == name) {
                    self.handles[at] = entry.handle as usize;
                }
            }
            glib::g_array_free(list, 1);
            self.array = std::ptr::NonNull::new(glib::g_byte_array_new());
        }
    }

    #[cfg(not(feature = "registers"))]
    fn read(&self, _: usize) -> Option<u64> {
        None
    }

    #[cfg(feature = "registers")]
    fn read(&self, at: usize) -> Option<u64> {
        let handle = self.handles[at];
        if handle == 0 {
            return None;
        }
        // SAFETY: the handle is QEMU's, the array ours, and the callback asked for registers.
        unsafe {
            let array = self.array?.as_ptr();
            glib::g_byte_array_set_size(array, 0);
            let read = sys::qemu_plugin_read_register(handle as *mut _, array);
            let bytes = std::slice::from_raw_parts((*array).data, (*array).len as usize);
            let value = bytes.first_chunk().copied().map(u64::from_le_bytes);
            value.filter(|_| read == 8)
        }
    }
}

/// The guest as it is in a callback.
pub struct Now<'a> {
    /// QEMU's clock.
    pub clock: Clock,
    /// Its registers.
    pub registers: &'a Registers,
}

impl Guest for Now<'_> {
    fn now(&mut self) -> i64 {
        self.clock.now()
    }
    fn first_argument(&mut self) -> Option<u64> {
        self.registers.read(0)
    }
    fn second_argument(&mut self) -> Option<u64> {
        self.registers.read(1)
    }
    fn stack_pointer(&mut self) -> Option<u64> {
        self.registers.read(2)
    }

    #[cfg(not(feature = "memory"))]
    fn read(&mut self, _: u64, _: usize) -> Option<Vec<u8>> {
        None
    }

    #[cfg(feature = "memory")]
    fn read(&mut self, at: u64, length: usize) -> Option<Vec<u8>> {
        // The kernel's half, with four or five levels of page tables.
        if at >> 56 != 0xff {
            return None;
        }
        // SAFETY: the array is ours.
        unsafe {
            let array = glib::g_byte_array_new();
            let read = sys::qemu_plugin_read_memory_vaddr(at, array, length);
            let bytes = (read && (*array).len as usize >= length)
                .then(|| std::slice::from_raw_parts((*array).data, length).to_vec());
            glib::g_byte_array_free(array, 1);
            bytes
        }
    }
}
