// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's initramfs: a deterministic cpio archive, and PID 1 for it.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::cache::Cache;

/// Files for an initramfs. Parents are made by themselves; /dev/console is always there.
#[derive(Clone, Debug, Default)]
pub struct Archive {}

impl Archive {
    /// An archive that holds only /dev/console.
    pub fn new() -> Self {
        todo!()
    }
    /// Adds a file with these permission bits (0o755, 0o644).
    pub fn file(&mut self, path: &str, mode: u32, bytes: impl Into<Vec<u8>>) -> Result<&mut Self> {
        let _ = (path, mode, bytes.into());
        todo!()
    }
    /// Adds an empty directory.
    pub fn dir(&mut self, path: &str, mode: u32) -> Result<&mut Self> {
        let _ = (path, mode);
        todo!()
    }
    /// Adds a symbolic link.
    pub fn symlink(&mut self, path: &str, target: &str) -> Result<&mut Self> {
        let _ = (path, target);
        todo!()
    }
    /// The archive's bytes; equal contents give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        todo!()
    }
    /// Writes the archive to `path`, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let _ = path;
        todo!()
    }
}

/// PID 1, built static and the same from any checkout; cached.
pub fn init_binary(root: &Path, cache: &Cache, say: &dyn Fn(&str)) -> Result<PathBuf> {
    let _ = (root, cache, say);
    todo!()
}
