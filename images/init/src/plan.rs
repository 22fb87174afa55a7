// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan's text as commands.

use std::fmt;

use crate::{
    churn, coldplug, hotplug,
    meanwhile::{Action, Event},
    pci::{self, Place},
    sysctl, systemd, walk,
};

/// Most `meanwhile` lines.
const MOST_EVENTS: usize = 64;
/// Longest `wait`, in ns: it moves acts between two ticks, no further.
const LONGEST: u64 = 1_000_000_000;
/// Latest time of an event, in ns: an hour, as for any delay.
const LATEST: u64 = 3_600_000_000_000;

/// One command of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Load a module.
    Load(String),
    /// Load a module in a task of its own, and do something to it.
    LoadApart {
        /// The module.
        name: String,
        /// What else happens.
        and: Apart,
    },
    /// Have the kernel side write its finished records, once no probe is under way; wait for
    /// that no longer than so many nanoseconds, if they are given.
    Flush(Option<u64>),
    /// Have the kernel side write all its records, and end the machine.
    Stop,
    /// Spin for so many ns.
    Wait(u64),
    /// Change a setting of the kernel.
    Set {
        /// As sysctl(8) writes it, with dots.
        name: String,
        /// What is written.
        value: String,
    },
    /// Report the memory blocks that there are.
    Memory,
    /// Have memory plugged in, or wait for what was plugged in before.
    Hotplug(hotplug::Hotplug),
    /// Have udev handle all devices.
    Coldplug(coldplug::Coldplug),
    /// Have systemd become PID 1 and boot; what follows is a child's to run.
    Systemd(systemd::Boot),
    /// Walk over paths in sysfs.
    Walk(walk::Walk),
    /// Have memory blocks come and go while threads walk.
    Churn(churn::Churn),
    /// Something to happen after reboot(2) was called.
    Meanwhile(Event),
    /// Reboot through the firmware.
    Reboot,
    /// Reboot through kexec of `/bootrig/kernel`.
    Kexec,
    /// Power the machine off.
    Poweroff,
    /// Interactive console.
    Shell,
}

impl Command {
    /// Whether PID 1 is another program after it.
    pub fn hands_over(&self) -> bool {
        matches!(self, Self::Systemd(_))
    }

    /// Whether nothing can come after it.
    fn is_last(&self) -> bool {
        matches!(
            self,
            Self::Reboot | Self::Kexec | Self::Poweroff | Self::Shell | Self::Stop
        )
    }
}

/// What happens while a module is loaded by a task of its own: times in nanoseconds from the
/// beginning of its load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// When the task gets SIGKILL.
    pub kill: Option<u64>,
    /// When the module is unloaded.
    pub unload: Option<u64>,
    /// When nobody waits for the task any longer.
    pub limit: Option<u64>,
}

/// What is wrong with a plan; displays as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// 1-based; 0: the plan as a whole.
    line: usize,
    why: &'static str,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "plan:{}", self.why),
            line => write!(f, "plan:{line}:{}", self.why),
        }
    }
}

/// Reads a whole plan before any of it is run.
pub fn parse(text: &str) -> Result<Vec<Command>, Wrong> {
    let mut lines = (1..).zip(text.lines());
    if lines.next().map(|(_, line)| line) != Some("bootrig-plan 1") {
        return Err(Wrong {
            line: 1,
            why: "not_version_1",
        });
    }
    let mut commands: Vec<Command> = vec![];
    let (mut events, mut latest) = (0, 0);
    for (line, text) in lines {
        let wrong = |why| Err(Wrong { line, why });
        if commands.last().is_some_and(Command::is_last) {
            return wrong("after_the_end");
        }
        commands.push(match text.split_once(' ').unwrap_or((text, "")) {
            ("load", name) if is_name(name) => Command::Load(name.to_owned()),
            ("load", apart) => match load_apart(apart) {
                Some(command) => command,
                None => return wrong("bad_name"),
            },
            ("flush", "") => Command::Flush(None),
            ("flush", limit) => match time(limit) {
                Some(limit) => Command::Flush(Some(limit)),
                None => return wrong("bad_time"),
            },
            ("stop", "") => Command::Stop,
            ("wait", time) => match pci::number(time).filter(|ns| *ns <= LONGEST) {
                Some(ns) => Command::Wait(ns),
                None => return wrong("bad_time"),
            },
            ("set", setting) => match set(setting) {
                Some(command) => command,
                None => return wrong("bad_setting"),
            },
            ("memory", "") => Command::Memory,
            ("hotplug", how) => match hotplug::parse(how) {
                Some(hotplug) => Command::Hotplug(hotplug),
                None => return wrong("bad_hotplug"),
            },
            ("coldplug", how) => match coldplug::parse(how) {
                Some(coldplug) => Command::Coldplug(coldplug),
                None => return wrong("bad_coldplug"),
            },
            ("systemd", how) => match systemd::parse(how) {
                Some(boot) if !commands.iter().any(Command::hands_over) => Command::Systemd(boot),
                Some(_) => return wrong("systemd_twice"),
                None => return wrong("bad_systemd"),
            },
            ("walk", how) => match walk::parse(how) {
                Some(walk) => Command::Walk(walk),
                None => return wrong("bad_walk"),
            },
            ("churn", how) => match churn::parse(how) {
                Some(churn) => Command::Churn(churn),
                None => return wrong("bad_churn"),
            },
            ("meanwhile", event) => {
                let Some(event) = self::event(event) else {
                    return wrong("bad_event");
                };
                if event.at < latest {
                    return wrong("earlier_than_before");
                }
                latest = event.at;
                events += 1;
                if events > MOST_EVENTS {
                    return wrong("too_many_events");
                }
                Command::Meanwhile(event)
            }
            ("reboot", "") => Command::Reboot,
            ("kexec", "") => Command::Kexec,
            ("poweroff", "") => Command::Poweroff,
            ("shell", "") => Command::Shell,
            _ => return wrong("unknown_command"),
        });
    }
    match commands.last() {
        Some(last) if last.is_last() => Ok(commands),
        _ => Err(Wrong {
            line: 0,
            why: "no_end",
        }),
    }
}

/// A span of time in nanoseconds.
fn time(text: &str) -> Option<u64> {
    pci::number(text).filter(|ns| *ns <= LATEST)
}

/// `NAME kill=NS unload=NS limit=NS`: at least one of them, each once.
fn load_apart(text: &str) -> Option<Command> {
    let (name, words) = text.split_once(' ')?;
    let mut and = Apart::default();
    for word in words.split(' ') {
        let (what, at) = word.split_once('=')?;
        let slot = match what {
            "kill" => &mut and.kill,
            "unload" => &mut and.unload,
            "limit" => &mut and.limit,
            _ => return None,
        };
        if slot.replace(time(at)?).is_some() {
            return None;
        }
    }
    is_name(name).then(|| Command::LoadApart {
        name: name.to_owned(),
        and,
    })
}

/// `NAME VALUE`.
fn set(text: &str) -> Option<Command> {
    let (name, value) = text.split_once(' ')?;
    let good = sysctl::is_name(name) && sysctl::is_value(value);
    good.then(|| Command::Set {
        name: name.to_owned(),
        value: value.to_owned(),
    })
}

/// `NS remove PATH`, `NS rescan` or `NS kill`.
fn event(text: &str) -> Option<Event> {
    let (at, action) = text.split_once(' ')?;
    let action = match action.split_once(' ').unwrap_or((action, "")) {
        ("remove", path) => Action::Remove(Place::parse(path)?),
        // Compared whole: nothing follows, not even a space.
        _ if action == "rescan" => Action::Rescan,
        _ if action == "kill" => Action::Kill,
        _ => return None,
    };
    let at = time(at)?;
    Some(Event { at, action })
}

/// Whether this can be a module's name, and not a path.
pub fn is_name(name: &str) -> bool {
    (1..=56).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<Vec<Command>, &str>) {
        assert_eq!(
            parse(text).map_err(|w| w.to_string()),
            expect.map_err(str::to_owned),
            "{text:?}"
        );
    }

    #[test]
    fn reads_every_command() {
        let load = |name: &str| Command::Load(name.into());
        check(
            "bootrig-plan 1\nload marks\nwait 1234\nload dummy_pci\nflush\nwait 0\nreboot\n",
            Ok(vec![
                load("marks"),
                Command::Wait(1234),
                load("dummy_pci"),
                Command::Flush(None),
                Command::Wait(0),
                Command::Reboot,
            ]),
        );
        check("bootrig-plan 1\nkexec", Ok(vec![Command::Kexec]));
        check("bootrig-plan 1\npoweroff\n", Ok(vec![Command::Poweroff]));
        check("bootrig-plan 1\nshell\n", Ok(vec![Command::Shell]));
    }

    #[test]
    fn pid_1_becomes_systemd_once() {
        let boot = Command::Systemd(systemd::Boot { limit: 5 });
        check(
            "bootrig-plan 1\nsystemd limit=5\nreboot\n",
            Ok(vec![boot, Command::Reboot]),
        );
        check(
            "bootrig-plan 1\nsystemd limit=5\nmemory\nsystemd limit=5\nstop\n",
            Err("plan:4:systemd_twice"),
        );
        check(
            "bootrig-plan 1\nsystemd limit=0\nstop\n",
            Err("plan:2:bad_systemd"),
        );
    }

    #[test]
    fn reads_loads_that_are_disturbed() {
        let apart = |kill, unload, limit| Command::LoadApart {
            name: "d".into(),
            and: Apart {
                kill,
                unload,
                limit,
            },
        };
        check(
            "bootrig-plan 1\nload d kill=5\nload d unload=0 limit=9\nflush 7\nstop\n",
            Ok(vec![
                apart(Some(5), None, None),
                apart(None, Some(0), Some(9)),
                Command::Flush(Some(7)),
                Command::Stop,
            ]),
        );
        for bad in [
            "d ",
            "d kill",
            "d kill=",
            "d kill=-1",
            "d kill=1 kill=1",
            "d  kill=1",
            "d kill=1 ",
            "d slay=1",
            "../d kill=1",
            "d kill=3600000000001",
        ] {
            let text = format!("bootrig-plan 1\nload {bad}\nstop\n");
            check(&text, Err("plan:2:bad_name"));
        }
        check("bootrig-plan 1\nflush soon\nstop\n", Err("plan:2:bad_time"));
        check(
            "bootrig-plan 1\nstop\nreboot\n",
            Err("plan:3:after_the_end"),
        );
    }

    #[test]
    fn reads_settings_and_events() {
        let event = |at, action| Command::Meanwhile(Event { at, action });
        check(
            "bootrig-plan 1\nset kernel.threads-max 1\nmeanwhile 0 remove 1:02.0/1f.7\n\
             meanwhile 5 rescan\nmeanwhile 5 kill\nreboot\n",
            Ok(vec![
                Command::Set {
                    name: "kernel.threads-max".into(),
                    value: "1".into(),
                },
                event(0, Action::Remove(Place::parse("1:02.0/1f.7").unwrap())),
                event(5, Action::Rescan),
                event(5, Action::Kill),
                Command::Reboot,
            ]),
        );
        let plan = |lines| {
            format!(
                "bootrig-plan 1\n{}reboot\n",
                "meanwhile 1 kill\n".repeat(lines)
            )
        };
        assert_eq!(parse(&plan(64)).unwrap().len(), 65);
        check(&plan(65), Err("plan:66:too_many_events"));
    }

    #[test]
    fn refuses_bad_settings_and_events() {
        for bad in [
            "set",
            "set a",
            "set a ",
            "set a b c",
            "set a  b",
            "set a..b 1",
            "set ../a 1",
        ] {
            let text = format!("bootrig-plan 1\n{bad}\nreboot\n");
            check(&text, Err("plan:2:bad_setting"));
        }
        for bad in [
            "meanwhile",
            "meanwhile 1",
            "meanwhile 1 ",
            "meanwhile kill",
            "meanwhile -1 kill",
            "meanwhile +1 kill",
            "meanwhile 1 kill ",
            "meanwhile 1 kill 2",
            "meanwhile 1 rescan 00.0",
            "meanwhile  1 kill",
            "meanwhile 3600000000001 kill",
            "meanwhile 99999999999999999999 kill",
            "meanwhile 1 remove",
            "meanwhile 1 remove 2.0",
            "meanwhile 1 remove 02.0 ",
        ] {
            let text = format!("bootrig-plan 1\n{bad}\nreboot\n");
            check(&text, Err("plan:2:bad_event"));
        }
        check(
            "bootrig-plan 1\nmeanwhile 2 kill\nmeanwhile 1 kill\nreboot\n",
            Err("plan:3:earlier_than_before"),
        );
        check("bootrig-plan 1\nmeanwhile 2 kill\n", Err("plan:no_end"));
    }

    #[test]
    fn refuses_the_rest_by_line() {
        for (text, expect) in [
            ("", "plan:1:not_version_1"),
            ("bootrig-plan 2\nreboot\n", "plan:1:not_version_1"),
            ("reboot\n", "plan:1:not_version_1"),
            ("bootrig-plan 1\n", "plan:no_end"),
            ("bootrig-plan 1\nload marks\n", "plan:no_end"),
            (
                "bootrig-plan 1\nreboot\nload marks\n",
                "plan:3:after_the_end",
            ),
            ("bootrig-plan 1\nreboot now\n", "plan:2:unknown_command"),
            ("bootrig-plan 1\n\nreboot\n", "plan:2:unknown_command"),
            ("bootrig-plan 1\nwait\nreboot\n", "plan:2:bad_time"),
            ("bootrig-plan 1\nwait -1\nreboot\n", "plan:2:bad_time"),
            (
                "bootrig-plan 1\nwait 1000000001\nreboot\n",
                "plan:2:bad_time",
            ),
            ("bootrig-plan 1\nload\nreboot\n", "plan:2:bad_name"),
            ("bootrig-plan 1\nload ../x\nreboot\n", "plan:2:bad_name"),
            ("bootrig-plan 1\nload a b\nreboot\n", "plan:2:bad_name"),
        ] {
            check(text, Err(expect));
        }
    }
}
