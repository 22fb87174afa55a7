// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pure thinking: no files, no processes, no clock. Everything here is a plain function
//! or type on plain data, so that the real flow can be tested without a machine.

pub mod apt_sources;
pub mod blame;
pub mod boot;
pub mod chart;
pub mod compare;
pub mod console;
pub mod event;
pub mod export;
pub mod fault;
pub mod grid;
pub mod growth;
pub mod ideal;
pub mod layout;
pub mod machine;
pub mod matrix;
pub mod measure;
pub mod metric;
pub mod nearest;
pub mod need;
pub mod oracle;
pub mod parts;
pub mod plan;
pub mod probing;
pub mod program;
pub mod qemu_version;
pub mod report;
pub mod samples;
pub mod scenario;
pub mod search;
pub mod shard;
pub mod show;
pub mod stats;
pub mod summary;
pub mod trace;
pub mod trend;
pub mod units;
pub mod yaml;
