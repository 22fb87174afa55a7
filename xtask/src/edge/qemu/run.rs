// SPDX-License-Identifier: MIT OR Apache-2.0
//! One machine's life: started, watched, and ended in time, whatever its guest does.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::{
    attach::{self, Attach},
    command::{BootFiles, CommandLine},
    limits::Limits,
    qmp,
    watch::{ChannelWatch, ConsoleWatch, Phase, Trouble},
};
use crate::{
    core::{
        console,
        fault::Stopped,
        machine::{End, RawBoot},
        scenario::Clock,
        units::Nanos,
    },
    edge::process::{self, Child},
};

/// How often the files are looked at. The machine's end is noticed at once, without this.
const LOOK: Duration = Duration::from_millis(50);
/// A kernel in trouble is left to finish its report until it says nothing for so long,
const QUIET: Duration = Duration::from_millis(200);
/// or until this has passed.
const GRACE: Duration = Duration::from_secs(3);
/// Exit statuses that PID 1 asks for (docs/protocol.md).
const FINISHED: i32 = 33;
const GAVE_UP: i32 = 35;

/// Boots the machine of `line` once and waits for its end. A wall-clock boot whose
/// emulated clock failed says nothing about the guest: then it was the machine that failed.
///
/// # Errors
/// [`Stopped`] only.
pub fn boot(line: &CommandLine, files: &BootFiles, limits: &Limits) -> Result<RawBoot, Stopped> {
    let (end, unsound) = match Life::begin(line, files, limits) {
        Ok(mut life) => {
            let end = life.watch()?;
            (life.read_to_end(end), life.unsound)
        }
        Err(why) => (End::Machine(why), None),
    };
    let unsound = unsound.map(|line| {
        End::Machine(format!(
            "the emulated clock failed (`{line}`): the host is too busy; try again, or use the virtual clock"
        ))
    });
    let full = files.console.parent().and_then(no_space).map(End::Machine);
    Ok(RawBoot {
        end: full.or(unsound).unwrap_or(end),
        channel: read_up_to(&files.channel, limits.channel),
        console: read_up_to(&files.console, limits.console),
    })
}

struct Life<'a> {
    files: &'a BootFiles,
    ends_at_reset: bool,
    limits: &'a Limits,
    child: Child,
    ended: Option<OwnedFd>,
    start: Instant,
    phase: Phase,
    phase_start: Instant,
    console: Tail,
    channel: Tail,
    console_watch: ConsoleWatch,
    channel_watch: ChannelWatch,
    unsound: Option<String>,
    attach: Option<Attach>,
}

impl<'a> Life<'a> {
    fn begin(line: &CommandLine, files: &'a BootFiles, limits: &'a Limits) -> Result<Self, String> {
        // What an earlier machine left must not be taken for this one's.
        for old in [&files.console, &files.channel, &files.messages]
            .into_iter()
            .chain(&files.qmp)
        {
            match fs::remove_file(old) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(format!("removing {}: {e}", old.display()));
                }
                _ => {}
            }
        }
        let attach = Attach::of(line, files)?;
        let messages = File::create(&files.messages)
            .map_err(|e| format!("creating {}: {e}", files.messages.display()))?;
        let copy = messages
            .try_clone()
            .map_err(|e| format!("creating {}: {e}", files.messages.display()))?;
        let mut command = line.to_command();
        command.stdout(copy).stderr(messages);
        let start = Instant::now();
        let child = Child::spawn(command)
            .map_err(|e| format!("starting {}: {e}", line.program.display()))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(Self {
            files,
            ends_at_reset: line.ends_at_reset,
            limits,
            ended: pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
            child,
            start,
            phase: Phase::Boot,
            phase_start: start,
            console: Tail::of(&files.console),
            channel: Tail::of(&files.channel),
            console_watch: ConsoleWatch::new(line.clock == Clock::Wall),
            channel_watch: ChannelWatch::default(),
            unsound: None,
            attach,
        })
    }

    /// Waits for the machine's end, or for a reason to end it.
    fn watch(&mut self) -> Result<End, Stopped> {
        loop {
            self.pause(LOOK);
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(self.ended_with(status)),
                Ok(None) => {}
                Err(error) => return Ok(End::Machine(format!("waiting for QEMU: {error}"))),
            }
            if process::interrupted() {
                return Err(Stopped);
            }
            if let Some(trouble) = self.attach.as_mut().and_then(|a| a.look().err()) {
                return self.not_attached(trouble);
            }
            let trouble = self.look();
            if let Some(trouble) = trouble {
                self.let_finish()?;
                self.child.kill();
                return Ok(self.trouble(trouble));
            }
            if let Some(end) = self.over_limit() {
                self.child.kill();
                return Ok(end);
            }
        }
    }

    /// Sleeps until the machine has ended, `limit` at most.
    fn pause(&self, limit: Duration) {
        let Some(fd) = &self.ended else {
            // A kernel older than pidfd: look often.
            return std::thread::sleep(limit.min(Duration::from_millis(2)));
        };
        let limit = Timespec::try_from(limit).ok();
        let monitor = self.attach.as_ref().and_then(Attach::fd);
        let monitor = monitor.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
        let mut awaited: Vec<_> = [PollFd::new(fd, PollFlags::IN)]
            .into_iter()
            .chain(monitor)
            .collect();
        // A signal ends the wait early; the caller then looks whether it was for us.
        let _ = poll(&mut awaited, limit.as_ref());
    }

    /// The end of a machine that could not be given what is plugged into it.
    fn not_attached(&mut self, trouble: attach::Trouble) -> Result<End, Stopped> {
        self.hang_up();
        let end = match trouble {
            attach::Trouble::Stopped => return Err(Stopped),
            attach::Trouble::Guest(end) => end,
            attach::Trouble::Machine(why) => End::Machine(why),
            attach::Trouble::Gone(why) => End::Machine(match self.last_word()? {
                Some(End::Machine(end) | End::Early(end)) => format!("{why}; {end}"),
                _ => why,
            }),
        };
        self.child.kill();
        Ok(end)
    }

    /// What becomes of a machine that is about to end, if it does soon.
    fn last_word(&mut self) -> Result<Option<End>, Stopped> {
        let start = Instant::now();
        while start.elapsed() < GRACE {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Ok(Some(self.ended_with(status)));
            }
            if process::interrupted() {
                return Err(Stopped);
            }
            self.pause(LOOK);
        }
        Ok(None)
    }

    /// Leaves QEMU's monitor, which has one caller at a time.
    fn hang_up(&mut self) {
        if let Some(attach) = &mut self.attach {
            attach.hang_up();
        }
    }

    /// Reads what the guest wrote since the last look.
    fn look(&mut self) -> Option<Trouble> {
        self.channel
            .read(self.limits.channel, |bytes| self.channel_watch.feed(bytes));
        let phase = self.channel_watch.phase();
        if phase != self.phase {
            (self.phase, self.phase_start) = (phase, Instant::now());
        }
        let mut trouble = None;
        self.console.read(self.limits.console, |bytes| {
            if trouble.is_none() {
                trouble = self.console_watch.feed(bytes);
            }
        });
        trouble
    }

    fn trouble(&mut self, trouble: Trouble) -> End {
        match trouble {
            Trouble::Splat(line) => End::Splat(line),
            Trouble::Unsound(line) => {
                self.unsound = Some(line.clone());
                End::Machine(line)
            }
        }
    }

    /// Waits until the console has fallen silent.
    fn let_finish(&mut self) -> Result<(), Stopped> {
        let (start, mut last_word) = (Instant::now(), Instant::now());
        while start.elapsed() < GRACE && last_word.elapsed() < QUIET {
            self.pause(LOOK);
            if process::interrupted() {
                return Err(Stopped);
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            let before = self.console.at;
            self.look();
            if self.console.at != before {
                last_word = Instant::now();
            }
        }
        Ok(())
    }

    /// Whether a limit is passed.
    fn over_limit(&mut self) -> Option<End> {
        for (tail, name, limit) in [
            (&self.channel, "event channel", self.limits.channel),
            (&self.console, "console", self.limits.console),
        ] {
            if tail.at > limit {
                return Some(End::Deadline(format!(
                    "the guest wrote more than {} MiB to its {name}",
                    limit >> 20
                )));
            }
        }
        let of_phase = match self.phase {
            Phase::Boot => self.limits.boot,
            Phase::Run => self.limits.run,
            Phase::Reboot => self.limits.reboot,
            Phase::Second => self.limits.whole,
        };
        let awaited = self.phase.awaited();
        if self.start.elapsed() > self.limits.whole {
            return Some(self.deadline(&format!(
                "the boot did not end within {}: still waiting for {awaited}",
                seconds(self.limits.whole)
            )));
        }
        if self.phase_start.elapsed() > of_phase {
            return Some(self.deadline(&format!(
                "waited {} for {awaited}, its share of the timeout of {}",
                seconds(of_phase),
                seconds(self.limits.whole)
            )));
        }
        None
    }

    /// A deadline's text with what is known about where the guest hangs.
    fn deadline(&mut self, what: &str) -> End {
        self.hang_up();
        let mut text = what.to_owned();
        let at = self
            .files
            .qmp
            .as_deref()
            .map(qmp::instruction_pointers)
            .unwrap_or_default();
        if !at.is_empty() {
            let at: Vec<_> = at.iter().map(|ip| format!("{ip:#x}")).collect();
            text += &format!("; CPUs at {}", at.join(", "));
        }
        if let Some(messages) = self.messages() {
            text += &format!("; QEMU: {messages}");
        }
        End::Deadline(text)
    }

    /// What a machine that ended by itself means.
    fn ended_with(&self, status: ExitStatus) -> End {
        let said = self.messages().map_or(String::new(), |m| format!(": {m}"));
        match (status.code(), status.signal()) {
            (Some(FINISHED), _) => End::Finished,
            (_, Some(signal)) => End::Machine(format!("QEMU was killed by signal {signal}{said}")),
            (Some(GAVE_UP), _) => End::Early("PID 1 gave up".into()),
            // Whether it was the reset that was asked for, the record tells.
            (Some(0), _) if self.ends_at_reset => End::Finished,
            (Some(0), _) => End::Early("the machine was powered off".into()),
            (code, _) => {
                let code = code.map_or_else(|| "no status".into(), |c| c.to_string());
                let silent = [&self.files.channel, &self.files.console]
                    .iter()
                    .all(|f| f.metadata().map_or(0, |m| m.len()) == 0);
                if silent {
                    End::Machine(format!(
                        "QEMU did not start a guest (exit status {code}){said}"
                    ))
                } else {
                    End::Early(format!("QEMU ended with exit status {code}{said}"))
                }
            }
        }
    }

    /// Reads what was written last: a report may stand right before the end.
    fn read_to_end(&mut self, end: End) -> End {
        let found = self.look();
        match (end, found) {
            (End::Finished | End::Early(_), Some(trouble)) => self.trouble(trouble),
            (End::Early(why), None) => End::Early(
                self.channel_watch
                    .error()
                    .map_or(why.clone(), |error| format!("{why}: {error}")),
            ),
            (end, _) => end,
        }
    }

    /// The last lines of QEMU's own.
    fn messages(&self) -> Option<String> {
        let text =
            console::tail(&read_up_to(&self.files.messages, 64 << 10), 5).replace('\n', "; ");
        (!text.is_empty()).then_some(text)
    }
}

/// Follows a file that is being written.
struct Tail {
    path: PathBuf,
    file: Option<File>,
    at: u64,
}

impl Tail {
    fn of(path: &Path) -> Self {
        Self {
            path: path.into(),
            file: None,
            at: 0,
        }
    }
    /// Hands over what was added since the last time; reads a little past `limit` at most.
    fn read(&mut self, limit: u64, mut each: impl FnMut(&[u8])) {
        if self.file.is_none() {
            // QEMU may not have made it yet.
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return };
        if file.seek(SeekFrom::Start(self.at)).is_err() {
            return;
        }
        let mut buffer = [0; 1 << 16];
        while self.at <= limit {
            match file.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    self.at += count as u64;
                    each(&buffer[..count]);
                }
            }
        }
    }
}

fn read_up_to(path: &Path, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(limit).read_to_end(&mut bytes);
    }
    bytes
}

/// QEMU drops what a full disk does not take, without a word: see whether it still takes
/// something.
fn no_space(dir: &Path) -> Option<String> {
    let path = dir.join("room");
    let written = File::create(&path).and_then(|mut file| file.write_all(&[0; 4096]));
    let _ = fs::remove_file(&path);
    written
        .err()
        .map(|error| format!("writing below {}: {error}; make room there", dir.display()))
}

fn seconds(duration: Duration) -> String {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)).to_string()
}
