// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine that we run on: what it has, what it lacks, and how it gets that.
//!
//! - [`needs`]: every tool that bootrig uses, looked for itself, not in a package database.
//! - [`distro`]: which distribution this is, and its package manager.
//! - [`packages`]: what the tools are called there, and the commands that install them.
//! - [`install`]: running those commands, with consent.
//! - [`fingerprint`]: what a run's record says about the machine.

mod apt;
pub mod distro;
pub mod fingerprint;
pub mod install;
pub mod needs;
pub mod packages;
pub mod resources;

pub use install::{Wishes, ensure};
pub use needs::{Need, browser};
