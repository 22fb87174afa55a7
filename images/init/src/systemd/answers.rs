// SPDX-License-Identifier: MIT OR Apache-2.0
//! What systemd and its programs say, read. Pure.

use std::collections::BTreeMap;

use crate::pci;

/// Whether a message to `$NOTIFY_SOCKET` says that all is started.
pub fn is_ready(message: &[u8]) -> bool {
    message
        .split(|b| *b == b'\n')
        .any(|line| line == b"READY=1")
}

/// What `leave` left for the last act: `lines=N how=WORD`.
pub fn state(text: &str) -> Option<(u32, &'static str)> {
    let (lines, how) = text.strip_suffix('\n')?.split_once(' ')?;
    let lines = pci::number(lines.strip_prefix("lines=")?)?;
    let how = ["reboot", "kexec", "poweroff"]
        .into_iter()
        .find(|known| how.strip_prefix("how=") == Some(known))?;
    Some((u32::try_from(lines).ok()?, how))
}

/// The blocks of `systemctl show`: `KEY=VALUE` a line, an empty line between units. The last
/// of a doubled key counts.
pub fn blocks(text: &str) -> impl Iterator<Item = BTreeMap<&str, &str>> {
    text.split("\n\n").map(block).filter(|b| !b.is_empty())
}

fn block(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|l| l.split_once('=')).collect()
}

/// A time of systemd's, in microseconds, as nanoseconds; none where it never was.
pub fn time(block: &BTreeMap<&str, &str>, key: &str) -> Option<u64> {
    let us = pci::number(block.get(key)?)?;
    us.checked_mul(1000).filter(|ns| *ns > 0)
}

/// A unit, as far as its start is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Its name.
    pub name: String,
    /// Its start began, and was over: as systemd-analyze takes them, so that a job that has
    /// run and is gone ended when it was gone.
    pub begin: u64,
    /// See `begin`.
    pub end: u64,
    /// When it was last there.
    pub active: Option<u64>,
    /// Why it has failed, where it has.
    pub failed: Option<String>,
    /// What it starts after.
    pub after: Vec<String>,
}

/// The unit of a block that has `Id`, `ActiveState` and its times, if it was ever started.
pub fn unit(block: &BTreeMap<&str, &str>) -> Option<Unit> {
    let time = |key| time(block, key);
    let failed = (block.get("ActiveState") == Some(&"failed")).then(|| {
        let result = block.get("Result").filter(|r| is_word(r));
        (*result.unwrap_or(&"failed")).to_owned()
    });
    let active = time("ActiveEnterTimestampMonotonic");
    let begin = time("InactiveExitTimestampMonotonic").or(active);
    if begin.is_none() && failed.is_none() {
        return None;
    }
    let begin = begin.unwrap_or(0);
    let gone = time("InactiveEnterTimestampMonotonic");
    let ends = [active, gone].into_iter().flatten();
    let words = block.get("After").copied().unwrap_or("").split_whitespace();
    Some(Unit {
        name: block.get("Id").filter(|n| is_unit(n))?.to_string(),
        begin,
        end: ends.into_iter().find(|end| *end >= begin).unwrap_or(begin),
        active,
        failed,
        after: words.map(str::to_owned).collect(),
    })
}

/// The units of the journal's export that were to be started and were not, each once, with the
/// result: that of a unit that failed by itself says more than its job's `failed`.
pub fn broken(text: &str) -> Vec<(String, String)> {
    let failures = failures(text);
    let mut all: Vec<(String, String)> = vec![];
    for entry in blocks(text) {
        let field = |key| entry.get(key).copied();
        let (Some("start"), Some(unit), Some(result)) =
            (field("JOB_TYPE"), field("UNIT"), field("JOB_RESULT"))
        else {
            continue;
        };
        // One that a condition of its own kept from it is as it should be.
        let fine = ["done", "skipped"].contains(&result);
        if !fine && is_unit(unit) && is_word(result) && all.iter().all(|(known, _)| known != unit) {
            let own = failures.get(unit).filter(|_| result == "failed");
            all.push((unit.to_owned(), own.unwrap_or(&result).to_string()));
        }
    }
    all
}

/// Why units have failed, by the first time that the journal's export has of it.
fn failures(text: &str) -> BTreeMap<&str, &str> {
    let mut all = BTreeMap::new();
    for entry in blocks(text) {
        if let (Some(unit), Some(result)) = (entry.get("UNIT"), entry.get("UNIT_RESULT"))
            && is_word(result)
        {
            all.entry(*unit).or_insert(*result);
        }
    }
    all
}

/// What `target` waited for, last first, as `systemd-analyze critical-chain` has it: of what a
/// unit starts after, that which was there last, and so on. Of two alike the first by name.
pub fn chain<'u>(units: &'u [Unit], target: &str, finish: u64) -> Vec<&'u Unit> {
    let named: BTreeMap<&str, &Unit> = units.iter().map(|u| (&*u.name, u)).collect();
    let mut chain: Vec<&Unit> = named.get(target).copied().into_iter().collect();
    while let Some(unit) = chain.last() {
        let before = unit.after.iter().filter_map(|name| named.get(&**name));
        let there = before.filter(|u| u.active.is_some_and(|at| at <= finish));
        let last = there.min_by_key(|u| (std::cmp::Reverse(u.active), &u.name));
        match last {
            Some(last) if !chain.contains(last) => chain.push(last),
            _ => break,
        }
    }
    chain
}

/// The first unit that `systemctl list-jobs` says is being started.
pub fn waited_for(text: &str) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (unit, _, state) = (words.next()?, words.next()?, words.next()?);
        (state == "running" && is_unit(unit)).then_some(unit)
    })
}

/// Whether this can be the name of a unit.
fn is_unit(name: &str) -> bool {
    let sound = |b: u8| b.is_ascii_alphanumeric() || b":-_.\\@".contains(&b);
    (1..=255).contains(&name.len()) && name.contains('.') && name.bytes().all(sound)
}

fn is_word(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_a_line_of_its_own() {
        assert!(is_ready(b"READY=1") && is_ready(b"STATUS=x\nREADY=1\n"));
        assert!(!is_ready(b"READY=0") && !is_ready(b"STATUS=READY=1") && !is_ready(b""));
    }

    #[test]
    fn a_state_is_read_strictly() {
        assert_eq!(state("lines=12 how=kexec\n"), Some((12, "kexec")));
        for bad in [
            "",
            "lines=1 how=halt\n",
            "lines=1 how=reboot",
            "lines=-1 how=reboot\n",
            "how=reboot\n",
            "lines=4294967296 how=reboot\n",
        ] {
            assert_eq!(state(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_unit_took_from_its_start_to_when_it_was_there_or_gone() {
        let unit = |text: &str| unit(&blocks(text).next().unwrap());
        let is = |begin, end, active, failed: Option<&str>| {
            let name = "x.service".into();
            Some(Unit {
                name,
                begin,
                end,
                active,
                failed: failed.map(str::to_owned),
                after: vec![],
            })
        };
        let there = "Id=x.service\nActiveState=active\nInactiveExitTimestampMonotonic=5\n\
             ActiveEnterTimestampMonotonic=9\nInactiveEnterTimestampMonotonic=0\n";
        assert_eq!(unit(there), is(5000, 9000, Some(9000), None));
        let gone = "Id=x.service\nActiveState=inactive\nInactiveExitTimestampMonotonic=5\n\
             ActiveEnterTimestampMonotonic=0\nInactiveEnterTimestampMonotonic=7\n";
        assert_eq!(unit(gone), is(5000, 7000, None, None));
        let always = "Id=x.service\nActiveState=active\nInactiveExitTimestampMonotonic=0\nActiveEnterTimestampMonotonic=3\n";
        assert_eq!(unit(always), is(3000, 3000, Some(3000), None));
        let failed = "Id=x.service\nActiveState=failed\n";
        assert_eq!(unit(failed), is(0, 0, None, Some("failed")));
        let late = format!("{failed}Result=timeout\n");
        assert_eq!(unit(&late), is(0, 0, None, Some("timeout")));
        assert_eq!(
            unit("Id=x.service\nActiveState=inactive\nInactiveExitTimestampMonotonic=0\n"),
            None
        );
        assert_eq!(unit("Id=x y\nActiveState=failed\n"), None);
        let huge = "Id=x.service\nActiveEnterTimestampMonotonic=18446744073709551615\n";
        assert_eq!(unit(huge), None);
    }

    #[test]
    fn jobs_that_did_not_start_something_are_found_once() {
        let text = "__CURSOR=s=1\nUNIT=a.device\nJOB_TYPE=start\nJOB_RESULT=timeout\n\n\
             JOB_RESULT=dependency\nJOB_TYPE=start\nUNIT=b.service\n\n\
             UNIT=b.service\nJOB_TYPE=start\nJOB_RESULT=failed\n\n\
             UNIT=c.service\nJOB_TYPE=start\nJOB_RESULT=done\n\n\
             UNIT=d.service\nJOB_TYPE=stop\nJOB_RESULT=timeout\n\n\
             UNIT=e.service\nJOB_TYPE=start\nJOB_RESULT=two words\n\n\
             UNIT=f.service\nJOB_TYPE=start\nJOB_RESULT=skipped\n\n\
             UNIT=b.service\nUNIT_RESULT=protocol\n\n\
             UNIT=g.service\nUNIT_RESULT=timeout\n\nUNIT=g.service\nUNIT_RESULT=signal\n\n\
             UNIT=g.service\nJOB_TYPE=start\nJOB_RESULT=failed\n\n";
        let pair = |unit: &str, result: &str| (unit.to_owned(), result.to_owned());
        assert_eq!(
            broken(text),
            [
                pair("a.device", "timeout"),
                pair("b.service", "dependency"),
                pair("g.service", "timeout")
            ]
        );
        assert_eq!(broken(""), []);
    }

    #[test]
    fn a_critical_chain_goes_from_the_last_to_what_was_last_before_it() {
        let unit = |name: &str, active, after: &[&str]| Unit {
            name: name.into(),
            active,
            after: after.iter().map(|a| (*a).to_owned()).collect(),
            ..Unit::default()
        };
        let mut units = vec![
            unit(
                "m.target",
                Some(90),
                &["b.service", "a.service", "late.service", "none.x"],
            ),
            unit("a.service", Some(80), &["c.socket", "m.target"]),
            unit("b.service", Some(80), &[]),
            unit("late.service", Some(101), &[]),
            unit("c.socket", Some(20), &["-.slice"]),
            unit("-.slice", None, &[]),
        ];
        let names = |units: &[Unit]| {
            let chain = chain(units, "m.target", 100).into_iter();
            chain.map(|u| u.name.clone()).collect::<Vec<_>>()
        };
        // It goes round in no circle.
        assert_eq!(names(&units), ["m.target", "a.service"]);
        units[1].after.pop();
        assert_eq!(names(&units), ["m.target", "a.service", "c.socket"]);
        assert_eq!(names(&units[1..]), [""; 0]);
    }

    #[test]
    fn a_job_that_runs_is_who_is_waited_for() {
        let jobs = "12 a.service start waiting\n 7 dev-ttyS0.device start running\n";
        assert_eq!(waited_for(jobs), Some("dev-ttyS0.device"));
        assert_eq!(waited_for("No jobs running.\n"), None);
    }
}
