// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module per subcommand; no command imports another.

pub mod baseline;
pub mod bench;
pub mod bisect;
pub mod clean;
pub mod compare;
pub mod doctor;
pub mod export;
pub mod judge;
pub mod list;
pub mod matrix;
pub mod merge;
pub mod profile;
pub mod report;
pub mod shell;
pub mod show;
pub mod test;
pub mod trend;
