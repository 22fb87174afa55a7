// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU: which one there is ([`find()`]), what it is told ([`command()`]), whether KVM
//! really works here ([`choose`]), and one machine's life ([`boot`]).

mod attach;
mod command;
mod find;
mod kernel_words;
mod limits;
mod probe;
mod qmp;
mod rom;
mod run;
mod watch;

pub use command::{
    Accelerator, BootFiles, COMMAND, CommandLine, Host, Note, SHIFT, command, gdb_args, gdb_hint,
    interactive, shell_quote,
};
pub use find::{Qemu, find};
pub use limits::Limits;
pub use probe::{AccelChoice, Probe, ProbeImage, choose, host_tsc_khz, kvm_missing, remembered};
pub use qmp::Order;
pub use rom::sync_rom;
pub use run::boot;
