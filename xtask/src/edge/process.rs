// SPDX-License-Identifier: MIT OR Apache-2.0
//! Child processes: each leads its own process group, has a time limit, ends when the
//! user interrupts us, and never outlives us, not even when we are killed.

use std::{
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{ChildStdout, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

mod guardian;
mod run;
pub mod rust;
mod scratch;
mod signals;

pub use crate::core::fault::Stopped;
pub use guardian::serve_if_asked;
pub use run::{Failed, attached, blame_source, read, run_logged, stream};
pub use scratch::{Scratch, scratch, scratch_in};
pub use signals::{install_handlers, interrupt, interrupted};

use guardian::{Reach, Ticket};

/// How long a killed child may take to end: it may sit in a system call.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// A running child and its process group; killed, whole, when dropped, and by the
/// guardian if we die first.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    ticket: Ticket,
    reach: Reach,
}

impl Child {
    /// Starts `command` as the leader of a new process group, without standard input.
    ///
    /// # Errors
    /// When the program does not start.
    pub fn spawn(command: Command) -> io::Result<Self> {
        Self::spawn_fed(command, Stdio::null())
    }

    /// [`Self::spawn`] with `input` as its standard input.
    ///
    /// # Errors
    /// When the program does not start.
    pub fn spawn_fed(mut command: Command, input: Stdio) -> io::Result<Self> {
        command.stdin(input).process_group(0);
        Self::start(command, Reach::Group)
    }

    /// Starts `command` in our own process group with its standard input as it was set:
    /// for what talks to the terminal. Ctrl-C reaches it directly. Only the child itself
    /// is killed on drop.
    ///
    /// # Errors
    /// When the program does not start.
    pub fn spawn_attached(command: Command) -> io::Result<Self> {
        Self::start(command, Reach::Process)
    }

    fn start(mut command: Command, reach: Reach) -> io::Result<Self> {
        let (inner, ticket) = guardian::spawn_watched(&mut command, reach)?;
        Ok(Self {
            inner,
            ticket,
            reach,
        })
    }

    /// Its status if it has ended.
    ///
    /// It stays a zombie until dropped, so that its number, and its group's, remain its own.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Some(status) = waitid(WaitId::Pid(self.pid()), how)? else {
            return Ok(None);
        };
        // As wait(2) packs it.
        let raw = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => code << 8,
            (None, Some(signal)) => signal | if status.dumped() { 0x80 } else { 0 },
            (None, None) => return Ok(None),
        };
        Ok(Some(ExitStatus::from_raw(raw)))
    }

    /// Its process id, which is also its group's if it leads one.
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// The reading end of its standard output, if that was piped and not taken yet.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.inner.stdout.take()
    }

    /// Kills it and its group now; [`Self::try_wait`] then tells when it has ended.
    pub fn kill(&mut self) {
        let _ = match self.reach {
            Reach::Group => kill_process_group(self.pid(), Signal::KILL),
            Reach::Process => kill_process(self.pid(), Signal::KILL),
        };
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.inner)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The group may hold grandchildren even after its leader ended.
        self.kill();
        let mut wait = Wait::new(LAST_WAIT);
        while let Ok(None) = self.try_wait() {
            if !wait.pause() {
                // Stuck in the kernel: the guardian keeps its number for when we end.
                return;
            }
        }
        guardian::forget(self.ticket);
        let _ = self.inner.wait();
    }
}

/// Pauses that grow from half a millisecond to 20 ms, up to a limit.
struct Wait {
    start: Instant,
    limit: Duration,
    pause: Duration,
}

impl Wait {
    fn new(limit: Duration) -> Self {
        Self {
            start: Instant::now(),
            limit,
            pause: Duration::from_micros(500),
        }
    }
    /// Pauses; false once the limit has passed.
    fn pause(&mut self) -> bool {
        if self.start.elapsed() > self.limit {
            return false;
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(20));
        true
    }
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

/// A command with an environment of its own: nothing of the caller's but what finds
/// programs, the network and the compiler cache, since `CC`, `KCFLAGS`, `MAKEFLAGS` or
/// `TAR_OPTIONS` would change what comes out.
pub fn tool(program: &str) -> Command {
    const PASSED: [&str; 11] = [
        "PATH",
        "HOME",
        "TMPDIR",
        "http_proxy",
        "https_proxy",
        "ftp_proxy",
        "all_proxy",
        "no_proxy",
        "HTTPS_PROXY",
        "NO_PROXY",
        "SSH_AUTH_SOCK",
    ];
    let mut command = Command::new(program);
    command
        .env_clear()
        .envs(std::env::vars_os().filter(|(k, _)| {
            let name = k.to_string_lossy();
            PASSED.contains(&name.as_ref()) || name.starts_with("CCACHE_")
        }));
    command.env("LC_ALL", "C");
    command
}
