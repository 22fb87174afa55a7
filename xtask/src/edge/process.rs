// SPDX-License-Identifier: MIT OR Apache-2.0
//! Child processes: each leads its own process group, has a time limit, ends when the
//! user interrupts us, and never outlives us.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use process_wrap::std::{ChildWrapper, CommandWrap, ProcessGroup};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether the user asked to stop (Ctrl-C, SIGTERM, SIGHUP). Every loop that waits asks.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// What a signal handler calls.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// The error of work given up because [`interrupted`].
#[derive(Debug)]
pub struct Stopped;
impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stopped by the user")
    }
}
impl std::error::Error for Stopped {}

/// A running child and its process group; killed, whole, when dropped.
pub struct Child(Box<dyn ChildWrapper>);

impl Child {
    /// Starts `command` as the leader of a new process group, without standard input.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::null());
        let mut wrap = CommandWrap::from(command);
        wrap.wrap(ProcessGroup::leader());
        Ok(Self(wrap.spawn()?))
    }
    /// Its status if it has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }
    /// Its process id, which is also its group's.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The group may hold grandchildren even after its leader ended.
        let _ = self.0.start_kill();
        let _ = self.0.wait();
    }
}

/// Runs `command` to its end with both outputs appended to `log`.
///
/// # Errors
/// [`Stopped`] when interrupted; otherwise says `what` was being done, how it ended, and
/// the last lines of the log that look like errors, with the log's path.
pub fn run_logged(what: &str, command: Command, log: &Path, limit: Duration) -> Result<()> {
    let mut command = command;
    let file = File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("opening log {}", log.display()))?;
    command.stdout(file.try_clone()?).stderr(file);
    let program = command.get_program().to_string_lossy().into_owned();
    let status = wait(what, command, limit)?;
    if !status.success() {
        bail!(
            "{what}: {program} ended with {status}; log: {}\n{}",
            log.display(),
            last_errors(log)
        );
    }
    Ok(())
}

/// Runs `command` and returns its standard output; standard error goes into the error.
pub fn read(what: &str, mut command: Command, limit: Duration) -> Result<String> {
    let (out, err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdout(out.try_clone()?).stderr(err.try_clone()?);
    let program = command.get_program().to_string_lossy().into_owned();
    let status = wait(what, command, limit)?;
    let text = |mut f: File| -> Result<String> {
        use io::{Read, Seek};
        f.rewind()?;
        let mut bytes = Vec::new();
        f.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    if !status.success() {
        bail!(
            "{what}: {program} ended with {status}: {}",
            text(err)?.trim()
        );
    }
    text(out)
}

fn wait(what: &str, command: Command, limit: Duration) -> Result<ExitStatus> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = Child::spawn(command).with_context(|| format!("{what}: starting {program}"))?;
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupted() {
            return Err(Stopped.into());
        }
        if start.elapsed() > limit {
            bail!("{what}: {program} did not end within {} s", limit.as_secs());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// The last lines of a log that name an error, or its last lines.
fn last_errors(log: &Path) -> String {
    let text = std::fs::read(log)
        .map(|b| String::from_utf8_lossy(&b).into_owned())
        .unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    let named: Vec<_> = lines
        .iter()
        .filter(|l| l.contains("rror") || l.contains("***") || l.contains("FAILED"))
        .copied()
        .collect();
    let from = if named.is_empty() { &lines } else { &named };
    from[from.len().saturating_sub(12)..].join("\n")
}

/// Where a program is on the PATH, if anywhere.
pub fn which(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|d| d.join(program))
        .find(|p| {
            use std::os::unix::fs::PermissionsExt;
            p.metadata()
                .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        })
}
