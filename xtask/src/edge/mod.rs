// SPDX-License-Identifier: MIT OR Apache-2.0
//! What touches files, processes and the network. Edges share only core types.
pub mod process;
pub mod qemu;
