// SPDX-License-Identifier: MIT OR Apache-2.0
//! What touches files, processes and the network. Edges share only core types; all stand
//! on [`process`], [`files`], [`cache`], [`apt`], [`drivers`] and [`terminal`].

pub mod apt;
pub mod baselines;
pub mod cache;
pub mod drivers;
pub mod export;
pub mod files;
pub mod history;
pub mod host;
pub mod initramfs;
pub mod kernel;
pub mod module;
pub mod process;
pub mod qemu;
pub mod scenarios;
pub mod store;
pub mod terminal;
pub mod tracer;
