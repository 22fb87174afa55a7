// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that is plugged in: has the host do it, waits for its blocks, looks at each.

use std::{collections::BTreeSet, fs, io};

use crate::{
    channel, clock,
    failure::{Failure, during},
    memory, pci,
    sys::{self, netlink::Uevents},
};

/// QEMU's `ib700`, a watchdog: two seconds after it was set so, it stops the machine, and the
/// host plugs in what it has.
const PORT: u16 = 0x443;
const SET: u8 = 0x0e;
const AFTER: u64 = 2_000_000_000;
/// A machine that stops by an instruction of its own does so a little sooner or later, as
/// another thread of QEMU comes to it. One that is asleep stops where its next timer would have
/// expired, to the nanosecond: that is ours, so long after the watchdog's.
const NEXT: u64 = 10_000;
/// Longest limit, and most blocks.
const LATEST: u64 = 3_600_000_000_000;
const MOST: u64 = 1 << 20;
/// What the uevents of memory blocks begin with, after the action.
const OF_BLOCKS: &str = "/devices/system/memory/memory";

/// What is plugged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hotplug {
    /// Whether the host is to do it now; else it has done it before the machine booted.
    pub now: bool,
    /// The number of the first block that can be one of those.
    pub first: u64,
    /// How many are to come.
    pub blocks: u64,
    /// Whether they come to be online without anybody's doing.
    pub online: bool,
    /// The longest that they may take, in ns.
    pub limit: u64,
}

/// Reads `when=boot|now first=N blocks=N state=offline|online limit=NS`, in this order.
pub fn parse(text: &str) -> Option<Hotplug> {
    let mut words = text.split(' ');
    let mut value = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
    let number = |text, from, most| pci::number(text).filter(|n| (from..=most).contains(n));
    let hotplug = Hotplug {
        now: one_of(value("when")?, "boot", "now")?,
        first: number(value("first")?, 0, u64::MAX)?,
        blocks: number(value("blocks")?, 1, MOST)?,
        online: one_of(value("state")?, "offline", "online")?,
        limit: number(value("limit")?, 1, LATEST)?,
    };
    words.next().is_none().then_some(hotplug)
}

/// Whether it is `yes`; neither is none.
fn one_of(word: &str, no: &str, yes: &str) -> Option<bool> {
    (word == yes || word == no).then_some(word == yes)
}

/// What is known of the blocks.
#[derive(Debug, Default)]
struct Seen {
    there: BTreeSet<u64>,
    online: BTreeSet<u64>,
}

impl Seen {
    /// Takes the first line of a uevent.
    fn hear(&mut self, event: &str, first: u64) {
        let Some((action, path)) = event.split_once('@') else {
            return;
        };
        let number = path.strip_prefix(OF_BLOCKS).and_then(pci::number);
        let Some(number) = number.filter(|n| *n >= first) else {
            return;
        };
        match action {
            "add" => drop(self.there.insert(number)),
            "online" => drop(self.online.insert(number)),
            _ => {}
        }
    }
}

/// Has memory plugged in, or waits for what was plugged in before, and reports.
pub fn run(hotplug: &Hotplug) -> Result<(), Failure> {
    let failed = || during("hotplug");
    // Before anything is looked at, so that nothing comes unheard.
    let events = Uevents::open().map_err(during("hotplug:uevents"))?;
    let mut seen = look(hotplug.first).map_err(failed())?;
    let before = seen.there.len();
    let (begin, start) = match hotplug.now {
        true => {
            let stopped = stop()?;
            (stopped, stopped)
        }
        false => (0, clock::mono()),
    };
    let (there, end) = wait(hotplug, &events, &mut seen, start)?;
    drop(events);
    let states = States::of(hotplug.first).map_err(failed())?;
    channel::say(&format!(
        "hotplug before={before} blocks={} offline={} kernel={} movable={} begin={begin} there={there} end={end}",
        states.blocks, states.offline, states.kernel, states.movable
    ));
    Ok(())
}

/// Has the machine stop, and go on with what was plugged in: when that was.
fn stop() -> Result<u64, Failure> {
    sys::allow_ports(PORT, 1).map_err(|()| Failure::last("hotplug:ioperm"))?;
    sys::exact_sleeps(true);
    let until = clock::mono() + AFTER + NEXT;
    sys::write_port(PORT, SET);
    sys::sleep_until(until);
    sys::exact_sleeps(false);
    Ok(until)
}

/// Waits for all blocks, and for their state: when the last was there, and when it was so.
fn wait(
    hotplug: &Hotplug,
    events: &Uevents,
    seen: &mut Seen,
    start: u64,
) -> Result<(u64, u64), Failure> {
    let until = start.saturating_add(hotplug.limit);
    let mut there = None;
    loop {
        let now = clock::mono();
        if seen.there.len() as u64 >= hotplug.blocks {
            let there = *there.get_or_insert(now);
            if !hotplug.online || seen.online.len() as u64 >= hotplug.blocks {
                return Ok((there, now));
            }
        }
        match events.next(until).map_err(during("hotplug:uevents"))? {
            Some(event) => seen.hear(&event, hotplug.first),
            None => {
                let (came, online) = (seen.there.len(), seen.online.len());
                let what = format!(
                    "hotplug:limit:{came}_of_{}_there:{online}_online",
                    hotplug.blocks
                );
                return Err(Failure::new(what, sys::ETIMEDOUT));
            }
        }
    }
}

/// The blocks from `first` on that sysfs shows.
fn look(first: u64) -> io::Result<Seen> {
    let mut seen = Seen::default();
    for number in memory::numbers()?.into_iter().filter(|n| *n >= first) {
        seen.there.insert(number);
        if state(number)? == "online" {
            seen.online.insert(number);
        }
    }
    Ok(seen)
}

fn attribute(number: u64, name: &str) -> io::Result<String> {
    let text = fs::read_to_string(format!("{}/{name}", memory::folder(number)))?;
    Ok(text.trim_end().to_owned())
}

fn state(number: u64) -> io::Result<String> {
    attribute(number, "state")
}

/// How many blocks are in which state.
#[derive(Debug, Default, PartialEq, Eq)]
struct States {
    blocks: u64,
    offline: u64,
    kernel: u64,
    movable: u64,
}

impl States {
    fn of(first: u64) -> io::Result<Self> {
        let mut states = Self::default();
        for number in memory::numbers()?.into_iter().filter(|n| *n >= first) {
            states.add(&state(number)?, &attribute(number, "valid_zones")?);
        }
        Ok(states)
    }

    /// Counts a block; one that is neither here nor there is in no state. Of one that is online
    /// `zones` is the zone that it is in.
    fn add(&mut self, state: &str, zones: &str) {
        self.blocks += 1;
        match (state, zones) {
            ("offline", _) => self.offline += 1,
            ("online", "Movable") => self.movable += 1,
            ("online", "Normal" | "DMA32" | "DMA") => self.kernel += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_protocol_calls_a_hotplug() {
        let good = "when=now first=32 blocks=8 state=online limit=5000000000";
        let hotplug = Hotplug {
            now: true,
            first: 32,
            blocks: 8,
            online: true,
            limit: 5_000_000_000,
        };
        assert_eq!(parse(good), Some(hotplug));
        let offline = good.replace("now", "boot").replace("=online", "=offline");
        let hotplug = Hotplug {
            now: false,
            online: false,
            ..hotplug
        };
        assert_eq!(parse(&offline), Some(hotplug));
        for (from, to) in [
            ("when=now", "when=later"),
            ("=32", "=-1"),
            ("blocks=8", "blocks=0"),
            ("blocks=8", "blocks=1048577"),
            ("=online", "=online_movable"),
            ("limit=5000000000", "limit=0"),
            ("limit=5000000000", "limit=3600000000001"),
            ("limit=5000000000", "limit=5000000000 x"),
            (" limit=5000000000", ""),
            ("first=32 blocks=8", "blocks=8 first=32"),
        ] {
            assert_eq!(parse(&good.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn hears_blocks_and_nothing_else() {
        let mut seen = Seen::default();
        for event in [
            "add@/devices/system/memory/memory32",
            "add@/devices/system/memory/memory32",
            "add@/devices/system/memory/memory31",
            "add@/devices/system/memory/memory",
            "add@/devices/system/memory/memory33/power",
            "add@/devices/system/node/node0",
            "change@/devices/system/memory/memory34",
            "online@/devices/system/memory/memory32",
            "add@/devices/LNXSYSTM:00/PNP0C80:00",
            "",
        ] {
            seen.hear(event, 32);
        }
        assert_eq!(seen.there, BTreeSet::from([32]));
        assert_eq!(seen.online, BTreeSet::from([32]));
    }

    #[test]
    fn each_block_is_in_one_state_or_in_none() {
        let mut states = States::default();
        for (state, zones) in [
            ("offline", "Normal Movable"),
            ("online", "Movable"),
            ("online", "Normal"),
            ("online", "none"),
            ("going-offline", "Normal"),
        ] {
            states.add(state, zones);
        }
        let expect = States {
            blocks: 5,
            offline: 1,
            kernel: 1,
            movable: 1,
        };
        assert_eq!(states, expect);
    }
}
