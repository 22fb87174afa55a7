// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every edge asks of the file system: whole writes, flushes, removal, free space, and
//! saying that it was the disk.

use std::{
    fs::{self, File, Metadata},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

use crate::core::{
    fault::{Exit, Fault, exit_of},
    units::Bytes,
};

/// With less than this free a disk counts as full: compilers and the like do not say why
/// they could not write.
const ALMOST_NOTHING: Bytes = Bytes(64 << 20);

/// Names and paths in a directory, sorted; nothing when there is no such directory.
pub fn list(dir: &Path) -> Vec<(String, PathBuf)> {
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

/// Reads a regular file of at most `limit` bytes: what somebody else named may be a pipe
/// that never ends, or a device.
///
/// # Errors
/// When it is none, is longer, or cannot be read.
pub fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let odd = |why: &str| io::Error::new(ErrorKind::InvalidInput, why.to_owned());
    // Opening a pipe would wait for its writer.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(odd("is no regular file"));
    }
    let long = || odd(&format!("has more than {limit} bytes"));
    if meta.len() > limit {
        return Err(long());
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(long());
    }
    Ok(bytes)
}

/// Makes a file or folder look changed now, as well as it goes: where times tell of the last
/// use.
pub fn touch(path: &Path) {
    if let Ok(file) = File::open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Bytes on disk below a path, not counting files that have another name elsewhere.
pub fn disk_usage(path: &Path) -> u64 {
    let Ok(meta) = path.symlink_metadata() else {
        return 0;
    };
    if meta.is_dir() {
        return list(path).iter().map(|(_, p)| disk_usage(p)).sum();
    }
    if meta.nlink() > 1 {
        0
    } else {
        meta.blocks() * 512
    }
}

/// What an ordinary user can still write to the file system that `path` is on, or will be
/// on once its missing folders are made.
///
/// # Errors
/// When that file system does not say.
pub fn free_space(path: &Path) -> io::Result<Bytes> {
    let there = path.ancestors().find(|p| p.exists());
    let space = rustix::fs::statvfs(there.unwrap_or(Path::new(".")))?;
    Ok(Bytes(space.f_bavail.saturating_mul(space.f_frsize)))
}

/// Adds to `error`, of writing below `place`, that its disk is full, if it is, with `free`
/// as its free space and with `advice`: what to do about it. An error that has its own
/// exit code says what to do itself.
pub fn explain(
    error: anyhow::Error,
    place: &Path,
    free: io::Result<Bytes>,
    advice: &str,
) -> anyhow::Error {
    let said = error.chain().filter_map(|e| e.downcast_ref::<io::Error>());
    let kinds: Vec<_> = said.map(io::Error::kind).collect();
    let is_full = |k: &ErrorKind| matches!(k, ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let full = kinds.iter().any(is_full);
    // A tool that failed does not say why; an error of the system that is another is another.
    let low = kinds.is_empty() && free.as_ref().is_ok_and(|f| *f < ALMOST_NOTHING);
    if !(full || low) || exit_of(&error) != Exit::Infrastructure {
        return error;
    }
    let free = free.map_or("an unknown amount".into(), human);
    error.context(format!(
        "the disk of {} is full ({free} free): {advice}",
        place.display()
    ))
}

/// A size for people, not exact.
pub fn human(size: Bytes) -> String {
    if size.0 >= 1 << 30 {
        format!("{:.1} GiB", size.0 as f64 / f64::from(1 << 30))
    } else {
        match size.0 >> 20 {
            0 => format!("{} KiB", size.0.div_ceil(1 << 10)),
            mebibytes => format!("{mebibytes} MiB"),
        }
    }
}

/// Flushes what is below `dir`: a few `files` one by one, very many by flushing their file
/// system.
///
/// # Errors
/// When the disk is full or fails.
pub fn flush(dir: &Path, files: usize) -> Result<()> {
    if files > 64 {
        return Ok(rustix::fs::syncfs(File::open(dir)?).map_err(io::Error::from)?);
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

/// Flushes a directory: the names in it, not what they name.
///
/// # Errors
/// When the disk is full or fails.
pub fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir)?
        .sync_all()
        .with_context(|| format!("flushing {}", dir.display()))
}

/// What is being written has a name that begins so until it is whole.
pub const UNFINISHED: &str = ".tmp-bootrig-";

/// Removes from `dir` what writers left that were killed: unfinished for a minute, and nobody
/// has it locked.
pub fn sweep(dir: &Path) {
    const A_MINUTE: Duration = Duration::from_secs(60);
    for (name, path) in list(dir) {
        let old = |m: Metadata| {
            m.modified()
                .is_ok_and(|t| t.elapsed().is_ok_and(|e| e > A_MINUTE))
        };
        let dead = || File::open(&path).is_ok_and(|file| lock(&file));
        if name.starts_with(UNFINISHED) && path.symlink_metadata().is_ok_and(old) && dead() {
            remove(&path);
        }
    }
}

/// Whether `file` could be locked; it is until it is closed.
pub fn lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Puts the folder `new`, which is whole, in the place of `old`, at once; `new` is what was
/// there before then.
///
/// # Errors
/// When the disk fails.
pub fn exchange(new: &Path, old: &Path) -> Result<()> {
    let context = || format!("putting {} in its place", old.display());
    if renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    // A file system that cannot: between the two steps there is none of that name, and both
    // are whole.
    let aside = new.with_extension("before");
    fs::rename(old, &aside).with_context(context)?;
    fs::rename(new, old).with_context(context)?;
    fs::rename(&aside, new).with_context(context)
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
        .prefix(UNFINISHED)
        .tempfile_in(parent)
        .with_context(context)?;
    lock(file.as_file());
    file.write_all(bytes)
        .and_then(|()| file.as_file().sync_all())
        .with_context(context)?;
    // Temporary files are private; what is written is for everyone to read, whatever the umask.
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(0o644))
        .with_context(context)?;
    file.persist(path).with_context(context)?;
    sync_dir(parent)
}

/// Whether `path`, which the user names, can be written by [`write_whole`]: better known before
/// the work than after it.
///
/// # Errors
/// Usage: it is in no folder, or something else than a file: a device would become one.
pub fn to_be_written(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let other = path.exists() && !path.is_file();
    if other || !folder.unwrap_or(Path::new(".")).is_dir() {
        let why = format!(
            "{} cannot be written: name a file in a folder that is there",
            path.display()
        );
        return Err(Fault::usage(why).into());
    }
    Ok(())
}

/// Adds names and bytes of a file, or of all files below a directory but for `target`, to a
/// hash.
///
/// # Errors
/// Names what cannot be read; what is not there adds its absence.
pub fn hash_below(hash: &mut blake3::Hasher, root: &Path, path: &Path) -> Result<()> {
    let full = root.join(path);
    if full.is_dir() {
        let mut names = fs::read_dir(&full)
            .and_then(|d| {
                d.map(|e| Ok(e?.file_name()))
                    .collect::<std::io::Result<Vec<_>>>()
            })
            .with_context(|| format!("listing {}", full.display()))?;
        names.sort();
        return names
            .iter()
            .filter(|n| *n != "target")
            .try_for_each(|n| hash_below(hash, root, &path.join(n)));
    }
    let bytes = match fs::read(&full) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e).with_context(|| format!("reading {}", full.display())),
    };
    hash.update(format!("{} {}\n", path.display(), bytes.len()).as_bytes())
        .update(&bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fault::Fault;

    fn explained(error: anyhow::Error, free: io::Result<Bytes>) -> String {
        format!(
            "{:#}",
            explain(error, Path::new("/there"), free, "go elsewhere")
        )
    }

    #[test]
    fn a_full_disk_is_named_with_what_is_free_and_the_next_step() {
        let full = || anyhow::Error::from(fs::write("/dev/full", "x").unwrap_err());
        // A quota may be used up, or the half-written file be gone again.
        let got = explained(full().context("writing a"), Ok(Bytes(3 << 30)));
        assert!(
            got.starts_with("the disk of /there is full (3.0 GiB free): go elsewhere: writing a: "),
            "{got}"
        );
        let got = explained(full(), Err(ErrorKind::NotFound.into()));
        assert!(got.contains("an unknown amount free"), "{got}");
        let make = || anyhow::anyhow!("make exited with 2");
        let got = explained(make(), Ok(Bytes(10 << 20)));
        assert!(got.contains("is full (10 MiB free)"), "{got}");
        assert_eq!(explained(make(), Ok(Bytes(3 << 30))), "make exited with 2");
        let usage = || Fault::usage("no such run").into();
        assert_eq!(explained(usage(), Ok(Bytes(0))), "no such run");
    }

    #[test]
    fn what_killed_writers_left_is_swept_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, age: u64| {
            let path = dir.path().join(name);
            let file = File::create(&path).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age);
            file.set_modified(then).unwrap();
            file
        };
        let dead = format!("{UNFINISHED}dead");
        make(&dead, 3600);
        make(".tmp-of-somebody", 3600);
        make(&format!("{UNFINISHED}young"), 1);
        let held = make(&format!("{UNFINISHED}held"), 3600);
        assert!(lock(&held));
        let folder = dir.path().join(format!("{UNFINISHED}folder"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a"), "a").unwrap();
        let then = SystemTime::now() - Duration::from_secs(3600);
        File::open(&folder).unwrap().set_modified(then).unwrap();
        sweep(dir.path());
        let left: Vec<_> = list(dir.path()).into_iter().map(|(name, _)| name).collect();
        let want = [
            ".tmp-bootrig-held",
            ".tmp-bootrig-young",
            ".tmp-of-somebody",
        ];
        assert_eq!(left, want);
    }

    #[test]
    fn free_space_is_asked_before_a_folder_is_there() {
        assert!(free_space(Path::new("/no/such/folder/yet")).unwrap() > Bytes(0));
        assert!(free_space(Path::new("no-such-folder-yet")).unwrap() > Bytes(0));
    }
}
