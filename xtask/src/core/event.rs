// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the guest reports: the lines of docs/protocol.md, decoded into types.
//!
//! The guest is not trusted. [`decode`] accepts a channel only when every line is whole,
//! in sequence and understood; anything else is a [`Lost`] result, never a smaller one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use super::{
    fault::is_obeyed,
    units::{Bytes, Nanos},
};
pub use workload::{Churned, Coldplugged, Walked};

mod workload;

/// A driver callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Callback {
    /// `probe`
    Probe,
    /// `shutdown`
    Shutdown,
    /// `remove`
    Remove,
}

/// Begin and end of one device callback, in guest monotonic time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackEvent {
    /// Index into [`Scenario::devices`](super::scenario::Scenario::devices).
    pub device: usize,
    /// Which callback.
    pub callback: Callback,
    /// When it was entered.
    pub begin: Nanos,
    /// When it held the profile's lock; equals `begin` where there is none.
    pub locked: Nanos,
    /// When it returned; `None`: it never did.
    pub end: Option<Nanos>,
    /// CPU at entry.
    pub cpu: u32,
    /// Task that ran it.
    pub pid: u32,
    /// What it returned (probe only, else 0).
    pub ret: i32,
}

/// A reading of both guest clocks at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// CLOCK_MONOTONIC: starts at 0 with each kernel.
    pub mono: Nanos,
    /// Time stamp counter: runs on across a reset, except under KVM.
    pub tsc: u64,
}

/// A phase mark of the kernel side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Before the driver registers.
    AttachBegin,
    /// All its devices are probed.
    AttachEnd,
    /// Reboot notifier: before device_shutdown().
    ShutdownBegin,
    /// Syscore shutdown: after device_shutdown().
    ShutdownEnd,
    /// All records are written.
    DumpEnd,
}

/// Loading of one module as PID 1 saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// Its name, without `.ko`.
    pub module: String,
    /// Before finit_module.
    pub begin: Nanos,
    /// After it.
    pub end: Nanos,
}

/// What became of a load that did not simply end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbed {
    /// Its task was killed at this time, and was gone at `end`.
    Killed {
        /// Before finit_module.
        begin: Nanos,
        /// The signal.
        at: Nanos,
        /// When the task had ended.
        end: Nanos,
    },
    /// Its task did not end, and PID 1 went on without it.
    Left {
        /// Before finit_module.
        begin: Nanos,
        /// When PID 1 went on.
        at: Nanos,
    },
    /// Its module was unloaded, or, with an error, could not be.
    Unloaded {
        /// Before delete_module.
        begin: Nanos,
        /// After it.
        end: Nanos,
        /// 0, or the error.
        errno: i32,
    },
    /// Probes were still under way when PID 1 had waited so long for them.
    Unsettled {
        /// How long.
        after: Nanos,
    },
}

/// Everything that one boot of the guest reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootLog {
    /// The kernel's release (`uname -r`).
    pub release: String,
    /// CPUs that PID 1 saw.
    pub cpus: u32,
    /// PID 1's first act.
    pub hello: Stamp,
    /// Modules in loading order.
    pub loaded: Vec<Loaded>,
    /// What was done to loads, or became of them, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<Disturbed>,
    /// The memory blocks in sysfs, and the size that sysfs says they have; where PID 1 was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<(u64, Bytes)>,
    /// The walk, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk: Option<Walked>,
    /// The churn, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub churn: Option<Churned>,
    /// The coldplug, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coldplug: Option<Coldplugged>,
    /// The numbers in the names that devices got, in order: `(device, number)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<(usize, u32)>,
    /// Start of user space's shutdown.
    pub leave: Option<Stamp>,
    /// Just before reboot(2).
    pub enter: Option<Stamp>,
    /// The kernel's HZ and its idea of the counter's frequency in kHz.
    pub config: Option<(u32, u64)>,
    /// Device callbacks, by begin, then device.
    pub callbacks: Vec<CallbackEvent>,
    /// Phase marks.
    pub marks: BTreeMap<Mark, Stamp>,
    /// What PID 1 could not do: `(what, errno)`.
    pub errors: Vec<(String, i32)>,
}

/// A callback that began and returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// As in [`CallbackEvent`].
    pub device: usize,
    /// When it was entered.
    pub begin: Nanos,
    /// When it held its lock.
    pub locked: Nanos,
    /// When it returned.
    pub end: Nanos,
    /// The task that ran it.
    pub task: u32,
}

impl CallbackEvent {
    /// Its span; `None`: it never returned.
    pub fn span(&self) -> Option<Span> {
        Some(Span {
            device: self.device,
            begin: self.begin,
            locked: self.locked,
            end: self.end?,
            task: self.pid,
        })
    }
}

impl BootLog {
    /// The shutdown callbacks, in the log's order.
    pub fn shutdowns(&self) -> impl Iterator<Item = &CallbackEvent> {
        let all = self.callbacks.iter();
        all.filter(|e| e.callback == Callback::Shutdown)
    }
    /// How many tasks ran them.
    pub fn shutdown_tasks(&self) -> usize {
        self.shutdowns()
            .map(|e| e.pid)
            .collect::<BTreeSet<_>>()
            .len()
    }
}

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
            coldplug: None,
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
            "walk" => once(&mut boot.walk, workload::walk(fields)?, "walk")?,
            "churn" => once(&mut boot.churn, workload::churn(fields)?, "churn")?,
            "coldplug" => once(&mut boot.coldplug, workload::coldplug(fields)?, "coldplug")?,
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

/// Writes lines as a guest does, for the scripted machine of the tests.
#[derive(Default)]
pub struct Encoder {
    /// The channel so far.
    pub bytes: Vec<u8>,
    next: BTreeMap<char, u64>,
}

impl Encoder {
    /// Appends `body` as the next line of `source` (`i` or `k`).
    pub fn line(&mut self, source: char, body: &str) {
        let seq = self.next.entry(source).or_default();
        let content = format!("bootrig1 {source} {seq} {body}");
        *seq += 1;
        let sum = check(content.as_bytes());
        self.bytes.extend(format!("{content} #{sum:08x}\n").bytes());
    }
    /// Appends the source's `end` line, after which its sequence starts anew.
    pub fn end(&mut self, source: char) {
        let lines = self.next.get(&source).copied().unwrap_or(0);
        self.line(source, &format!("end lines={lines}"));
        self.next.remove(&source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
