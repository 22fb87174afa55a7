// SPDX-License-Identifier: MIT OR Apache-2.0
//! The artifact cache: `<root>/<kind>/<key>/`, one directory an entry.
//!
//! An entry is made in a `tmp-` directory beside its place, gets a [`manifest`] of all its
//! files, is flushed to disk and only then renamed: what has an entry's name is whole.
//! Whoever makes an entry holds its lock, so two runs never make the same one, and a
//! `tmp-` directory whose lock is free belongs to nobody.
//!
//! Whoever has a cache open holds `use.lock` together with all others who have. Only
//! [`Cache::prune`] wants it alone: while it works nobody uses any entry, and while anybody
//! uses one it does not begin.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use rustix::fs::FlockOperation;

use super::{
    files::{self, flush, free_space, human, list, remove, sync_dir, touch, write_whole},
    process,
};
use crate::core::{fault::Fault, units::Bytes};

mod flock;
pub mod manifest;
mod pack;
mod prune;
pub mod share;
mod store;

pub use prune::Prune;

const STAGED: &str = "tmp-";
/// What to do about a full disk.
const ADVICE: &str = "free some, run `cargo xtask clean`, or set BOOTRIG_CACHE to another disk";
/// Directories of the root that hold no entries.
const NO_KINDS: [&str; 6] = ["locks", "logs", "apt", "download", "bin", "dry-run"];
/// The file of the root that is locked by whoever uses the cache.
const USE: &str = "use.lock";

/// A content-addressed store of directories, shared by all checkouts of a user.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    free: fn(&Path) -> std::io::Result<Bytes>,
    /// [`USE`], locked, until the last clone is dropped.
    used: Arc<File>,
}

/// The right to make or replace one entry; given back when dropped, even by SIGKILL.
#[derive(Debug)]
pub struct Lock {
    kind: String,
    key: String,
    file: File,
    _used: Arc<File>,
}

impl Drop for Lock {
    /// A child that another thread is just starting has the file too until it executes: closing
    /// ours would not give the lock back.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// An entry in the making; removed when dropped before [`Cache::put`].
#[derive(Debug)]
pub struct Staged {
    dir: PathBuf,
    done: bool,
}

impl Staged {
    /// Where to put the entry's files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.done {
            remove(&self.dir);
        }
    }
}

/// How much of an entry to read before it is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Every byte, against the manifest.
    Full,
    /// Only that the manifest itself is whole.
    Presence,
    /// Only that it has a manifest; for big trees that nothing is built from in this run.
    Touch,
}

impl Lock {
    /// The key of the entry that it locks.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl Cache {
    /// The user's: `$BOOTRIG_CACHE`, else `$XDG_CACHE_HOME/bootrig`, else `~/.cache/bootrig`.
    /// Waits, and says so, while it is cleaned.
    ///
    /// # Errors
    /// When none of these variables nor `$HOME` names an absolute path, or it cannot be
    /// made or written to; [`process::Stopped`] when interrupted while waiting.
    pub fn open(say: &dyn Fn(&str)) -> Result<Self> {
        let var = |name: &str| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let root = var("BOOTRIG_CACHE")
            .or_else(|| var("XDG_CACHE_HOME").map(|d| d.join("bootrig")))
            .or_else(|| var("HOME").map(|d| d.join(".cache/bootrig")))
            .ok_or_else(|| {
                Fault::usage("no place for the cache: set BOOTRIG_CACHE to a directory")
            })?;
        if !root.is_absolute() {
            return Err(Fault::usage(format!(
                "cache directory {} is relative: set BOOTRIG_CACHE to an absolute path",
                root.display()
            ))
            .into());
        }
        Self::enter(&root, say)
    }

    /// One at `root`, made if it is not there. As [`Cache::open`], but waits silently.
    ///
    /// # Errors
    /// As [`Cache::open`].
    pub fn at(root: &Path) -> Result<Self> {
        Self::enter(root, &|_| {})
    }

    fn enter(root: &Path, say: &dyn Fn(&str)) -> Result<Self> {
        for dir in NO_KINDS {
            fs::create_dir_all(root.join(dir)).with_context(|| {
                format!(
                    "making the cache {} (BOOTRIG_CACHE puts it elsewhere)",
                    root.display()
                )
            })?;
        }
        let tag = root.join("CACHEDIR.TAG");
        if !tag.exists() {
            // The signature that backup programs look for.
            write_whole(&tag, b"Signature: 8a477f597d28d172789f06886806bc55\n# bootrig's build cache; cargo xtask clean empties it\n")?;
        }
        let root = root.canonicalize()?;
        let path = root.join(USE);
        let used = flock::open(&path)?;
        let what = || {
            format!(
                "waiting for {}, which cleans the cache {}",
                flock::holders(&used),
                root.display()
            )
        };
        flock::wait(say, what, || {
            let taken = flock::take(&used, &path, FlockOperation::NonBlockingLockShared)?;
            Ok(taken.then_some(()))
        })?;
        Ok(Self {
            root,
            free: free_space,
            used: used.into(),
        })
    }

    /// The same cache with another idea of how many bytes are free; for tests.
    #[must_use]
    pub fn with_free_space(mut self, free: fn(&Path) -> std::io::Result<Bytes>) -> Self {
        self.free = free;
        self
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// An empty log file, replacing the one of this name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn log(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join("logs").join(format!("{name}.log"));
        File::create(&path).with_context(|| format!("writing log {}", path.display()))?;
        Ok(path)
    }

    fn place(&self, kind: &str, key: &str) -> PathBuf {
        debug_assert!(valid_name(kind) && valid_name(key), "{kind}/{key}");
        self.root.join(kind).join(key)
    }

    fn lock_path(&self, kind: &str, key: &str) -> PathBuf {
        self.root.join("locks").join(format!("{kind}+{key}"))
    }

    /// Takes the lock of an entry, waiting for another run that has it. `what` says in
    /// words what the entry is. Removes what a dead run left of it.
    ///
    /// # Errors
    /// [`process::Stopped`] when interrupted while waiting.
    pub fn lock(&self, kind: &str, key: &str, what: &str, say: &dyn Fn(&str)) -> Result<Lock> {
        let waiting = || {
            let holder = fs::read_to_string(self.lock_path(kind, key)).unwrap_or_default();
            format!(
                "waiting for another run ({}) that is making {what}",
                holder.trim()
            )
        };
        let lock = flock::wait(say, waiting, || self.try_lock(kind, key))?;
        self.sweep(&lock);
        Ok(lock)
    }

    fn try_lock(&self, kind: &str, key: &str) -> Result<Option<Lock>> {
        let path = self.lock_path(kind, key);
        let mut file = flock::open(&path)?;
        if !flock::take(&file, &path, FlockOperation::NonBlockingLockExclusive)? {
            return Ok(None);
        }
        // Only a hint for the message above; a full disk must not get in the way.
        let _ = file
            .set_len(0)
            .and_then(|()| write!(file, "process {}", std::process::id()));
        Ok(Some(Lock {
            kind: kind.into(),
            key: key.into(),
            file,
            _used: self.used.clone(),
        }))
    }

    /// Removes what a dead run left of the entry whose lock we hold.
    fn sweep(&self, lock: &Lock) {
        let prefix = format!("{STAGED}{}-", lock.key);
        for (name, path) in list(&self.root.join(&lock.kind)) {
            if name.starts_with(&prefix) {
                remove(&path);
            }
        }
    }

    /// The directory of an entry if it is there and sound. A corrupt one is named through
    /// `say` and removed, so that it will be made again.
    ///
    /// # Errors
    /// When the entry cannot be read for reasons other than its contents.
    pub fn get(
        &self,
        kind: &str,
        key: &str,
        check: Check,
        say: &dyn Fn(&str),
    ) -> Result<Option<PathBuf>> {
        let dir = self.place(kind, key);
        let Ok(meta) = dir.symlink_metadata() else {
            return Ok(None);
        };
        let wrong = match check {
            _ if !meta.is_dir() => Err(anyhow::anyhow!("it is no folder")),
            Check::Full => manifest::verify(&dir),
            Check::Presence => manifest::read(&dir).map(drop),
            Check::Touch => fs::metadata(dir.join(manifest::NAME))
                .map(drop)
                .context("its manifest is missing"),
        };
        if process::interrupted() {
            return Err(process::Stopped.into());
        }
        if let Err(why) = wrong {
            say(&format!(
                "warning: cache entry {} is corrupt ({why:#}); it is removed and will be made again",
                dir.display()
            ));
            let aside = self
                .root
                .join(kind)
                .join(format!("{STAGED}{key}-corrupt-{}", std::process::id()));
            fs::rename(&dir, &aside).with_context(|| format!("moving {} aside", dir.display()))?;
            remove(&aside);
            return Ok(None);
        }
        // The manifest's modification time is the time of the entry's last use.
        touch(&dir.join(manifest::NAME));
        Ok(Some(dir))
    }

    /// An empty directory to make the locked entry in.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn stage(&self, lock: &Lock) -> Result<Staged> {
        let parent = self.root.join(&lock.kind);
        fs::create_dir_all(&parent)?;
        let dir = tempfile::Builder::new()
            .prefix(&format!("{STAGED}{}-", lock.key))
            .tempdir_in(&parent)
            .with_context(|| format!("making a directory in {}", parent.display()))?
            .keep();
        Ok(Staged { dir, done: false })
    }

    /// Makes `staged` the locked entry, replacing one that is there: manifest, flush, rename.
    ///
    /// # Errors
    /// When the disk is full or fails; nothing of the entry is left then.
    pub fn put(&self, lock: &Lock, staged: Staged) -> Result<PathBuf> {
        self.put_sharing(lock, staged, None)
    }

    /// [`Cache::put`] for an entry that shares files (hard links) with the entry `base`,
    /// which was verified in this run: shared files are not read again.
    ///
    /// # Errors
    /// As [`Cache::put`].
    pub fn put_sharing(
        &self,
        lock: &Lock,
        mut staged: Staged,
        base: Option<&Path>,
    ) -> Result<PathBuf> {
        let place = self.place(&lock.kind, &lock.key);
        let context = || format!("storing cache entry {}", place.display());
        manifest::write(&staged.dir, base)
            .and_then(|files| flush(&staged.dir, files))
            .with_context(context)?;
        if place.symlink_metadata().is_ok() {
            let aside =
                place.with_file_name(format!("{STAGED}{}-old-{}", lock.key, std::process::id()));
            fs::rename(&place, &aside).with_context(context)?;
            remove(&aside);
        }
        fs::create_dir_all(self.root.join(&lock.kind)).with_context(context)?;
        fs::rename(&staged.dir, &place).with_context(context)?;
        staged.done = true;
        sync_dir(&self.root.join(&lock.kind))?;
        Ok(place)
    }

    /// Refuses to begin `what` when fewer than `need` bytes are free.
    ///
    /// # Errors
    /// Names the path, the need and what is free.
    pub fn require_space(&self, need: Bytes, what: &str) -> Result<()> {
        let free = (self.free)(&self.root)
            .with_context(|| format!("asking for free space at {}", self.root.display()))?;
        if free < need {
            bail!(
                "{what} needs about {} in {}, and {} are free: {ADVICE}",
                human(need),
                self.root.display(),
                human(free)
            );
        }
        Ok(())
    }

    /// Adds to an error that the cache's disk is full, if it is.
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        files::explain(error, &self.root, (self.free)(&self.root), ADVICE)
    }
}

/// Kinds and keys become file names.
fn valid_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(['.', '-'])
        && !name.starts_with(STAGED)
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._+~".contains(&b))
}

#[cfg(test)]
mod tests;
