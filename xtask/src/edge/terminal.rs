// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard output is for results, standard error for progress. A reader that goes away
//! (`| head`, a closed pager) is no failure: what is being measured goes on and is kept.

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// Writes `text`, a result, as it is.
///
/// # Errors
/// When it cannot be written, save for a reader that has gone: a full disk loses results.
pub fn out(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e).context("writing to standard output"),
        _ => Ok(()),
    }
}

/// [`out`] for a line.
///
/// # Errors
/// As [`out`].
pub fn out_line(line: &str) -> Result<()> {
    out(&format!("{line}\n"))
}

/// Writes a line of progress, if anybody reads it.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
