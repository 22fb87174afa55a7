// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks of files: given back by the system whatever becomes of their holder, waited for in
//! steps so that an interruption is noticed.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

use crate::edge::process;

/// Opens the file `path` to lock it; made if it is not there.
pub fn open(path: &Path) -> Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .with_context(|| format!("opening lock {}", path.display()))
}

/// Whether the lock was taken; `how` must not block.
pub fn take(file: &File, path: &Path, how: FlockOperation) -> Result<bool> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e).with_context(|| format!("locking {}", path.display())),
    }
}

/// The longest that anything is waited for: several kernels, built on a slow machine.
const LIMIT: Duration = Duration::from_secs(3 * 60 * 60);

/// What `attempt` gets in the end; says once what it is waiting for.
///
/// # Errors
/// What `attempt` returned; [`process::Stopped`] when interrupted; after three hours what is
/// still in the way.
pub fn wait<T>(
    say: &dyn Fn(&str),
    what: impl Fn() -> String,
    attempt: impl Fn() -> Result<Option<T>>,
) -> Result<T> {
    let mut said = false;
    let begun = Instant::now();
    loop {
        if let Some(got) = attempt()? {
            return Ok(got);
        }
        if !said {
            say(&what());
            said = true;
        }
        if process::interrupted() {
            return Err(process::Stopped.into());
        }
        if begun.elapsed() > LIMIT {
            bail!(
                "{}: gave up after {} hours; end it, and run the command again",
                what(),
                LIMIT.as_secs() / 3600
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Who has locked `file`, for people: `process 12, process 15`.
pub fn holders(file: &File) -> String {
    let inode = file.metadata().map_or(0, |m| m.ino());
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    match listed(&locks, inode) {
        // From within a container the others may not be seen.
        found if found.is_empty() => "another run".into(),
        found => found.join(", "),
    }
}

/// From lines like `1: FLOCK  ADVISORY  READ  1234 fd:01:131090 0 EOF`; whoever only waits
/// has an arrow after the number. File systems do not agree with stat(2) on their device's
/// number, so that is not looked at.
fn listed(locks: &str, inode: u64) -> Vec<String> {
    let holder = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (kind, pid, file) = (words.get(1)?, words.get(4)?, words.get(5)?);
        let same = file.rsplit(':').next()? == inode.to_string();
        (*kind == "FLOCK" && same).then(|| format!("process {pid}"))
    };
    let mut found: Vec<_> = locks.lines().filter_map(holder).collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_those_who_have_it() {
        let locks = "\
            1: POSIX  ADVISORY  READ  5 fd:01:77 128 128\n\
            2: FLOCK  ADVISORY  READ  12 fd:01:77 0 EOF\n\
            2: -> FLOCK  ADVISORY  WRITE 13 fd:01:77 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 14 fd:01:177 0 EOF\n\
            4: FLOCK  ADVISORY  READ  15 00:1c:77 0 EOF\n\
            odd\n";
        assert_eq!(listed(locks, 77), ["process 12", "process 15"]);
        assert_eq!(listed(locks, 7), [""; 0]);
    }
}
