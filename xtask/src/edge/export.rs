// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is written of a run for others to read.

use std::{fs::File, io::Write, path::Path};

use anyhow::{Context, Result};

use super::files::{self, free_space, write_whole};

/// Writes the file `name` into the run's folder `dir`, whole or not at all.
///
/// # Errors
/// When the disk is full or fails.
pub fn write(dir: &Path, name: &str, text: &str) -> Result<()> {
    const ADVICE: &str = "free some there, then give the command again";
    files::sweep(dir);
    write_whole(&dir.join(name), text.as_bytes())
        .map_err(|e| files::explain(e, dir, free_space(dir), ADVICE))
}

/// Writes the file `path`, which the user named, whole or not at all.
///
/// # Errors
/// Usage: it cannot be one. When the disk is full or fails.
pub fn write_to(path: &Path, text: &str) -> Result<()> {
    const ADVICE: &str = "free some there, or write to another disk with --out FILE";
    files::to_be_written(path)?;
    files::sweep(path.parent().unwrap_or(Path::new(".")));
    write_whole(path, text.as_bytes())
        .map_err(|e| files::explain(e, path, free_space(path), ADVICE))
}

/// Adds a report to the file `path`: CI systems collect what several steps add.
///
/// # Errors
/// When it cannot be written.
pub fn append(path: &Path, text: &str) -> Result<()> {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("adding the report to {}", path.display()))
}
