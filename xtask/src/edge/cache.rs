// SPDX-License-Identifier: MIT OR Apache-2.0
//! The artifact cache.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;

/// A content-addressed store of directories, shared by all checkouts of a user.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The user's: `$BOOTRIG_CACHE`, else `$XDG_CACHE_HOME/bootrig`, else `~/.cache/bootrig`.
    pub fn open() -> Result<Self> {
        todo!()
    }
    /// One at `root`, made if it is not there.
    pub fn at(root: &Path) -> Result<Self> {
        let _ = root;
        todo!()
    }
    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// Removes entries not used for `older_than` and whatever dead runs left; the bytes freed.
    pub fn prune(&self, older_than: Duration, say: &dyn Fn(&str)) -> Result<u64> {
        let _ = (older_than, say);
        todo!()
    }
}
