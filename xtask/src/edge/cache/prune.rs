// SPDX-License-Identifier: MIT OR Apache-2.0
//! Removing what was not used for a while, what nobody refers to, and what is too much.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::Result;
use rustix::fs::FlockOperation;

use super::{Cache, NO_KINDS, STAGED, USE, flock, manifest};
use crate::{
    core::{fault::Fault, units::Bytes},
    edge::{
        files::{list, remove},
        process,
    },
};

/// What is removed; what is not said removes nothing.
#[derive(Clone, Debug, Default)]
pub struct Prune {
    /// What was not used for so long.
    pub older_than: Option<Duration>,
    /// Kernels, modules, and programs and images of the guest whose key is not among these.
    pub but_used: Option<BTreeSet<String>>,
    /// What was not used for longest, until the cache has no more than this.
    pub at_most: Option<Bytes>,
    /// Only say what would be removed.
    pub dry_run: bool,
}

/// The kinds whose entries runs refer to by their keys.
const REFERRED: [&str; 5] = ["build", "image", "init", "kernel", "module"];
/// Answers to requests, and the file in which each names what it came out as.
const REQUESTS: [(&str, &str); 2] = [("request", "kernel"), ("image_request", "image")];

impl Cache {
    /// Removes what `what` says, and whatever dead runs left. Returns the bytes freed.
    ///
    /// # Errors
    /// Usage: somebody else has the cache open, and so may be using any entry. When
    /// interrupted.
    pub fn prune(&self, what: &Prune, say: &dyn Fn(&str)) -> Result<u64> {
        let path = self.root.join(USE);
        let alone = flock::take(&self.used, &path, FlockOperation::NonBlockingLockExclusive)?;
        let pruned = if alone {
            self.prune_alone(what, say)
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

    fn prune_alone(&self, what: &Prune, say: &dyn Fn(&str)) -> Result<u64> {
        let doomed = self.doomed(what);
        if what.dry_run {
            for path in &doomed.entries {
                say(&format!("would remove {}", path.display()));
            }
            return Ok(doomed.bytes);
        }
        for path in &doomed.entries {
            take_away(path, say)?;
        }
        for path in &doomed.beside {
            remove(path);
        }
        for (_, lock) in list(&self.root.join("locks")) {
            remove(&lock);
        }
        Ok(doomed.bytes)
    }

    /// What goes if `what` is done.
    fn doomed(&self, what: &Prune) -> Doomed {
        let now = SystemTime::now();
        let old = |path: &Path| {
            let age = last_use(path).and_then(|t| now.duration_since(t).ok());
            what.older_than
                .is_some_and(|limit| age.is_some_and(|age| age >= limit))
        };
        let mut entries = Vec::new();
        let mut kept: Vec<(Option<SystemTime>, String, PathBuf)> = Vec::new();
        for (kind, dir) in self.kinds() {
            for (name, path) in list(&dir) {
                // What is still being made is nobody's: its maker would use the cache.
                let staged = name.starts_with(STAGED);
                let unused = what
                    .but_used
                    .as_ref()
                    .is_some_and(|used| !is_used(&kind, &name, &path, used));
                if staged || old(&path) || unused {
                    entries.push(path);
                } else {
                    kept.push((last_use(&path), name, path));
                }
            }
        }
        let dirs = ["download", "apt", "logs", "dry-run"];
        let files = dirs.iter().flat_map(|dir| list(&self.root.join(dir)));
        let beside: Vec<_> = files.map(|(_, p)| p).filter(|p| old(p)).collect();
        let mut links = Links::default();
        let paths = entries.iter().chain(&beside);
        let mut bytes = paths.map(|path| links.freed(path)).sum();
        if let Some(most) = what.at_most {
            kept.sort();
            let has = size(&self.root, &mut HashSet::new());
            for (_, _, path) in kept {
                if has.saturating_sub(bytes) <= most.0 {
                    break;
                }
                bytes += links.freed(&path);
                entries.push(path);
            }
        }
        Doomed {
            entries,
            beside,
            bytes,
        }
    }

    /// The kinds of entries, and where they are.
    fn kinds(&self) -> Vec<(String, PathBuf)> {
        let holds =
            |(kind, dir): &(String, PathBuf)| dir.is_dir() && !NO_KINDS.contains(&kind.as_str());
        list(&self.root).into_iter().filter(holds).collect()
    }
}

/// What a [`Prune`] takes.
struct Doomed {
    /// Entries, which are named as they go.
    entries: Vec<PathBuf>,
    /// Downloads, logs and the like.
    beside: Vec<PathBuf>,
    /// What they free together.
    bytes: u64,
}

/// Whether an entry is among those that are `used`, or of a kind that cannot tell.
fn is_used(kind: &str, key: &str, path: &Path, used: &BTreeSet<String>) -> bool {
    if let Some((_, file)) = REQUESTS.iter().find(|(request, _)| *request == kind) {
        return fs::read_to_string(path.join(file)).is_ok_and(|k| used.contains(&k));
    }
    !REFERRED.contains(&kind) || used.contains(key)
}

/// Removes an entry.
fn take_away(path: &Path, say: &dyn Fn(&str)) -> Result<()> {
    if process::interrupted() {
        return Err(process::Stopped.into());
    }
    say(&format!("removing {}", path.display()));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Out of its name first: a half-removed entry must not look like one.
    let aside = match name.starts_with(STAGED) {
        true => path.to_owned(),
        false => move_aside(path, &name),
    };
    remove(&aside);
    Ok(())
}

/// How many names of each file with several have been counted: build trees share files.
#[derive(Debug, Default)]
struct Links(HashMap<(u64, u64), u64>);

impl Links {
    /// Bytes on disk that are free when `path` goes, after all that was asked for before.
    fn freed(&mut self, path: &Path) -> u64 {
        let Ok(meta) = path.symlink_metadata() else {
            return 0;
        };
        if meta.is_dir() {
            return list(path).iter().map(|(_, p)| self.freed(p)).sum();
        }
        let names = self.0.entry((meta.dev(), meta.ino())).or_default();
        *names += 1;
        if *names < meta.nlink() {
            return 0;
        }
        meta.blocks() * 512
    }
}

/// Bytes on disk below a path, each file once however many names it has.
fn size(path: &Path, seen: &mut HashSet<(u64, u64)>) -> u64 {
    let Ok(meta) = path.symlink_metadata() else {
        return 0;
    };
    if meta.is_dir() {
        return list(path).iter().map(|(_, p)| size(p, seen)).sum();
    }
    match meta.nlink() == 1 || seen.insert((meta.dev(), meta.ino())) {
        true => meta.blocks() * 512,
        false => 0,
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
