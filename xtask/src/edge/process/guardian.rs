// SPDX-License-Identifier: MIT OR Apache-2.0
//! A second process that cleans up when the first is gone, however it went.
//!
//! Destructors do not run on SIGKILL, so the last word must be another process's: our own
//! binary, started again with the hidden argument [`ARGUMENT`], in a session of its own so
//! that no terminal signal reaches it. It reads what to watch from a pipe whose only
//! writers are us and children that have not executed their program yet. When the pipe
//! closes it kills what is still watched, removes what is still there, and ends.
//!
//! Two races decide the shape:
//! - A child is reported by itself, between fork and exec. Reported by its parent it would
//!   be lost if the parent died in between; and the pipe cannot close before the child has
//!   written, because the child holds it open until exec.
//! - A child is forgotten before its leader is reaped. Until then the kernel does not give
//!   its number to another process, so no innocent is ever killed.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The argument that makes our binary a guardian.
pub const ARGUMENT: &str = "__guardian";
/// What the guardian says once it is out of the terminal's reach.
const READY: &[u8] = b"bootrig-guardian 1\n";
/// How long its start, and the removal of a folder, may take.
const LIMIT: Duration = Duration::from_secs(10);
/// A record of the pipe: what (4 bytes), number (4), ticket (8), native order. Short, so
/// that each is written and read whole (POSIX: up to PIPE_BUF).
const RECORD: usize = 16;
/// Longest path of a folder: with its record one atomic write.
const PATH_MAX: usize = 2048;

const PING: u32 = 0;
const PROCESS: u32 = 1;
const GROUP: u32 = 2;
const FOLDER: u32 = 3;
const FORGET: u32 = 4;

/// Names one watched thing, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// What of a child is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The child and all that share its process group.
    Group,
    /// The child alone: it shares our own group.
    Process,
}

fn record(what: u32, number: i32, ticket: Ticket) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..4].copy_from_slice(&what.to_ne_bytes());
    bytes[4..8].copy_from_slice(&number.to_ne_bytes());
    bytes[8..].copy_from_slice(&ticket.0.to_ne_bytes());
    bytes
}

fn folder_record(ticket: Ticket, path: &Path) -> io::Result<Vec<u8>> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > PATH_MAX || !path.is_absolute() {
        return Err(io::Error::other(format!(
            "the path of a temporary folder must be absolute and short: {}",
            path.display()
        )));
    }
    Ok([&record(FOLDER, bytes.len() as i32, ticket)[..], bytes].concat())
}

/// Our end.
struct Link {
    pipe: ChildStdin,
    /// Everything watched, to tell a new guardian should somebody kill the first.
    watched: BTreeMap<Ticket, Vec<u8>>,
}

static LINK: Mutex<Option<Link>> = Mutex::new(None);
/// Set by a `main` that began with [`serve_if_asked`]: our own binary can be the guardian.
static SELF_SERVES: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Every `main` that may start children calls this first. It returns at once, unless this
/// process was started to be a guardian.
pub fn serve_if_asked() {
    if std::env::args_os().nth(1).is_some_and(|a| a == ARGUMENT) {
        let code = i32::from(serve(io::stdin().lock()).is_err());
        std::process::exit(code);
    }
    SELF_SERVES.store(true, Ordering::Relaxed);
}

/// The binary to start: ourselves, even if the file was replaced meanwhile by a new build;
/// in a test binary the `xtask` that cargo built beside it; else none.
fn program() -> Option<PathBuf> {
    if SELF_SERVES.load(Ordering::Relaxed) {
        return Some("/proc/self/exe".into());
    }
    let own = std::env::current_exe().ok()?;
    let beside = own.parent()?.parent()?.join("xtask");
    beside.is_file().then_some(beside)
}

fn start() -> io::Result<Option<ChildStdin>> {
    let Some(program) = program() else {
        return Ok(None);
    };
    let mut command = Command::new(&program);
    command
        .arg(ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .current_dir("/");
    let mut child = command.spawn()?;
    let (pipe, mut answer) = (
        child.stdin.take().expect("piped"),
        child.stdout.take().expect("piped"),
    );
    if heard(&mut answer) {
        return Ok(Some(pipe));
    }
    let _ = child.kill();
    let _ = child.wait();
    if SELF_SERVES.load(Ordering::Relaxed) {
        return Err(io::Error::other(
            "the guardian of child processes did not start",
        ));
    }
    // Beside a test binary lies an `xtask` too old to know the argument.
    Ok(None)
}

fn heard(answer: &mut (impl Read + AsFd)) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let deadline = Instant::now() + LIMIT;
    let mut text = Vec::new();
    while text.len() < READY.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(answer, PollFlags::IN)], Some(&limit)) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(n) if n > 0 => {}
            _ => return false,
        }
        let mut bytes = [0; READY.len()];
        match answer.read(&mut bytes) {
            Ok(n) if n > 0 => text.extend_from_slice(&bytes[..n]),
            _ => return false,
        }
    }
    text == READY
}

/// The link to a guardian that was alive a moment ago, started or replaced as needed.
/// Empty where there is no binary to be one.
fn linked() -> io::Result<MutexGuard<'static, Option<Link>>> {
    let mut link = LINK.lock().unwrap_or_else(PoisonError::into_inner);
    let alive = link
        .as_mut()
        .is_some_and(|l| l.pipe.write_all(&record(PING, 0, Ticket(0))).is_ok());
    if !alive {
        let watched = link.take().map(|l| l.watched).unwrap_or_default();
        if let Some(mut pipe) = start()? {
            for record in watched.values() {
                pipe.write_all(record)?;
            }
            *link = Some(Link { pipe, watched });
        }
    }
    Ok(link)
}

/// Starts `command`, watched from before its program runs.
pub(super) fn spawn_watched(
    command: &mut Command,
    reach: Reach,
) -> io::Result<(std::process::Child, Ticket)> {
    let ticket = Ticket(NEXT.fetch_add(1, Ordering::Relaxed));
    // Held until the child runs, lest the pipe be replaced under it.
    let mut link = linked()?;
    let pipe: Option<RawFd> = link.as_ref().map(|l| l.pipe.as_raw_fd());
    let what = if reach == Reach::Group {
        GROUP
    } else {
        PROCESS
    };
    // SAFETY: runs in the forked child, where only system calls are allowed: it makes
    // getpid and write, or prctl, from memory on the stack. The descriptor is open: we
    // hold its lock until spawn returns.
    unsafe {
        command.pre_exec(move || {
            let Some(pipe) = pipe else {
                // No guardian: at least the child itself dies with the thread that made it.
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                return Ok(());
            };
            let own = rustix::process::getpid().as_raw_nonzero().get();
            rustix::io::write(BorrowedFd::borrow_raw(pipe), &record(what, own, ticket))?;
            Ok(())
        });
    }
    let child = command.spawn();
    if let Some(link) = link.as_mut() {
        match &child {
            Ok(child) => {
                link.watched
                    .insert(ticket, record(what, child.id() as i32, ticket).into());
            }
            // The program did not start; the child that reported itself has ended.
            Err(_) => drop(link.pipe.write_all(&record(FORGET, 0, ticket))),
        }
    }
    Ok((child?, ticket))
}

/// Has the guardian remove `path`, which need not exist yet, should we die.
pub(super) fn watch_folder(path: &Path) -> io::Result<Ticket> {
    let ticket = Ticket(NEXT.fetch_add(1, Ordering::Relaxed));
    let record = folder_record(ticket, path)?;
    if let Some(link) = linked()?.as_mut() {
        link.pipe.write_all(&record)?;
        link.watched.insert(ticket, record);
    }
    Ok(ticket)
}

/// Ends the watch over a child that has ended but was not reaped, or over a folder.
pub(super) fn forget(ticket: Ticket) {
    let mut link = LINK.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(link) = link.as_mut() {
        link.watched.remove(&ticket);
        // If it fails the guardian is dead, and its successor never hears of the ticket.
        let _ = link.pipe.write_all(&record(FORGET, 0, ticket));
    }
}

enum Watched {
    Process(Pid),
    Group(Pid),
    Folder(PathBuf),
}

/// The guardian's whole life.
fn serve(mut pipe: impl Read) -> io::Result<()> {
    // A session of its own: no Ctrl-C, no hang-up. Signals sent to it by number still work.
    let _ = rustix::process::setsid();
    let mut out = io::stdout().lock();
    out.write_all(READY)?;
    out.flush()?;
    let mut watched = BTreeMap::new();
    // Whatever ends the reading, an end of file or nonsense, it is time to clean up.
    while let Some((ticket, news)) = next(&mut pipe) {
        match news {
            News::Watch(thing) => drop(watched.insert(ticket, thing)),
            News::Forget => drop(watched.remove(&ticket)),
            News::Nothing => {}
        }
    }
    clean(&watched);
    Ok(())
}

enum News {
    Watch(Watched),
    Forget,
    Nothing,
}

/// The next record; none at the end of the pipe, or at one that nobody writes.
fn next(pipe: &mut impl Read) -> Option<(Ticket, News)> {
    let mut bytes = [0; RECORD];
    pipe.read_exact(&mut bytes).ok()?;
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let ticket = Ticket(u64::from_ne_bytes(
        bytes[8..].try_into().expect("eight bytes"),
    ));
    let news = match (word(0), word(4)) {
        (PING, _) => News::Nothing,
        (FORGET, _) => News::Forget,
        (PROCESS, number) => News::Watch(Watched::Process(Pid::from_raw(number as i32)?)),
        (GROUP, number) => News::Watch(Watched::Group(Pid::from_raw(number as i32)?)),
        (FOLDER, length) if length as usize <= PATH_MAX => {
            let mut path = vec![0; length as usize];
            pipe.read_exact(&mut path).ok()?;
            News::Watch(Watched::Folder(OsString::from_vec(path).into()))
        }
        _ => return None,
    };
    Some((ticket, news))
}

fn clean(watched: &BTreeMap<Ticket, Watched>) {
    // First what writes, then what was written.
    for thing in watched.values() {
        let _ = match thing {
            Watched::Process(pid) => kill_process(*pid, Signal::KILL),
            Watched::Group(pid) => kill_process_group(*pid, Signal::KILL),
            Watched::Folder(_) => Ok(()),
        };
    }
    let start = Instant::now();
    for thing in watched.values() {
        let Watched::Folder(path) = thing else {
            continue;
        };
        // A killed process may still finish a system call and put a file back.
        while fs::remove_dir_all(path).is_err() && path.exists() && start.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back() {
        let folder = folder_record(Ticket(3), Path::new("/nowhere/x")).unwrap();
        let stream = [
            &record(GROUP, 17, Ticket(1))[..],
            &record(PING, 0, Ticket(0)),
            &folder,
            &record(FORGET, 0, Ticket(1)),
            &[1, 2],
        ]
        .concat();
        let mut pipe = &stream[..];
        let group = Pid::from_raw(17).unwrap();
        assert!(
            matches!(next(&mut pipe), Some((Ticket(1), News::Watch(Watched::Group(g)))) if g == group)
        );
        assert!(matches!(next(&mut pipe), Some((_, News::Nothing))));
        assert!(
            matches!(next(&mut pipe), Some((Ticket(3), News::Watch(Watched::Folder(p)))) if p == Path::new("/nowhere/x"))
        );
        assert!(matches!(next(&mut pipe), Some((Ticket(1), News::Forget))));
        assert!(next(&mut pipe).is_none(), "a cut record ends the stream");
    }

    #[test]
    fn nonsense_ends_the_stream() {
        for bytes in [
            record(9, 1, Ticket(1)),
            record(GROUP, 0, Ticket(1)),
            record(FOLDER, -1, Ticket(1)),
        ] {
            assert!(next(&mut &bytes[..]).is_none());
        }
        assert!(folder_record(Ticket(1), Path::new("relative")).is_err());
        assert!(
            folder_record(Ticket(1), Path::new(&format!("/{}", "x".repeat(PATH_MAX)))).is_err()
        );
    }
}
