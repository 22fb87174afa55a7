// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole runs of a program: to a log, to a string, line by line, or at the terminal.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{Child, Stopped, Wait, interrupted};
use crate::core::{fault::NotBuilt, need::not_installed};

/// A program that ran to its end and was not content.
#[derive(Debug)]
pub struct Failed {
    /// How it ended.
    pub status: ExitStatus,
    message: String,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Failed {}

/// What compilers and make say when the machine, not the source, is at fault.
const MACHINE: [&str; 7] = [
    "No space left",
    "is full (",
    "Killed",
    "annot allocate memory",
    "out of memory",
    "Too many open files",
    "Input/output error",
];

/// `error` of compiling something, as a [`NotBuilt`] where it says that of the source.
pub fn blame_source(error: anyhow::Error) -> anyhow::Error {
    let failed = error.chain().find_map(|e| e.downcast_ref::<Failed>());
    let ended = failed.is_some_and(|failed| failed.status.code().is_some());
    let text = format!("{error:#}");
    match ended && !MACHINE.iter().any(|sign| text.contains(sign)) {
        true => NotBuilt(text).into(),
        false => error,
    }
}

/// Runs `command` to its end with both outputs appended to `log`.
///
/// # Errors
/// [`Stopped`] when interrupted; [`Failed`] when it failed; otherwise, too, says `what` was
/// being done, how it ended, and the last lines of the log that look like errors, with the
/// log's path.
pub fn run_logged(what: &str, mut command: Command, log: &Path, limit: Duration) -> Result<()> {
    let file = File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("opening log {}", log.display()))?;
    command.stdout(file.try_clone()?).stderr(file);
    let program = name(&command);
    let status = wait(what, &program, &mut spawn(what, command)?, limit)?;
    if !status.success() {
        let message = format!(
            "{what}: {program} ended with {status}; log: {}\n{}",
            log.display(),
            last_errors(log)
        );
        return Err(Failed { status, message }.into());
    }
    Ok(())
}

/// Runs `command` and returns its standard output; standard error goes into the error.
///
/// # Errors
/// [`Stopped`] when interrupted; [`Failed`] when it failed; otherwise, too, says `what` was
/// being done and how it ended.
pub fn read(what: &str, mut command: Command, limit: Duration) -> Result<String> {
    // Files, not pipes: a full pipe that nobody reads would block the child.
    let (out, err) = (
        tempfile::tempfile().with_context(|| {
            format!(
                "making a temporary file in {}; free some space there or set TMPDIR",
                std::env::temp_dir().display()
            )
        })?,
        tempfile::tempfile().with_context(|| {
            format!(
                "making a temporary file in {}; free some space there or set TMPDIR",
                std::env::temp_dir().display()
            )
        })?,
    );
    command.stdout(out.try_clone()?).stderr(err.try_clone()?);
    let program = name(&command);
    let status = wait(what, &program, &mut spawn(what, command)?, limit)?;
    let text = |mut f: File| -> Result<String> {
        f.rewind()?;
        let mut bytes = Vec::new();
        f.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    if !status.success() {
        let message = format!(
            "{what}: {program} ended with {status}: {}",
            text(err)?.trim()
        );
        return Err(Failed { status, message }.into());
    }
    text(out)
}

/// Runs `command`, fed with `input`, and gives each line of its standard output to `line` as it comes;
/// standard error goes where the command sends it (ours, by default). Returns how it
/// ended, which may be failure.
///
/// # Errors
/// [`Stopped`] when interrupted; otherwise when it did not start or not end in time.
pub fn stream(
    what: &str,
    mut command: Command,
    input: Stdio,
    limit: Duration,
    mut line: impl FnMut(&str),
) -> Result<ExitStatus> {
    command.stdout(Stdio::piped());
    let program = name(&command);
    let mut child = spawn_fed(what, command, input)?;
    let lines = lines(child.take_stdout().expect("piped"));
    let mut waiting = Wait::new(limit);
    let status = loop {
        lines.try_iter().for_each(|l| line(&l));
        if let Some(status) = look(what, &program, &mut child, &mut waiting)? {
            break status;
        }
    };
    // What it wrote last. A daemon that it left behind may hold the pipe: kill the group. One
    // in a session of its own is not waited for.
    drop(child);
    while let Ok(last) = lines.recv_timeout(LAST_WORDS) {
        line(&last);
    }
    Ok(status)
}

/// How long after a child's end more of its output is waited for.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A thread that reads lines, so that waiting for output does not hold up the deadline.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while matches!(pipe.read_until(b'\n', &mut bytes), Ok(n) if n > 0) {
            let text = String::from_utf8_lossy(&bytes);
            if send.send(text.trim_end_matches('\n').to_owned()).is_err() {
                break;
            }
            bytes.clear();
        }
    });
    receive
}

/// Runs `command` at the terminal: it shares our three standard streams and our process
/// group, so it may ask for a password, and Ctrl-C reaches it directly. Interrupted, we
/// wait for it to end by itself, at most until `limit`: for package managers, which must
/// not be killed halfway.
///
/// # Errors
/// When it does not start, fails, or does not end in time.
pub fn attached(what: &str, mut command: Command, limit: Duration) -> Result<()> {
    let program = name(&command);
    // Not a `Child`: even should we be killed it is to finish what it began.
    let mut child = command
        .spawn()
        .with_context(|| format!("{what}: starting {program}"))?;
    let mut waiting = Wait::new(limit);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if !waiting.pause() {
            bail!(
                "{what}: {program} (process {}) did not end within {} s and was left running",
                child.id(),
                limit.as_secs()
            );
        }
    };
    if interrupted() {
        return Err(Stopped.into());
    }
    if !status.success() {
        bail!("{what}: {program} ended with {status}");
    }
    Ok(())
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn spawn(what: &str, command: Command) -> Result<Child> {
    spawn_fed(what, command, Stdio::null())
}

fn spawn_fed(what: &str, command: Command, input: Stdio) -> Result<Child> {
    let program = name(&command);
    Child::spawn_fed(command, input).with_context(|| match super::which(&program) {
        None if !program.contains('/') => {
            format!("{what}: {}", not_installed(&program))
        }
        _ => format!("{what}: starting {program}"),
    })
}

fn wait(what: &str, program: &str, child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let mut waiting = Wait::new(limit);
    loop {
        if let Some(status) = look(what, program, child, &mut waiting)? {
            return Ok(status);
        }
    }
}

/// Looks once whether the child has ended, and pauses if not.
fn look(
    what: &str,
    program: &str,
    child: &mut Child,
    waiting: &mut Wait,
) -> Result<Option<ExitStatus>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    if interrupted() {
        return Err(Stopped.into());
    }
    if !waiting.pause() {
        bail!(
            "{what}: {program} did not end within {} s",
            waiting.limit.as_secs()
        );
    }
    Ok(None)
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Whoever left the group and keeps the pipe open is not waited for.
    #[test]
    fn a_daemon_with_the_pipe_holds_nothing_up() {
        let mut shell = super::super::tool("setsid");
        shell.args(["-f", "sleep", "60"]);
        let begun = Instant::now();
        let status = stream(
            "leaving a daemon",
            shell,
            Stdio::null(),
            Duration::from_secs(30),
            |_| {},
        );
        assert!(status.unwrap().success());
        assert!(begun.elapsed() < Duration::from_secs(45));
    }

    /// Only of what `doctor` knows is it said to know.
    #[test]
    fn a_program_that_is_not_here_is_told() {
        let no = super::super::tool("bootrig-no-such-program");
        let error = read("trying it", no, Duration::from_secs(60)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "trying it: bootrig-no-such-program is not installed"
        );
    }

    /// What the machine does wrong is never taken for the source's fault.
    #[test]
    fn the_machine_is_told_from_the_source() {
        let dir = tempfile::tempdir().unwrap();
        let blamed = |script: &str| {
            let mut sh = super::super::tool("sh");
            sh.args(["-c", script]);
            let log = dir.path().join("log");
            let _ = std::fs::remove_file(&log);
            let error = run_logged("x", sh, &log, Duration::from_secs(60)).unwrap_err();
            blame_source(error).is::<NotBuilt>()
        };
        assert!(blamed("echo a.c:1: error: no; exit 2"));
        assert!(!blamed("echo error: No space left on device; exit 2"));
        assert!(!blamed(
            "echo gcc: fatal error: Killed signal terminated program cc1; exit 2"
        ));
        assert!(!blamed("kill -9 $$"));
        assert!(!blame_source(Stopped.into()).is::<NotBuilt>());
        assert!(!blame_source(anyhow::anyhow!("error: x")).is::<NotBuilt>());
    }
}
