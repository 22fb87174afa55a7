// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runs that there are, and removing those that are not needed any more.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{Header, Run, read::summary};
use crate::{
    core::{
        fault::{Fault, text},
        summary::Summary,
    },
    edge::files::{lock, remove, usage},
};

/// A run's folder, and what is in it.
#[derive(Debug)]
pub struct Folder {
    /// Where.
    pub dir: PathBuf,
    /// run.yaml, or why it cannot be read.
    pub header: Result<Header, String>,
    /// summary.json, or why it cannot be read; `None`: the run was not finished.
    pub summary: Option<Result<Summary, String>>,
    /// Bytes on disk.
    pub bytes: u64,
}

/// The runs in `results`, the oldest first, those that cannot be read before them.
///
/// # Errors
/// Usage: `results` is no folder.
pub fn folders(results: &Path) -> Result<Vec<Folder>> {
    if !results.is_dir() {
        let results = results.display();
        let why = format!("{results} is no folder: name one that runs are kept in");
        return Err(Fault::usage(why).into());
    }
    let read = |dir: PathBuf| {
        let id = dir.file_name().unwrap_or_default().to_string_lossy();
        let header = Header::read(results, &id).map_err(|e| text(&e));
        let there = dir.join("summary.json").exists();
        let summary = there.then(|| summary(&dir, "`cargo xtask bench --resume` writes it"));
        Folder {
            summary: summary.map(|read| read.map_err(|e| text(&e))),
            bytes: usage(&dir),
            header,
            dir,
        }
    };
    let mut all: Vec<_> = Run::matching(results, "*")?.into_iter().map(read).collect();
    all.sort_by_cached_key(|f| {
        let header = f.header.as_ref().ok();
        (
            header.map(|h| (h.begun.clone(), h.id.clone())),
            f.dir.clone(),
        )
    });
    Ok(all)
}

/// The keys of all cache entries that the runs in `results` were made with.
///
/// # Errors
/// Usage: `results` is no place to look in, or a run in it cannot be read.
pub fn keys_used(results: &Path) -> Result<BTreeSet<String>> {
    let mut keys = BTreeSet::new();
    for folder in folders(results)? {
        let header = folder.header.map_err(|why| {
            Fault::usage(format!(
                "{why}; what that run uses is not known: remove it first"
            ))
        })?;
        keys.insert(header.machine.init);
        for kernel in header.kernels {
            keys.extend([kernel.key, kernel.modules]);
        }
    }
    Ok(keys)
}

/// Removes the run in `dir`, all at once for whoever looks at it.
///
/// # Errors
/// Usage: it is being made.
pub fn remove_run(dir: &Path) -> Result<()> {
    let path = dir.join(".lock");
    if let Ok(file) = File::options().append(true).open(&path)
        && !lock(&file)
    {
        let why = format!("run {} is being made by another process", dir.display());
        return Err(Fault::usage(why).into());
    }
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let aside = dir.with_file_name(format!(".removed-{name}"));
    fs::rename(dir, &aside).with_context(|| format!("removing {}", dir.display()))?;
    remove(&aside);
    Ok(())
}
