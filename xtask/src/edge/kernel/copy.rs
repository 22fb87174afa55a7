// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of trees: links where nothing writes, true copies where something does.

use std::{fs, os::unix::fs::symlink, path::Path};

use anyhow::{Context, Result, bail};

use crate::edge::process;

/// How a file gets into the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The same inode; costs no space. Falls back to a copy where links are impossible.
    Link,
    /// Own bytes, with the original's modification time, which is what make looks at.
    Copy,
    /// Own bytes, modified now.
    Fresh,
    /// Not at all, nor what is below.
    Skip,
}

/// Copies what is in `from` into the new directory `to`, asking `how` with each path
/// relative to `from`.
pub fn tree(from: &Path, to: &Path, how: &dyn Fn(&Path) -> How) -> Result<()> {
    below(from, to, Path::new(""), how)
}

fn below(from: &Path, to: &Path, at: &Path, how: &dyn Fn(&Path) -> How) -> Result<()> {
    if process::interrupted() {
        return Err(process::Stopped.into());
    }
    let target = to.join(at);
    fs::create_dir(&target).with_context(|| format!("making {}", target.display()))?;
    for entry in fs::read_dir(from.join(at))
        .with_context(|| format!("listing {}", from.join(at).display()))?
    {
        let entry = entry?;
        let path = at.join(entry.file_name());
        let how_this = how(&path);
        let kind = entry.file_type()?;
        if how_this == How::Skip {
            continue;
        }
        if kind.is_dir() {
            below(from, to, &path, how)?;
        } else {
            one(&from.join(&path), &to.join(&path), kind, how_this).with_context(|| {
                format!("copying {} to {}", from.join(&path).display(), to.display())
            })?;
        }
    }
    Ok(())
}

fn one(from: &Path, to: &Path, kind: fs::FileType, how: How) -> Result<()> {
    if kind.is_symlink() {
        return Ok(symlink(fs::read_link(from)?, to)?);
    }
    if !kind.is_file() {
        bail!("it is neither file, directory nor link");
    }
    // Some file systems have no links, or a limit to them: then a copy does as well.
    if how == How::Link && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to)?;
    if how != How::Fresh {
        let modified = fs::metadata(from)?.modified()?;
        // Opening for writing is refused for read-only files; changing times of an own file is not.
        fs::File::open(to)?.set_modified(modified)?;
    }
    Ok(())
}

/// Gives `path` an inode of its own, with the same contents, if it shares one.
pub fn own(path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let meta = path.symlink_metadata()?;
    if !meta.is_file() || meta.nlink() == 1 {
        return Ok(());
    }
    let dir = path.parent().context("a file is in a directory")?;
    let copy = tempfile::Builder::new().prefix(".own-").tempfile_in(dir)?;
    fs::copy(path, copy.path())?;
    copy.as_file().set_modified(meta.modified()?)?;
    copy.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn links_copies_and_keeps_times() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("build")).unwrap();
        fs::create_dir_all(from.join(".git")).unwrap();
        fs::write(from.join("a.c"), "a").unwrap();
        fs::write(from.join("build/a.o"), "o").unwrap();
        symlink("..", from.join("build/source")).unwrap();
        let old =
            std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(1_000_000, 123_456_789);
        fs::File::open(from.join("build/a.o"))
            .unwrap()
            .set_modified(old)
            .unwrap();
        tree(&from, &to, &|p| {
            if p == Path::new(".git") {
                How::Skip
            } else if p.starts_with("build") {
                How::Copy
            } else {
                How::Link
            }
        })
        .unwrap();
        let meta = |p: &str| to.join(p).symlink_metadata().unwrap();
        assert_eq!(meta("a.c").nlink(), 2);
        assert_eq!(meta("build/a.o").nlink(), 1);
        assert_eq!(meta("build/a.o").modified().unwrap(), old);
        assert_eq!(
            fs::read_link(to.join("build/source")).unwrap(),
            Path::new("..")
        );
        assert!(!to.join(".git").exists());
        // Once it owns its inode, writing to it leaves the original alone.
        own(&to.join("a.c")).unwrap();
        fs::write(to.join("a.c"), "b").unwrap();
        assert_eq!(fs::read(from.join("a.c")).unwrap(), b"a");
    }
}
