// SPDX-License-Identifier: MIT OR Apache-2.0
//! Temporary folders that do not outlive us.

use std::{
    fs,
    hash::{BuildHasher, Hasher, RandomState},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::guardian::{self, Ticket};

/// A temporary folder for us alone; removed with all it holds when dropped, or by the
/// guardian if we die first.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    ticket: Ticket,
}

impl Scratch {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        guardian::forget(self.ticket);
    }
}

/// A new folder below the system's folder for temporary files (TMPDIR), readable by us
/// alone, whose name starts with `prefix`.
///
/// # Errors
/// When it cannot be made; the error names it.
pub fn scratch(prefix: &str) -> Result<Scratch> {
    scratch_in(&std::env::temp_dir(), prefix)
}

/// As [`scratch`], below `parent`: for what is renamed into `parent`'s file system or is
/// too large for the system's temporary files.
///
/// # Errors
/// When it cannot be made; the error names it.
pub fn scratch_in(parent: &Path, prefix: &str) -> Result<Scratch> {
    let parent = std::path::absolute(parent)?;
    loop {
        // RandomState is seeded by the system; a name that is taken is tried again.
        let path = parent.join(format!(
            "{prefix}{:016x}",
            RandomState::new().build_hasher().finish()
        ));
        let doing = || format!("making temporary folder {}", path.display());
        // Watched before it exists, so that there is no moment when it could be left.
        let ticket = guardian::watch_folder(&path).with_context(doing)?;
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(Scratch { path, ticket }),
            Err(error) => {
                guardian::forget(ticket);
                if error.kind() != io::ErrorKind::AlreadyExists {
                    return Err(error).with_context(doing);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn comes_private_and_goes_whole() {
        let (a, b) = (
            scratch("bootrig-test-").unwrap(),
            scratch("bootrig-test-").unwrap(),
        );
        assert_ne!(a.path(), b.path());
        assert_eq!(
            a.path().metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        fs::create_dir(a.path().join("deep")).unwrap();
        fs::write(a.path().join("deep/file"), "x").unwrap();
        let path = a.path().to_owned();
        drop(a);
        assert!(!path.exists() && b.path().exists());
    }

    #[test]
    fn names_what_it_cannot_make() {
        let error = scratch_in(Path::new("/nonexistent-parent"), "x-").unwrap_err();
        assert!(
            format!("{error:#}").contains("/nonexistent-parent/x-"),
            "{error:#}"
        );
    }
}
