// SPDX-License-Identifier: MIT OR Apache-2.0
//! trace.json: a run in the Trace Event format, which Perfetto reads.
//!
//! Each boot is a process: a track of its phases, a track for each task that ran callbacks,
//! and for each lock a track of who held it and one of who waited. Times are the guest's, in
//! microseconds since its kernel began.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use serde_json::{Value, json};

use super::view::{Boot, View};
use crate::core::{
    blame,
    event::{Callback, CallbackEvent, Mark},
    units::Nanos,
};

/// The track of phases.
const PHASES: u32 = 0;
/// Tracks of locks; tasks have their numbers, of which Linux has no more than 2^22.
const LOCKS: u32 = 1 << 24;

/// The whole file.
pub fn trace(view: &View) -> String {
    let mut out = Events::default();
    let mut process = 0;
    for part in &view.summary.scenarios {
        let boots = view.scenario(&part.name).map(|s| view.boots(s));
        for boot in boots.into_iter().flatten() {
            process += 1;
            out.process = process;
            out.boot(&boot, process);
        }
    }
    let about = json!({
        "run": view.summary.run,
        "begun": view.made.begun,
        "command": view.made.command,
    });
    format!(
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[\n{}\n]}}\n",
        out.text
    )
}

/// Nanoseconds as the format's microseconds, to the nanosecond.
fn micros(time: Nanos) -> String {
    format!("{}.{:03}", time.0 / 1000, time.0 % 1000)
}

#[derive(Default)]
struct Events {
    text: String,
    process: u32,
}

impl Events {
    /// One event: `what` its kind's own fields, `args` what is shown of it.
    fn add(&mut self, phase: char, track: u32, time: Nanos, what: &str, args: &Value) {
        if !self.text.is_empty() {
            self.text.push_str(",\n");
        }
        // Writing to a string cannot fail.
        let _ = write!(
            self.text,
            "{{\"ph\":\"{phase}\",\"pid\":{},\"tid\":{track},\"ts\":{}{what}",
            self.process,
            micros(time)
        );
        if !args.is_null() {
            let _ = write!(self.text, ",\"args\":{args}");
        }
        self.text.push('}');
    }

    /// A name of a process or track, and where it stands.
    fn name(&mut self, kind: &str, track: u32, name: &str, place: u32) {
        let what = |kind: &str| format!(",\"name\":\"{kind}_name\"");
        self.add('M', track, Nanos(0), &what(kind), &json!({"name": name}));
        let what = format!(",\"name\":\"{kind}_sort_index\"");
        self.add('M', track, Nanos(0), &what, &json!({"sort_index": place}));
    }

    fn slice(&mut self, track: u32, kind: &str, name: &str, times: (Nanos, Nanos), args: &Value) {
        let what = format!(
            ",\"dur\":{},\"cat\":\"{kind}\",\"name\":{}",
            micros(times.1 - times.0),
            text(name)
        );
        self.add('X', track, times.0, &what, args);
    }

    fn boot(&mut self, boot: &Boot, place: u32) {
        let title = format!("{} ({} time)", boot.trial.id, boot.trial.clock);
        self.name("process", PHASES, &title, place);
        self.name("thread", PHASES, "phases", 0);
        self.phases(boot);
        self.callbacks(boot);
        self.locks(boot);
    }

    fn phases(&mut self, boot: &Boot) {
        let log = boot.log;
        let mark = |m| log.marks.get(&m).map(|s| s.mono);
        let mono = |s: Option<crate::core::event::Stamp>| s.map(|s| s.mono);
        let mut slice = |name: &str, from: Option<Nanos>, to: Option<Nanos>| {
            if let (Some(from), Some(to)) = (from, to) {
                self.slice(PHASES, "phase", name, (from, to.max(from)), &Value::Null);
            }
        };
        slice("boot", Some(Nanos(0)), Some(log.hello.mono));
        for module in &log.loaded {
            let name = format!("loading {}", module.module);
            slice(&name, Some(module.begin), Some(module.end));
        }
        slice("probe", mark(Mark::AttachBegin), mark(Mark::AttachEnd));
        let (leave, enter) = (mono(log.leave), mono(log.enter));
        let (begin, end) = (mark(Mark::ShutdownBegin), mark(Mark::ShutdownEnd));
        slice("reboot: user space", leave, enter);
        slice("reboot: kernel", enter, begin);
        slice("device_shutdown", begin, end);
        let dumped = mark(Mark::DumpEnd);
        slice("writing the record (not measured)", end, dumped);
        let reboot = boot.result.times.as_ref().and_then(|t| t.reboot);
        if let (Some(reboot), Some(dumped)) = (reboot, dumped) {
            let next = dumped + reboot.firmware;
            slice("reboot: firmware", Some(dumped), Some(next));
            let up = next + reboot.next_boot;
            slice("reboot: next boot", Some(next), Some(up));
        }
    }

    fn callbacks(&mut self, boot: &Boot) {
        let (scenario, variant) = (&boot.trial.scenario, boot.trial.variant());
        let tasks: BTreeSet<u32> = boot.log.callbacks.iter().map(|e| e.pid).collect();
        for (place, task) in (1..).zip(&tasks) {
            self.name("thread", *task, &format!("task {task}"), place);
        }
        // Where a callback is on its phase's critical path, and whether it is the first of it.
        let mut critical: BTreeMap<(Callback, usize, Nanos), (usize, bool)> = BTreeMap::new();
        for phase in [Callback::Probe, Callback::Shutdown] {
            let way = blame::way(scenario, variant, boot.log, phase);
            let legs = way.map_or(Vec::new(), |w| w.legs);
            for (at, leg) in legs.iter().enumerate() {
                let (device, begin) = (leg.span.device, leg.span.begin);
                critical.insert((phase, device, begin), (at, at + 1 == legs.len()));
            }
        }
        for event in &boot.log.callbacks {
            let Some(device) = scenario.devices.get(event.device) else {
                continue;
            };
            let kind = callback(event.callback);
            let mut args = json!({"cpu": event.cpu});
            if event.ret != 0 {
                args["returned"] = event.ret.into();
            }
            let leg = critical.get(&(event.callback, event.device, event.begin));
            if leg.is_some() {
                args["critical path"] = true.into();
            }
            let Some(end) = event.end else {
                let what = format!(",\"cat\":\"{kind}\",\"name\":{}", text(&device.name));
                self.add('B', event.pid, event.begin, &what, &args);
                continue;
            };
            self.slice(event.pid, kind, &device.name, (event.begin, end), &args);
            if event.locked > event.begin {
                let name = lock_of(boot, event).unwrap_or("CPU");
                let name = format!("waiting for {name}");
                let times = (event.begin, event.locked);
                self.slice(event.pid, "lock", &name, times, &Value::Null);
            }
            if let Some(&(at, first)) = leg {
                self.arrows(event, end, at, first);
            }
        }
    }

    /// The critical path's arrows from and to a callback that is the `at`-th of it from the
    /// end: they leave just before it returns and come where it has its lock.
    fn arrows(&mut self, event: &CallbackEvent, end: Nanos, at: usize, first: bool) {
        let path =
            u64::from(self.process) << 32 | u64::from(event.callback == Callback::Probe) << 31;
        let mut arrow = |phase: char, time: Nanos, id: usize, more: &str| {
            let what = format!(
                ",\"id\":{},\"cat\":\"critical path\",\"name\":\"critical path\"{more}",
                path + id as u64
            );
            self.add(phase, event.pid, time, &what, &Value::Null);
        };
        if !first {
            arrow('f', event.locked, at, ",\"bp\":\"e\"");
        }
        if let Some(next) = at.checked_sub(1) {
            let leaves = (end - Nanos(1)).max(event.locked);
            arrow('s', leaves, next, "");
        }
    }

    fn locks(&mut self, boot: &Boot) {
        let mut users: BTreeMap<&str, Vec<&CallbackEvent>> = BTreeMap::new();
        for event in &boot.log.callbacks {
            if let Some(lock) = lock_of(boot, event) {
                users.entry(lock).or_default().push(event);
            }
        }
        for (place, (lock, events)) in (0..).zip(users) {
            let held = LOCKS + place;
            self.name("thread", held, &format!("lock {lock}: held"), held);
            for event in events {
                let name = &boot.trial.scenario.devices[event.device].name;
                if let Some(end) = event.end {
                    self.slice(held, "lock", name, (event.locked, end), &Value::Null);
                }
                if event.locked > event.begin {
                    // Those who wait do so side by side: tracks of their own.
                    let what = format!(
                        ",\"id2\":{{\"local\":\"{place}/{}/{}\"}},\"cat\":{kind},\"name\":{name}",
                        event.device,
                        event.begin.0,
                        kind = text(&format!("lock {lock}: waiting")),
                        name = text(name),
                    );
                    self.add('b', held, event.begin, &what, &Value::Null);
                    self.add('e', held, event.locked, &what, &Value::Null);
                }
            }
        }
    }
}

fn lock_of<'a>(boot: &Boot<'a>, event: &CallbackEvent) -> Option<&'a str> {
    let scenario = &boot.trial.scenario;
    scenario.devices.get(event.device)?;
    let profile = scenario.profile(boot.trial.variant(), event.device)?;
    profile.lock.as_deref()
}

fn callback(callback: Callback) -> &'static str {
    match callback {
        Callback::Probe => "probe",
        Callback::Shutdown => "shutdown",
        Callback::Remove => "remove",
    }
}

/// A JSON string.
fn text(text: &str) -> Value {
    Value::from(text)
}
