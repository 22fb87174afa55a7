// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes the lines of docs/protocol.md.
//!
//! The guest is not trusted. [`decode`] accepts a channel only when every line is whole,
//! in sequence and understood; anything else is a [`Lost`] result, never a smaller one.

use std::{collections::BTreeMap, fmt};

use super::{
    BootLog, Callback, CallbackEvent, Churned, Coldplugged, Disturbed, Hotplugged, Loaded, Mark,
    Stamp, Walked,
};
use crate::core::{
    fault::is_obeyed,
    units::{Bytes, Nanos},
};

mod systemd;

/// Why a channel cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// 1-based line of the channel; 0: the channel as a whole.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.why),
            n => write!(f, "channel line {n}: {}", self.why),
        }
    }
}

/// FNV-1a, 32 bits: the check of each line.
pub fn check(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |h, b| {
        (h ^ u32::from(*b)).wrapping_mul(0x0100_0193)
    })
}

/// One line's fields: looked up by name, each exactly once, none left over.
struct Fields<'a> {
    verb: &'a str,
    values: Vec<(&'a str, &'a str)>,
}

impl<'a> Fields<'a> {
    fn split(body: &'a str) -> Result<Self, String> {
        let mut words = body.split(' ');
        let verb = words.next().unwrap_or_default();
        let values = words
            .map(|w| {
                w.split_once('=')
                    .ok_or_else(|| format!("`{w}` is no name=value"))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { verb, values })
    }
    fn text(&mut self, name: &str) -> Result<&'a str, String> {
        let at = self.values.iter().position(|v| v.0 == name);
        Ok(self
            .values
            .remove(at.ok_or_else(|| format!("`{}` lacks {name}=", self.verb))?)
            .1)
    }
    fn number<T: std::str::FromStr>(&mut self, name: &str) -> Result<T, String> {
        let text = self.text(name)?;
        text.parse()
            .map_err(|_| format!("{name}=`{}` is no number", text.escape_debug()))
    }
    fn nanos(&mut self, name: &str) -> Result<Nanos, String> {
        self.number(name).map(Nanos)
    }
    fn stamp(&mut self) -> Result<Stamp, String> {
        Ok(Stamp {
            mono: self.nanos("mono")?,
            tsc: self.number("tsc")?,
        })
    }
    fn done(&self) -> Result<(), String> {
        match self.values.first() {
            None => Ok(()),
            Some((name, _)) => Err(format!("`{}` has an unknown or doubled {name}=", self.verb)),
        }
    }
}

/// A source's state within one boot: its next sequence number, and whether it has ended.
#[derive(Default)]
struct Source {
    next: u64,
    ended: bool,
}

#[derive(Default)]
struct Decoder {
    boots: Vec<BootLog>,
    pid1: Source,
    kernel: Source,
}

/// Decodes a whole channel into its boots, first to last.
///
/// # Errors
/// [`Lost`] on the first line that is cut, doubled, missing, damaged or not understood;
/// also when a source that spoke did not write its `end` line.
pub fn decode(channel: &[u8]) -> Result<Vec<BootLog>, Lost> {
    let mut decoder = Decoder::default();
    let whole = |why: &str| Lost {
        line: 0,
        why: why.into(),
    };
    if channel.is_empty() {
        return Err(whole("the channel is empty: PID 1 did not report"));
    }
    let mut lines = channel.split(|b| *b == b'\n');
    let tail = lines.next_back().unwrap_or_default();
    for (index, line) in lines.enumerate() {
        decoder.line(line).map_err(|why| Lost {
            line: index + 1,
            why,
        })?;
    }
    if !tail.is_empty() {
        return Err(whole("the channel's last line is cut"));
    }
    decoder.boot_over().map_err(|why| whole(&why))?;
    for boot in &mut decoder.boots {
        boot.callbacks
            .sort_by_key(|c| (c.begin, c.device, c.callback));
    }
    Ok(decoder.boots)
}

impl Decoder {
    fn line(&mut self, bytes: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "is not text".to_owned())?;
        // Parts of it come to be printed.
        if text.contains(is_obeyed) {
            return Err("has characters that a terminal would obey".into());
        }
        let (content, sum) = text.rsplit_once(" #").ok_or("has no check")?;
        // As text: a number has other spellings, and each would be a line that was changed.
        if sum != format!("{:08x}", check(content.as_bytes())) {
            return Err("is damaged: its check differs".into());
        }
        let mut parts = content.splitn(4, ' ');
        let mut next = || parts.next().ok_or("is cut short");
        let (version, source, seq, body) = (next()?, next()?, next()?, next()?);
        if version != "bootrig1" {
            return Err(format!(
                "has version `{}`, not bootrig1",
                version.escape_debug()
            ));
        }
        let seq: u64 = seq
            .parse()
            .map_err(|_| "has no sequence number".to_owned())?;
        let mut fields = Fields::split(body)?;
        if source == "i" && fields.verb == "hello" {
            self.boot_over()?;
            self.hello(&mut fields)?;
        }
        let state = match source {
            "i" => &mut self.pid1,
            "k" => &mut self.kernel,
            other => return Err(format!("has unknown source `{}`", other.escape_debug())),
        };
        if state.ended {
            return Err(format!("comes after the `end` of source {source}"));
        }
        match seq.cmp(&state.next) {
            std::cmp::Ordering::Less => {
                return Err(format!("repeats line {seq} of source {source}"));
            }
            std::cmp::Ordering::Greater => {
                return Err(format!(
                    "comes after a gap: source {source} goes from {} to {seq}",
                    state.next
                ));
            }
            std::cmp::Ordering::Equal => state.next += 1,
        }
        if fields.verb == "end" {
            let lines: u64 = fields.number("lines")?;
            if lines != seq {
                return Err(format!("says {lines} lines came before it, {seq} did"));
            }
            state.ended = true;
        } else if source == "i" {
            self.pid1_line(&mut fields)?;
        } else {
            self.kernel_line(&mut fields)?;
        }
        fields.done()
    }

    /// Checks that the sources of the boot so far have all said that they are done.
    fn boot_over(&mut self) -> Result<(), String> {
        for (name, source) in [("i", &mut self.pid1), ("k", &mut self.kernel)] {
            if source.next > 0 && !source.ended {
                return Err(format!(
                    "source {name} of boot {} stops without its `end` line",
                    self.boots.len()
                ));
            }
            *source = Source::default();
        }
        Ok(())
    }

    fn hello(&mut self, fields: &mut Fields) -> Result<(), String> {
        let number: usize = fields.number("boot")?;
        if number != self.boots.len() + 1 {
            return Err(format!(
                "is boot {number}, expected boot {}",
                self.boots.len() + 1
            ));
        }
        self.boots.push(BootLog {
            release: fields.text("release")?.to_owned(),
            cpus: fields.number("cpus")?,
            hello: fields.stamp()?,
            loaded: vec![],
            disturbed: vec![],
            memory: None,
            walk: None,
            churn: None,
            hotplug: None,
            coldplug: None,
            systemd: None,
            names: vec![],
            leave: None,
            enter: None,
            config: None,
            callbacks: vec![],
            marks: BTreeMap::new(),
            errors: vec![],
        });
        Ok(())
    }

    fn boot(&mut self) -> Result<&mut BootLog, String> {
        self.boots
            .last_mut()
            .ok_or_else(|| "comes before `hello`".into())
    }

    fn pid1_line(&mut self, fields: &mut Fields) -> Result<(), String> {
        let boot = self.boot()?;
        match fields.verb {
            "hello" => {}
            "loaded" => boot.loaded.push(Loaded {
                module: fields.text("module")?.to_owned(),
                begin: fields.nanos("begin")?,
                end: fields.nanos("end")?,
            }),
            "killed" | "left" | "unloaded" | "unsettled" => {
                let disturbed = disturbed(fields)?;
                boot.disturbed.push(disturbed);
            }
            "memory" => {
                let found = (fields.number("blocks")?, Bytes(fields.number("size")?));
                once(&mut boot.memory, found, "memory")?;
            }
            "walk" => once(&mut boot.walk, walk(fields)?, "walk")?,
            "churn" => once(&mut boot.churn, churn(fields)?, "churn")?,
            "hotplug" => once(&mut boot.hotplug, hotplug(fields)?, "hotplug")?,
            "coldplug" => once(&mut boot.coldplug, coldplug(fields)?, "coldplug")?,
            "systemd" => once(&mut boot.systemd, systemd::boot(fields)?, "systemd")?,
            "slow" | "chain" | "broken" => systemd::unit(fields, boot.systemd.as_mut())?,
            "leave" => {
                fields.text("how")?;
                once(&mut boot.leave, fields.stamp()?, "leave")?;
            }
            "enter" => once(&mut boot.enter, fields.stamp()?, "enter")?,
            "error" => boot
                .errors
                .push((fields.text("what")?.to_owned(), fields.number("errno")?)),
            other => return Err(format!("has unknown word `{}`", other.escape_debug())),
        }
        Ok(())
    }

    fn kernel_line(&mut self, fields: &mut Fields) -> Result<(), String> {
        let boot = self.boot()?;
        match fields.verb {
            "config" => once(
                &mut boot.config,
                (fields.number("hz")?, fields.number("tsc_khz")?),
                "config",
            )?,
            "cb" => boot.callbacks.push(callback(fields)?),
            "name" => boot
                .names
                .push((fields.number("dev")?, fields.number("number")?)),
            "mark" => {
                let mark = mark(fields.text("name")?)?;
                if boot.marks.insert(mark, fields.stamp()?).is_some() {
                    return Err(format!("repeats mark {mark:?}"));
                }
            }
            "lost" => {
                return Err(format!(
                    "the guest's record buffer lost {} events: raise `records` of marks",
                    fields.text("events")?
                ));
            }
            other => return Err(format!("has unknown word `{}`", other.escape_debug())),
        }
        Ok(())
    }
}

fn once<T>(slot: &mut Option<T>, value: T, what: &str) -> Result<(), String> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("repeats `{what}`")),
    }
}

fn disturbed(fields: &mut Fields) -> Result<Disturbed, String> {
    if fields.verb == "unsettled" {
        let after = fields.nanos("after")?;
        return Ok(Disturbed::Unsettled { after });
    }
    fields.text("module")?;
    let begin = fields.nanos("begin")?;
    Ok(match fields.verb {
        "killed" => Disturbed::Killed {
            begin,
            at: fields.nanos("at")?,
            end: fields.nanos("end")?,
        },
        "left" => Disturbed::Left {
            begin,
            at: fields.nanos("at")?,
        },
        _ => Disturbed::Unloaded {
            begin,
            end: fields.nanos("end")?,
            errno: fields.number("errno")?,
        },
    })
}

fn mark(name: &str) -> Result<Mark, String> {
    Ok(match name {
        "attach_begin" => Mark::AttachBegin,
        "attach_end" => Mark::AttachEnd,
        "shutdown_begin" => Mark::ShutdownBegin,
        "shutdown_end" => Mark::ShutdownEnd,
        "dump_end" => Mark::DumpEnd,
        other => return Err(format!("has unknown mark `{}`", other.escape_debug())),
    })
}

fn callback(fields: &mut Fields) -> Result<CallbackEvent, String> {
    let event = CallbackEvent {
        device: fields.number("dev")?,
        callback: match fields.text("op")? {
            "probe" => Callback::Probe,
            "shutdown" => Callback::Shutdown,
            "remove" => Callback::Remove,
            other => return Err(format!("has unknown callback `{}`", other.escape_debug())),
        },
        begin: fields.nanos("begin")?,
        locked: fields.nanos("locked")?,
        end: match fields.text("end")? {
            "-" => None,
            text => Some(Nanos(text.parse().map_err(|_| {
                format!("end=`{}` is no number", text.escape_debug())
            })?)),
        },
        cpu: fields.number("cpu")?,
        pid: fields.number("pid")?,
        ret: fields.number("ret")?,
    };
    if event.locked < event.begin || event.end.is_some_and(|e| e < event.locked) {
        return Err(format!(
            "runs backwards: begin {} locked {} end {:?}",
            event.begin.0, event.locked.0, event.end
        ));
    }
    Ok(event)
}

fn walk(fields: &mut Fields) -> Result<Walked, String> {
    let walked = Walked {
        threads: fields.number("threads")?,
        operations: fields.number("operations")?,
        begin: fields.nanos("begin")?,
        end: fields.nanos("end")?,
        p50: fields.nanos("p50")?,
        p99: fields.nanos("p99")?,
        longest: fields.nanos("longest")?,
        wrong: fields.number("wrong")?,
    };
    forwards(fields, &[walked.begin, walked.end]).map(|()| walked)
}

fn churn(fields: &mut Fields) -> Result<Churned, String> {
    let churned = Churned {
        walkers: fields.number("walkers")?,
        changes: fields.number("changes")?,
        begin: fields.nanos("begin")?,
        end: fields.nanos("end")?,
        answers: fields.number("answers")?,
        certain: fields.number("certain")?,
        wrong: fields.number("wrong")?,
    };
    forwards(fields, &[churned.begin, churned.end]).map(|()| churned)
}

fn hotplug(fields: &mut Fields) -> Result<Hotplugged, String> {
    let done = Hotplugged {
        before: fields.number("before")?,
        blocks: fields.number("blocks")?,
        offline: fields.number("offline")?,
        kernel: fields.number("kernel")?,
        movable: fields.number("movable")?,
        begin: fields.nanos("begin")?,
        there: fields.nanos("there")?,
        end: fields.nanos("end")?,
    };
    forwards(fields, &[done.begin, done.there, done.end]).map(|()| done)
}

fn coldplug(fields: &mut Fields) -> Result<Coldplugged, String> {
    let done = Coldplugged {
        start: fields.nanos("start")?,
        begin: fields.nanos("begin")?,
        triggered: fields.nanos("triggered")?,
        end: fields.nanos("end")?,
        events: fields.number("events")?,
        seen: fields.number("seen")?,
    };
    let times = [done.start, done.begin, done.triggered, done.end];
    forwards(fields, &times).map(|()| done)
}

fn forwards(fields: &Fields, times: &[Nanos]) -> Result<(), String> {
    match times.is_sorted() {
        true => Ok(()),
        false => Err(format!("is a {} that runs backwards", fields.verb)),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Encoder, *};
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let mut e = Encoder::default();
        e.line('i', "hello boot=1 release=6.1.0 cpus=2 mono=280 tsc=300");
        e.line('i', "loaded module=marks begin=290 end=300");
        e.line('k', "config hz=250 tsc_khz=1000000");
        e.line(
            'k',
            "cb dev=0 op=probe begin=301 locked=301 end=400 cpu=0 pid=1 ret=0",
        );
        e.line('i', "leave how=reboot mono=500 tsc=520");
        e.line('i', "enter mono=510 tsc=530");
        e.end('i');
        e.line(
            'k',
            "cb dev=0 op=shutdown begin=601 locked=601 end=- cpu=0 pid=1 ret=0",
        );
        e.line('k', "mark name=shutdown_begin mono=600 tsc=620");
        e.end('k');
        e.line('i', "hello boot=2 release=6.1.0 cpus=2 mono=280 tsc=1300");
        e.end('i');
        e.bytes
    }

    #[test]
    fn whole_channel() {
        let boots = decode(&sample()).unwrap();
        assert_eq!(boots.len(), 2);
        assert_eq!(boots[0].callbacks.len(), 2);
        assert_eq!(boots[0].callbacks[1].end, None);
        assert_eq!(boots[0].config, Some((250, 1_000_000)));
        assert_eq!(boots[1].hello.tsc, 1300);
    }

    #[test]
    fn backwards_and_unknown_are_lost() {
        for body in [
            "cb dev=0 op=probe begin=5 locked=4 end=6 cpu=0 pid=1 ret=0",
            "cb dev=0 op=probe begin=5 locked=5 end=4 cpu=0 pid=1 ret=0",
            "cb dev=0 op=burn begin=5 locked=5 end=6 cpu=0 pid=1 ret=0",
            "cb dev=-1 op=probe begin=5 locked=5 end=6 cpu=0 pid=1 ret=0",
            "cb dev=0 dev=1 op=probe begin=5 locked=5 end=6 cpu=0 pid=1 ret=0",
            "mark name=lunch mono=1 tsc=1",
            "lost events=3",
            "surprise",
            "error what=\u{1b}[2J errno=2",
            "error what=\u{202e}x errno=2",
        ] {
            let mut e = Encoder::default();
            e.line('i', "hello boot=1 release=6.1.0 cpus=2 mono=280 tsc=300");
            e.end('i');
            e.line('k', body);
            e.end('k');
            assert!(decode(&e.bytes).is_err(), "{body}");
        }
    }

    proptest! {
        /// Whatever is cut off the end, the result is lost, never smaller.
        #[test]
        fn every_cut_is_lost(cut in 1usize..sample().len()) {
            let bytes = sample();
            let at = bytes.len() - cut;
            match decode(&bytes[..at]) {
                Err(_) => {}
                // Cut exactly between the boots: whole, and visibly one boot only.
                Ok(boots) => prop_assert_eq!(boots.len(), 1),
            }
        }
        /// A line that is doubled, missing or damaged anywhere is found.
        #[test]
        fn every_single_fault_is_lost(line in 0usize..12, kind in 0..3, bit in any::<u16>()) {
            let bytes = sample();
            let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            match kind {
                0 => { let copy = lines[line].clone(); lines.insert(line, copy); }
                1 => { lines.remove(line); }
                _ => { let at = usize::from(bit / 8) % (lines[line].len() - 1); lines[line][at] ^= 1 << (bit % 8); }
            }
            let whole = lines.concat();
            prop_assert!(decode(&whole).is_err() || decode(&whole).unwrap().len() != 2);
        }
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode(&bytes);
        }
    }
}
