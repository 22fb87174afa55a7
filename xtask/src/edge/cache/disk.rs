// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the cache asks of the file system: whole writes, flushes, free space, removal.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// Names and paths in a directory, sorted; nothing when there is no such directory.
pub(super) fn list(dir: &Path) -> Vec<(String, PathBuf)> {
    let mut all: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| (e.file_name().to_string_lossy().into_owned(), e.path()))
        .collect();
    all.sort();
    all
}

/// Removes a file or tree as well as it goes: a compiler that outlived a killed run may
/// still be adding files; what stays is swept another time.
pub fn remove(path: &Path) {
    for _ in 0..3 {
        let gone = match path.symlink_metadata() {
            Err(_) => return,
            Ok(m) if m.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
        };
        match gone {
            Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty => {}
            _ => return,
        }
    }
}

/// Bytes on disk below a path, not counting files that have another name elsewhere.
pub(super) fn usage(path: &Path) -> u64 {
    let Ok(meta) = path.symlink_metadata() else {
        return 0;
    };
    if meta.is_dir() {
        return list(path).iter().map(|(_, p)| usage(p)).sum();
    }
    if meta.nlink() > 1 {
        0
    } else {
        meta.blocks() * 512
    }
}

pub(super) fn free_space(path: &Path) -> std::io::Result<u64> {
    let fs = rustix::fs::statvfs(path)?;
    Ok(fs.f_bavail * fs.f_frsize)
}

pub(super) fn human(bytes: u64) -> String {
    if bytes >= 1 << 30 {
        format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
    } else {
        format!("{} MiB", bytes >> 20)
    }
}

/// Flushes an entry: a few files one by one, very many by flushing their file system.
pub(super) fn flush(dir: &Path, files: usize) -> Result<()> {
    if files > 64 {
        return Ok(rustix::fs::syncfs(File::open(dir)?)?);
    }
    for (_, path) in list(dir) {
        let meta = path.symlink_metadata()?;
        if meta.is_dir() {
            flush(&path, files)?;
        } else if meta.is_file() {
            File::open(&path)?.sync_all()?;
        }
    }
    sync_dir(dir)
}

pub(super) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir)?
        .sync_all()
        .with_context(|| format!("flushing {}", dir.display()))
}

/// Writes a file whole or not at all: beside, flushed, renamed.
///
/// # Errors
/// When the disk is full or fails; an older file of that name stays then.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let context = || format!("writing {}", path.display());
    let parent = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".tmp-")
        .tempfile_in(parent)
        .with_context(context)?;
    file.write_all(bytes)
        .and_then(|()| file.as_file().sync_all())
        .with_context(context)?;
    // Temporary files are private; what is written is for everyone the umask lets.
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(0o644))?;
    file.persist(path).with_context(context)?;
    sync_dir(parent)
}
