// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls and instructions that std has no name for; all unsafe code but the
//! channel's and the clock's. A failed call leaves its errno to be read at once.

use std::{
    arch::asm,
    ffi::{CStr, CString, c_char, c_int, c_long, c_ulong, c_void},
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

pub mod netlink;

/// Index port of the battery-backed clock; the next one is its data port.
pub const CMOS_PORT: u16 = 0x70;
/// No such file.
pub const ENOENT: i32 = 2;
/// No such device.
pub const ENODEV: i32 = 19;
/// Invalid argument.
pub const EINVAL: i32 = 22;
/// It is too large.
pub const EFBIG: i32 = 27;
/// It took too long.
pub const ETIMEDOUT: i32 = 110;
/// Please end.
pub const SIGTERM: c_int = 15;
/// End.
pub const SIGKILL: c_int = 9;

const CLOCK_MONOTONIC: c_int = 1;
const MNT_DETACH: c_int = 2;
const WNOHANG: c_int = 1;
const TIMER_ABSTIME: c_int = 1;
const TIOCSCTTY: c_ulong = 0x540e;
const RNDADDENTROPY: c_ulong = 0x4008_5203;
const SYS_DELETE_MODULE: c_long = 176;
const SYS_FINIT_MODULE: c_long = 313;
const O_NONBLOCK: c_int = 0o4000;
const SYS_KEXEC_FILE_LOAD: c_long = 320;
const PR_SET_TIMERSLACK: c_int = 29;
const SYS_PIDFD_OPEN: c_long = 434;
const POLLIN: i16 = 1;

/// struct rand_pool_info of Linux, with as many bytes as make a seed.
#[repr(C)]
struct RandPool {
    bits: c_int,
    size: c_int,
    bytes: [u8; 64],
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// struct pollfd of Linux.
#[repr(C)]
struct PollFd {
    file: c_int,
    events: i16,
    seen: i16,
}

/// struct utsname of Linux: six fields of 65 bytes.
#[repr(C)]
struct Names([[c_char; 65]; 6]);

unsafe extern "C" {
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    fn uname(names: *mut Names) -> c_int;
    fn sched_getaffinity(pid: c_int, size: usize, mask: *mut u64) -> c_int;
    fn ioperm(from: c_ulong, count: c_ulong, on: c_int) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    #[link_name = "mount"]
    fn libc_mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
    fn umount2(target: *const c_char, flags: c_int) -> c_int;
    #[link_name = "sync"]
    fn libc_sync();
    #[link_name = "reboot"]
    fn libc_reboot(how: c_int) -> c_int;
    fn clock_nanosleep(
        clock: c_int,
        flags: c_int,
        time: *const Timespec,
        left: *mut Timespec,
    ) -> c_int;
    #[link_name = "fork"]
    fn libc_fork() -> c_int;
    fn _exit(status: c_int) -> !;
    #[link_name = "kill"]
    fn libc_kill(pid: c_int, signal: c_int) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn ppoll(
        files: *mut PollFd,
        count: c_ulong,
        time: *const Timespec,
        signals: *const c_void,
    ) -> c_int;
    fn setsid() -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
    fn ioctl(file: c_int, request: c_ulong, ...) -> c_int;
}

fn ok(result: c_int) -> Result<(), ()> {
    if result < 0 { Err(()) } else { Ok(()) }
}

/// CLOCK_MONOTONIC in ns.
pub fn monotonic_ns() -> u64 {
    let mut time = Timespec {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: writes `time` only. It cannot fail for this clock.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// The kernel's release.
pub fn release() -> Option<String> {
    let mut names = Names([[0; 65]; 6]);
    // SAFETY: writes `names` only; each field ends with a NUL byte.
    unsafe {
        ok(uname(&mut names)).ok()?;
        Some(
            CStr::from_ptr(names.0[2].as_ptr())
                .to_str()
                .ok()?
                .to_owned(),
        )
    }
}

/// CPUs that PID 1 may run on. (std's count reads files that are not mounted yet.)
pub fn cpus() -> u32 {
    let mut mask = [0u64; 128];
    // SAFETY: writes no more than the size given.
    unsafe { sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr()) };
    mask.iter().map(|word| word.count_ones()).sum()
}

/// Gets the right to `count` ports.
pub fn allow_ports(from: u16, count: u16) -> Result<(), ()> {
    // SAFETY: changes this process's port rights only.
    ok(unsafe { ioperm(from.into(), count.into(), 1) })
}

/// Gives the right to `count` ports back.
pub fn deny_ports(from: u16, count: u16) -> Result<(), ()> {
    // SAFETY: as for `allow_ports`.
    ok(unsafe { ioperm(from.into(), count.into(), 0) })
}

/// Writes a byte to a port that [`allow_ports`] got.
pub fn write_port(port: u16, value: u8) {
    // SAFETY: touches no memory; without the right to the port the kernel ends us.
    unsafe {
        asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags))
    }
}

/// Reads a byte from a port that [`allow_ports`] got.
pub fn read_port(port: u16) -> u8 {
    let value;
    // SAFETY: as for `write_port`.
    unsafe {
        asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags))
    }
    value
}

/// Mounts a file system that has no device.
pub fn mount(kind: &str, at: &str) -> Result<(), ()> {
    let (kind, at) = (text(kind), text(at));
    // SAFETY: the strings live through the call.
    ok(unsafe { libc_mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, ptr::null()) })
}

/// Unmounts, at the latest when the last user is gone.
pub fn unmount(at: &str) -> Result<(), ()> {
    let at = text(at);
    // SAFETY: the string lives through the call.
    ok(unsafe { umount2(at.as_ptr(), MNT_DETACH) })
}

/// Loads a module and runs its init function.
pub fn load_module(file: &File, parameters: &str) -> Result<(), ()> {
    let parameters = text(parameters);
    // SAFETY: the string lives through the call.
    ok(unsafe {
        syscall(
            SYS_FINIT_MODULE,
            c_long::from(file.as_raw_fd()),
            parameters.as_ptr(),
            0 as c_long,
        )
    } as c_int)
}

/// Unloads a module; refused while it is being loaded or is in use.
pub fn unload_module(name: &str) -> Result<(), ()> {
    let name = text(name);
    // SAFETY: the string lives through the call.
    ok(unsafe { syscall(SYS_DELETE_MODULE, name.as_ptr(), c_long::from(O_NONBLOCK)) } as c_int)
}

/// Loads a kernel for [`Reboot::Kexec`].
pub fn kexec_load(kernel: &File, initrd: &File, line: &CStr) -> Result<(), ()> {
    let size = line.to_bytes_with_nul().len() as c_ulong;
    let (kernel, initrd) = (
        c_long::from(kernel.as_raw_fd()),
        c_long::from(initrd.as_raw_fd()),
    );
    // SAFETY: the string lives through the call.
    ok(unsafe {
        syscall(
            SYS_KEXEC_FILE_LOAD,
            kernel,
            initrd,
            size,
            line.as_ptr(),
            0 as c_ulong,
        )
    } as c_int)
}

/// Writes out what file systems hold back.
pub fn sync() {
    // SAFETY: takes and returns nothing.
    unsafe { libc_sync() }
}

/// What reboot(2) can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reboot {
    /// Through the firmware.
    Restart = 0x0123_4567,
    /// Into the loaded kernel.
    Kexec = 0x4558_4543,
    /// Off.
    PowerOff = 0x4321_fedc,
}

/// reboot(2); comes back only when it fails.
pub fn reboot(how: Reboot) -> Result<(), ()> {
    // SAFETY: touches no memory of ours.
    ok(unsafe { libc_reboot(how as c_int) })
}

/// Signals every process but ourselves.
pub fn signal_all(signal: c_int) {
    // SAFETY: touches no memory. That there is nobody is no error here.
    unsafe { libc_kill(-1, signal) };
}

/// Signals one process. That it has ended is no error.
pub fn kill(pid: c_int, signal: c_int) {
    // SAFETY: touches no memory of ours.
    unsafe { libc_kill(pid, signal) };
}

/// Sleeps until CLOCK_MONOTONIC shows `ns`; not at all if it does already.
pub fn sleep_until(ns: u64) {
    let time = Timespec {
        seconds: (ns / 1_000_000_000) as i64,
        nanoseconds: (ns % 1_000_000_000) as i64,
    };
    // SAFETY: reads `time` only. Nothing interrupts PID 1, which has no signal handlers.
    unsafe { clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, ptr::null_mut()) };
}

/// Whether sleeps of ours end at their time, and not up to 50 us later with others, as is usual.
pub fn exact_sleeps(exact: bool) {
    // SAFETY: touches no memory of ours. 0 stands for what is usual.
    unsafe { prctl(PR_SET_TIMERSLACK, c_ulong::from(exact)) };
}

/// The error of the last failed call.
pub fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Who we are after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    /// The new process.
    Child,
    /// The old one; the new one has this number.
    Parent(i32),
}

/// Copies the process.
pub fn fork() -> Result<Forked, ()> {
    // SAFETY: PID 1 has one thread, so that no lock is held by one that the child lacks.
    match unsafe { libc_fork() } {
        0 => Ok(Forked::Child),
        pid if pid > 0 => Ok(Forked::Parent(pid)),
        _ => Err(()),
    }
}

/// Ends a child without anything else.
pub fn exit(status: i32) -> ! {
    // SAFETY: does not come back.
    unsafe { _exit(status) }
}

/// Waits for a child's end: its status, or none if a signal ended it or nobody knows.
pub fn wait_for(child: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: writes `status` only.
    let ended = unsafe { waitpid(child, &mut status, 0) };
    (ended == child && status & 0x7f == 0).then_some(status >> 8 & 0xff)
}

/// How a child is doing, without waiting for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not ended.
    Running,
    /// It has ended with this status, and is no longer there.
    Ended(i32),
    /// A signal has ended it, and it is no longer there.
    Killed,
}

/// Looks at a child.
pub fn look(child: i32) -> State {
    let mut status = 0;
    // SAFETY: writes `status` only.
    let ended = unsafe { waitpid(child, &mut status, WNOHANG) };
    if ended == 0 {
        State::Running
    } else if ended == child && status & 0x7f == 0 {
        State::Ended(status >> 8 & 0xff)
    } else {
        State::Killed
    }
}

/// Waits until a child has ended, or until shortly before CLOCK_MONOTONIC shows `until`, to be
/// called again then; no end if it never will.
pub fn await_end(child: i32, until: u64) -> Result<(), ()> {
    // SAFETY: touches no memory of ours.
    let file = unsafe { syscall(SYS_PIDFD_OPEN, c_long::from(child), 0) };
    ok(file as c_int)?;
    // SAFETY: a new file that nobody else knows.
    let file = unsafe { OwnedFd::from_raw_fd(file as c_int) };
    let mut poll = PollFd {
        file: file.as_raw_fd(),
        events: POLLIN,
        seen: 0,
    };
    let left = until.saturating_sub(monotonic_ns());
    // The kernel may be late by a thousandth of so long a wait.
    let left = left - left / 256;
    let left = Timespec {
        seconds: (left / 1_000_000_000) as i64,
        nanoseconds: (left % 1_000_000_000) as i64,
    };
    let limit = match until {
        u64::MAX => ptr::null(),
        _ => &raw const left,
    };
    // SAFETY: writes `poll` and reads `left` only.
    ok(unsafe { ppoll(&mut poll, 1, limit, ptr::null()) })
}

/// Whether we have children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// None at all.
    None,
    /// At least one that is still running.
    Some,
}

/// Reaps those who are done, without waiting.
pub fn reap() -> Children {
    loop {
        // SAFETY: a null status is not written to.
        match unsafe { waitpid(-1, ptr::null_mut(), WNOHANG) } {
            0 => return Children::Some,
            pid if pid < 0 => return Children::None,
            _ => {}
        }
    }
}

/// Waits for and reaps children until `last` is one of them, or none is left.
pub fn reap_until(last: u32) {
    loop {
        // SAFETY: a null status is not written to.
        let pid = unsafe { waitpid(-1, ptr::null_mut(), 0) };
        if pid < 0 || pid as u32 == last {
            return;
        }
    }
}

/// Gives the kernel's random numbers a seed, as good as it is.
pub fn seed(random: &File, bytes: [u8; 64]) -> Result<(), ()> {
    let pool = RandPool {
        bits: 512,
        size: 64,
        bytes,
    };
    // SAFETY: reads `pool` only, which is as long as it says.
    ok(unsafe { ioctl(random.as_raw_fd(), RNDADDENTROPY, &raw const pool) })
}

/// Makes a new process the leader of a session whose terminal is its standard input.
pub fn lead_session() -> io::Result<()> {
    // SAFETY: two system calls that touch no memory.
    let result = unsafe { ok(setsid()).and_then(|()| ok(ioctl(0, TIOCSCTTY, 0 as c_long))) };
    result.map_err(|()| io::Error::last_os_error())
}

/// All callers pass text that was checked, or their own: a NUL byte is a mistake of ours.
fn text(text: &str) -> CString {
    CString::new(text).expect("text without NUL bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_std_on_this_machine() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(super::release().as_deref(), Some(release.trim_end()));
        assert!(cpus() > 0);
    }

    #[test]
    fn children_tell_how_they_ended() {
        let child = || {
            std::process::Command::new("sleep")
                .arg("60")
                .spawn()
                .unwrap()
                .id() as i32
        };
        let pid = child();
        kill(pid, SIGKILL);
        assert_eq!(wait_for(pid), None);
        let pid = child();
        assert_eq!(look(pid), State::Running);
        kill(pid, SIGKILL);
        while look(pid) == State::Running {
            sleep_until(monotonic_ns() + 1_000_000);
        }
        let pid = std::process::Command::new("sh")
            .args(["-c", "exit 7"])
            .spawn()
            .unwrap()
            .id();
        assert_eq!(wait_for(pid as i32), Some(7));
        assert_eq!(reap(), Children::None);
    }

    #[test]
    fn sleeps_to_the_time_and_not_beyond_it() {
        let until = monotonic_ns() + 2_000_000;
        sleep_until(until);
        assert!(monotonic_ns() >= until);
        sleep_until(0);
    }
}
