// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's uevents, as udevd gets them.

use std::{
    ffi::{c_int, c_void},
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

use super::{POLLIN, PollFd, Timespec, ppoll};

const AF_NETLINK: c_int = 16;
const SOCK_DGRAM: c_int = 2;
const SOCK_CLOEXEC: c_int = 0o200_0000;
const NETLINK_KOBJECT_UEVENT: c_int = 15;
/// The kernel's own messages; udevd's are another group's.
const FROM_KERNEL: u32 = 1;
const SOL_SOCKET: c_int = 1;
const SO_RCVBUFFORCE: c_int = 33;
const MSG_DONTWAIT: c_int = 0x40;
/// What is not read yet; as much as udevd asks for.
const BACKLOG: c_int = 128 << 20;
const EINTR: i32 = 4;
const EAGAIN: i32 = 11;

/// struct sockaddr_nl of Linux.
#[repr(C)]
struct Address {
    family: u16,
    pad: u16,
    port: u32,
    groups: u32,
}

unsafe extern "C" {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn bind(socket: c_int, address: *const Address, size: u32) -> c_int;
    fn setsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *const c_int,
        size: u32,
    ) -> c_int;
    fn recv(socket: c_int, buffer: *mut c_void, size: usize, flags: c_int) -> isize;
}

/// Hears every uevent from when it was opened.
pub struct Uevents(OwnedFd);

impl Uevents {
    /// Begins to listen.
    pub fn open() -> io::Result<Self> {
        // SAFETY: touches no memory of ours.
        let fd = unsafe {
            socket(
                AF_NETLINK,
                SOCK_DGRAM | SOCK_CLOEXEC,
                NETLINK_KOBJECT_UEVENT,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new file that nobody else knows.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let address = Address {
            family: AF_NETLINK as u16,
            pad: 0,
            port: 0,
            groups: FROM_KERNEL,
        };
        // SAFETY: both read what they are given and no more.
        let failed = unsafe {
            setsockopt(
                fd.as_raw_fd(),
                SOL_SOCKET,
                SO_RCVBUFFORCE,
                &BACKLOG,
                size_of::<c_int>() as u32,
            ) < 0
                || bind(fd.as_raw_fd(), &address, size_of::<Address>() as u32) < 0
        };
        match failed {
            true => Err(io::Error::last_os_error()),
            false => Ok(Self(fd)),
        }
    }

    /// The next one, waited for until CLOCK_MONOTONIC shows `until`: its first line,
    /// `ACTION@PATH`. `None`: none came. ENOBUFS: some were lost.
    pub fn next(&self, until: u64) -> io::Result<Option<String>> {
        let mut buffer = [0u8; 8192];
        loop {
            // SAFETY: writes no more than `buffer` holds.
            let size = unsafe {
                recv(
                    self.0.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    MSG_DONTWAIT,
                )
            };
            if let Ok(size) = usize::try_from(size) {
                let first = buffer[..size].split(|b| *b == 0).next();
                let first = first.unwrap_or_default();
                return Ok(Some(String::from_utf8_lossy(first).into_owned()));
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(EAGAIN) => {}
                Some(EINTR) => continue,
                _ => return Err(error),
            }
            let now = super::monotonic_ns();
            if now >= until {
                return Ok(None);
            }
            self.wait(until - now)?;
        }
    }

    fn wait(&self, ns: u64) -> io::Result<()> {
        let mut poll = PollFd {
            file: self.0.as_raw_fd(),
            events: POLLIN,
            seen: 0,
        };
        let time = Timespec {
            seconds: (ns / 1_000_000_000) as i64,
            nanoseconds: (ns % 1_000_000_000) as i64,
        };
        // SAFETY: writes `poll` and reads `time` only.
        match unsafe { ppoll(&mut poll, 1, &time, ptr::null()) } {
            -1 => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(EINTR) => Ok(()),
                error => Err(error),
            },
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is made here that an event would come of, and where there is no such socket
    /// (a container), it says so.
    #[test]
    fn waits_no_longer_than_it_is_told() {
        let Ok(events) = Uevents::open() else { return };
        let begin = super::super::monotonic_ns();
        let mut heard = 0;
        while events.next(begin + 5_000_000).unwrap().is_some() && heard < 1000 {
            heard += 1;
        }
        assert!(super::super::monotonic_ns() >= begin + 5_000_000 || heard == 1000);
    }
}
