// SPDX-License-Identifier: MIT OR Apache-2.0
//! What systemd says of its own boot, as lines of the channel: the figures of systemd-analyze,
//! from the properties that it reads and by its rules, but to the microsecond, and asked for
//! once: each time that it asks for those of all units takes the guest seconds.

use std::{io, path::Path};

use super::{ANSWER_LIMIT, SYSTEMCTL, TARGET, answers, answers::Unit};
use crate::{
    channel, clock, coldplug,
    failure::{Failure, during},
    sys, tool,
};

const JOURNALCTL: &str = "/usr/bin/journalctl";
/// After systemd has said that all is started, in ns.
const PAUSE: u64 = 50_000_000;
/// There while udevd has something to do.
const QUEUE: &str = "/run/udev/queue";
/// The journal's entries that say why a unit has failed (SD_MESSAGE_UNIT_FAILURE_RESULT).
const UNIT_FAILED: &str = "MESSAGE_ID=d9b373ed55a64feb8242e02dbe79a49c";
/// What a program says goes through here.
const ANSWER: &str = "/run/bootrig/answer";
/// Units of a kind that are told: the slowest, those of the chain, those that are not there.
const MOST_SLOW: usize = 10;
const MOST_CHAIN: usize = 32;
const MOST_BROKEN: usize = 32;

const TIMES: [&str; 7] = [
    "Id",
    "ActiveState",
    "Result",
    "InactiveExitTimestampMonotonic",
    "ActiveEnterTimestampMonotonic",
    "InactiveEnterTimestampMonotonic",
    "After",
];

/// Asks and reports. systemd has just said that all is started; udev may be at work yet, for
/// no longer than `limit`.
pub fn report(begin: u64, limit: u64) -> Result<(), Failure> {
    let now = clock::mono();
    let busy = Path::new(QUEUE).exists();
    // It says so just before it takes the time of its finish: not to be a part of that.
    sys::sleep_until(now + PAUSE);
    finished(limit)?;
    settle(limit)?;
    let settled = if busy { clock::mono() } else { now };
    let manager = systemctl(
        "manager",
        &[
            "show",
            "--property=UserspaceTimestampMonotonic,FinishTimestampMonotonic",
        ],
    )?;
    let manager = answers::blocks(&manager).next().unwrap_or_default();
    let time = |key: &str| {
        let lacks = || Failure::new(format!("systemd:{key}"), sys::EINVAL);
        answers::time(&manager, key).ok_or_else(lacks)
    };
    let start = time("UserspaceTimestampMonotonic")?;
    let finish = time("FinishTimestampMonotonic")?;
    let properties = format!("--property={}", TIMES.join(","));
    let shown = systemctl("units", &["show", "*", &properties])?;
    let units: Vec<Unit> = answers::blocks(&shown)
        .filter_map(|b| answers::unit(&b))
        .collect();
    let broken = broken(&units)?;
    let target = target(&properties, &broken)?;
    let seen = match coldplug::seen() {
        // udevd has never come as far.
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        seen => seen.map_err(during("systemd:database"))?,
    };
    channel::say(&format!(
        "systemd begin={begin} start={start} target={target} finish={finish} settled={} units={} \
         broken={} seen={seen}",
        settled.max(finish),
        units.len(),
        broken.len()
    ));
    for (unit, result) in broken.iter().take(MOST_BROKEN) {
        channel::say(&format!("broken unit={unit} result={result}"));
    }
    for unit in slowest(&units) {
        say("slow", unit);
    }
    let chain = answers::chain(&units, TARGET, finish);
    chain
        .into_iter()
        .take(MOST_CHAIN)
        .for_each(|unit| say("chain", unit));
    Ok(())
}

fn say(list: &str, unit: &Unit) {
    let Unit {
        name, begin, end, ..
    } = unit;
    channel::say(&format!("{list} unit={name} begin={begin} end={end}"));
}

/// Those that took longest, as `systemd-analyze blame` has them; of two alike the first by name.
fn slowest(units: &[Unit]) -> impl Iterator<Item = &Unit> {
    let mut units: Vec<_> = units.iter().filter(|u| u.end > u.begin).collect();
    units.sort_by_key(|u| (std::cmp::Reverse(u.end - u.begin), &u.name));
    units.into_iter().take(MOST_SLOW)
}

/// What was to be started and was not: by the journal, which alone knows of jobs that are over,
/// and by what has failed since. Where something has failed, that may be the journal itself.
fn broken(units: &[Unit]) -> Result<Vec<(String, String)>, Failure> {
    let failed = units
        .iter()
        .filter_map(|u| Some((&u.name, u.failed.as_ref()?)));
    let failed: Vec<_> = failed.collect();
    let journal = match journal() {
        Err(failure) if failed.is_empty() => return Err(failure),
        journal => journal.unwrap_or_default(),
    };
    let mut broken = answers::broken(&journal);
    for (unit, result) in failed {
        if broken.iter().all(|(known, _)| known != unit) {
            broken.push((unit.clone(), result.clone()));
        }
    }
    Ok(broken)
}

/// The journal's entries of jobs that started something, and of units that have failed.
fn journal() -> Result<String, Failure> {
    journalctl("sync", &["--sync"])?;
    journalctl(
        "jobs",
        &[
            "--boot",
            "--output=export",
            "--output-fields=UNIT,JOB_TYPE,JOB_RESULT,UNIT_RESULT",
            "JOB_TYPE=start",
            "+",
            UNIT_FAILED,
        ],
    )
}

/// When the target was reached. Where it was not, what was not started is the reason, and there
/// is no boot to report.
fn target(properties: &str, broken: &[(String, String)]) -> Result<u64, Failure> {
    let shown = systemctl("target", &["show", TARGET, properties])?;
    let block = answers::blocks(&shown).next().unwrap_or_default();
    let state = block.get("ActiveState").copied().unwrap_or("unknown");
    if let ("active", Some(time)) = (
        state,
        answers::time(&block, "ActiveEnterTimestampMonotonic"),
    ) {
        return Ok(time);
    }
    for (unit, result) in broken.iter().take(MOST_BROKEN) {
        Failure::new(format!("systemd:{unit}:{result}"), 0).report();
    }
    Err(Failure::new(format!("systemd:{TARGET}:{state}"), 0))
}

/// What is to be said when systemd was waited for in vain: for whom it waits.
pub fn late() -> Failure {
    let jobs = systemctl("late", &["list-jobs", "--no-legend", "--plain"]);
    let unit = jobs.as_deref().ok().and_then(answers::waited_for);
    let unit = unit.map_or(String::new(), |unit| format!(":{unit}"));
    Failure::new(format!("systemd:limit{unit}"), sys::ETIMEDOUT)
}

/// Waits until systemd is done with that of which it has spoken: only then does it answer. That
/// units have failed is told by a status too, and in a better way later.
fn finished(limit: u64) -> Result<(), Failure> {
    let mut systemctl = tool::command(SYSTEMCTL, "systemd")?;
    systemctl.args(["is-system-running", "--wait", "--quiet"]);
    let what = "systemd:finish";
    match tool::run(systemctl, what, limit) {
        Err(failure) if failure == Failure::new(format!("{what}:status:1"), 0) => Ok(()),
        other => other,
    }
}

fn settle(limit: u64) -> Result<(), Failure> {
    let mut udevadm = tool::command(coldplug::UDEVADM, "systemd")?;
    // It counts whole seconds, and we are the more patient.
    let seconds = limit.div_ceil(1_000_000_000);
    udevadm.args(["settle", &format!("--timeout={seconds}")]);
    tool::run(
        udevadm,
        "systemd:settle",
        limit.saturating_add(5_000_000_000),
    )
}

fn systemctl(what: &str, arguments: &[&str]) -> Result<String, Failure> {
    ask(SYSTEMCTL, what, arguments)
}

fn journalctl(what: &str, arguments: &[&str]) -> Result<String, Failure> {
    ask(JOURNALCTL, what, arguments)
}

fn ask(program: &str, what: &str, arguments: &[&str]) -> Result<String, Failure> {
    let mut command = tool::command(program, "systemd")?;
    command.arg("--no-pager").args(arguments);
    tool::answer(command, &format!("systemd:{what}"), ANSWER_LIMIT, ANSWER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_come_first_and_those_that_took_no_time_not_at_all() {
        let unit = |name: &str, begin, end| Unit {
            name: name.into(),
            begin,
            end,
            ..Unit::default()
        };
        let mut units = vec![
            unit("b.service", 5, 9),
            unit("a.service", 1, 5),
            unit("c.target", 7, 7),
            unit("d.service", 0, 100),
        ];
        let names = |units: &[Unit]| {
            let names = slowest(units).map(|u| u.name.clone());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(&units), ["d.service", "a.service", "b.service"]);
        units.extend((0..20).map(|n| unit("z.service", 0, 10 + n)));
        assert_eq!(names(&units).len(), MOST_SLOW);
    }
}
