// SPDX-License-Identifier: MIT OR Apache-2.0
//! PID 1 of bootrig's guests.
//!
//! # Contract with the host (docs/protocol.md)
//! - The first act is `hello`, with the clocks as they stood on entry; nothing of Rust's
//!   or ours that takes time runs before them.
//! - In the first boot the plan `/bootrig/plan` is run, command by command, to its last
//!   one, which ends the boot. In the second there is no plan: `hello`, `end`, and the
//!   machine ends with [`channel::FINISHED`], as it does in the first at `stop`.
//! - Whatever cannot be done is an `error` line. If the plan cannot go on, `end` follows
//!   and the machine ends with [`channel::FAILED`] at once, so that the host need not
//!   wait for a deadline. A panic of ours is such a failure.
//! - `main` never returns. Without the debug-exit device the machine powers off instead.
//! - Nothing is written to the console, except by `shell` and by failures.
//! - One thread but in a walk or churn, no children (save the shell's, that of `meanwhile`, those of a load
//!   or flush that may not come back, and udev's), no sleeping where nobody is waited for: in
//!   virtual time two boots are the same to the bit.
//! - From the plan's `systemd` on PID 1 is a distribution's systemd, and a child of it runs the
//!   rest of the plan. It asks systemd to restart, which in the end starts us again, as PID 1 and
//!   under another name, for the last stamp and reboot(2).
//! - PID 1 itself calls reboot(2), except where the plan has `meanwhile` lines. Then a child
//!   does, in this order: user space is down and nothing is mounted; PID 1 forks, or
//!   reports that it cannot, while an `error` line and `end` are still possible; the child
//!   takes the stamp of `enter`, writes `enter` and `end`, tells PID 1 the stamp and is in
//!   reboot(2); PID 1 acts at times counted from that stamp, one action after the other,
//!   and waits for the child, which never ends unless reboot(2) has failed.
#![cfg_attr(not(test), no_main)]
// Everything but the entry is reachable from the entry only, which tests do not have.
#![cfg_attr(test, allow(dead_code))]

mod apart;
mod boot_number;
mod channel;
mod churn;
mod clock;
mod coldplug;
mod console;
mod failure;
mod histogram;
mod hotplug;
mod initrd;
mod kexec;
mod meanwhile;
mod memory;
mod module;
mod mount;
mod pci;
mod plan;
mod shutdown;
mod sys;
mod sysctl;
mod systemd;
mod tool;
mod walk;

use failure::{Failure, during};
use plan::Command;

/// The C entry point instead of Rust's: Rust's runtime opens `/dev/null` for closed
/// standard streams and aborts where there is none, which a kernel without a console
/// would run into before `hello`.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn main(count: i32, arguments: *const *const std::ffi::c_char) -> i32 {
    let entry = clock::now();
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map_or(String::new(), |l| format!(":{}:{}", l.file(), l.line()));
        give_up(&Failure::new(format!("panic{place}"), 0));
    }));
    if let Err(failure) = channel::open() {
        // There is no channel to say it on.
        console::tell(&format!("bootrig: {failure}"));
        shutdown::power_off_now();
    }
    if name(count, arguments).is_some_and(systemd::is_last) {
        let Err(failure) = systemd::last_act();
        give_up(&failure)
    }
    let number = boot_number::advance();
    hello(number, entry);
    if number > 1 {
        channel::end();
        channel::exit(channel::FINISHED);
    }
    let Err(failure) = first_boot();
    give_up(&failure)
}

/// What we were started as.
#[cfg(not(test))]
fn name<'a>(count: i32, arguments: *const *const std::ffi::c_char) -> Option<&'a str> {
    if count < 1 {
        return None;
    }
    // SAFETY: the C library gives `count` strings, which live as long as the process.
    let name = unsafe { std::ffi::CStr::from_ptr(*arguments) };
    name.to_str().ok()
}

fn hello(number: u8, entry: clock::Stamp) {
    let release = sys::release().unwrap_or_else(|| "unknown".into());
    channel::say(&format!(
        "hello boot={number} release={release} cpus={} {entry}",
        sys::cpus()
    ));
}

fn give_up(failure: &Failure) -> ! {
    failure.report();
    console::tell(&format!("bootrig: {failure}"));
    channel::end();
    channel::exit(channel::FAILED)
}

/// Runs the plan. It returns only to say why it could not go on.
fn first_boot() -> Result<std::convert::Infallible, Failure> {
    mount::all()?;
    let text = std::fs::read_to_string("/bootrig/plan").map_err(during("plan"))?;
    let commands =
        plan::parse(&text).map_err(|wrong| Failure::new(wrong.to_string(), sys::EINVAL))?;
    let mut events = vec![];
    for command in commands {
        match command {
            Command::Load(name) => module::load(&name)?,
            Command::LoadApart { name, and } => apart::load(&name, &and)?,
            Command::Flush(None) => module::flush()?,
            Command::Flush(Some(limit)) => apart::flush(limit)?,
            Command::Stop => {
                module::stop()?;
                channel::end();
                channel::exit(channel::FINISHED)
            }
            Command::Wait(ns) => clock::spin(ns),
            // Under systemd it is set when that is gone.
            Command::Set { .. } if std::process::id() != 1 => {}
            Command::Set { name, value } => sysctl::set(&name, &value)?,
            Command::Systemd(how) => systemd::run(&how)?,
            Command::Memory => memory::report()?,
            Command::Hotplug(hotplug) => hotplug::run(&hotplug)?,
            Command::Coldplug(how) => coldplug::run(&how)?,
            Command::Walk(walk) => walk::run(&walk)?,
            Command::Churn(churn) => churn::run(&churn)?,
            Command::Meanwhile(event) => events.push(event),
            Command::Reboot => shutdown::reboot(&events)?,
            Command::Kexec => shutdown::kexec(&events)?,
            Command::Poweroff => shutdown::power_off(&events)?,
            Command::Shell => console::run(&events)?,
        }
    }
    Err(Failure::new("plan:no_end", sys::EINVAL))
}
