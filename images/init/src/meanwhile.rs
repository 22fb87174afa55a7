// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens to the machine while it restarts.
//!
//! The task that is in reboot(2) can do nothing else. So PID 1 forks: the child calls
//! reboot(2), and PID 1 acts meanwhile. The fork comes before `enter`, because it can fail,
//! and the child writes `enter` and `end`, because it is the one to call reboot(2) next.

use std::{
    convert::Infallible,
    env,
    fs::File,
    io::{self, Read, Write, pipe},
    path::Path,
};

use crate::{
    channel, clock,
    failure::{Failure, during},
    pci::Place,
    shutdown,
    sys::{self, Forked, Reboot},
};

/// Before the first action, at the least, after the child was heard: waking us may have
/// kept it from its CPU just before reboot(2). A kernel that checks itself is slower by far, at
/// everything: there the child gets as long again as it took to be heard.
const SETTLE: u64 = 50_000;

/// One `meanwhile` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds after the stamp of `enter`.
    pub at: u64,
    /// What is done then.
    pub action: Action,
}

/// What can be done to a machine that restarts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Remove a PCI device, and what is below it.
    Remove(Place),
    /// Look for PCI devices on all buses.
    Rescan,
    /// Send SIGKILL to the task that called reboot(2).
    Kill,
}

/// Finds every device, and keeps sysfs in reach: as the working directory it outlives its
/// mount. To be called before the way down begins, so that it can still be refused.
pub fn prepare(events: &[Event]) -> Result<(), Failure> {
    env::set_current_dir("/sys").map_err(during("meanwhile:/sys"))?;
    for event in events {
        if let Action::Remove(place) = &event.action {
            let what = format!("meanwhile:{place}");
            place
                .find(Path::new("."))
                .map_err(|error| not_found(what, &error))?;
        }
    }
    Ok(())
}

fn not_found(what: String, error: &io::Error) -> Failure {
    Failure::new(what, error.raw_os_error().unwrap_or(sys::ENOENT))
}

/// Has a child call reboot(2) and acts meanwhile. It returns only to say what failed.
pub fn restart(how: &str, reboot: Reboot, events: &[Event]) -> Result<Infallible, Failure> {
    let (mut from_child, mut to_parent) = pipe().map_err(during("pipe"))?;
    let child = match sys::fork().map_err(|()| Failure::last("fork"))? {
        Forked::Child => {
            let stamp = shutdown::say_enter();
            // If it fails our parent is gone, and with it the machine.
            let _ = to_parent.write_all(&stamp.mono.to_ne_bytes());
            sys::exit(sys::reboot(reboot).map_or_else(|()| sys::errno(), |()| 0));
        }
        Forked::Parent(child) => child,
    };
    drop(to_parent);
    let mut stamp = [0; 8];
    from_child
        .read_exact(&mut stamp)
        .map_err(during(format!("enter:{how}")))?;
    channel::child_wrote(shutdown::ENTER_LINES);
    act(events, u64::from_ne_bytes(stamp), child)?;
    // That it ends at all is a failure: reboot(2) came back, or it was killed before.
    Err(match sys::wait_for(child) {
        Some(errno) => Failure::new(format!("reboot:{how}"), errno),
        None => Failure::new(format!("reboot:{how}:killed"), 0),
    })
}

fn act(events: &[Event], enter: u64, child: i32) -> Result<(), Failure> {
    let heard = clock::mono();
    let mut earliest = heard + SETTLE.max(heard.saturating_sub(enter));
    for event in events {
        sys::sleep_until(earliest.max(enter + event.at));
        earliest = 0;
        match &event.action {
            Action::Remove(place) => remove(place)?,
            Action::Rescan => write_one(Path::new("bus/pci/rescan")).map_err(during("rescan"))?,
            // It is our child: as long as nobody waits for it there is it, or its remains.
            Action::Kill => sys::kill(child, sys::SIGKILL),
        }
    }
    Ok(())
}

/// A device that has gone with one above it, or is going, is left alone.
fn remove(place: &Place) -> Result<(), Failure> {
    let done = place
        .find(Path::new("."))
        .and_then(|device| write_one(&device.join("remove")));
    match done {
        Err(error) if is_gone(&error) => Ok(()),
        other => other.map_err(during(format!("remove:{place}"))),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(sys::ENODEV)
}

fn write_one(file: &Path) -> io::Result<()> {
    File::options().write(true).open(file)?.write_all(b"1")
}
