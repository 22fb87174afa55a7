// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest's kernel did, as the tracer saw it from outside (docs/tracer.md): from symbols
//! to what the tracer is told, and from what it wrote to functions, windows and waits.

pub mod diff;
pub mod flame;
pub mod growth;
pub mod modules;
pub mod names;
pub mod parse;
pub mod phases;
pub mod record;
pub mod spec;
pub mod symbols;
pub mod table;
pub mod tally;
pub mod window;
