// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines about a boot of systemd: one of its own, then those of units.

use super::{Fields, forwards};
use crate::core::event::{BrokenUnit, SystemdBoot, UnitTime};

/// Lines of one kind that a guest may write.
const MOST_UNITS: usize = 64;
/// As systemd limits its names.
const LONGEST_NAME: usize = 255;
const LONGEST_RESULT: usize = 32;

/// `systemd begin=NS ...`
pub(super) fn boot(fields: &mut Fields) -> Result<SystemdBoot, String> {
    let boot = SystemdBoot {
        begin: fields.nanos("begin")?,
        start: fields.nanos("start")?,
        target: fields.nanos("target")?,
        finish: fields.nanos("finish")?,
        settled: fields.nanos("settled")?,
        units: fields.number("units")?,
        broken_in_all: fields.number("broken")?,
        seen: fields.number("seen")?,
        slow: vec![],
        chain: vec![],
        broken: vec![],
    };
    // When it settles has nothing to do with when the target is reached.
    forwards(fields, &[boot.begin, boot.start, boot.target, boot.finish])?;
    forwards(fields, &[boot.start, boot.settled]).map(|()| boot)
}

/// `slow unit=NAME begin=NS end=NS`, `chain` alike, `broken unit=NAME result=WORD`.
pub(super) fn unit(fields: &mut Fields, boot: Option<&mut SystemdBoot>) -> Result<(), String> {
    let boot = boot.ok_or_else(|| format!("is a `{}` before `systemd`", fields.verb))?;
    let unit = name(fields.text("unit")?)?;
    let count = if fields.verb == "broken" {
        let result = result(fields.text("result")?)?;
        boot.broken.push(BrokenUnit { unit, result });
        boot.broken.len()
    } else {
        let time = UnitTime {
            unit,
            begin: fields.nanos("begin")?,
            end: fields.nanos("end")?,
        };
        forwards(fields, &[time.begin, time.end])?;
        let list = match fields.verb {
            "slow" => &mut boot.slow,
            _ => &mut boot.chain,
        };
        list.push(time);
        list.len()
    };
    match count > MOST_UNITS {
        true => Err(format!("is one `{}` too many ({count})", fields.verb)),
        false => Ok(()),
    }
}

/// What systemd allows in the name of a unit.
fn name(text: &str) -> Result<String, String> {
    let sound = |b: u8| b.is_ascii_alphanumeric() || b":-_.\\@".contains(&b);
    let good = (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(sound);
    match good {
        true => Ok(text.to_owned()),
        false => Err(format!("unit=`{}` is no unit", text.escape_debug())),
    }
}

fn result(text: &str) -> Result<String, String> {
    let sound = |b: u8| b.is_ascii_lowercase() || b == b'-';
    let good = (1..=LONGEST_RESULT).contains(&text.len()) && text.bytes().all(sound);
    match good {
        true => Ok(text.to_owned()),
        false => Err(format!("result=`{}` is no result", text.escape_debug())),
    }
}

#[cfg(test)]
mod tests {
    use crate::core::event::{Encoder, SystemdBoot, decode};

    const BOOT: &str =
        "systemd begin=10 start=20 target=30 finish=40 settled=35 units=5 broken=1 seen=4";

    fn said(lines: &[&str]) -> Result<SystemdBoot, String> {
        let mut e = Encoder::default();
        e.line('i', "hello boot=1 release=6.1.0 cpus=2 mono=1 tsc=1");
        lines.iter().for_each(|line| e.line('i', line));
        e.end('i');
        let mut boots = decode(&e.bytes).map_err(|lost| lost.to_string())?;
        Ok(boots.remove(0).systemd.unwrap())
    }

    #[test]
    fn reads_a_boot_and_its_units() {
        let boot = said(&[
            BOOT,
            "slow unit=systemd-udev-trigger.service begin=21 end=28",
            "slow unit=dev-disk-by\\x2did-x.device begin=0 end=0",
            "chain unit=getty@tty1.service begin=25 end=29",
            "broken unit=a:b_c.mount result=timeout",
        ])
        .unwrap();
        assert_eq!((boot.slow.len(), boot.chain.len()), (2, 1));
        assert_eq!(boot.broken[0].result, "timeout");
        assert_eq!(boot.settled.0, 35);
    }

    #[test]
    fn whatever_a_hostile_guest_says_is_a_lost_result() {
        let long = format!("slow unit={} begin=1 end=2", "x".repeat(256));
        let many = vec!["slow unit=x.service begin=1 end=2"; 65];
        let many: Vec<&str> = std::iter::once(BOOT).chain(many).collect();
        for (lines, expect) in [
            (vec![BOOT, BOOT], "repeats `systemd`"),
            (
                vec!["slow unit=x.service begin=1 end=2"],
                "is a `slow` before `systemd`",
            ),
            (vec![BOOT, &long], "is no unit"),
            (many, "is one `slow` too many (65)"),
            (
                vec![BOOT, "slow unit=<b> begin=1 end=2"],
                "unit=`<b>` is no unit",
            ),
            (vec![BOOT, "slow unit=a,b begin=1 end=2"], "is no unit"),
            (vec![BOOT, "slow unit= begin=1 end=2"], "is no unit"),
            (
                vec![BOOT, "chain unit=x.service begin=2 end=1"],
                "chain that runs backwards",
            ),
            (vec![BOOT, "chain unit=x.service begin=2"], "lacks end="),
            (
                vec![BOOT, "broken unit=x.service result=UP"],
                "is no result",
            ),
            (
                vec![BOOT, "broken unit=x.service result=a b=c"],
                "unknown or doubled b=",
            ),
            (vec!["systemd begin=10"], "lacks start="),
        ] {
            let said = said(&lines).unwrap_err();
            assert!(said.contains(expect), "{lines:?}: {said}");
        }
        for (from, to) in [
            ("start=20", "start=9"),
            ("target=30", "target=19"),
            ("finish=40", "finish=29"),
            ("settled=35", "settled=19"),
        ] {
            let said = said(&[&BOOT.replace(from, to)]).unwrap_err();
            assert!(said.contains("runs backwards"), "{said}");
        }
        assert!(said(&[&BOOT.replace("units=5", "units=-1")]).is_err());
    }
}
