// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host side of bootrig, in four rings; arrows point only inward:
//! [`cmd`] (subcommands) -> [`rig`] (a machine out of edges) -> [`edge`] (files, processes,
//! network) -> [`core`] (pure). `tests/layering.rs` holds the arrows in place.

#![warn(clippy::mod_module_files)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod cli;
pub mod cmd;
pub mod core;
pub mod edge;
pub mod rig;

#[cfg(test)]
#[path = "../tests/support/left_out.rs"]
mod left_out;
