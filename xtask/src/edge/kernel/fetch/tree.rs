// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel tree on this machine. It is copied, so that what was built stays what it was
//! while its owner edits on; the identity is that of the copy's bytes.
//!
//! Reading a whole tree takes seconds, so the answer is remembered for a tree whose files
//! all have the sizes and times that they had.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{Identity, KIND, NEED, run, store};
use crate::{
    core::fault::Fault,
    edge::{
        cache::{Cache, Check, manifest},
        kernel::copy::{self, How},
        process,
    },
};

const CLEAN_LIMIT: Duration = Duration::from_secs(600);
/// Entries that say which identity a tree in a certain state has.
const SEEN: &str = "seen";

pub fn identify(cache: &Cache, path: &Path, say: &dyn Fn(&str)) -> Result<Identity> {
    if !path.join("Kconfig").is_file() {
        return Err(Fault::usage(format!(
            "{} is no kernel tree: it has no Kconfig",
            path.display()
        ))
        .into());
    }
    let state = state(path)?;
    let key = &state[..32];
    if let Some(dir) = cache.get(SEEN, key, Check::Full, say)? {
        let identity = Identity {
            text: fs::read_to_string(dir.join("identity"))?,
        };
        // A memory of a copy that was pruned is worth nothing: only a new copy can tell.
        if super::present(cache, &identity) {
            return Ok(identity);
        }
    }
    let identity = snapshot(cache, path, &state, say)?;
    let lock = cache.lock(SEEN, key, "a note", say)?;
    let staged = cache.stage(&lock)?;
    fs::write(staged.dir().join("identity"), &identity.text)?;
    cache.put(&lock, staged)?;
    Ok(identity)
}

/// Copies the tree into the cache under the identity of its bytes.
fn snapshot(cache: &Cache, path: &Path, before: &str, say: &dyn Fn(&str)) -> Result<Identity> {
    cache.require_space(NEED, &format!("copying {}", path.display()))?;
    say(&format!("copying {}", path.display()));
    let lock = cache.lock(
        KIND,
        &format!("copy_{}", &before[..32]),
        &format!("a copy of {}", path.display()),
        say,
    )?;
    let staged = cache.stage(&lock)?;
    let tree = staged.dir().join("tree");
    copy::tree(path, &tree, &|p| {
        if p == Path::new(".git") {
            How::Skip
        } else {
            How::Fresh
        }
    })
    .map_err(|e| cache.explain(e))?;
    if tree.join(".config").exists() || tree.join("include/config").exists() {
        // It was built in place; a build elsewhere wants it clean.
        let mut clean = process::tool("make");
        clean.arg("-C").arg(&tree).args(["ARCH=x86", "mrproper"]);
        run(
            "cleaning the copy",
            clean,
            &cache.log("clean-tree")?,
            CLEAN_LIMIT,
        )?;
    }
    if state(path)? != before {
        bail!(
            "{} changed while it was copied: run the command again",
            path.display()
        );
    }
    let identity = Identity {
        text: format!("tree {}", manifest::identity(staged.dir())?),
    };
    let key = identity.key();
    let lock = cache.lock(KIND, &key, &format!("a copy of {}", path.display()), say)?;
    if cache.get(KIND, &key, Check::Presence, say)?.is_none() {
        let mine = cache.stage(&lock)?;
        fs::rename(&tree, mine.dir().join("tree"))?;
        store(cache, &lock, mine)?;
    }
    Ok(identity)
}

/// A hash over names, sizes, times and inodes: equal when nothing was touched.
fn state(path: &Path) -> Result<String> {
    fn below(root: &Path, at: &Path, hash: &mut blake3::Hasher) -> Result<()> {
        if process::interrupted() {
            return Err(process::Stopped.into());
        }
        let dir = root.join(at);
        let mut entries = fs::read_dir(&dir)
            .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
            .with_context(|| format!("listing {}", dir.display()))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = at.join(entry.file_name());
            if path == Path::new(".git") {
                continue;
            }
            let meta = entry.metadata()?;
            if meta.is_dir() {
                below(root, &path, hash)?;
                continue;
            }
            hash.update(path.as_os_str().as_bytes());
            for number in [
                meta.len(),
                meta.ino(),
                u64::from(meta.mode()),
                meta.mtime() as u64,
                meta.mtime_nsec() as u64,
                meta.ctime() as u64,
                meta.ctime_nsec() as u64,
            ] {
                hash.update(&number.to_le_bytes());
            }
        }
        Ok(())
    }
    let mut hash = blake3::Hasher::new();
    hash.update(path.as_os_str().as_bytes());
    below(path, Path::new(""), &mut hash)?;
    Ok(hash.finalize().to_hex().to_string())
}
