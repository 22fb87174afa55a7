// SPDX-License-Identifier: MIT OR Apache-2.0
//! Removing what was not used for a while.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::Result;
use rustix::fs::FlockOperation;

use super::{Cache, NO_KINDS, STAGED, USE, flock, manifest};
use crate::{
    core::fault::Fault,
    edge::{
        files::{list, remove, usage},
        process,
    },
};

impl Cache {
    /// Removes what was not used for `older_than`, and whatever dead runs left. Returns the
    /// bytes freed.
    ///
    /// # Errors
    /// Usage: somebody else has the cache open, and so may be using any entry. When
    /// interrupted.
    pub fn prune(&self, older_than: Duration, say: &dyn Fn(&str)) -> Result<u64> {
        let path = self.root.join(USE);
        let alone = flock::take(&self.used, &path, FlockOperation::NonBlockingLockExclusive)?;
        let pruned = if alone {
            self.prune_alone(older_than, say)
        } else {
            let why = format!(
                "the cache {} is in use by {}: wait for its end, or stop it, then clean again",
                self.root.display(),
                flock::holders(&self.used)
            );
            Err(Fault::usage(why).into())
        };
        // Our share was given up for the attempt.
        flock::take(&self.used, &path, FlockOperation::NonBlockingLockShared)?;
        pruned
    }

    fn prune_alone(&self, older_than: Duration, say: &dyn Fn(&str)) -> Result<u64> {
        let now = SystemTime::now();
        let old = |path: &Path| {
            let age = last_use(path).and_then(|t| now.duration_since(t).ok());
            age.is_some_and(|age| age >= older_than)
        };
        let mut freed = 0;
        for (_, dir) in list(&self.root)
            .into_iter()
            .filter(|(k, d)| d.is_dir() && !NO_KINDS.contains(&k.as_str()))
        {
            for (name, path) in list(&dir) {
                if process::interrupted() {
                    return Err(process::Stopped.into());
                }
                // What is still being made is nobody's: its maker would use the cache.
                let staged = name.starts_with(STAGED);
                if !staged && !old(&path) {
                    continue;
                }
                freed += usage(&path);
                say(&format!("removing {}", path.display()));
                // Out of its name first: a half-removed entry must not look like one.
                let aside = if staged {
                    path
                } else {
                    move_aside(&path, &name)
                };
                remove(&aside);
            }
        }
        for dir in ["download", "apt", "logs", "dry-run"] {
            for (_, path) in list(&self.root.join(dir))
                .into_iter()
                .filter(|(_, p)| old(p))
            {
                freed += usage(&path);
                remove(&path);
            }
        }
        for (_, lock) in list(&self.root.join("locks")) {
            remove(&lock);
        }
        Ok(freed)
    }
}

/// When an entry was last used: an entry's manifest has that time, a file has it itself; of
/// another folder what changed last in it.
fn last_use(entry: &Path) -> Option<SystemTime> {
    let modified = |p: &Path| p.symlink_metadata().and_then(|m| m.modified()).ok();
    modified(&entry.join(manifest::NAME)).or_else(|| {
        let inside = list(entry);
        let all = inside.iter().map(|(_, p)| p.as_path()).chain([entry]);
        all.filter_map(modified).max()
    })
}

fn move_aside(path: &Path, key: &str) -> PathBuf {
    let aside = path.with_file_name(format!("{STAGED}{key}-pruned-{}", std::process::id()));
    if fs::rename(path, &aside).is_ok() {
        aside
    } else {
        path.to_owned()
    }
}
