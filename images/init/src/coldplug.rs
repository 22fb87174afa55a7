// SPDX-License-Identifier: MIT OR Apache-2.0
//! A distribution's udev handles all devices that there are.

use std::{fs, io, path::Path};

use crate::{
    channel, clock,
    failure::{Failure, during},
    pci, sys,
    sys::State,
    tool,
};

const UDEVD: &str = "/usr/lib/systemd/systemd-udevd";
pub const UDEVADM: &str = "/usr/bin/udevadm";
/// udevd makes it when it listens.
const SOCKET: &str = "/run/udev/control";
/// How many events the kernel has sent.
const SEQUENCE: &str = "/sys/kernel/uevent_seqnum";
/// udev's database: a file for each device that rules left something about.
const DATABASE: &str = "/run/udev/data";
/// A memory block's file in it begins so.
const OF_BLOCKS: &str = "+memory:memory";
/// Between two looks at whether udevd listens.
const PAUSE: u64 = 1_000_000;
/// Longest limit, and most children.
const LATEST: u64 = 3_600_000_000_000;
const MOST_CHILDREN: u64 = 65_536;

/// How udev is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coldplug {
    /// The longest that each step may take, in ns.
    pub limit: u64,
    /// Events that it handles at once, where it is told.
    pub children_max: Option<u64>,
}

/// Reads `limit=NS [children_max=N]`.
pub fn parse(text: &str) -> Option<Coldplug> {
    let (limit, children) = match text.split_once(' ') {
        Some((limit, children)) => (limit, Some(children.strip_prefix("children_max=")?)),
        None => (text, None),
    };
    let within = |text, most| pci::number(text).filter(|n| (1..=most).contains(n));
    Some(Coldplug {
        limit: within(limit.strip_prefix("limit=")?, LATEST)?,
        children_max: match children {
            Some(text) => Some(within(text, MOST_CHILDREN)?),
            None => None,
        },
    })
}

/// Starts udevd, triggers all devices as a distribution does when it boots, waits until all
/// are handled, and reports.
pub fn run(how: &Coldplug) -> Result<(), Failure> {
    let start = clock::mono();
    let mut udevd = tool::command(UDEVD, "coldplug")?;
    udevd.args(how.children_max.map(|n| format!("--children-max={n}")));
    let udevd = tool::spawn(udevd, "coldplug:udevd")?;
    await_socket(udevd, start + how.limit)?;
    let before = events()?;
    let begin = clock::mono();
    for kind in ["--type=subsystems", "--type=devices"] {
        udevadm(&["trigger", kind, "--action=add"], "trigger", how.limit)?;
    }
    let triggered = clock::mono();
    // It counts whole seconds, and we are the more patient.
    let seconds = format!("--timeout={}", how.limit.div_ceil(1_000_000_000));
    udevadm(&["settle", &seconds], "settle", how.limit + 5_000_000_000)?;
    let end = clock::mono();
    let events = events()?.saturating_sub(before);
    let seen = seen().map_err(during("coldplug:database"))?;
    channel::say(&format!(
        "coldplug start={start} begin={begin} triggered={triggered} end={end} events={events} seen={seen}"
    ));
    Ok(())
}

/// How many memory blocks udev's rules have seen.
pub fn seen() -> io::Result<usize> {
    let entries = fs::read_dir(DATABASE)?;
    Ok(entries
        .flatten()
        .filter(|e| is_block(&e.file_name()))
        .count())
}

fn is_block(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|n| n.starts_with(OF_BLOCKS))
}

fn udevadm(arguments: &[&str], what: &str, limit: u64) -> Result<(), Failure> {
    let mut command = tool::command(UDEVADM, "coldplug")?;
    command.args(arguments);
    tool::run(command, &format!("coldplug:{what}"), limit)
}

fn await_socket(udevd: i32, until: u64) -> Result<(), Failure> {
    while !Path::new(SOCKET).exists() {
        if let State::Ended(status) = sys::look(udevd) {
            return Err(Failure::new(format!("coldplug:udevd:status:{status}"), 0));
        }
        let now = clock::mono();
        if now > until {
            return Err(Failure::new("coldplug:udevd:limit", sys::ETIMEDOUT));
        }
        sys::sleep_until(now + PAUSE);
    }
    Ok(())
}

fn events() -> Result<u64, Failure> {
    let text = fs::read_to_string(SEQUENCE).map_err(during("coldplug:uevent_seqnum"))?;
    pci::number(text.trim_end()).ok_or_else(|| Failure::new("coldplug:uevent_seqnum", sys::EINVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_protocol_calls_a_coldplug() {
        let coldplug = |limit, children_max| {
            Some(Coldplug {
                limit,
                children_max,
            })
        };
        assert_eq!(parse("limit=5000000000"), coldplug(5_000_000_000, None));
        assert_eq!(parse("limit=1 children_max=16"), coldplug(1, Some(16)));
        for bad in [
            "",
            "limit=",
            "limit=0",
            "limit=3600000000001",
            "limit=1 ",
            "limit=1 children_max=0",
            "limit=1 children_max=65537",
            "limit=1 children=5",
            "children_max=5",
            "limit=1 children_max=5 x",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_blocks_of_the_database_count() {
        let is = |name: &str| is_block(name.as_ref());
        assert!(is("+memory:memory12") && !is("+pci:0000:00:01.0") && !is("c5:1"));
    }
}
