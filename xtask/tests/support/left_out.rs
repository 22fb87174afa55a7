// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test that cannot do its work where it runs says so, in the words of `cargo xtask test`.

use std::{io::Write, thread};

/// Says on stderr that the calling test does not test what it is for (`why`). What tests print
/// is held back while they pass; this is not.
pub fn left_out(why: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "left out: {test}: {why}");
}
