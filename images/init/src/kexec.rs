// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads the kernel that kexec jumps into.

use std::{ffi::CString, fs};

use crate::{
    failure::{Failure, during},
    initrd, sys,
};

const KERNEL: &str = "/bootrig/kernel";
const INITRD: &str = "/tmp/kexec-initrd";

/// Loads `/bootrig/kernel` with this kernel's command line and an initramfs that holds
/// PID 1 alone: the second boot needs no more. Needs CONFIG_KEXEC_FILE.
pub fn load() -> Result<(), Failure> {
    let kernel = fs::File::open(KERNEL).map_err(during("kexec:kernel"))?;
    let myself = fs::read("/proc/self/exe").map_err(during("kexec:init"))?;
    fs::write(INITRD, initrd::with_init(&myself)).map_err(during("kexec:initrd"))?;
    let initrd = fs::File::open(INITRD).map_err(during("kexec:initrd"))?;
    let line = fs::read_to_string("/proc/cmdline").map_err(during("kexec:cmdline"))?;
    let line =
        CString::new(line.trim_end()).map_err(|_| Failure::new("kexec:cmdline", sys::EINVAL))?;
    sys::kexec_load(&kernel, &initrd, &line).map_err(|()| Failure::last("kexec_file_load"))
}
