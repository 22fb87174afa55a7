// SPDX-License-Identifier: GPL-2.0-or-later
//! A QEMU plugin that sees a guest's kernel from outside: which function executed how many
//! instructions, called by whom, and when chosen functions were entered and left. The kernel
//! needs no patch and no module for it.
//!
//! The host side (`xtask`) tells it where functions are ([`spec`]) and reads what it wrote
//! ([`out`]); docs/tracer.md describes both files. All that follows the guest ([`flow`],
//! [`calls`]) is plain code on plain data; only [`plugin`] and [`clock`] speak to QEMU.

#![cfg_attr(not(feature = "qemu"), allow(dead_code, reason = "only tests run it"))]

mod calls;
#[cfg(feature = "qemu")]
mod clock;
mod cpus;
mod flow;
mod insn;
mod marks;
mod out;
#[cfg(feature = "qemu")]
mod plugin;
mod spec;
