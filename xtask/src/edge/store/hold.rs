// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who makes something in a folder holds it: nobody else goes on with it meanwhile, or
//! removes it.

use std::{fs::File, path::Path};

use anyhow::{Context, Result};

use crate::{core::fault::Fault, edge::files::lock};

/// The file that is locked.
const LOCK: &str = ".lock";

/// A folder that nobody else makes anything in until this is dropped, or we end.
#[derive(Debug)]
pub struct Held {
    _lock: File,
}

impl Held {
    /// Holds `dir`, the folder of `what` (a run, a search, a judgement).
    ///
    /// # Errors
    /// Usage: another process does.
    pub fn take(dir: &Path, what: &str) -> Result<Self> {
        let path = dir.join(LOCK);
        if path.symlink_metadata().is_ok_and(|m| !m.is_file()) {
            let why = format!("{} is no file; remove it", path.display());
            return Err(Fault::usage(why).into());
        }
        let file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        if !lock(&file) {
            let dir = dir.display();
            return Err(Fault::usage(format!(
                "{what} {dir} is being made by another process; wait for it or stop it"
            ))
            .into());
        }
        Ok(Self { _lock: file })
    }

    /// Holds `dir` if somebody ever did; whoever does not let others know makes nothing in it.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn take_if_held_before(dir: &Path, what: &str) -> Result<Option<Self>> {
        match dir.join(LOCK).is_file() {
            true => Self::take(dir, what).map(Some),
            false => Ok(None),
        }
    }
}
