// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pure thinking: no files, no processes, no clock. Everything here is a plain function
//! or type on plain data, so that the real flow can be tested without a machine.

pub mod event;
pub mod fault;
pub mod layout;
pub mod machine;
pub mod plan;
pub mod scenario;
pub mod splat;
pub mod units;
