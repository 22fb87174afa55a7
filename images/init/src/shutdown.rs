// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the plan's last command to reboot(2).

use std::{thread, time::Duration};

use crate::{
    channel, clock,
    failure::Failure,
    kexec,
    meanwhile::{self, Event},
    mount, sys,
    sys::Reboot,
    systemd,
};

/// What processes get to end by themselves, and then to be gone after SIGKILL.
const TERM_LIMIT: Duration = Duration::from_secs(2);
const KILL_LIMIT: Duration = Duration::from_secs(1);
/// Between two looks at whether they are gone.
const PAUSE: Duration = Duration::from_millis(10);

/// Reboots through the firmware.
pub fn reboot(events: &[Event]) -> Result<(), Failure> {
    go("reboot", Reboot::Restart, events)
}

/// Loads the next kernel and jumps into it.
pub fn kexec(events: &[Event]) -> Result<(), Failure> {
    // As kexec-tools does: loading is no part of the way down, and can still be refused.
    kexec::load()?;
    go("kexec", Reboot::Kexec, events)
}

/// Powers off in the ordinary way, devices and all.
pub fn power_off(events: &[Event]) -> Result<(), Failure> {
    go("poweroff", Reboot::PowerOff, events)
}

/// The way out when the host cannot be told anything.
pub fn power_off_now() -> ! {
    let _ = sys::reboot(Reboot::PowerOff);
    // PID 1 must not end.
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// Shuts user space down and calls reboot(2), which does not come back; has a child call it
/// where there is something to do meanwhile.
fn go(how: &str, reboot: Reboot, events: &[Event]) -> Result<(), Failure> {
    prepare(events)?;
    channel::say(&format!("leave how={how} {}", clock::now()));
    if std::process::id() != 1 {
        // systemd is PID 1, and shuts user space down; `systemd::last_act` comes after it.
        return systemd::shut_down(how);
    }
    end_processes();
    sys::sync();
    mount::none();
    enter(how, reboot, events)
}

/// Finds what events are about.
pub fn prepare(events: &[Event]) -> Result<(), Failure> {
    match events {
        [] => Ok(()),
        events => meanwhile::prepare(events),
    }
}

/// Where nothing is left of user space: calls reboot(2), which does not come back.
pub fn enter(how: &str, reboot: Reboot, events: &[Event]) -> Result<(), Failure> {
    if !events.is_empty() {
        let Err(failure) = meanwhile::restart(how, reboot, events);
        return Err(failure);
    }
    say_enter();
    sys::reboot(reboot).map_err(|()| Failure::last(format!("reboot:{how}")))
}

/// Lines that [`say_enter`] writes.
pub const ENTER_LINES: u32 = 2;

/// The last that is written before reboot(2), with the time just before.
pub fn say_enter() -> clock::Stamp {
    let stamp = clock::now();
    channel::say(&format!("enter {stamp}"));
    channel::end();
    stamp
}

/// SIGTERM, a bounded wait, SIGKILL. Every process of user space is our descendant, and
/// orphans become our children: without children there is nobody, and no time is spent.
fn end_processes() {
    for (signal, limit) in [(sys::SIGTERM, TERM_LIMIT), (sys::SIGKILL, KILL_LIMIT)] {
        if sys::reap() == sys::Children::None {
            return;
        }
        sys::signal_all(signal);
        let until = clock::mono() + limit.as_nanos() as u64;
        while clock::mono() < until {
            if sys::reap() == sys::Children::None {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
    Failure::new("processes_survive", 0).report();
}
